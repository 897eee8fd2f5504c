//! BigQuery: jobs, data sets, tables, and load jobs, over the same event log as Analytics and Search Console.

mod analysis;
mod catalogue;
mod cells;
pub(crate) mod facts;
mod failure;
mod jobs;
mod ledger;
mod load;
mod metadata;
mod paging;
mod parse;
mod request;
mod schema;
mod sql;
mod switches;
mod tables;
mod value;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use percent_encoding::percent_decode_str;

use crate::answer::Answer;
use crate::clock;
use crate::events::HOME_ZONE;
use crate::identities::{Identity, Sight};
use crate::lock;
use crate::server::{ApiRequest, Shared};
use catalogue::{Catalogue, Entry, PROJECTS};
use failure::Failure;
pub use ledger::LedgerJob;
use sql::TableId;
pub use switches::Switches;

const SERVICE: &str = "bigquery.googleapis.com";

/// Scopes that may read, and that may run a query by `jobs.query`.
const READ_SCOPES: [&str; 4] = [
    "https://www.googleapis.com/auth/bigquery",
    "https://www.googleapis.com/auth/bigquery.readonly",
    "https://www.googleapis.com/auth/cloud-platform",
    "https://www.googleapis.com/auth/cloud-platform.read-only",
];
/// Scopes that may insert and cancel jobs.
const JOB_SCOPES: [&str; 2] =
    ["https://www.googleapis.com/auth/bigquery", "https://www.googleapis.com/auth/cloud-platform"];

/// What BigQuery keeps: jobs, loaded tables, uploads, switches.
#[derive(Default)]
pub(crate) struct BigQuery {
    pub(crate) switches: Switches,
    jobs: jobs::Jobs,
    uploads: load::Uploads,
    /// Tables made by load jobs.
    loaded: Mutex<BTreeMap<TableId, Arc<Entry>>>,
    /// The catalogue of the latest days of Analytics and Search Console.
    catalogue: Mutex<Option<(Latest, Arc<Catalogue>)>>,
}

/// The days up to which there are data: they change at midnight, and when a test moves Search Console's.
type Latest = (jiff::civil::Date, i32);

impl BigQuery {
    fn catalogue(&self, shared: &Shared) -> Arc<Catalogue> {
        let latest = (clock::today(&clock::zone(HOME_ZONE)), *shared.search_console.exported_days().end());
        let mut kept = lock(&self.catalogue);
        match &*kept {
            Some((known, catalogue)) if *known == latest => Arc::clone(catalogue),
            _ => {
                let catalogue = Arc::new(Catalogue::new(&shared.world, &shared.search_console));
                *kept = Some((latest, Arc::clone(&catalogue)));
                catalogue
            }
        }
    }
}

/// A request of someone.
struct Asked<'a> {
    shared: &'a Shared,
    bigquery: &'a BigQuery,
    request: &'a ApiRequest,
    identity: &'a Identity,
}

impl Asked<'_> {
    fn catalogue(&self) -> Arc<Catalogue> {
        self.bigquery.catalogue(self.shared)
    }

    /// Whether the asker sees anything in a project.
    fn sees(&self, project: &str) -> bool {
        self.identity.sight == Sight::Full || project == catalogue::PROJECT
    }

    /// Refuses jobs in projects that don't exist or in which the asker has no role.
    fn may_run_jobs(&self, project: &str) -> Result<(), Failure> {
        let known = PROJECTS.iter().find(|known| known.id == project);
        if known.is_some_and(|known| known.jobs && self.sees(project)) {
            return Ok(());
        }
        Err(Failure::access_denied(format!(
            "Project {project}: User does not have bigquery.jobs.create permission in project {project}."
        )))
    }
}

/// A handler for one method, once the asker is known.
type Handler<'a> = Box<dyn Fn(&Asked<'_>) -> Result<Answer, Failure> + 'a>;

/// Answers a request of BigQuery; `None` for a path that isn't one of its methods.
pub(crate) fn route(shared: &Shared, request: &ApiRequest) -> Option<Answer> {
    let (upload, path) = match request.path.strip_prefix("/bigquery/v2/projects") {
        Some(path) => (false, path),
        None => {
            let path = request.path.strip_prefix("/resumable").unwrap_or(&request.path);
            (true, path.strip_prefix("/upload/bigquery/v2/projects")?)
        }
    };
    if !path.is_empty() && !path.starts_with('/') {
        return None;
    }
    let parts: Vec<String> =
        path.split('/').skip(1).map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned()).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let (name, scopes, handler) = if upload { uploads(request, &parts)? } else { methods(request, &parts)? };
    let identity = match shared.authorize(request, scopes, SERVICE, &format!("google.cloud.bigquery.v2.{name}")) {
        Ok(identity) => identity,
        Err(error) => return Some(error.answer()),
    };
    let asked = Asked { shared, bigquery: &shared.bigquery, request, identity: &identity };
    Some(handler(&asked).unwrap_or_else(|failure| failure.answer()))
}

type Method<'a> = (&'static str, &'static [&'static str], Handler<'a>);

fn uploads<'a>(request: &ApiRequest, parts: &[&'a str]) -> Option<Method<'a>> {
    match (request.method.as_str(), parts) {
        ("POST" | "PUT", [project, "jobs"]) => {
            let project = *project;
            Some(("JobService.InsertJob", &JOB_SCOPES, Box::new(move |asked| load::upload(asked, project))))
        }
        _ => None,
    }
}

fn methods<'a>(request: &ApiRequest, parts: &[&'a str]) -> Option<Method<'a>> {
    let method: Method<'a> = match (request.method.as_str(), parts) {
        ("GET", []) => ("ProjectService.ListProjects", &READ_SCOPES, Box::new(metadata::projects)),
        ("GET", &[project, "datasets"]) => {
            ("DatasetService.ListDatasets", &READ_SCOPES, Box::new(move |asked| metadata::datasets(asked, project)))
        }
        ("GET", &[project, "datasets", dataset]) => {
            let handler = move |asked: &Asked<'_>| metadata::dataset(asked, project, dataset);
            ("DatasetService.GetDataset", &READ_SCOPES, Box::new(handler))
        }
        ("GET", &[project, "datasets", dataset, "tables"]) => {
            let handler = move |asked: &Asked<'_>| metadata::tables(asked, project, dataset);
            ("TableService.ListTables", &READ_SCOPES, Box::new(handler))
        }
        ("GET", &[project, "datasets", dataset, "tables", table]) => {
            let handler = move |asked: &Asked<'_>| metadata::table(asked, project, dataset, table);
            ("TableService.GetTable", &READ_SCOPES, Box::new(handler))
        }
        ("GET", &[project, "datasets", dataset, "tables", table, "data"]) => {
            let handler = move |asked: &Asked<'_>| metadata::data(asked, project, dataset, table);
            ("TableDataService.List", &READ_SCOPES, Box::new(handler))
        }
        ("GET", &[project, "datasets", dataset, "routines"]) => {
            let handler = move |asked: &Asked<'_>| metadata::routines(asked, project, dataset);
            ("RoutineService.ListRoutines", &READ_SCOPES, Box::new(handler))
        }
        ("GET", &[project, "datasets", dataset, "routines", routine]) => {
            let handler = move |asked: &Asked<'_>| metadata::routine(asked, project, dataset, routine);
            ("RoutineService.GetRoutine", &READ_SCOPES, Box::new(handler))
        }
        ("GET", &[project, "jobs"]) => {
            ("JobService.ListJobs", &READ_SCOPES, Box::new(move |asked| jobs::list(asked, project)))
        }
        ("POST", &[project, "jobs"]) => {
            ("JobService.InsertJob", &JOB_SCOPES, Box::new(move |asked| jobs::insert(asked, project)))
        }
        ("GET", &[project, "jobs", job]) => {
            ("JobService.GetJob", &READ_SCOPES, Box::new(move |asked| jobs::get(asked, project, job)))
        }
        ("POST", &[project, "jobs", job, "cancel"]) => {
            ("JobService.CancelJob", &JOB_SCOPES, Box::new(move |asked| jobs::cancel(asked, project, job)))
        }
        ("POST", &[project, "queries"]) => {
            ("JobService.Query", &READ_SCOPES, Box::new(move |asked| jobs::query(asked, project)))
        }
        ("GET", &[project, "queries", job]) => {
            ("JobService.GetQueryResults", &READ_SCOPES, Box::new(move |asked| jobs::results(asked, project, job)))
        }
        ("POST" | "PUT" | "PATCH" | "DELETE", &[_, "datasets", ..]) => (
            "TableService.Change",
            &JOB_SCOPES,
            Box::new(|_: &Asked<'_>| Err(Failure::unsupported("changing data sets, tables and routines"))),
        ),
        _ => return None,
    };
    Some(method)
}
