//! What exists: projects, data sets, tables, views, routines, and who may see them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::failure::Failure;
use super::schema::{Field, Type};
use super::sql::{self, Catalog, Reason, Source, SqlError, Table, TableId};
use super::tables::{self, RowsTable};
use crate::clock;
use crate::events::HOME_ZONE;
use crate::identities::{Identity, Sight};
use crate::search_console::SearchConsole;
use crate::world::World;

/// The project of the credential files: it pays for jobs.
pub(crate) const PROJECT: &str = "acp-sandbox";
/// A project of a domain: its name has a colon and a dot.
pub(crate) const DOMAIN_PROJECT: &str = "nordwind.example:archive";
/// A project whose data may be read, and in which nobody may run jobs; it is in no list.
pub(crate) const DATA_PROJECT: &str = "nordwind-data";

/// Where a job runs that names no table and no location.
pub(crate) const DEFAULT_LOCATION: &str = "US";

/// A project.
pub(crate) struct Project {
    pub(crate) id: &'static str,
    pub(crate) number: &'static str,
    pub(crate) name: &'static str,
    /// Whether `projects.list` shows it.
    pub(crate) listed: bool,
    /// Whether jobs may be run in it.
    pub(crate) jobs: bool,
}

/// All projects.
pub(crate) const PROJECTS: [Project; 3] = [
    Project { id: PROJECT, number: "407408718192", name: "ACP sandbox", listed: true, jobs: true },
    Project { id: DOMAIN_PROJECT, number: "407408718193", name: "Nordwind archive", listed: true, jobs: true },
    Project { id: DATA_PROJECT, number: "407408718194", name: "Nordwind open data", listed: false, jobs: false },
];

/// What a table is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Table,
    View {
        sql: String,
        legacy: bool,
    },
    /// Data outside BigQuery: a sheet, or files.
    External {
        format: &'static str,
        uri: &'static str,
    },
}

/// How a table is cut into days.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Days {
    /// None: by the time of ingestion.
    pub(crate) field: Option<String>,
    pub(crate) require_filter: bool,
}

/// A table, a view or an external table.
#[derive(Clone)]
pub(crate) struct Entry {
    /// The rows; of a view only the columns.
    pub(crate) table: Arc<dyn Table>,
    pub(crate) kind: Kind,
    pub(crate) days: Option<Days>,
    pub(crate) clustering: Vec<String>,
    /// With row access policies: the rows that they let through.
    pub(crate) let_through: Option<Arc<dyn Table>>,
    pub(crate) description: &'static str,
    pub(crate) labels: Json,
    /// Milliseconds since 1970.
    pub(crate) created: i64,
    pub(crate) modified: i64,
}

impl Entry {
    /// A plain table.
    pub(crate) fn new(table: impl Table + 'static, modified: i64) -> Self {
        Self {
            table: Arc::new(table),
            kind: Kind::Table,
            days: None,
            clustering: Vec::new(),
            let_through: None,
            description: "",
            labels: Json::Null,
            created: modified,
            modified,
        }
    }

    /// Describes it.
    pub(crate) fn described(mut self, description: &'static str) -> Self {
        self.description = description;
        self
    }

    /// Whether a column may not be read by those without a role on its policy tag: nobody here has one.
    pub(crate) fn protected(field: &Field) -> bool {
        let inner = match field.kind.element().unwrap_or(&field.kind) {
            Type::Struct(fields) => fields.iter().any(Self::protected),
            _ => false,
        };
        inner || !field.policy_tags.is_empty()
    }
}

/// A routine, with its REST resource.
pub(crate) struct Routine {
    pub(crate) name: &'static str,
    pub(crate) returns: Type,
    pub(crate) resource: Json,
}

/// A data set.
pub(crate) struct Dataset {
    pub(crate) project: &'static str,
    pub(crate) id: String,
    pub(crate) location: &'static str,
    pub(crate) description: &'static str,
    /// Whether the full account and the person may read it.
    full: bool,
    /// Whether the limited account may.
    limited: bool,
    /// Whether load jobs may write to it.
    pub(crate) writable: bool,
    pub(crate) tables: BTreeMap<String, Arc<Entry>>,
    pub(crate) routines: Vec<Routine>,
}

impl Dataset {
    /// A data set of the full account.
    pub(crate) fn new(project: &'static str, id: &str, location: &'static str, description: &'static str) -> Self {
        Self {
            project,
            id: id.to_owned(),
            location,
            description,
            full: true,
            limited: false,
            writable: false,
            tables: BTreeMap::new(),
            routines: Vec::new(),
        }
    }

    /// Adds a table under its own name.
    pub(crate) fn add(&mut self, entry: Entry) {
        self.tables.insert(entry.table.id().table.to_string(), Arc::new(entry));
    }

    /// The name of a table in here.
    pub(crate) fn table_id(&self, table: &str) -> TableId {
        TableId::new(self.project, &self.id, table)
    }

    /// Whether an identity may read it.
    pub(crate) fn visible_to(&self, identity: &Identity) -> bool {
        match identity.sight {
            Sight::Full => self.full,
            Sight::Limited => self.limited,
        }
    }
}

/// Everything that exists on a day.
pub(crate) struct Catalogue {
    pub(crate) datasets: Vec<Dataset>,
}

impl Catalogue {
    /// The catalogue of a day; rows are made when they are read.
    pub(crate) fn new(world: &Arc<World>, search: &Arc<SearchConsole>) -> Self {
        let today = clock::day_number(clock::today(&clock::zone(HOME_ZONE)));
        let mut datasets = Vec::new();
        let mut analytics = tables::analytics::dataset(world, today);
        analytics.limited = true;
        datasets.push(analytics);
        datasets.push(tables::search::dataset(search));
        datasets.extend(tables::shop::datasets(world.seed, today));
        for dataset in &mut datasets {
            match dataset.id.as_str() {
                "restricted" => dataset.full = false,
                "loads" | "loads_eu" => dataset.writable = true,
                _ => {}
            }
        }
        datasets.sort_by(|a, b| (a.project, &a.id).cmp(&(b.project, &b.id)));
        Self { datasets }
    }

    /// The data set of that name.
    pub(crate) fn dataset(&self, project: &str, id: &str) -> Option<&Dataset> {
        self.datasets.iter().find(|dataset| dataset.project == project && dataset.id == id)
    }

    /// A data set that the identity may read.
    ///
    /// # Errors
    /// `notFound`, or `accessDenied` for `permission`.
    pub(crate) fn readable(
        &self,
        identity: &Identity,
        project: &str,
        id: &str,
        permission: &str,
    ) -> Result<&Dataset, Failure> {
        let dataset = self.dataset(project, id);
        match dataset {
            Some(dataset) if dataset.visible_to(identity) => Ok(dataset),
            None if PROJECTS.iter().any(|known| known.id == project) => {
                Err(Failure::not_found(format!("Dataset {project}:{id}")))
            }
            _ => Err(Failure::access_denied(format!(
                "Dataset {project}:{id}: Permission {permission} denied on dataset {project}:{id} (or it may not exist)."
            ))),
        }
    }
}

/// The catalogue as a statement of someone sees it.
pub(crate) struct Seen<'a> {
    pub(crate) catalogue: &'a Catalogue,
    pub(crate) loaded: &'a BTreeMap<TableId, Arc<Entry>>,
    pub(crate) identity: &'a Identity,
    /// Where the job runs, when that is known already.
    pub(crate) location: Option<&'a str>,
}

impl Seen<'_> {
    /// The table, view or external table of that name.
    pub(crate) fn entry(&self, id: &TableId) -> Option<Arc<Entry>> {
        let dataset = self.catalogue.dataset(&id.project, &id.dataset)?;
        self.loaded.get(id).or_else(|| dataset.tables.get(&*id.table)).cloned()
    }

    fn dataset(&self, project: &str, id: &str, what: &str) -> Result<&Dataset, SqlError> {
        let location = self.location.unwrap_or(DEFAULT_LOCATION);
        let denied = || {
            SqlError::new(
                Reason::AccessDenied,
                format!(
                    "Access Denied: Table {what}: User does not have permission to query table {what}, or perhaps it does \
                     not exist."
                ),
            )
        };
        let missing = || {
            SqlError::new(
                Reason::NotFound,
                format!("Not found: Dataset {project}:{id} was not found in location {location}"),
            )
        };
        if !PROJECTS.iter().any(|known| known.id == project) {
            return Err(denied());
        }
        let dataset = self.catalogue.dataset(project, id).ok_or_else(missing)?;
        if !dataset.visible_to(self.identity) {
            return Err(denied());
        }
        if self.location.is_some_and(|location| !location.eq_ignore_ascii_case(dataset.location)) {
            return Err(missing());
        }
        Ok(dataset)
    }
}

/// `project:dataset.table`, as messages write it.
fn legacy_name(id: &TableId) -> String {
    format!("{}:{}.{}", id.project, id.dataset, id.table)
}

impl Catalog for Seen<'_> {
    fn find(&self, id: &TableId) -> Result<Source, SqlError> {
        let name = legacy_name(id);
        let dataset = self.dataset(&id.project, &id.dataset, &name)?;
        let entry = self.entry(id).ok_or_else(|| {
            SqlError::new(
                Reason::NotFound,
                format!("Not found: Table {name} was not found in location {}", dataset.location),
            )
        })?;
        match &entry.kind {
            Kind::View { legacy: true, .. } => {
                Err(SqlError::query(format!("Cannot reference a legacy SQL view in a GoogleSQL query: {name}")))
            }
            Kind::View { sql, .. } => Ok(Source::View { sql: sql.clone() }),
            Kind::External { format: "GOOGLE_SHEETS", .. } => Err(SqlError::new(
                Reason::AccessDenied,
                "Access Denied: BigQuery BigQuery: Permission denied while getting Drive credentials.",
            )),
            Kind::Table | Kind::External { .. } => {
                Ok(Source::Table(Arc::clone(entry.let_through.as_ref().unwrap_or(&entry.table))))
            }
        }
    }

    fn find_all(&self, project: &str, dataset: &str, prefix: &str) -> Result<Vec<(String, Arc<dyn Table>)>, SqlError> {
        let name = format!("{project}:{dataset}.{prefix}*");
        let found = self.dataset(project, dataset, &name)?;
        let mut tables = BTreeMap::new();
        let loaded = self.loaded.iter().filter(|(id, _)| &*id.project == project && &*id.dataset == dataset);
        let entries = found
            .tables
            .iter()
            .map(|(name, entry)| (name.as_str(), entry))
            .chain(loaded.map(|(id, entry)| (&*id.table, entry)));
        for (table, entry) in entries {
            let Some(suffix) = table.strip_prefix(prefix) else {
                continue;
            };
            match entry.kind {
                Kind::View { .. } => {
                    return Err(SqlError::query(format!(
                        "Views cannot be queried through prefix. Matched views are: {project}:{dataset}.{table}"
                    )));
                }
                Kind::External { .. } => {
                    return Err(SqlError::query(format!(
                        "External tables cannot be queried through prefix: {project}:{dataset}.{table}"
                    )));
                }
                Kind::Table if entry.let_through.is_some() => {
                    return Err(SqlError::query(format!(
                        "Wildcard table over tables with row access policies is not supported: \
                         {project}:{dataset}.{table}"
                    )));
                }
                Kind::Table => tables.insert(suffix.to_owned(), Arc::clone(&entry.table)),
            };
        }
        if tables.is_empty() {
            return Err(SqlError::query(format!("{name} does not match any table.")));
        }
        Ok(tables.into_iter().collect())
    }

    fn routine(&self, id: &TableId) -> Result<Option<Type>, SqlError> {
        let Some(dataset) = self.catalogue.dataset(&id.project, &id.dataset) else {
            return Ok(None);
        };
        if !dataset.visible_to(self.identity) {
            let name = legacy_name(id);
            return Err(SqlError::new(
                Reason::AccessDenied,
                format!(
                    "Access Denied: Routine {name}: User does not have permission to invoke routine {name}, or perhaps it \
                     does not exist."
                ),
            ));
        }
        let routine = dataset.routines.iter().find(|routine| routine.name == &*id.table);
        Ok(routine.map(|routine| routine.returns.clone()))
    }
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Self {
        Self::of_sql(error.reason, error.message)
    }
}

/// A view: its columns are asked for by `tables.get`, its rows never.
pub(crate) fn view(id: TableId, columns: Vec<Field>, sql: &str, legacy: bool, modified: i64) -> Entry {
    let mut entry = Entry::new(RowsTable::of(id, columns, Vec::<sql::Row>::new()), modified);
    entry.kind = Kind::View { sql: sql.to_owned(), legacy };
    entry
}

/// A scalar routine.
pub(crate) fn routine(dataset: &Dataset, name: &'static str, language: &str, returns: Type, more: Json) -> Routine {
    let mut resource = json!({
        "routineReference": {"projectId": dataset.project, "datasetId": dataset.id, "routineId": name},
        "routineType": "SCALAR_FUNCTION",
        "creationTime": "1767225600000",
        "lastModifiedTime": "1767225600000",
        "etag": format!("etag-{name}"),
        "returnType": {"typeKind": returns.base_name()},
        "arguments": [{"name": "x", "dataType": {"typeKind": "FLOAT64"}}],
    });
    if !language.is_empty() {
        resource["language"] = json!(language);
    }
    for (key, value) in more.as_object().into_iter().flatten() {
        resource[key] = value.clone();
    }
    Routine { name, returns, resource }
}
