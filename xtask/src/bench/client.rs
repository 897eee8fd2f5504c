//! The small programs that the connectors are compared with: two for a report of Analytics, two for a query.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::process::Usage;
use crate::Result;

/// The most rows of a page of a report.
const PAGE: u64 = 250_000;
/// The most rows of a page of a query, as the connector asks for them.
const QUERY_PAGE: u64 = 100_000;

/// Arguments of one of the programs.
#[derive(clap::Args)]
pub(crate) struct Program {
    /// Which one.
    kind: Kind,
    #[arg(long)]
    url: String,
    /// The property that a report is of, or the project that pays for a query.
    #[arg(long)]
    resource: String,
    /// The body of the request for a report, or for the job of a query.
    #[arg(long)]
    request: String,
    /// How many rows there are.
    #[arg(long)]
    rows: u64,
    #[arg(long)]
    credentials: PathBuf,
    #[arg(long)]
    out: PathBuf,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Kind {
    /// Parses the pages of a report.
    Value,
    /// Copies the cells of a report.
    Floor,
    /// Parses the pages of a query and writes a table like the connector's.
    QueryValue,
    /// Copies the cells of a query.
    QueryFloor,
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    rows: Vec<Row<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    #[serde(borrow)]
    dimension_values: Vec<Cell<'a>>,
    #[serde(borrow)]
    metric_values: Vec<Cell<'a>>,
}

#[derive(Deserialize)]
struct Cell<'a> {
    #[serde(borrow, default)]
    value: Cow<'a, str>,
}

/// A client for the sandbox: no proxy, no TLS.
pub(crate) fn http() -> Result<reqwest::Client> {
    // The client wants a provider even where no connection needs one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Ok(reqwest::Client::builder().no_proxy().build()?)
}

/// A page of a query: its rows, and the token of the next one.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QueryPage<'a> {
    #[serde(borrow)]
    rows: Vec<QueryRow<'a>>,
    page_token: Option<String>,
}

#[derive(Deserialize)]
struct QueryRow<'a> {
    #[serde(borrow)]
    f: Vec<QueryCell<'a>>,
}

#[derive(Deserialize)]
struct QueryCell<'a> {
    #[serde(borrow)]
    v: Option<Cow<'a, str>>,
}

/// Runs a program and prints what it used.
pub(crate) async fn run(program: &Program) -> Result<()> {
    let http = http()?;
    let token = token(&http, &program.url, &program.credentials).await?;
    let mut out = BufWriter::new(File::create(&program.out)?);
    let rows = match program.kind {
        Kind::Value | Kind::Floor => report(program, &http, &token, &mut out).await?,
        Kind::QueryValue | Kind::QueryFloor => query(program, &http, &token, &mut out).await?,
    };
    out.flush()?;
    if rows != program.rows {
        return Err(format!("{rows} rows came, {} were expected", program.rows).into());
    }
    println!("{}", serde_json::to_string(&Usage::of(std::process::id())?)?);
    Ok(())
}

async fn report(program: &Program, http: &reqwest::Client, token: &str, out: &mut impl Write) -> Result<u64> {
    let mut read = 0;
    while read < program.rows {
        let mut request: Value = serde_json::from_str(&program.request)?;
        request["offset"] = read.into();
        request["limit"] = PAGE.min(program.rows - read).into();
        let url = format!("{}/v1beta/properties/{}:runReport", program.url, program.resource);
        let page = http.post(url).bearer_auth(token).json(&request).send().await?.error_for_status()?.bytes().await?;
        let rows = match program.kind {
            Kind::Floor => copy(&serde_json::from_slice(&page)?, out)?,
            _ => {
                let page: Value = serde_json::from_slice(&page)?;
                page["rows"].as_array().map_or(0, Vec::len)
            }
        };
        if rows == 0 {
            return Err("a page without rows".into());
        }
        read += rows as u64;
    }
    Ok(read)
}

fn copy(page: &Page<'_>, out: &mut impl Write) -> Result<usize> {
    for row in &page.rows {
        for cell in row.dimension_values.iter().chain(&row.metric_values) {
            out.write_all(cell.value.as_bytes())?;
            out.write_all(b"\t")?;
        }
        out.write_all(b"\n")?;
    }
    Ok(page.rows.len())
}

/// Inserts a job and reads all pages of its rows.
async fn query(program: &Program, http: &reqwest::Client, token: &str, out: &mut impl Write) -> Result<u64> {
    let projects = format!("{}/bigquery/v2/projects/{}", program.url, program.resource);
    let job: Value = serde_json::from_str(&program.request)?;
    let insert = http.post(format!("{projects}/jobs")).bearer_auth(token).json(&job);
    let job: Value = insert.send().await?.error_for_status()?.json().await?;
    let text = |name: &str| job["jobReference"][name].as_str().unwrap_or_default().to_owned();
    let url = format!(
        "{projects}/queries/{}?location={}&maxResults={QUERY_PAGE}&formatOptions.timestampOutputFormat=ISO8601_STRING",
        text("jobId"),
        text("location")
    );
    let (mut read, mut next) = (0, Some(String::new()));
    while let Some(page_token) = next {
        let url = format!("{url}&pageToken={page_token}");
        let page = http.get(url).bearer_auth(token).send().await?.error_for_status()?.bytes().await?;
        let rows;
        (rows, next) = match program.kind {
            Kind::QueryFloor => {
                let page: QueryPage<'_> = serde_json::from_slice(&page)?;
                (copy_cells(&page, out)?, page.page_token)
            }
            _ => {
                let page: Value = serde_json::from_slice(&page)?;
                (write_rows(&page, read == 0, out)?, page["pageToken"].as_str().map(str::to_owned))
            }
        };
        read += rows as u64;
    }
    if matches!(program.kind, Kind::QueryValue) {
        out.write_all(b"\n]")?;
    }
    Ok(read)
}

fn copy_cells(page: &QueryPage<'_>, out: &mut impl Write) -> Result<usize> {
    for row in &page.rows {
        for cell in &row.f {
            out.write_all(cell.v.as_deref().unwrap_or_default().as_bytes())?;
            out.write_all(b"\t")?;
        }
        out.write_all(b"\n")?;
    }
    Ok(page.rows.len())
}

/// The rows of a page as objects: numbers and truth values as what they are, moments without the digits below a microsecond
/// that BigQuery fills with zeros, everything else as a text.
fn write_rows(page: &Value, first: bool, out: &mut impl Write) -> Result<usize> {
    let fields = page["schema"]["fields"].as_array().ok_or("a page without a schema")?;
    let fields: Vec<(String, &str)> =
        fields.iter().map(|field| (field["name"].to_string(), field["type"].as_str().unwrap_or_default())).collect();
    let rows = page["rows"].as_array().ok_or("a page without rows")?;
    for (index, row) in rows.iter().enumerate() {
        out.write_all(if first && index == 0 { b"[{" } else { b",\n{" })?;
        for (column, ((name, kind), cell)) in fields.iter().zip(row["f"].as_array().into_iter().flatten()).enumerate() {
            if column > 0 {
                out.write_all(b",")?;
            }
            out.write_all(name.as_bytes())?;
            out.write_all(b":")?;
            match (*kind, cell["v"].as_str()) {
                (_, None) => out.write_all(b"null")?,
                ("INTEGER" | "FLOAT" | "NUMERIC" | "BOOLEAN", Some(text)) => out.write_all(text.as_bytes())?,
                ("TIMESTAMP", Some(text)) => {
                    let digits = text.strip_suffix("000000Z").or(text.strip_suffix('Z')).unwrap_or(text);
                    write!(out, "\"{digits}Z\"")?;
                }
                (_, Some(text)) => serde_json::to_writer(&mut *out, text)?,
            }
        }
        out.write_all(b"}")?;
    }
    Ok(rows.len())
}

/// A token of the person whose login is in this file.
pub(crate) async fn token(http: &reqwest::Client, url: &str, credentials: &Path) -> Result<String> {
    let credentials: Value = serde_json::from_slice(&std::fs::read(credentials)?)?;
    let field = |name: &str| credentials[name].as_str().unwrap_or_default().to_owned();
    let form = [
        ("grant_type", "refresh_token".to_owned()),
        ("refresh_token", field("refresh_token")),
        ("client_id", field("client_id")),
        ("client_secret", field("client_secret")),
    ];
    let answer: Value = http.post(format!("{url}/token")).form(&form).send().await?.json().await?;
    answer["access_token"].as_str().map(str::to_owned).ok_or_else(|| format!("no token: {answer}").into())
}
