//! What a query may call and read beside tables: functions that cost money elsewhere, and columns that nobody may read.

use acp_core::{Error, Result};
use acp_protocol::error::ErrorCode;
use google_cloud_bigquery_v2::model::RoutineReference;
use google_cloud_bigquery_v2::model::routine::Language;

use crate::api::Client;
use crate::query::Plan;
use crate::resources::Place;
use crate::settings::{Routines, Settings};
use crate::sql::{Kind, Token};

/// Functions of models that run outside of BigQuery and are charged there ("Generative AI overview", "Cloud AI").
const PAID_MODELS: [&str; 14] = [
    "ANNOTATE_IMAGE",
    "GENERATE_BOOL",
    "GENERATE_DOUBLE",
    "GENERATE_EMBEDDING",
    "GENERATE_INT",
    "GENERATE_TABLE",
    "GENERATE_TEXT",
    "GENERATE_TEXT_EMBEDDING",
    "PROCESS_DOCUMENT",
    "TRANSCRIBE",
    "TRANSLATE",
    "UNDERSTAND_TEXT",
    "DECODE_IMAGE",
    "CONVERT_IMAGE_TYPE",
];

/// The tables that a text names after FROM and JOIN.
pub(crate) fn named_tables(tokens: &[Token<'_>], default: &Place) -> Vec<Place> {
    let mut places = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        if !token.is("FROM") && !token.is("JOIN") {
            continue;
        }
        if let Some(place) = path(&tokens[index + 1..]).and_then(|path| qualified(&path, default))
            && !places.contains(&place)
        {
            places.push(place);
        }
    }
    places
}

/// A dotted name at the beginning of these words, with the dashes that names of projects may have.
fn path(tokens: &[Token<'_>]) -> Option<String> {
    let mut path = String::new();
    let mut end = None;
    for token in tokens {
        let adjacent = end.is_none_or(|end| end == token.start);
        match token.kind {
            Kind::Word | Kind::Quoted | Kind::Number if adjacent => path.push_str(token.content()),
            Kind::Symbol if adjacent && matches!(token.text, "." | "-") && !path.is_empty() => {
                path.push_str(token.text)
            }
            _ => break,
        }
        end = Some(token.end());
    }
    (!path.is_empty()).then_some(path)
}

fn qualified(path: &str, default: &Place) -> Option<Place> {
    let dots = path.rsplit(':').next()?.matches('.').count() + usize::from(path.contains(':'));
    match (dots, &default.dataset) {
        (0, Some(dataset)) => Place::parse(&format!("{}.{dataset}.{path}", default.project)),
        (0, None) => None,
        (1, _) => Place::parse(&format!("{}.{path}", default.project)),
        _ => Place::parse(path).filter(|place| place.table.is_some()),
    }
}

/// Refuses functions that are known by their names to cost money elsewhere, unless the settings allow them.
pub(crate) fn check_names(tokens: &[Token<'_>], settings: &Settings) -> Result<()> {
    if settings.allow_routines == Routines::All {
        return Ok(());
    }
    for (family, name, _) in calls(tokens) {
        if name == "EXTERNAL_QUERY" {
            return Err(refused("EXTERNAL_QUERY, which runs SQL in another database"));
        }
        if family == "AI" || (family == "ML" && PAID_MODELS.contains(&name.as_str())) {
            return Err(refused(&format!("{family}.{name}, which is charged by a model service")));
        }
    }
    Ok(())
}

/// Refuses models and stored functions that the settings do not allow.
pub(crate) async fn check_functions(
    client: &Client,
    plan: &Plan,
    tokens: &[Token<'_>],
    settings: &Settings,
) -> Result<()> {
    if settings.allow_routines == Routines::All {
        return Ok(());
    }
    for (family, name, arguments) in calls(tokens) {
        if family == "ML" {
            check_model(client, arguments, &name).await?;
        }
    }
    for routine in &plan.routines {
        check_routine(client, routine, settings).await?;
    }
    Ok(())
}

/// What is called: the word before the dot, the name, and what follows the bracket.
fn calls<'t, 'a>(tokens: &'t [Token<'a>]) -> impl Iterator<Item = (String, String, &'t [Token<'a>])> {
    tokens.iter().enumerate().filter_map(|(index, token)| {
        let called = tokens.get(index + 1).is_some_and(|next| next.is_symbol("("));
        if !called || !matches!(token.kind, Kind::Word | Kind::Quoted) {
            return None;
        }
        // A name in backticks may be a whole path.
        let path = token.content().to_ascii_uppercase();
        let (before, name) = path.rsplit_once('.').unwrap_or(("", &path));
        let family = match index >= 2 && tokens[index - 1].is_symbol(".") {
            true => tokens[index - 2].content().to_ascii_uppercase(),
            false => before.to_owned(),
        };
        Some((family, name.to_owned(), &tokens[index + 2..]))
    })
}

/// A model may be one that runs elsewhere. Only one that is known to run in BigQuery costs no more than its bytes.
async fn check_model(client: &Client, arguments: &[Token<'_>], function: &str) -> Result<()> {
    let [model, name @ ..] = arguments else { return Ok(()) };
    if !model.is("MODEL") {
        return Ok(());
    }
    let place = path(name)
        .and_then(|path| qualified(&path, &Place { project: client.billing_project.clone(), ..Place::default() }));
    let stored = match &place {
        Some(place) => client.model(place).await.ok(),
        None => None,
    };
    match stored {
        Some(stored) if stored.get("remoteModelInfo").is_none() && stored.get("modelType").is_some() => Ok(()),
        _ => Err(refused(&format!("ML.{function} with a model that runs, or may run, outside of BigQuery"))),
    }
}

async fn check_routine(client: &Client, routine: &RoutineReference, settings: &Settings) -> Result<()> {
    let (project, dataset, id) = (&routine.project_id, &routine.dataset_id, &routine.routine_id);
    let name = format!("{project}.{dataset}.{id}");
    if settings.allow_routines == Routines::None {
        return Err(refused(&format!("the function {name}")));
    }
    let Ok(stored) = client.routine(project, dataset, id).await else {
        return Err(refused(&format!("the function {name}, whose kind can't be read")));
    };
    if stored.remote_function_options.is_some() {
        return Err(refused(&format!("the remote function {name}, which is charged where it runs")));
    }
    match stored.language {
        Language::Sql | Language::Javascript if stored.spark_options.is_none() => Ok(()),
        other => {
            let language = other.name().unwrap_or("unknown");
            Err(refused(&format!("the {language} function {name}, which is charged where it runs")))
        }
    }
}

fn refused(what: &str) -> Error {
    Error::new(
        ErrorCode::CostLimitExceeded,
        format!(
            "The query calls {what}: its cost is not in the bytes, so no limit would hold. Write the query without it, or ask the user to allow \
             such functions in the settings of the source."
        ),
    )
    .with_data("estimate_usd", serde_json::Value::Null)
    .with_data("unestimable", serde_json::json!(["function"]))
}

/// Refuses queries that name or return a column that nobody may read. A view can rename one: this guards against reading
/// by mistake, and rights in BigQuery against reading on purpose.
pub(crate) fn check_columns(plan: &Plan, tokens: &[Token<'_>], settings: &Settings) -> Result<()> {
    let Some(denied) = &settings.denied_columns else { return Ok(()) };
    let named = tokens.iter().filter(|token| matches!(token.kind, Kind::Word | Kind::Quoted)).map(Token::content);
    let paths = named.flat_map(|name| name.split('.'));
    let mut returned = Vec::new();
    collect(&plan.schema, &mut returned);
    match paths.chain(returned).find(|name| denied.is_match(name)) {
        None => Ok(()),
        Some(name) => Err(Error::new(
            ErrorCode::ReadOnlyViolation,
            format!(
                "The settings of this source deny reading the column {name:?}. Select the other columns by name, or all but it: SELECT * EXCEPT({name})."
            ),
        )),
    }
}

fn collect<'a>(fields: &'a [google_cloud_bigquery_v2::model::TableFieldSchema], names: &mut Vec<&'a str>) {
    for field in fields {
        names.push(&field.name);
        collect(&field.fields, names);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::tokens;

    #[test]
    fn tables_are_found_in_every_way_to_write_them() {
        let default = Place::parse("p.d").unwrap();
        let text = "SELECT * FROM t JOIN `other.x.y` USING (a) JOIN e.u JOIN my-project.d.events_* , UNNEST(x) \
                    JOIN `p`.`d`.`z` JOIN (SELECT 1 FROM t)";
        let found: Vec<String> =
            named_tables(&tokens(text).unwrap(), &default).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["p.d.t", "other.x.y", "p.e.u", "my-project.d.events_", "p.d.z"]);
    }
}
