//! What a tool that writes may do: the access modes of 10.6, set by a person in the settings of the source.

use acp_protocol::error::ErrorCode;
use regex::Regex;
use serde::Deserialize;

use crate::call::Call;
use crate::error::{Error, Result};

/// An access mode, from the narrowest to the widest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum AccessMode {
    /// Nothing may be changed.
    #[default]
    #[serde(rename = "onlyRead")]
    OnlyRead,
    /// Things may be created and added.
    #[serde(rename = "readAndOnlyAdd")]
    ReadAndOnlyAdd,
    /// Things may also be replaced and removed.
    #[serde(rename = "full")]
    Full,
}

/// What a tool is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Create something, or add to it.
    Add,
    /// Replace something.
    Replace,
    /// Remove something.
    Delete,
}

/// The access that the settings of a call give: `access_mode`, and the exceptions in `table_rules` or `file_rules`, a JSON
/// text with a list of `{"pattern": "<regex>", "mode": "<access mode>"}` of which the first that matches counts.
#[derive(Debug)]
pub struct Access {
    mode: AccessMode,
    rules: Vec<(Regex, AccessMode)>,
}

#[derive(Deserialize)]
struct Settings {
    #[serde(default)]
    access_mode: AccessMode,
    #[serde(default)]
    table_rules: Option<String>,
    #[serde(default)]
    file_rules: Option<String>,
}

#[derive(Deserialize)]
struct Rule {
    pattern: String,
    mode: AccessMode,
}

impl Access {
    /// Reads the access from the settings of a call.
    pub fn of(call: &Call) -> Result<Self> {
        let settings: Settings = call.config()?;
        let (name, text) = match (settings.table_rules, settings.file_rules) {
            (None, Some(text)) => ("file_rules", text),
            (text, _) => ("table_rules", text.unwrap_or_default()),
        };
        let bad_rules = |what: &str| {
            Error::invalid_arguments(format!(
                "The setting {name} {what}. The person has to correct it in the settings of the source."
            ))
        };
        let rules: Vec<Rule> = match text.trim() {
            "" => Vec::new(),
            text => serde_json::from_str(text).map_err(|_| {
                bad_rules(
                    "must be a JSON list of {\"pattern\": \"<regex>\", \"mode\": \"onlyRead|readAndOnlyAdd|full\"}",
                )
            })?,
        };
        let compile = |rule: Rule| {
            Ok((
                Regex::new(&rule.pattern).map_err(|_| bad_rules("has a pattern that is not a regular expression"))?,
                rule.mode,
            ))
        };
        Ok(Self { mode: settings.access_mode, rules: rules.into_iter().map(compile).collect::<Result<_>>()? })
    }

    /// Whether an operation on a target may be done. Patterns are searched for anywhere in the target's full name,
    /// case-sensitively.
    pub fn check(&self, operation: Operation, target: &str) -> Result<()> {
        let rule = self.rules.iter().find(|(pattern, _)| pattern.is_match(target));
        let mode = rule.map_or(self.mode, |(_, mode)| *mode);
        let (needed, word) = match operation {
            Operation::Add => (AccessMode::ReadAndOnlyAdd, "adding"),
            Operation::Replace => (AccessMode::Full, "replacing"),
            Operation::Delete => (AccessMode::Full, "deleting"),
        };
        if mode >= needed {
            return Ok(());
        }
        Err(Error::new(
            ErrorCode::ReadOnlyViolation,
            format!(
                "The access mode of this source does not allow {word} there. Read instead, or ask the person to change access_mode or \
                 the rules in the settings of the source; arguments can't."
            ),
        ))
    }
}
