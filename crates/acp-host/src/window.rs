//! The date window of a call (8.9): which arguments form it, and what the host does with them before and after.

use acp_protocol::dates;
use acp_protocol::{ANNOTATION_DATE, JsonObject};
use jiff::civil::Date;
use serde_json::{Map, Value};

/// The two arguments that a host adds to a tool whose text has date markers.
pub const BOUNDS: [&str; 2] = ["start_date", "end_date"];

/// Which arguments of a tool form its date window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Window {
    /// Two arguments: the first and the last day.
    Pair {
        /// Name of the argument with the first day.
        start: String,
        /// Name of the argument with the last day.
        end: String,
    },
    /// A text in which `{{start_date}}` and `{{end_date}}` stand for the days. The caller gives them as [`BOUNDS`], which the
    /// server doesn't know.
    Template {
        /// Name of the argument.
        argument: String,
    },
}

/// A call's arguments for the server, and what it takes to ask again for other days.
#[derive(Clone, Debug, PartialEq)]
pub struct Windowed {
    /// What the server gets.
    pub arguments: JsonObject,
    /// The text with its markers and the resolved days, where markers were replaced.
    pub template: Option<JsonObject>,
    /// Something to tell who asked.
    pub note: Option<String>,
}

impl Window {
    /// The window that a tool's `inputSchema` declares, if it declares one that this host knows.
    pub fn of(input_schema: &Value) -> Option<Self> {
        let properties = input_schema.get("properties")?.as_object()?;
        let marked = |mark: &str| {
            let found =
                properties.iter().find(|(_, schema)| schema.get(ANNOTATION_DATE).and_then(Value::as_str) == Some(mark));
            found.map(|(name, _)| name.clone())
        };
        if let (Some(start), Some(end)) = (marked("start"), marked("end")) {
            return Some(Self::Pair { start, end });
        }
        // A tool with arguments of these names has a use of its own for them.
        let argument = marked("template").filter(|_| !BOUNDS.iter().any(|bound| properties.contains_key(*bound)))?;
        Some(Self::Template { argument })
    }

    /// Replaces the markers of a template and takes the host's own arguments out. A pair goes to the server as it is, which
    /// knows the time zone of its source. The message of a failure says what to write.
    pub fn apply(window: Option<&Self>, mut arguments: JsonObject, today: Date) -> Result<Windowed, String> {
        let Some(Self::Template { argument }) = window else {
            return Ok(Windowed { arguments, template: None, note: None });
        };
        let [start, end] = BOUNDS.map(|bound| arguments.shift_remove(bound).filter(|value| !value.is_null()));
        let Some(Value::String(text)) = arguments.get(argument) else {
            return Ok(Windowed { arguments, template: None, note: None });
        };
        let text = text.clone();
        let markers = BOUNDS.map(|bound| format!("{{{{{bound}}}}}"));
        if !markers.iter().any(|marker| text.contains(marker.as_str())) {
            let note = (start.is_some() || end.is_some()).then(|| {
                format!(
                    "start_date and end_date were not used, since {argument} holds neither {} nor {}.",
                    markers[0], markers[1]
                )
            });
            return Ok(Windowed { arguments, template: None, note });
        }
        let day = |bound: usize, given: Option<Value>| {
            let name = BOUNDS[bound];
            match given {
                Some(Value::String(text)) => {
                    dates::resolve(&text, today).map_err(|problem| format!("{name} {problem}"))
                }
                Some(_) => Err(format!("{name} must be a text. Write a date as YYYY-MM-DD.")),
                None => Err(format!(
                    "{argument} holds date markers, so {} and {} are needed: YYYY-MM-DD, NdaysAgo, yesterday or today. \
                     {name} is missing.",
                    BOUNDS[0], BOUNDS[1]
                )),
            }
        };
        let (first, last) = (day(0, start)?, day(1, end)?);
        in_order(first, last)?;
        let mut template = arguments.clone();
        template.insert(BOUNDS[0].to_owned(), first.to_string().into());
        template.insert(BOUNDS[1].to_owned(), last.to_string().into());
        let text = text.replace(&markers[0], &first.to_string()).replace(&markers[1], &last.to_string());
        arguments.insert(argument.clone(), text.into());
        Ok(Windowed { arguments, template: Some(template), note: None })
    }

    /// Resolves the days of a pair among the arguments that are to be stored, where the server left words in them: what
    /// is stored must mean the same days tomorrow. Words that are no dates stay.
    pub fn resolve_stored(&self, arguments: &mut JsonObject, today: Date) {
        let Self::Pair { start, end } = self else { return };
        for name in [start, end] {
            if let Some(Value::String(text)) = arguments.get_mut(name)
                && let Ok(day) = dates::resolve(text, today)
            {
                *text = day.to_string();
            }
        }
    }

    /// Names of the arguments with the first and the last day, as the caller of the host writes them.
    pub fn bounds(&self) -> [&str; 2] {
        match self {
            Self::Pair { start, end } => [start, end],
            Self::Template { .. } => BOUNDS,
        }
    }
}

/// Refuses a window that ends before it begins.
pub fn in_order(first: Date, last: Date) -> Result<(), String> {
    if first > last {
        return Err(format!(
            "start_date ({first}) is after end_date ({last}). Swap them, or give an earlier start_date."
        ));
    }
    Ok(())
}

/// The `inputSchema` of a tool as its caller sees it: a tool with date markers takes the two days besides (16.4).
pub fn schema_for_caller(input_schema: &Value) -> Value {
    let mut schema = input_schema.clone();
    if let Some(Window::Template { argument }) = Window::of(input_schema)
        && let Some(Value::Object(properties)) = schema.get_mut("properties")
    {
        for (bound, which) in BOUNDS.into_iter().zip(["First", "Last"]) {
            let text = format!(
                "{which} day, put in the place of {{{{{bound}}}}} in {argument}: YYYY-MM-DD, NdaysAgo, yesterday or today."
            );
            properties.insert(
                bound.to_owned(),
                Value::Object(Map::from_iter([
                    ("type".to_owned(), "string".into()),
                    ("description".to_owned(), text.into()),
                ])),
            );
        }
    }
    schema
}
