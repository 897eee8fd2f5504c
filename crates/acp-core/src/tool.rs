//! What a tool is: one struct whose fields are the arguments.

use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::civil::Date;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use acp_protocol::JsonObject;

use crate::arguments::InputSchema;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::table::TableWriter;
use crate::tables::Tables;

/// A tool. Its fields are the arguments, its doc comments are what the model reads, and [`Tool::SPEC`] says the rest,
/// so that a tool without a title, hints or a decision about resources does not compile.
pub trait Tool: DeserializeOwned + JsonSchema + Send + 'static {
    /// The source it talks to.
    type Source: Send + Sync + 'static;
    /// [`Extraction`] for a table, [`Tables`] for several, [`Info`] for anything else.
    type Answer: Answer;
    /// What the struct itself can't say.
    const SPEC: ToolSpec;

    /// Does the work. Rows are pushed into a table of [`Call::table`] while they arrive.
    fn run(self, source: &Self::Source, call: &Call) -> impl Future<Output = Result<Self::Answer>> + Send;
}

/// The facts about a tool that are not arguments.
#[derive(Clone, Copy, Debug)]
pub struct ToolSpec {
    /// Name, verbs with underscores.
    pub name: &'static str,
    /// Title for people.
    pub title: &'static str,
    /// Whether it works on a resource: then it gets the argument `resource_id` (6.2).
    pub resource: bool,
    /// Whether it needs the source's credentials.
    pub credentials: bool,
    /// What a client may assume about it.
    pub hints: Hints,
}

/// MCP's tool annotations, all four of them: a client that is not told assumes the worst.
///
/// People allow tools by these hints, so they must not say less than what a tool may do: declaring a tool whose hints
/// contradict each other or its answer panics.
#[derive(Clone, Copy, Debug)]
pub struct Hints {
    /// It changes nothing.
    pub read_only: bool,
    /// It may remove or replace something.
    pub destructive: bool,
    /// Twice is the same as once.
    pub idempotent: bool,
    /// It talks to the outside world.
    pub open_world: bool,
}

impl Hints {
    /// Reads from a remote source and changes nothing.
    pub const READS_REMOTE: Self = Self { read_only: true, destructive: false, idempotent: true, open_world: true };
    /// Works on this machine and changes nothing.
    pub const READS_LOCAL: Self = Self { read_only: true, destructive: false, idempotent: true, open_world: false };

    /// What is wrong with these hints, of a tool that extracts data or does something else.
    pub(crate) fn contradiction(self, extraction: bool) -> Option<&'static str> {
        match self {
            Self { read_only: true, destructive: true, .. } => {
                Some("can't be read-only and destructive: what may remove or replace something changes something")
            }
            Self { read_only: false, .. } if extraction => Some(
                "extracts data, so it must be read-only: let another tool, that answers with Info, do what changes",
            ),
            _ => None,
        }
    }
}

/// A table and how it came about.
#[derive(Debug)]
pub struct Extraction {
    pub(crate) table: TableWriter,
    pub(crate) description: String,
    pub(crate) dates: Vec<Date>,
    pub(crate) title: Option<String>,
    pub(crate) extra: Option<Value>,
    pub(crate) source: Option<JsonObject>,
}

impl Extraction {
    /// A filled table, and one technical sentence that says how it was obtained: source, subject, columns, filter.
    pub fn new(table: TableWriter, description: impl Into<String>) -> Self {
        Self { table, description: description.into(), dates: Vec::new(), title: None, extra: None, source: None }
    }

    /// The dates the data belong to: start and end of the window, and those of compared periods. Without any, the
    /// answer carries today's date (8.2).
    #[must_use]
    pub fn dates(mut self, dates: impl IntoIterator<Item = Date>) -> Self {
        self.dates.extend(dates);
        self
    }

    /// A title by which people recognise the dataset.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Information of this tool that the model may use, such as quota.
    #[must_use]
    pub fn extra(mut self, extra: Value) -> Self {
        self.extra = Some(extra);
        self
    }

    /// Details of the source for the host.
    #[must_use]
    pub fn source(mut self, source: JsonObject) -> Self {
        self.source = Some(source);
        self
    }
}

/// An answer that is not a table: any JSON, small.
#[derive(Debug)]
pub struct Info(pub Value);

/// What a tool answers with: [`Extraction`], [`Tables`] or [`Info`].
pub trait Answer: sealed::Sealed + Send {
    /// Whether it is data.
    #[doc(hidden)]
    const EXTRACTION: bool;
    #[doc(hidden)]
    fn into_outcome(self) -> Outcome;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Extraction {}
    impl Sealed for super::Info {}
    impl Sealed for crate::tables::Tables {}
}

/// Either kind of answer.
#[doc(hidden)]
#[derive(Debug)]
pub enum Outcome {
    Extraction(Box<Extraction>),
    Tables(Box<Tables>),
    Info(Value),
}

impl Answer for Extraction {
    const EXTRACTION: bool = true;
    fn into_outcome(self) -> Outcome {
        Outcome::Extraction(Box::new(self))
    }
}

impl Answer for Tables {
    const EXTRACTION: bool = true;
    fn into_outcome(self) -> Outcome {
        Outcome::Tables(Box::new(self))
    }
}

impl Answer for Info {
    const EXTRACTION: bool = false;
    fn into_outcome(self) -> Outcome {
        Outcome::Info(self.0)
    }
}

/// Reads arguments as a call of the tool would: names and values repaired, the published schema checked. For tools that check
/// another tool's arguments before they are used; `resource_id` is none of them.
///
/// # Errors
/// `ACP_INVALID_ARGUMENTS` with what a call would be refused with.
pub fn read_arguments<T: Tool>(arguments: JsonObject) -> Result<T> {
    let arguments = repaired_arguments::<T>(arguments)?;
    serde_json::from_value(Value::Object(arguments)).map_err(unreadable)
}

/// The arguments as [`read_arguments`] reads them, for tools that say what was repaired.
///
/// # Errors
/// As [`read_arguments`].
pub fn repaired_arguments<T: Tool>(arguments: JsonObject) -> Result<JsonObject> {
    let input = InputSchema::of::<T>();
    input.check(input.rename(arguments)?)
}

/// A tool whose types are no longer known.
pub(crate) struct ToolEntry {
    pub(crate) spec: ToolSpec,
    pub(crate) extraction: bool,
    pub(crate) input: InputSchema,
    prepare: Box<dyn Fn(JsonObject) -> Result<Run> + Send + Sync>,
}

/// A call whose arguments are read: it only has to be run.
pub(crate) type Run = Box<dyn FnOnce(Arc<Call>) -> BoxFuture<'static, Result<Outcome>> + Send>;

impl ToolEntry {
    pub(crate) fn of<T: Tool>(source: Arc<T::Source>) -> Self {
        let prepare = move |arguments: JsonObject| -> Result<Run> {
            let tool: T = serde_json::from_value(Value::Object(arguments)).map_err(unreadable)?;
            let source = source.clone();
            Ok(Box::new(move |call: Arc<Call>| {
                Box::pin(async move { tool.run(&source, &call).await.map(Answer::into_outcome) })
            }))
        };
        Self {
            spec: T::SPEC,
            extraction: T::Answer::EXTRACTION,
            input: InputSchema::of::<T>(),
            prepare: Box::new(prepare),
        }
    }

    /// Reads checked arguments into the tool's struct.
    pub(crate) fn prepare(&self, arguments: JsonObject) -> Result<Run> {
        (self.prepare)(arguments)
    }
}

/// What serde refuses although the schema allowed it. Its text may quote the value; only what is safe is kept.
fn unreadable(error: serde_json::Error) -> Error {
    let text = error.to_string();
    let safe = !text.contains(['"', '`']) || text.starts_with("missing field");
    let reason = if safe { text } else { "a value has a form that this tool can't read".to_owned() };
    Error::invalid_arguments(format!("The arguments can't be read: {reason}. Correct them by the tool's schema."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_can_not_contradict_what_a_tool_is() {
        let hints = |read_only, destructive| Hints { read_only, destructive, idempotent: false, open_world: true };
        for (hints, extraction, wrong) in [
            (Hints::READS_REMOTE, true, None),
            (Hints::READS_LOCAL, false, None),
            (hints(false, false), false, None),
            (hints(false, true), false, None),
            (hints(true, true), false, Some("destructive")),
            (hints(true, true), true, Some("destructive")),
            (hints(false, false), true, Some("extracts")),
            (hints(false, true), true, Some("extracts")),
        ] {
            let found = hints.contradiction(extraction);
            let as_expected = match (found, wrong) {
                (Some(found), Some(wrong)) => found.contains(wrong),
                (found, wrong) => found == wrong,
            };
            assert!(as_expected, "{hints:?}, extraction: {extraction}: {found:?}");
        }
    }
}
