//! BigQuery: a large result, against programs that read the same pages and against Google's client for Python.

use std::fs::File;
use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::process::Sandbox;
use super::{Measured, TABLE, Verdict, all_of, call, measured, mib, print, ratios, small_program, start, verdict};
use crate::Result;
use crate::demo::thousands;
use crate::interop;
use crate::workspace::about;

/// The project that pays, and where the tables are.
const PROJECT: &str = "acp-sandbox";
const DATASET: &str = "warehouse";
/// The tables with rows of ten columns, and how many they have. The second one is compared.
const TABLES: [(&str, u64); 3] = [("bulk_100k", 100_000), ("bulk_1m", 1_000_000), ("bulk", 3_000_000)];
/// The program on Google's client.
const SCRIPT: &str = "bigquery_rows.py";

/// Measures the connector.
pub(super) async fn measure(release: &Path) -> Result<Vec<Verdict>> {
    let folder = tempfile::tempdir()?;
    let sandbox = Sandbox::start(release, folder.path(), Duration::ZERO)?;
    let (table, rows) = TABLES[1];
    println!("\nquery of {} rows with 10 columns, pages of 10 MiB, plain HTTP on this machine", thousands(rows));
    let request = json!({"configuration": {"query": {"query": sql(table), "useLegacySql": false}}});
    let asked = (PROJECT, &request, rows);
    let (by_value, cells) = (folder.path().join("value.json"), folder.path().join("cells.txt"));

    let ours = extraction(release, &sandbox, (table, rows), folder.path()).await?;
    let value = small_program(release, "query-value", &sandbox, asked, &by_value).await?;
    same_table(&folder.path().join(TABLE), &by_value)?;
    let floor = small_program(release, "query-floor", &sandbox, asked, &cells).await?;
    let python = by_python(&sandbox, table, folder.path()).await?;
    let mut programs = vec![
        ("connector, typed file", &ours),
        ("parse into Value, same file", &value),
        ("download and copy cells (floor)", &floor),
    ];
    programs.extend(python.iter().map(|python| ("google-cloud-bigquery, same file", python)));
    print(&programs);
    println!("\n{}", ratios(&ours, &[("Value", &value), ("the floor", &floor)]));
    let mut verdicts =
        vec![verdict("bigquery: processor time against Value", ours.cpu() / value.cpu(), "at most", 0.5)];
    if let Some(python) = &python {
        let times = python.cpu() / ours.cpu();
        verdicts.push(verdict("bigquery: times less than google-cloud-bigquery", times, "at least", 5.0));
    }

    println!("\npeak memory of queries");
    let mut peaks = Vec::new();
    for (table, rows) in TABLES {
        let measured = extraction(release, &sandbox, (table, rows), folder.path()).await?;
        let peak = mib(measured.usage.peak);
        println!("{:>12} rows {peak:>9.1} MiB {:>9.2} s", thousands(rows), measured.wall.as_secs_f64());
        peaks.push(peak);
    }
    let most = peaks.iter().copied().fold(0.0, f64::max);
    verdicts.push(verdict("bigquery: peak memory at 100,000 to 3,000,000 rows, MiB", most, "under", 96.0));
    // Probably because 100,000 rows are a page and a bit, and with more rows one page is written while the next arrives.
    let growth = peaks[2] / peaks[1];
    verdicts.push(verdict("bigquery: peak memory at 3,000,000 rows against 1,000,000", growth, "at most", 1.15));
    verdicts.extend(start(release, &sandbox, "bigquery").await?);
    Ok(verdicts)
}

fn sql(table: &str) -> String {
    format!("SELECT * FROM `{PROJECT}.{DATASET}.{table}`")
}

/// All rows of a table by a fresh connector.
async fn extraction(release: &Path, sandbox: &Sandbox, (table, rows): (&str, u64), folder: &Path) -> Result<Measured> {
    let arguments = json!({"resource_id": format!("{PROJECT}.{DATASET}"), "query": sql(table)});
    let (measured, came) = call(release, sandbox, ("bigquery", "execute_query"), arguments, folder).await?;
    all_of(rows, came?).map(|()| measured)
}

/// The same rows into the same table by Google's client, if it is installed.
async fn by_python(sandbox: &Sandbox, table: &str, folder: &Path) -> Result<Option<Measured>> {
    let Some(interpreter) = interop::google_clients_python()? else {
        println!(
            "google-cloud-bigquery is not installed, so it is not compared: `cargo xtask interop google` installs it"
        );
        return Ok(None);
    };
    let out = folder.join("python.json");
    let mut python = tokio::process::Command::new(interpreter);
    python.arg("-B").arg(interop::source(SCRIPT)).args([&sandbox.url, PROJECT, &sql(table)]);
    python.arg(&sandbox.oauth).arg(&out).env("NO_PROXY", "127.0.0.1");
    let measured = measured(&mut python).await.map_err(about(SCRIPT))?;
    same_table(&folder.join(TABLE), &out)?;
    Ok(Some(measured))
}

/// That two files hold the same rows: JSON arrays with one row a line.
fn same_table(one: &Path, other: &Path) -> Result<()> {
    let lines = |path: &Path| Result::Ok(BufReader::new(File::open(path)?).lines());
    let (mut ours, mut theirs) = (lines(one)?, lines(other)?);
    loop {
        match (next_row(&mut ours)?, next_row(&mut theirs)?) {
            (None, None) => return Ok(()),
            (Some(one), Some(other)) if one == other => {}
            (one, other) => return Err(format!("the programs wrote different rows: {one:?} and {other:?}").into()),
        }
    }
}

/// The next row. Numbers are floats here, since `12` and `12.0` are the same number.
fn next_row(lines: &mut Lines<BufReader<File>>) -> Result<Option<Value>> {
    for line in lines {
        let line = line?;
        let row = line.trim_start_matches('[').trim_end_matches([',', ']']);
        if row.is_empty() {
            continue;
        }
        let mut row: Value = serde_json::from_str(row)?;
        for cell in row.as_object_mut().into_iter().flat_map(|row| row.values_mut()) {
            if let Some(number) = cell.as_f64() {
                *cell = json!(number);
            }
        }
        return Ok(Some(row));
    }
    Ok(None)
}
