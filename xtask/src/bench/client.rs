//! The two small programs that the connector is compared with.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::process::Usage;
use crate::Result;

/// The most rows of a page.
const PAGE: u64 = 250_000;

/// Arguments of one of the programs.
#[derive(clap::Args)]
pub(crate) struct Program {
    /// Which one.
    kind: Kind,
    #[arg(long)]
    url: String,
    #[arg(long)]
    property: String,
    #[arg(long)]
    request: String,
    #[arg(long)]
    rows: u64,
    #[arg(long)]
    credentials: PathBuf,
    #[arg(long)]
    out: PathBuf,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Kind {
    Value,
    Floor,
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

/// Runs a program and prints what it used.
pub(crate) async fn run(program: &Program) -> Result<()> {
    let http = http()?;
    let token = token(&http, &program.url, &program.credentials).await?;
    let mut out = BufWriter::new(File::create(&program.out)?);
    let mut read = 0;
    while read < program.rows {
        let mut request: Value = serde_json::from_str(&program.request)?;
        request["offset"] = read.into();
        request["limit"] = PAGE.min(program.rows - read).into();
        let url = format!("{}/v1beta/properties/{}:runReport", program.url, program.property);
        let page = http.post(url).bearer_auth(&token).json(&request).send().await?.error_for_status()?.bytes().await?;
        let rows = match program.kind {
            Kind::Value => {
                let page: Value = serde_json::from_slice(&page)?;
                page["rows"].as_array().map_or(0, Vec::len)
            }
            Kind::Floor => copy(&serde_json::from_slice(&page)?, &mut out)?,
        };
        if rows == 0 {
            return Err("a page without rows".into());
        }
        read += rows as u64;
    }
    out.flush()?;
    println!("{}", serde_json::to_string(&Usage::of(std::process::id())?)?);
    Ok(())
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
