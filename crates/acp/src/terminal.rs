//! Questions to a person: on standard error, with the answers from standard input, line by line. Secrets are read without
//! echo where a terminal is there. Texts come from connectors, so what a terminal would obey is taken out of them.

use std::io::{self, BufRead, IsTerminal, Write};

use acp_host::form::{Field, FieldKind};
use acp_protocol::visible;
use serde_json::Value;

use crate::report::Failure;

/// Asks for a line; `None` at the end of the input.
pub(crate) fn ask(question: &str) -> Result<Option<String>, Failure> {
    write!(io::stderr(), "{}: ", visible(question))?;
    io::stderr().flush()?;
    let mut line = String::new();
    let count = io::stdin().lock().read_line(&mut line)?;
    if !io::stdin().is_terminal() {
        // Nobody's Enter ended the line of the question.
        writeln!(io::stderr())?;
    }
    Ok((count > 0).then(|| line.trim().to_owned()))
}

/// Asks for a secret.
pub(crate) fn ask_secret(question: &str) -> Result<Option<String>, Failure> {
    if !io::stdin().is_terminal() {
        return ask(question);
    }
    Ok(Some(rpassword::prompt_password(format!("{}: ", visible(question)))?.trim().to_owned()))
}

/// Tells something between questions.
pub(crate) fn tell(text: &str) -> Result<(), Failure> {
    Ok(writeln!(io::stderr(), "{}", visible(text))?)
}

/// Lets choose one of several by number or by name; the place. An empty answer is the first.
pub(crate) fn choose(question: &str, options: &[String]) -> Result<usize, Failure> {
    tell(question)?;
    for (place, option) in options.iter().enumerate() {
        tell(&format!("  {}  {option}", place + 1))?;
    }
    loop {
        let Some(answer) = ask("Number [1]")? else {
            return Err(Failure::usage(format!("nothing was chosen: {question}")));
        };
        if answer.is_empty() {
            return Ok(0);
        }
        let by_number = answer.parse().ok().and_then(|number: usize| number.checked_sub(1));
        let by_name = || options.iter().position(|option| *option == answer);
        match by_number.filter(|place| *place < options.len()).or_else(by_name) {
            Some(place) => return Ok(place),
            None => tell(&format!("Enter a number from 1 to {}.", options.len()))?,
        }
    }
}

/// The question for a field, with its help above; `kept` is what an empty answer keeps.
pub(crate) fn ask_field(field: &Field, kept: Option<&str>) -> Result<Option<String>, Failure> {
    if let Some(help) = &field.help {
        tell(&format!("  {help}"))?;
    }
    if let FieldKind::Choice(choices) = &field.kind {
        for (value, label) in choices {
            let value = shown(value);
            tell(&if value == *label { format!("  - {value}") } else { format!("  - {value}: {label}") })?;
        }
    }
    let mut question = field.label.clone();
    if field.required {
        question.push('*');
    }
    let form = match field.kind {
        FieldKind::LongText { .. } => Some("path of a file, or the text in one line".to_owned()),
        FieldKind::Checkbox => Some("true or false".to_owned()),
        _ => field.placeholder.as_ref().map(|example| format!("such as {example}")),
    };
    let initial = field.initial.as_ref().map(shown);
    let notes: Vec<String> = form
        .into_iter()
        .chain(kept.map(str::to_owned).or_else(|| initial.map(|value| format!("empty: {value}"))))
        .collect();
    if !notes.is_empty() {
        question.push_str(&format!(" ({})", notes.join("; ")));
    }
    // A long secret is a file more often than not, and its path is nothing to hide.
    let long = matches!(field.kind, FieldKind::LongText { .. });
    if field.secret && !long { ask_secret(&question) } else { ask(&question) }
}

/// A value without quotes.
pub(crate) fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
