//! What BigQuery's errors mean, and what to do about them ("Error messages" page; only the reason tells a used up quota
//! from a missing right, and a query over its cap comes as a 500).

use acp_core::Error;
use acp_google::Failure;
use acp_protocol::error::ErrorCode;
use google_cloud_bigquery_v2::model::ErrorProto;

use crate::api::{Client, JobId};
use crate::estimate::{human_bytes, usd};
use crate::query::Query;
use crate::resources::Place;
use crate::settings::PRICE_PER_TIB_USD;

/// Names that an error offers.
const CANDIDATES: usize = 5;
/// From here on two names are alike (Jaro-Winkler).
const ALIKE: f64 = 0.8;

/// A reason and Google's words, of a request or of a job.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    reason: String,
    message: String,
}

impl Trouble {
    /// Of a job that ended with an error.
    pub(crate) fn of_job(error: &ErrorProto) -> Self {
        Self { reason: error.reason.clone(), message: acp_google::clean(&error.message, 2_000) }
    }

    fn of(failure: &Failure) -> Option<Self> {
        let error = failure.google()?;
        // The older list has BigQuery's own reasons; the newer one has those of all APIs.
        let own = error.errors.iter().find_map(|entry| entry.get("reason")?.as_str());
        Some(Self {
            reason: own.or(error.reason()).unwrap_or_default().to_owned(),
            message: acp_google::clean(&error.message, 2_000),
        })
    }

    /// Whether BigQuery failed by itself, so that another job may work.
    pub(crate) fn is_internal(&self) -> bool {
        matches!(self.reason.as_str(), "backendError" | "internalError" | "jobBackendError" | "jobInternalError")
    }
}

/// The dataset that a query names and that is not where it was looked for.
pub(crate) fn dataset_elsewhere(failure: &Failure) -> Option<Place> {
    let trouble = Trouble::of(failure).filter(|trouble| trouble.reason == "notFound")?;
    let (before, _) = trouble.message.split_once(" was not found in location ")?;
    let name = before.rsplit("Dataset ").next()?.trim();
    Place::parse(name).filter(|place| place.dataset.is_some() && place.table.is_none())
}

/// The error of a query whose data are in several places.
pub(crate) fn far_apart(one: &str, other: &str) -> Error {
    Error::invalid_arguments(format!(
        "The query reads data in {one} and in {other}, and BigQuery reads one location at a time. Ask for each by itself and join the two datasets in the host."
    ))
}

/// The error of a query that BigQuery refused.
pub(crate) async fn of_query(client: &Client, failure: Failure, query: &Query<'_>) -> Error {
    let http_status = failure.google().map(|error| error.http_status);
    match Trouble::of(&failure) {
        Some(trouble) => match explain(client, &trouble, query).await {
            Some(error) => {
                error.with_data("reason", trouble.reason).with_data("http_status", http_status.unwrap_or_default())
            }
            None => failure.into_acp(&client.context("query")),
        },
        None => failure.into_acp(&client.context("query")),
    }
}

/// The error of a job that failed.
pub(crate) async fn of_job(client: &Client, trouble: Trouble, query: &Query<'_>, job: &JobId) -> Error {
    let error = match explain(client, &trouble, query).await {
        Some(error) => error,
        None => Error::upstream(format!(
            "The query failed in BigQuery: {}. Try again; if it keeps failing, make the query simpler.",
            sentence(&trouble.message)
        )),
    };
    error.with_data("reason", trouble.reason).with_data("job_id", job.to_string())
}

async fn explain(client: &Client, trouble: &Trouble, query: &Query<'_>) -> Option<Error> {
    let words = sentence(&trouble.message);
    Some(match trouble.reason.as_str() {
        "invalidQuery" | "invalid" | "badRequest" if words.contains("billing tier") => too_heavy(words),
        "invalidQuery" | "invalid" | "badRequest" => invalid(client, words, query).await,
        "bytesBilledLimitExceeded" => over_the_cap(words),
        "notFound" => not_found(client, words, query).await,
        "accessDenied" => denied(client, words, query).await,
        "responseTooLarge" => Error::upstream(format!(
            "The result is larger than BigQuery keeps (10 GB, compressed): {words}. Leave out ORDER BY, aggregate, or select fewer columns and days."
        )),
        "resourcesExceeded" | "billingTierLimitExceeded" => too_heavy(words),
        "stopped" => Error::upstream(format!(
            "The job was cancelled: {words}. Run the query again if its result is still wanted."
        )),
        "timeout" => Error::upstream(format!(
            "The query ran longer than allowed and was ended: {words}. Read fewer days or columns, or ask the user to raise timeout_s in the settings of the source."
        )),
        "tableUnavailable" => {
            Error::upstream(format!("A table can't be read now: {words}. Try again in some minutes."))
        }
        "notImplemented" => {
            Error::invalid_arguments(format!("BigQuery can't do that: {words}. Write the query in another way."))
        }
        _ => return None,
    })
}

fn too_heavy(words: &str) -> Error {
    Error::upstream(format!(
        "The query is too heavy for BigQuery: {words}. Filter before joining, join fewer rows, leave out ORDER BY over all rows."
    ))
}

/// The cap was reached: the estimate had been within the limit, and billing rounds up for each table.
fn over_the_cap(words: &str) -> Error {
    let required = words
        .split_whitespace()
        .zip(words.split_whitespace().skip(1))
        .find_map(|(number, next)| (next == "or").then(|| number.trim_matches('.').parse::<u64>().ok()).flatten());
    let needed = required.map(|bytes| {
        format!(
            " It would be billed with at least {}, about ${:.4}.",
            human_bytes(bytes),
            usd(bytes, PRICE_PER_TIB_USD)
        )
    });
    let error = Error::new(
        ErrorCode::CostLimitExceeded,
        format!(
            "BigQuery did not run the query, because it would be billed with more than the limit allows: {words}.{} Narrow the query (fewer tables, \
             fewer columns, shorter date range) or ask the user to raise the limit.",
            needed.unwrap_or_default()
        ),
    );
    match required {
        Some(bytes) => {
            error.with_data("estimate_usd", usd(bytes, PRICE_PER_TIB_USD)).with_data("estimated_bytes_billed", bytes)
        }
        None => error,
    }
}

async fn invalid(client: &Client, words: &str, query: &Query<'_>) -> Error {
    let (what, at) = position(words);
    let place = at.map(|(line, column)| format!(" (line {line}, column {column})")).unwrap_or_default();
    let mut message = format!("BigQuery can't run the query{place}: {what}");
    if !message.ends_with(['?', '.']) {
        message.push('.');
    }
    if let Some((line, column)) = at
        && let Some(source) = query.text.lines().nth(line - 1)
    {
        message.push_str(&pointed(source, column));
    }
    if let Some(name) = unknown_name(what) {
        if !what.contains("Did you mean") {
            let known = columns(client, query).await;
            let alike = alike(name, known.iter().map(String::as_str));
            if !alike.is_empty() {
                message.push_str(&format!("\nColumns with similar names: {}.", alike.join(", ")));
            }
        }
        message.push_str("\nThe table's columns are in autocontext (table_schemas) and describe_table.");
    } else if what.contains("without a filter over column") {
        message.push_str(
            "\nAdd a condition on that column with days written out, so that only those partitions are read.",
        );
    } else {
        message.push_str("\nCorrect the query and try again.");
    }
    let error = Error::invalid_arguments(message);
    match at {
        Some((line, column)) => error.with_data("line", line).with_data("column", column),
        None => error,
    }
}

/// A line with a mark under one of its characters. Long lines are cut around it.
fn pointed(line: &str, column: usize) -> String {
    const AROUND: usize = 50;
    let skipped = column.saturating_sub(AROUND);
    let shown: String =
        line.chars().skip(skipped).take(2 * AROUND).map(|mark| if mark.is_control() { ' ' } else { mark }).collect();
    format!("\n{shown}\n{}^", " ".repeat(column.saturating_sub(skipped + 1)))
}

/// Google's words without the position at their end, and the position.
fn position(words: &str) -> (&str, Option<(usize, usize)>) {
    let Some((before, rest)) = words.rsplit_once(" at [") else { return (words, None) };
    let numbers = rest.split(']').next().unwrap_or_default();
    let at = numbers.split_once(':').and_then(|(line, column)| Some((line.parse().ok()?, column.parse().ok()?)));
    match at {
        Some((line, column)) if line > 0 => (before.trim_end_matches(';'), Some((line, column))),
        _ => (words, None),
    }
}

/// The name that BigQuery does not know.
fn unknown_name(words: &str) -> Option<&str> {
    let rest = words.split_once("Unrecognized name: ").map(|(_, rest)| rest).or_else(|| {
        words.split_once("Field name ").and_then(|(_, rest)| rest.split_once(" does not exist")).map(|(name, _)| name)
    })?;
    let name = rest.split([' ', ';', ',']).next()?.trim_matches(['`', '.', '?']);
    Some(name.rsplit('.').next().unwrap_or(name)).filter(|name| !name.is_empty())
}

/// Names of columns, nested ones too, of the tables that a query names.
async fn columns(client: &Client, query: &Query<'_>) -> Vec<String> {
    let mut names = Vec::new();
    for place in query.named_tables().into_iter().take(CANDIDATES) {
        let Ok(table) = client.table(&place, false).await else { continue };
        if let Some(schema) = &table.schema {
            collect(&schema.fields, &mut names);
        }
    }
    names
}

fn collect(fields: &[google_cloud_bigquery_v2::model::TableFieldSchema], names: &mut Vec<String>) {
    for field in fields {
        if !names.contains(&field.name) {
            names.push(field.name.clone());
        }
        collect(&field.fields, names);
    }
}

/// Those names that come close to one, the closest first.
fn alike<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let name = name.to_ascii_lowercase();
    let mut alike: Vec<(f64, &str)> = known
        .map(|known| (strsim::jaro_winkler(&name, &known.to_ascii_lowercase()), known))
        .filter(|(score, _)| *score >= ALIKE)
        .collect();
    alike.sort_by(|a, b| b.0.total_cmp(&a.0));
    alike.into_iter().take(CANDIDATES).map(|(_, known)| known).collect()
}

async fn not_found(client: &Client, words: &str, query: &Query<'_>) -> Error {
    let mut message = format!("BigQuery does not find it: {words}.");
    let mut places = query.named_tables();
    places.extend(Some(query.default.clone()).filter(|_| places.is_empty()));
    for place in places.iter().take(CANDIDATES) {
        if words.contains(place.table.as_deref().unwrap_or(place.dataset.as_deref().unwrap_or_default())) {
            message.push_str(&similar(client, place).await);
        }
    }
    if words.contains("location") {
        message.push_str(" A person may set another location in the settings of the source, or none.");
    }
    message.push_str(" Call autocontext for the dataset to see its tables.");
    Error::resource_not_found(message)
}

/// A sentence with names that come close to a table or a dataset, if there are any.
async fn similar(client: &Client, place: &Place) -> String {
    let (wanted, known): (&str, Vec<String>) = match (&place.table, &place.dataset) {
        (Some(table), _) => match client.tables(place).await {
            Ok(tables) => (
                table,
                tables
                    .tables
                    .iter()
                    .filter_map(|table| Some(table.table_reference.as_ref()?.table_id.clone()))
                    .collect(),
            ),
            // Without its dataset there are no tables either.
            Err(failure) if failure.google().is_some_and(|error| error.http_status == 404) => {
                return Box::pin(similar(client, &Place { table: None, ..place.clone() })).await;
            }
            Err(_) => return String::new(),
        },
        (None, Some(dataset)) => match client.datasets(&place.project).await {
            Ok(datasets) => (dataset, datasets.datasets.into_iter().map(|dataset| dataset.id).collect()),
            Err(_) => return String::new(),
        },
        (None, None) => return String::new(),
    };
    let names = alike(wanted, known.iter().map(String::as_str));
    if names.is_empty() { String::new() } else { format!(" Similar names: {}.", names.join(", ")) }
}

async fn denied(client: &Client, words: &str, query: &Query<'_>) -> Error {
    let who = client.session.credentials().principal().unwrap_or("this account").to_owned();
    if words.contains("bigquery.jobs.create") {
        return Error::credentials_invalid(format!(
            "{who} may not run queries in the project {} that would pay for them: {words}. The person has to give it the role BigQuery Job User \
             (roles/bigquery.jobUser) there, or set another billing_project in the settings of the source.",
            client.billing_project
        ));
    }
    if words.contains("policy tag") || words.contains("column-level") {
        let column = words.rsplit("column ").next().unwrap_or_default();
        let column = column.split([' ', ',', ';']).next().unwrap_or_default().trim_matches(['.', '`']);
        let column = column.rsplit('.').next().unwrap_or_default();
        return Error::resource_not_found(format!(
            "{who} may not read a column that carries a policy tag: {words}. Select the others by name, or all but it: SELECT * EXCEPT({column})."
        ));
    }
    if words.contains("Drive") || words.contains("drive") {
        return Error::resource_not_found(format!(
            "The table is a file in Google Drive that {who} can't read: {words}. The person has to share the file with {who}, and the login must cover \
             Google Drive."
        ));
    }
    let mut message = format!("No permission, or it does not exist: {words}.");
    for place in query.named_tables().iter().take(CANDIDATES) {
        message.push_str(&similar(client, place).await);
    }
    message.push_str(&format!(
        " Check the name; if it is right, the person has to give {who} the role BigQuery Data Viewer on the dataset."
    ));
    Error::resource_not_found(message)
}

/// The error of a request about a dataset or a table.
pub(crate) async fn of_place(client: &Client, failure: Failure, place: &Place) -> Error {
    let missing = failure.google().is_some_and(|error| matches!(error.http_status, 403 | 404)) && {
        let trouble = Trouble::of(&failure);
        trouble.is_some_and(|trouble| matches!(trouble.reason.as_str(), "notFound" | "accessDenied"))
    };
    let error = failure.into_acp(&client.context(format_args!("{} {place}", place.level())));
    if !missing {
        return error;
    }
    let similar = similar(client, place).await;
    let mut whole = Error::new(error.code(), format!("{}{similar}", error.message()));
    for (key, value) in error.data().into_iter().flatten() {
        whole = whole.with_data(key, value.clone());
    }
    whole
}

/// Google's words without the full stop, to be put into a sentence.
fn sentence(words: &str) -> &str {
    words.trim_end_matches(['.', ' '])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_and_names_are_found() {
        let (what, at) = position("Unrecognized name: evnt_name; Did you mean event_name? at [1:8]");
        assert_eq!((what, at), ("Unrecognized name: evnt_name; Did you mean event_name?", Some((1, 8))));
        assert_eq!(unknown_name(what), Some("evnt_name"));
        assert_eq!(unknown_name("Field name sorce does not exist in STRUCT<a INT64>"), Some("sorce"));
        assert_eq!(position("Syntax error: Unexpected end"), ("Syntax error: Unexpected end", None));
        assert_eq!(alike("evnt_name", ["event_name", "event_date", "device"].into_iter())[0], "event_name");
    }

    #[test]
    fn the_mark_stands_under_its_character() {
        assert_eq!(pointed("SELECT x", 8), "\nSELECT x\n       ^");
        let long = format!("{}X{}", "a".repeat(200), "b".repeat(200));
        let shown = pointed(&long, 201);
        let mut lines = shown.lines().skip(1);
        let (line, mark) = (lines.next().unwrap(), lines.next().unwrap());
        assert_eq!(line.chars().nth(mark.len() - 1), Some('X'), "{shown}");
    }

    #[test]
    fn a_reached_cap_says_what_is_needed() {
        let error = over_the_cap("Query exceeded limit for bytes billed: 1000000. 10485760 or higher required");
        assert_eq!(error.code(), ErrorCode::CostLimitExceeded);
        assert!(error.message().contains("10.0 MB") && error.message().contains("raise the limit"), "{error}");
    }
}
