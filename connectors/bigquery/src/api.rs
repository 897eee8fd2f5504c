//! Requests to the BigQuery API (v2), and what comes back.
//!
//! Jobs, datasets and tables have the types of Google's own crate. Rows are read from the bytes of a page.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use acp_core::{Call, Error, Identity, Result};
use acp_google::{Context, Failure, Google, Rows, Session, path_segment};
pub(crate) use google_cloud_bigquery_v2::model::{Dataset, ListFormatTable, Routine, Table};
use google_cloud_bigquery_v2::model::{DatasetList, Job, JobReference, TableFieldSchema, TableList, TableSchema};
use moka::future::Cache;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::errors;
use crate::resources::Place;
use crate::settings::Settings;
use crate::spending::Spending;

/// Inserting and cancelling jobs needs the wide scope, dry runs included.
pub(crate) const SCOPES: &[&str] = &["https://www.googleapis.com/auth/bigquery"];
/// How long datasets, tables and their schemas are kept.
const METADATA_TTL: Duration = Duration::from_secs(300);
/// Pages of a list that are read at most; a list that is longer is said to be cut.
const PAGES_MAX: usize = 50;
/// Rows of a page at most. BigQuery ends pages by their bytes, at 10 to 20 MB, long before this.
const PAGE_ROWS: u64 = 100_000;
/// How long BigQuery may hold a request for results before it answers that the job still runs, in milliseconds.
const POLL_MS: u64 = 10_000;

/// The connector's state: one client and what it remembers.
#[derive(Debug)]
pub(crate) struct BigQuery {
    google: Google,
    pub(crate) spending: Spending,
    datasets: Cache<(Identity, String), Arc<Dataset>>,
    tables: Cache<(Identity, String), Arc<Table>>,
    lists: Cache<(Identity, String), Arc<TablesOf>>,
}

/// BigQuery in the name of one credential.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) session: Session,
    identity: Identity,
    /// Who pays.
    pub(crate) billing_project: String,
    datasets: Cache<(Identity, String), Arc<Dataset>>,
    tables: Cache<(Identity, String), Arc<Table>>,
    lists: Cache<(Identity, String), Arc<TablesOf>>,
}

/// A job, as requests name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobId {
    pub(crate) project: String,
    pub(crate) id: String,
    /// Outside the multi-regions US and EU a job is only found with it.
    pub(crate) location: Option<String>,
}

/// A project of the list.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Project {
    pub(crate) id: String,
    pub(crate) friendly_name: Option<String>,
}

/// The datasets of a project.
#[derive(Debug, Default)]
pub(crate) struct DatasetsOf {
    pub(crate) datasets: Vec<DatasetEntry>,
    /// Regions that did not answer.
    pub(crate) unreachable: Vec<String>,
}

/// A dataset of the list.
#[derive(Debug)]
pub(crate) struct DatasetEntry {
    pub(crate) id: String,
    pub(crate) friendly_name: Option<String>,
    pub(crate) location: String,
    pub(crate) kind: String,
}

/// The tables of a dataset.
#[derive(Debug, Default)]
pub(crate) struct TablesOf {
    pub(crate) tables: Vec<ListFormatTable>,
    /// How many there are, where not all were read.
    pub(crate) cut_at: Option<i64>,
}

/// What stands around the rows of a page.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PageEnd {
    kind: String,
    pub(crate) job_complete: Option<bool>,
    pub(crate) page_token: Option<String>,
    total_rows: Option<Count>,
    pub(crate) schema: Option<TableSchema>,
    job_reference: Option<JobReference>,
}

/// A number that the API writes as a text.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Count {
    Number(u64),
    Text(String),
}

/// A page of rows, each as the bytes it had in the answer.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) rows: Rows,
    pub(crate) end: PageEnd,
}

impl PageEnd {
    /// All rows of the result or table.
    pub(crate) fn total_rows(&self) -> Option<u64> {
        match self.total_rows.as_ref()? {
            Count::Number(rows) => Some(*rows),
            Count::Text(rows) => rows.parse().ok(),
        }
    }

    pub(crate) fn location(&self) -> Option<String> {
        self.job_reference.as_ref()?.location.clone().filter(|location| !location.is_empty())
    }

    /// The columns; none where the answer has no schema.
    pub(crate) fn fields(&self) -> &[TableFieldSchema] {
        self.schema.as_ref().map_or(&[], |schema| &schema.fields)
    }
}

impl JobId {
    /// What Google's answer names.
    pub(crate) fn of(reference: &JobReference) -> Self {
        Self {
            project: reference.project_id.clone(),
            id: reference.job_id.clone(),
            location: reference.location.clone().filter(|location| !location.is_empty()),
        }
    }
}

impl std::fmt::Display for JobId {
    /// As Google's console shows it: `project:location.id`.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.location {
            Some(location) => write!(formatter, "{}:{location}.{}", self.project, self.id),
            None => write!(formatter, "{}:{}", self.project, self.id),
        }
    }
}

impl BigQuery {
    pub(crate) fn new(google: Google) -> Self {
        fn cache<V: Clone + Send + Sync + 'static>(entries: u64) -> Cache<(Identity, String), V> {
            Cache::builder().max_capacity(entries).time_to_live(METADATA_TTL).build()
        }
        Self { google, spending: Spending::default(), datasets: cache(5_000), tables: cache(2_000), lists: cache(200) }
    }

    /// The client.
    pub(crate) fn google(&self) -> &Google {
        &self.google
    }

    /// BigQuery in the name of the call's credentials, and who pays for its jobs: the project of the settings, else that
    /// of the key, else that of the resource.
    pub(crate) fn client(&self, call: &Call, settings: Option<&Settings>) -> Result<Client> {
        let of_resource = Place::of(call).map(|place| place.project).unwrap_or_default();
        self.client_for(call, settings, &of_resource)
    }

    /// The same for a call without a resource, about something in `project`.
    pub(crate) fn client_for(&self, call: &Call, settings: Option<&Settings>, project: &str) -> Result<Client> {
        let session = self.google.session(call.credentials()?, SCOPES)?;
        let set = settings.and_then(|settings| settings.billing_project.clone());
        let of_key = || session.credentials().project().map(str::to_owned);
        let billing_project = set.or_else(of_key).unwrap_or_else(|| project.to_owned());
        Ok(Client {
            session,
            identity: call.identity(),
            billing_project,
            datasets: self.datasets.clone(),
            tables: self.tables.clone(),
            lists: self.lists.clone(),
        })
    }
}

impl Client {
    /// The context of errors about something.
    pub(crate) fn context(&self, what: impl std::fmt::Display) -> Context {
        self.session.context(format!("BigQuery {what}")).grant(
            "It needs the role BigQuery Data Viewer there, given in the Google Cloud console under IAM or with the dataset's \
             sharing settings; or the name is wrong.",
        )
    }

    fn url(&self, path: std::fmt::Arguments<'_>) -> String {
        format!("{}/bigquery/v2/{path}", self.session.endpoints().bigquery())
    }

    /// Starts a job, or dry-runs it.
    pub(crate) async fn insert(&self, job: &Job) -> Result<Job, Failure> {
        let url = self.url(format_args!("projects/{}/jobs?prettyPrint=false", path_segment(&self.billing_project)));
        self.session.post(&url, job).await
    }

    /// A job. One that was just made may not be found for a moment.
    pub(crate) async fn job(&self, job: &JobId) -> Result<Job, Failure> {
        self.session.get_once_there(&self.job_url(job, "")).await
    }

    /// A job, or `None` where there is none of that id.
    pub(crate) async fn try_job(&self, job: &JobId) -> Result<Option<Job>, Failure> {
        match self.session.get(&self.job_url(job, "")).await {
            Ok(job) => Ok(Some(job)),
            Err(Failure::Google(error)) if error.http_status == 404 => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Sends rows with the load job that takes them.
    pub(crate) async fn upload(
        &self,
        job: &Job,
        rows: (&mut File, u64),
        progress: impl FnMut(u64),
    ) -> Result<Job, Failure> {
        let base = self.session.endpoints().bigquery();
        let project = path_segment(&self.billing_project);
        let url = format!("{base}/upload/bigquery/v2/projects/{project}/jobs?uploadType=resumable&prettyPrint=false");
        self.session.upload(&url, job, rows, progress).await
    }

    /// Waits until a load job is done.
    pub(crate) async fn loaded(&self, job: &JobId, call: &Call) -> Result<Job, Failure> {
        let is_done = |job: &Job| job.status.as_ref().is_some_and(|status| status.state == "DONE");
        let mut asked = 0;
        let tell = |_: &Job| {
            asked += 1;
            call.progress(asked, None, "BigQuery loads the rows");
        };
        self.session.get_until(&self.job_url(job, ""), is_done, tell).await
    }

    /// Asks BigQuery to stop a job. It may bill what it has read.
    pub(crate) async fn cancel(&self, job: &JobId) -> Result<Job, Failure> {
        #[derive(Deserialize)]
        struct Cancelled {
            job: Job,
        }
        let cancelled: Cancelled = self.session.post(&self.job_url(job, "/cancel"), &serde_json::json!({})).await?;
        Ok(cancelled.job)
    }

    fn job_url(&self, job: &JobId, method: &str) -> String {
        let location = match &job.location {
            Some(location) => format!("&location={}", path_segment(location)),
            None => String::new(),
        };
        let (project, id) = (path_segment(&job.project), path_segment(&job.id));
        self.url(format_args!("projects/{project}/jobs/{id}{method}?prettyPrint=false{location}"))
    }

    /// A page of a job's rows. While the job runs, an answer without rows comes after some seconds.
    pub(crate) async fn results(&self, job: &JobId, token: Option<&str>, rows: Option<u64>) -> Result<Page, Failure> {
        let location = job.location.as_deref().map(|location| format!("&location={}", path_segment(location)));
        let (project, id) = (path_segment(&job.project), path_segment(&job.id));
        let url = self.url(format_args!(
            "projects/{project}/queries/{id}?prettyPrint=false&formatOptions.timestampOutputFormat=ISO8601_STRING\
             &maxResults={}&timeoutMs={POLL_MS}{}{}",
            rows.unwrap_or(PAGE_ROWS).min(PAGE_ROWS),
            location.unwrap_or_default(),
            page(token),
        ));
        let rows = self.session.get_rows(&url, "rows").await?;
        let end: PageEnd = rows.rest()?;
        // Something that is no answer of this method must not pass for an empty one.
        match end.kind.as_str() {
            "bigquery#getQueryResultsResponse" => Ok(Page { rows, end }),
            _ => Err(not_bigquery().into()),
        }
    }

    /// A page of a table's rows, without a query and free of charge.
    pub(crate) async fn table_rows(&self, place: &Place, token: Option<&str>, rows: u64) -> Result<Page, Failure> {
        let url = format!(
            "{}/data?prettyPrint=false&formatOptions.timestampOutputFormat=ISO8601_STRING&maxResults={}{}",
            self.table_url(place),
            rows.min(PAGE_ROWS),
            page(token),
        );
        let rows = self.session.get_rows(&url, "rows").await?;
        let end: PageEnd = rows.rest()?;
        match end.kind.as_str() {
            "bigquery#tableDataList" => Ok(Page { rows, end }),
            _ => Err(not_bigquery().into()),
        }
    }

    /// Projects in which the account has a role in BigQuery. Public ones are not among them.
    pub(crate) async fn projects(&self) -> Result<Vec<Project>> {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct List {
            projects: Vec<Project>,
            next_page_token: Option<String>,
        }
        let mut projects = Vec::new();
        let mut token = None;
        for _ in 0..PAGES_MAX {
            let url = self.url(format_args!("projects?prettyPrint=false&maxResults=1000{}", page(token.as_deref())));
            let list: List =
                self.session.get(&url).await.map_err(|failure| failure.into_acp(&self.context("projects")))?;
            projects.extend(list.projects);
            token = list.next_page_token.filter(|token| !token.is_empty());
            if token.is_none() {
                break;
            }
        }
        Ok(projects)
    }

    /// The datasets of a project that the account can see.
    pub(crate) async fn datasets(&self, project: &str) -> Result<DatasetsOf> {
        let context = self.context(format_args!("project {project}"));
        let mut all = DatasetsOf::default();
        let mut token = None;
        for _ in 0..PAGES_MAX {
            let url = self.url(format_args!(
                "projects/{}/datasets?prettyPrint=false&maxResults=1000{}",
                path_segment(project),
                page(token.as_deref())
            ));
            let list: DatasetList = self.session.get(&url).await.map_err(|failure| failure.into_acp(&context))?;
            if list.kind != "bigquery#datasetList" {
                return Err(not_bigquery());
            }
            all.datasets.extend(list.datasets.into_iter().filter_map(|dataset| {
                Some(DatasetEntry {
                    id: dataset.dataset_reference?.dataset_id,
                    friendly_name: dataset.friendly_name.filter(|name| !name.is_empty()),
                    location: dataset.location,
                    kind: dataset.r#type,
                })
            }));
            for region in list.unreachable {
                if !all.unreachable.contains(&region) {
                    all.unreachable.push(region);
                }
            }
            token = Some(list.next_page_token).filter(|token| !token.is_empty());
            if token.is_none() {
                break;
            }
        }
        Ok(all)
    }

    /// A dataset; kept for some minutes.
    pub(crate) async fn dataset(&self, place: &Place) -> Result<Arc<Dataset>, Failure> {
        let url = format!("{}?prettyPrint=false", self.dataset_url(place));
        self.kept(&self.datasets, url).await
    }

    /// Where a dataset is; `None` where it is not there, or not for this account.
    pub(crate) async fn location(&self, place: &Place) -> Result<Option<String>, Failure> {
        match self.dataset(place).await {
            Ok(dataset) => Ok(Some(dataset.location.clone()).filter(|location| !location.is_empty())),
            Err(Failure::Google(error)) if matches!(error.http_status, 400 | 403 | 404) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// A table with its schema, and with its size only when that is wanted, since it takes longer; kept for some minutes.
    pub(crate) async fn table(&self, place: &Place, with_size: bool) -> Result<Arc<Table>, Failure> {
        let view = if with_size { "STORAGE_STATS" } else { "BASIC" };
        let url = format!("{}?prettyPrint=false&view={view}", self.table_url(place));
        self.kept(&self.tables, url).await
    }

    /// A stored function.
    pub(crate) async fn routine(&self, project: &str, dataset: &str, routine: &str) -> Result<Routine, Failure> {
        let (project, dataset, routine) = (path_segment(project), path_segment(dataset), path_segment(routine));
        let url = self.url(format_args!("projects/{project}/datasets/{dataset}/routines/{routine}?prettyPrint=false"));
        self.session.get(&url).await
    }

    /// A stored model, as it comes.
    pub(crate) async fn model(&self, place: &Place) -> Result<Value, Failure> {
        let model = path_segment(place.table.as_deref().unwrap_or_default());
        self.session.get(&format!("{}/models/{model}?prettyPrint=false", self.dataset_url(place))).await
    }

    /// The tables of a dataset; kept for some minutes.
    pub(crate) async fn tables(&self, place: &Place) -> Result<Arc<TablesOf>, Failure> {
        let url = format!("{}/tables?prettyPrint=false&maxResults=1000", self.dataset_url(place));
        let key = (self.identity.clone(), url.clone());
        let read = async {
            let mut all = TablesOf::default();
            let mut token = None;
            for pages in 1.. {
                let list: TableList = self.session.get(&format!("{url}{}", page(token.as_deref()))).await?;
                if list.kind != "bigquery#tableList" {
                    return Err(Failure::from(not_bigquery()));
                }
                all.tables.extend(list.tables);
                token = Some(list.next_page_token).filter(|token| !token.is_empty());
                if token.is_none() {
                    break;
                }
                if pages == PAGES_MAX {
                    all.cut_at = list.total_items.map(i64::from).or(Some(i64::MAX));
                    break;
                }
            }
            Ok(Arc::new(all))
        };
        self.lists.try_get_with(key, read).await.map_err(|failure: Arc<Failure>| Failure::clone(&failure))
    }

    async fn kept<T: DeserializeOwned + Send + Sync + 'static>(
        &self,
        cache: &Cache<(Identity, String), Arc<T>>,
        url: String,
    ) -> Result<Arc<T>, Failure> {
        let read = async { self.session.get::<T>(&url).await.map(Arc::new) };
        let kept = cache.try_get_with((self.identity.clone(), url.clone()), read).await;
        kept.map_err(|failure: Arc<Failure>| Failure::clone(&failure))
    }

    fn dataset_url(&self, place: &Place) -> String {
        let dataset = path_segment(place.dataset.as_deref().unwrap_or_default());
        self.url(format_args!("projects/{}/datasets/{dataset}", path_segment(&place.project)))
    }

    fn table_url(&self, place: &Place) -> String {
        format!("{}/tables/{}", self.dataset_url(place), path_segment(place.table.as_deref().unwrap_or_default()))
    }

    /// What a failed request about a table or a dataset means, with names that come close.
    pub(crate) async fn explain(&self, failure: Failure, place: &Place) -> Error {
        errors::of_place(self, failure, place).await
    }
}

fn page(token: Option<&str>) -> String {
    token.map(|token| format!("&pageToken={}", path_segment(token))).unwrap_or_default()
}

fn not_bigquery() -> Error {
    Error::upstream(
        "Google's answer is not one of BigQuery. Try again; if it happens again, a proxy may be answering in Google's place.",
    )
}
