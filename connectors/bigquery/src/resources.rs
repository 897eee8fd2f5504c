//! Projects, datasets and tables: what people write for one, and which there are.

use acp_core::{Call, Error, Resource, Result};
use acp_protocol::autocontext::ResourceSummary;
use url::Url;

use crate::api::BigQuery;

/// Addresses of BigQuery pages in Google's console, as a JavaScript regular expression.
pub(crate) const URL_PATTERN: &str = r"^https://console\.cloud\.google\.com/bigquery\?.*(project|p|ws)=.";

pub(crate) const PROJECT: &str = "project";
pub(crate) const DATASET: &str = "dataset";
pub(crate) const TABLE: &str = "table";

/// A resource, taken apart. Without a table it is a dataset, without a dataset a project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    /// The project, with its domain where it has one: `example.com:project`.
    pub(crate) project: String,
    pub(crate) dataset: Option<String>,
    /// A table, a view, or a family of shards: `events_*`.
    pub(crate) table: Option<String>,
}

impl Place {
    /// Reads the normal form and its variants; `None` for what can't be a resource.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim().trim_matches(['"', '\'', '<', '>']).trim();
        if text.contains("://") {
            return from_console(text);
        }
        let text = text.replace('`', "").replace('/', ".");
        let (project, rest) = match text.split_once(':') {
            // A project of a domain; its name has a dot before the colon.
            Some((domain, rest)) if domain.contains('.') => {
                let (name, rest) = rest.split_once('.').unzip();
                (format!("{domain}:{}", name.unwrap_or(text.split_once(':')?.1)), rest)
            }
            // The older form project:dataset.table.
            Some((project, rest)) => (project.to_owned(), Some(rest)),
            None => match text.split_once('.') {
                Some((project, rest)) => (project.to_owned(), Some(rest)),
                None => (text.clone(), None),
            },
        };
        let (dataset, table) = match rest.map(|rest| rest.split_once('.').unwrap_or((rest, ""))) {
            None => (None, None),
            Some((dataset, "")) if !rest?.ends_with('.') => (Some(dataset), None),
            Some((dataset, table)) => (Some(dataset), Some(table)),
        };
        let place = Self { project, dataset: dataset.map(str::to_owned), table: table.map(str::to_owned) };
        place.is_valid().then_some(place)
    }

    fn is_valid(&self) -> bool {
        let name = |text: &str, more: &[char]| {
            !text.is_empty() && text.chars().all(|mark| mark.is_ascii_alphanumeric() || more.contains(&mark))
        };
        let project = match self.project.split_once(':') {
            Some((domain, project)) => name(domain, &['.', '-']) && name(project, &['-']),
            None => name(&self.project, &['-']),
        };
        let table = |text: &String| {
            let stem = text.strip_suffix('*').unwrap_or(text);
            (!stem.is_empty() || text == "*")
                && text.len() <= 1024
                && stem.chars().all(|mark| mark.is_alphanumeric() || matches!(mark, '_' | '-' | ' '))
        };
        project
            && self.dataset.as_ref().is_none_or(|dataset| dataset.len() <= 1024 && name(dataset, &['_', '-']))
            && self.table.as_ref().is_none_or(table)
    }

    /// The normal form.
    pub(crate) fn id(&self) -> String {
        let parts = [Some(&self.project), self.dataset.as_ref(), self.table.as_ref()];
        parts.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join(".")
    }

    pub(crate) fn level(&self) -> &'static str {
        match (&self.dataset, &self.table) {
            (_, Some(_)) => TABLE,
            (Some(_), None) => DATASET,
            (None, None) => PROJECT,
        }
    }

    /// The resource of a call.
    pub(crate) fn of(call: &Call) -> Result<Self> {
        let id = &call.resource()?.id;
        Self::parse(id).ok_or_else(not_a_resource)
    }

    pub(crate) fn with_table(&self, table: &str) -> Self {
        Self { table: Some(table.to_owned()), ..self.clone() }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.id())
    }
}

/// The normal form of what names a resource.
pub(crate) fn parse(id: &str) -> Result<Resource> {
    let place = Place::parse(id).ok_or_else(not_a_resource)?;
    Ok(Resource { id: place.id(), level: place.level() })
}

fn not_a_resource() -> Error {
    Error::resource_not_found(
        "resource_id must be a project, a dataset or a table of BigQuery: my-project, my-project.my_dataset or \
         my-project.my_dataset.my_table. Call autocontext without arguments to list what there is.",
    )
}

/// The resource in the address of a page of Google's console.
fn from_console(text: &str) -> Option<Place> {
    let url = Url::parse(text).ok().filter(|url| url.host_str() == Some("console.cloud.google.com"))?;
    if !url.path().starts_with("/bigquery") {
        return None;
    }
    let value = |name: &str| {
        let found = url.query_pairs().find(|(key, _)| key == name);
        found.map(|(_, value)| value.into_owned()).filter(|value| !value.is_empty())
    };
    // The tabs of the console: `!1m5!1m4!4m3!1sPROJECT!2sDATASET!3sTABLE`.
    let tabs = value("ws").unwrap_or_default();
    let tab = |mark: &str| {
        let found = tabs.split('!').find_map(|part| part.strip_prefix(mark));
        found.map(str::to_owned).filter(|part| !part.is_empty())
    };
    let project = value("p").or_else(|| tab("1s")).or_else(|| value("project"))?;
    let dataset = value("d").or_else(|| tab("2s"));
    let table = value("t").or_else(|| tab("3s")).filter(|_| dataset.is_some());
    let place = Place { project, dataset, table };
    place.is_valid().then_some(place)
}

/// Datasets that the credentials can see, each project before its datasets.
pub(crate) async fn list(bigquery: &BigQuery, call: &Call) -> Result<Vec<ResourceSummary>> {
    let client = bigquery.client(call, None)?;
    let projects = client.projects().await?;
    let mut resources = Vec::new();
    let mut problems = Vec::new();
    for project in &projects {
        let summary = ResourceSummary::new(&project.id, project.friendly_name.as_deref().unwrap_or(&project.id));
        resources.push(ResourceSummary { description: Some("BigQuery project".to_owned()), ..summary });
        let datasets = match client.datasets(&project.id).await {
            Ok(datasets) => datasets,
            Err(error) => {
                problems.push((project.id.clone(), error));
                continue;
            }
        };
        if !datasets.unreachable.is_empty() {
            call.warn(format!(
                "Datasets of project {} in {} could not be listed now.",
                project.id,
                datasets.unreachable.join(", ")
            ));
        }
        for dataset in &datasets.datasets {
            let id = format!("{}.{}", project.id, dataset.id);
            let name = dataset.friendly_name.as_deref().unwrap_or(&dataset.id);
            resources.push(ResourceSummary {
                description: Some(format!("dataset in {}{}", dataset.location, kind_note(&dataset.id))),
                group: Some(project.id.clone()),
                ..ResourceSummary::new(id, name)
            });
        }
    }
    // One project that can't be read must not hide the others; none that can is an error.
    match problems.into_iter().next() {
        Some((_, error)) if resources.len() == projects.len() && !projects.is_empty() && projects.len() == 1 => {
            Err(error)
        }
        Some((project, error)) => {
            call.warn(format!("The datasets of project {project} could not be listed: {}", error.message()));
            Ok(resources)
        }
        None => Ok(resources),
    }
}

/// What the name of a dataset says about it.
fn kind_note(dataset: &str) -> &'static str {
    match dataset {
        _ if dataset.strip_prefix("analytics_").is_some_and(|id| id.bytes().all(|byte| byte.is_ascii_digit())) => {
            ", export of Google Analytics 4"
        }
        _ if dataset.starts_with("searchconsole") => ", export of Search Console",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_have_one_normal_form() {
        for (text, id, level) in [
            ("my-project", "my-project", PROJECT),
            (" my-project.analytics_123 ", "my-project.analytics_123", DATASET),
            ("my-project/analytics_123", "my-project.analytics_123", DATASET),
            ("`my-project`.`analytics_123`.`events_*`", "my-project.analytics_123.events_*", TABLE),
            ("`my-project.analytics_123.events_*`", "my-project.analytics_123.events_*", TABLE),
            ("my-project:data.t_1", "my-project.data.t_1", TABLE),
            ("example.com:my-project", "example.com:my-project", PROJECT),
            ("example.com:my-project.data", "example.com:my-project.data", DATASET),
            ("example.com:my-project.data.big table", "example.com:my-project.data.big table", TABLE),
            (
                "https://console.cloud.google.com/bigquery?project=billing&ws=!1m5!1m4!4m3!1smy-project!2sdata!3st_1",
                "my-project.data.t_1",
                TABLE,
            ),
            ("https://console.cloud.google.com/bigquery?p=my-project&d=data&page=dataset", "my-project.data", DATASET),
            ("https://console.cloud.google.com/bigquery?hl=es&project=my-project", "my-project", PROJECT),
        ] {
            let resource = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((resource.id.as_str(), resource.level), (id, level), "{text}");
            assert_eq!(parse(&resource.id).unwrap(), resource, "the normal form stays as it is");
        }
    }

    #[test]
    fn other_texts_are_none() {
        for text in [
            "",
            ".",
            "a b",
            "project.",
            "project.data.",
            "project..t",
            "project.data.t.x",
            "project.data.e*x",
            "project.data.t;DROP",
            "project.da ta",
            "https://example.com/bigquery?project=a",
            "https://console.cloud.google.com/storage?project=a",
            "pröject",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
