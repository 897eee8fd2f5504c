//! `run_sql`: a query tool that only reads. In the toy whose queries cost money it is an extraction that is estimated
//! before it is run.

use acp_core::{Call, Cell, Error, Extraction, Hints, Info, Result, Tool, ToolSpec};
use acp_protocol::error::ErrorCode;
use acp_protocol::result::{ColumnType, Header};
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

const SPEC: ToolSpec =
    ToolSpec { name: "run_sql", title: "Run a query", resource: false, credentials: false, hints: Hints::READS_LOCAL };

impl Tool for RunSql {
    type Source = Toy;
    type Answer = Info;
    const SPEC: ToolSpec = SPEC;

    async fn run(self, toy: &Toy, _: &Call) -> Result<Info> {
        let words = words(&self.query);
        check(&words)?;
        toy.query();
        Ok(Info(json!({"ok": true, "words": words.len()})))
    }
}

/// Runs a query that costs money on an engine that only lists its words.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct PaidSql {
    /// SELECT only. Use {{start_date}} and {{end_date}} for the date window.
    #[schemars(extend("x-acp-date" = "template", "contentMediaType" = "application/sql"), length(min = 1))]
    query: String,
}

const USD_PER_TIB: f64 = 6.25;
const TIB: f64 = (1_u64 << 40) as f64;

impl Tool for PaidSql {
    type Source = Toy;
    type Answer = Extraction;
    const SPEC: ToolSpec = SPEC;

    async fn run(self, toy: &Toy, call: &Call) -> Result<Extraction> {
        let words = words(&self.query);
        check(&words)?;
        let bytes = remark(&self.query, "bytes").and_then(|bytes| bytes.parse::<u64>().ok()).unwrap_or_default();
        // A remark can also say what a source could only get wrong.
        let estimate = remark(&self.query, "estimate").and_then(|estimate| estimate.parse().ok());
        let estimate = estimate.unwrap_or(bytes as f64 * USD_PER_TIB / TIB);
        call.check_cost(estimate, "fewer columns, shorter date range, filter by partition").map_err(|error| {
            error.with_data("total_bytes_processed", bytes).with_data("price_per_tib_usd", USD_PER_TIB)
        })?;
        toy.query();
        match remark(&self.query, "cost") {
            Some("unknown") => call.set_cost(None),
            cost => call.set_cost(Some(cost.and_then(|cost| cost.parse().ok()).unwrap_or(estimate))),
        }
        let header = Header { name: "word".to_owned(), column_type: ColumnType::String, role: None, description: None };
        let mut table = call.table(vec![header])?;
        for word in &words {
            table.push(&[Cell::Text(word)])?;
        }
        let cap = (call.cost_limit_usd() / USD_PER_TIB * TIB).floor() as u64;
        let source = json!({"maximum_bytes_billed": cap.to_string()});
        Ok(Extraction::new(table, "The words of the query.")
            .extra(json!({"bytes_processed": bytes}))
            .source(source.as_object().cloned().unwrap_or_default()))
    }
}

/// The value of a remark such as `/* bytes=N */`.
fn remark<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    let start = query.find(&format!("/* {name}="))? + name.len() + 4;
    query[start..].split(" */").next()
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
