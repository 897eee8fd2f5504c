//! What a job is asked to do: the bodies of `jobs.insert` and `jobs.query`, read the same way.

use serde_json::{Map, Value as Json, json};

use super::failure::Failure;
use super::parse;
use super::schema::Type;
use super::sql::Parameters;

const CONFIGURATION: [&str; 10] =
    ["copy", "dryRun", "extract", "jobTimeoutMs", "jobType", "labels", "load", "maxSlots", "query", "reservation"];

const QUERY: [&str; 29] = [
    "allowLargeResults",
    "clustering",
    "connectionProperties",
    "continuous",
    "createDisposition",
    "createSession",
    "defaultDataset",
    "destinationEncryptionConfiguration",
    "destinationTable",
    "flattenResults",
    "maximumBillingTier",
    "maximumBytesBilled",
    "parameterMode",
    "preserveNulls",
    "priority",
    "query",
    "queryParameters",
    "rangePartitioning",
    "schemaUpdateOptions",
    "scriptOptions",
    "secureContext",
    "systemVariables",
    "tableDefinitions",
    "timePartitioning",
    "useLegacySql",
    "useQueryCache",
    "userDefinedFunctionResources",
    "writeDisposition",
    "writeIncrementalResults",
];

/// Parts of a query that the sandbox leaves out: most of them would write or keep state.
const LEFT_OUT: [&str; 13] = [
    "destinationTable",
    "createSession",
    "connectionProperties",
    "continuous",
    "tableDefinitions",
    "userDefinedFunctionResources",
    "scriptOptions",
    "systemVariables",
    "secureContext",
    "clustering",
    "timePartitioning",
    "rangePartitioning",
    "schemaUpdateOptions",
];

/// Whether a part of a message says anything.
pub(crate) fn is_set(value: &Json) -> bool {
    match value {
        Json::Null | Json::Bool(false) => false,
        Json::Array(items) => !items.is_empty(),
        Json::Object(map) => !map.is_empty(),
        _ => true,
    }
}

/// A query.
#[derive(Clone, Debug)]
pub(crate) struct QueryAsked {
    pub(crate) sql: String,
    pub(crate) default_dataset: Option<(String, String)>,
    pub(crate) parameters: Parameters,
    pub(crate) maximum_bytes_billed: Option<i64>,
    pub(crate) use_cache: bool,
}

/// What all jobs have.
#[derive(Clone, Debug)]
pub(crate) struct JobAsked {
    pub(crate) job_id: Option<String>,
    pub(crate) location: Option<String>,
    pub(crate) dry_run: bool,
    pub(crate) timeout_ms: Option<i64>,
    pub(crate) labels: Map<String, Json>,
    /// The configuration, as `jobs.get` shows it.
    pub(crate) configuration: Json,
}

/// A JSON body.
pub(crate) fn body(bytes: &[u8]) -> Result<Json, Failure> {
    let body: Json = serde_json::from_slice(bytes).map_err(|error| {
        Failure::invalid(format!(
            "Invalid JSON payload received. Expected a JSON value at line {}, column {}.",
            error.line(),
            error.column()
        ))
    })?;
    if body.is_object() {
        Ok(body)
    } else {
        Err(Failure::invalid("Invalid JSON payload received. Expected an object."))
    }
}

/// A number that may be written as a text.
pub(crate) fn integer(value: &Json, name: &str) -> Result<Option<i64>, Failure> {
    let number = match value {
        Json::Null => return Ok(None),
        Json::String(text) => text.parse().ok(),
        other => other.as_i64(),
    };
    number.map(Some).ok_or_else(|| Failure::invalid(format!("Invalid value for {name}: {value} is not a valid value")))
}

impl JobAsked {
    /// Reads `configuration` and `jobReference` of a job.
    ///
    /// # Errors
    /// Names that aren't known, ids and labels that can't be.
    pub(crate) fn of_job(job: &Json, project: &str) -> Result<Self, Failure> {
        let configuration = &job["configuration"];
        known(configuration, &CONFIGURATION, "job.configuration")?;
        let reference = &job["jobReference"];
        if let Some(other) = reference["projectId"].as_str()
            && other != project
        {
            return Err(Failure::invalid(format!(
                "Value '{other}' in content does not agree with value '{project}'. This can happen when a value set \
                 through a parameter is inconsistent with a value set in the request."
            )));
        }
        let asked = Self {
            job_id: reference["jobId"].as_str().map(str::to_owned),
            location: location(&reference["location"]),
            dry_run: configuration["dryRun"].as_bool().unwrap_or(false),
            timeout_ms: integer(&configuration["jobTimeoutMs"], "jobTimeoutMs")?,
            labels: labels(&configuration["labels"])?,
            configuration: configuration.clone(),
        };
        if let Some(id) = &asked.job_id {
            let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            if id.is_empty() || id.len() > 1_024 || !id.chars().all(fits) {
                return Err(Failure::invalid(format!(
                    "Invalid job ID \"{id}\". Job IDs must be alphanumeric (plus underscores and dashes) and must be at \
                     most 1024 characters long."
                )));
            }
        }
        Ok(asked)
    }

    /// Reads the body of `jobs.query`, and makes the configuration that `jobs.insert` would have had.
    pub(crate) fn of_query(body: &Json) -> Result<(Self, QueryAsked), Failure> {
        let query = QueryAsked::read(body)?;
        let mut configuration = json!({"query": {}});
        for key in
            ["query", "defaultDataset", "maximumBytesBilled", "parameterMode", "queryParameters", "useQueryCache"]
        {
            if !body[key].is_null() {
                configuration["query"][key] = body[key].clone();
            }
        }
        configuration["query"]["useLegacySql"] = json!(false);
        for key in ["labels", "jobTimeoutMs", "dryRun"] {
            if !body[key].is_null() {
                configuration[key] = body[key].clone();
            }
        }
        let job = Self {
            job_id: None,
            location: location(&body["location"]),
            dry_run: body["dryRun"].as_bool().unwrap_or(false),
            timeout_ms: integer(&body["jobTimeoutMs"], "jobTimeoutMs")?,
            labels: labels(&body["labels"])?,
            configuration,
        };
        Ok((job, query))
    }
}

impl QueryAsked {
    /// Reads `configuration.query`.
    pub(crate) fn of_job(configuration: &Json) -> Result<Self, Failure> {
        let query = &configuration["query"];
        known(query, &QUERY, "job.configuration.query")?;
        Self::read(query)
    }

    fn read(query: &Json) -> Result<Self, Failure> {
        let sql = query["query"].as_str().filter(|sql| !sql.trim().is_empty());
        let sql = sql.ok_or_else(|| Failure::required("query"))?.to_owned();
        if let Some(key) = LEFT_OUT.iter().find(|key| is_set(&query[**key])) {
            return Err(Failure::unsupported(key));
        }
        let first = sql.trim_start().lines().next().unwrap_or_default().trim().to_ascii_lowercase();
        let legacy = query["useLegacySql"].as_bool().unwrap_or(!first.starts_with("#standardsql"));
        if legacy || first.starts_with("#legacysql") {
            return Err(Failure::unsupported("legacy SQL, which is what a query is unless useLegacySql is false"));
        }
        let default = &query["defaultDataset"];
        let default_dataset = default["datasetId"]
            .as_str()
            .map(|dataset| (default["projectId"].as_str().unwrap_or_default().to_owned(), dataset.to_owned()));
        Ok(Self {
            sql,
            default_dataset,
            parameters: parameters(query)?,
            maximum_bytes_billed: integer(&query["maximumBytesBilled"], "maximumBytesBilled")?.filter(|n| *n > 0),
            use_cache: query["useQueryCache"].as_bool().unwrap_or(true),
        })
    }
}

fn known(value: &Json, names: &[&str], at: &str) -> Result<(), Failure> {
    let map = value.as_object().ok_or_else(|| Failure::required(at.trim_start_matches("job.")))?;
    match map.keys().find(|key| !names.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => Err(Failure::invalid(format!(
            "Invalid JSON payload received. Unknown name \"{key}\" at '{at}': Cannot find field."
        ))),
    }
}

/// US and EU in capitals, regions in small letters.
pub(crate) fn location(value: &Json) -> Option<String> {
    let text = value.as_str().filter(|text| !text.is_empty())?;
    Some(if text.len() == 2 { text.to_ascii_uppercase() } else { text.to_ascii_lowercase() })
}

fn labels(value: &Json) -> Result<Map<String, Json>, Failure> {
    let labels = value.as_object().cloned().unwrap_or_default();
    let fits = |text: &str| {
        let good =
            |c: char| c.is_lowercase() || c.is_numeric() || c == '_' || c == '-' || !c.is_ascii() && c.is_alphabetic();
        text.chars().count() <= 63 && text.chars().all(good)
    };
    for (key, value) in &labels {
        let starts = key.chars().next().is_some_and(char::is_lowercase);
        if !fits(key) || !starts {
            return Err(Failure::invalid(format!("Invalid label key '{key}'.")));
        }
        if !value.as_str().is_some_and(fits) {
            return Err(Failure::invalid(format!("Invalid label value {value} for key '{key}'.")));
        }
    }
    Ok(labels)
}

fn parameters(query: &Json) -> Result<Parameters, Failure> {
    let list = query["queryParameters"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mode = query["parameterMode"].as_str().unwrap_or_default().to_ascii_uppercase();
    let named = match mode.as_str() {
        "NAMED" => true,
        "POSITIONAL" => false,
        _ => list.first().is_none_or(|parameter| parameter["name"].is_string()),
    };
    let read = |parameter: &Json| {
        let kind = Type::from_parameter_json(&parameter["parameterType"]).map_err(Failure::invalid)?;
        let value = parse::parameter(&kind, &parameter["parameterValue"]).map_err(|why| {
            let name = parameter["name"].as_str().unwrap_or_default();
            Failure::invalid(format!("Invalid value for query parameter {name}: {why}"))
        })?;
        Ok((kind, value))
    };
    if named {
        let named = list.iter().map(|parameter| {
            let name = parameter["name"].as_str().filter(|name| !name.is_empty());
            let name = name.ok_or_else(|| Failure::invalid("Named query parameters must have a name"))?;
            let (kind, value) = read(parameter)?;
            Ok((name.to_owned(), kind, value))
        });
        Ok(Parameters::Named(named.collect::<Result<_, Failure>>()?))
    } else {
        Ok(Parameters::Positional(list.iter().map(read).collect::<Result<_, Failure>>()?))
    }
}
