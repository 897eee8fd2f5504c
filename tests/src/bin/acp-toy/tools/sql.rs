//! `run_sql`: a query tool that only reads.

use acp_core::{Call, Error, Hints, Info, Result, Tool, ToolSpec};
use acp_protocol::error::ErrorCode;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::source::Toy;

/// Runs a query on an engine that only counts its words.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct RunSql {
    /// SELECT only. Use {{start_date}} and {{end_date}} for the date window.
    #[schemars(extend("x-acp-date" = "template", "contentMediaType" = "application/sql"), length(min = 1))]
    query: String,
}

impl Tool for RunSql {
    type Source = Toy;
    type Answer = Info;
    const SPEC: ToolSpec = ToolSpec {
        name: "run_sql",
        title: "Run a query",
        resource: false,
        credentials: false,
        hints: Hints::READS_LOCAL,
    };

    async fn run(self, _: &Toy, _: &Call) -> Result<Info> {
        let words = words(&self.query);
        check(&words)?;
        Ok(Info(json!({"ok": true, "words": words.len()})))
    }
}

/// Words that change something wherever they stand, and the end of a statement with another behind it.
const FORBIDDEN: [&str; 12] = [
    "INSERT", "UPDATE", "DELETE", "MERGE", "CREATE", "DROP", "ALTER", "TRUNCATE", "CALL", "GRANT", "REVOKE", "EXECUTE",
];

fn check(words: &[String]) -> Result<()> {
    let first = words.first().map_or("nothing", String::as_str);
    let statement = words.iter().find(|word| FORBIDDEN.contains(&word.as_str())).map_or(first, String::as_str);
    let ends = words.iter().position(|word| word == ";").is_some_and(|place| place + 1 < words.len());
    if matches!(first, "SELECT" | "WITH") && statement == first && !ends {
        return Ok(());
    }
    let shown: String = statement.chars().take(20).collect();
    Err(Error::new(
        ErrorCode::ReadOnlyViolation,
        format!("This source is read-only: only one SELECT statement is executed (the query is {shown})."),
    ))
}

/// The words of a query in capitals, without comments and quoted texts; a semicolon is a word.
fn words(query: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = query;
    while let Some(mark) = rest.chars().next() {
        rest = match mark {
            '\'' | '"' | '`' => after(&rest[1..], &mark.to_string()),
            '-' if rest.starts_with("--") => after(rest, "\n"),
            '/' if rest.starts_with("/*") => after(rest, "*/"),
            ';' => {
                words.push(";".to_owned());
                &rest[1..]
            }
            mark if mark.is_alphanumeric() || mark == '_' => {
                let end = rest.find(|mark: char| !mark.is_alphanumeric() && mark != '_').unwrap_or(rest.len());
                words.push(rest[..end].to_uppercase());
                &rest[end..]
            }
            mark => &rest[mark.len_utf8()..],
        };
    }
    words
}

fn after<'a>(text: &'a str, end: &str) -> &'a str {
    text.find(end).map_or("", |place| &text[place + end.len()..])
}
