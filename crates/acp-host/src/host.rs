//! A host as a whole: packages, sources and a project, with one running server for each connector (11, 16.5).
//!
//! Everything is read anew at each call, since people edit `sources.json` and copy folders while a host runs; only servers
//! are kept.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use acp_protocol::capability::{AutocontextDelivery, ClientCapability, ServerCapability};
use acp_protocol::error::{ErrorCode, ErrorPayload};
use acp_protocol::manifest::Transport;
use acp_protocol::result::SystemInfo;
use acp_protocol::session::{CallMeta, ConfigureParams};
use acp_protocol::{INLINE_MAX_BYTES, JsonObject, PROTOCOL_VERSION};
use jiff::ZonedDateTime;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::artifacts;
use crate::client::{Client, ClientError, ClientOptions, OnProgress, Tool, ToolAnswer, ToolCall};
use crate::datasets::{self, DatasetError};
use crate::form;
use crate::install;
use crate::launch::{Environment, Launch, Server};
use crate::notes;
use crate::package::{self, Listing, MANIFEST, Package};
use crate::run::RunFolder;
use crate::secrets::Redactor;
use crate::sources::{Autocontext, ReferenceError, Resolved, Source, Sources, SourcesError};
use crate::store::{self, Asked, StoreError, Stored};
use crate::table::Table;
use crate::window::{Window, Windowed};

/// Longest line from a server: tables above [`INLINE_MAX_BYTES`] come as files.
const LINE_MAX: usize = 32 * 1024 * 1024;

/// Where a host finds everything, and how it introduces itself.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// Folder of the connectors of all projects (13.1).
    pub system: PathBuf,
    /// Folder of the connectors of this project, which cover those of the system (13.1).
    pub project_packages: Option<PathBuf>,
    /// The file of the sources (16.3).
    pub sources: PathBuf,
    /// The project, in which `acp-data` is created.
    pub project: PathBuf,
    /// Folder for caches and for tables on their way.
    pub state: PathBuf,
    /// Name in `clientInfo`, and what ids of sessions begin with.
    pub name: String,
    /// What servers inherit of the environment.
    pub environment: Environment,
    /// Variables that servers get besides.
    pub variables: Vec<(String, String)>,
    /// How the model is told to ask for all rows of a dataset, such as `Query it with acp_query.`
    pub query_hint: Option<String>,
}

/// Why a call has no answer. The texts say what to do, and hold no secret.
#[derive(Debug)]
pub enum HostError {
    /// `sources.json` can't be used.
    Sources(SourcesError),
    /// There is no source of that id.
    UnknownSource {
        /// The id asked for.
        id: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// The connector of the source is not installed, or its folder can't be used.
    NotInstalled {
        /// Id of the connector.
        acp: String,
        /// Why its folder can't be used, if there is one.
        problem: Option<String>,
    },
    /// A reference of the source has no value.
    Reference(ReferenceError),
    /// The source's credentials ask for a login that this host does not offer (5.5.5).
    Login {
        /// The source.
        source: String,
    },
    /// The arguments can't be used.
    Arguments(String),
    /// The server can't be started, ended, or breaks the protocol.
    Server {
        /// Id of the connector.
        acp: String,
        /// What happened.
        problem: String,
    },
    /// The tool failed.
    Tool(Box<ErrorPayload>),
    /// The extraction can't be stored.
    Store(StoreError),
    /// A dataset can't be used.
    Dataset(DatasetError),
    /// A folder can't be read or written.
    Io(io::Error),
}

impl std::fmt::Display for HostError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sources(error) => write!(formatter, "{error}"),
            Self::UnknownSource { id, known } if known.is_empty() => {
                write!(formatter, "There is no source {id:?}, nor any other: add one with `acp source add`.")
            }
            Self::UnknownSource { id, known } => {
                write!(formatter, "There is no source {id:?}. There are: {}.", known.join(", "))
            }
            Self::NotInstalled { acp, problem: None } => {
                write!(formatter, "The connector {acp} is not installed: install its zip with `acp install`.")
            }
            Self::NotInstalled { acp, problem: Some(problem) } => {
                write!(formatter, "The connector {acp} can't be used: {problem}")
            }
            Self::Reference(error) => write!(formatter, "{error}"),
            Self::Login { source } => write!(
                formatter,
                "The credentials of source {source} stand for a login that this program does not offer. The person has to \
                 choose another kind with `acp source edit {source}`."
            ),
            Self::Arguments(problem) => formatter.write_str(problem),
            Self::Server { acp, problem } => write!(formatter, "The server of {acp} failed: {problem}"),
            Self::Store(error) => {
                write!(formatter, "The extraction could not be saved, so it is not complete: {error}.")
            }
            Self::Tool(error) => write!(formatter, "{} ({})", error.message, error.name),
            Self::Dataset(error) => write!(formatter, "{error}"),
            Self::Io(error) => write!(formatter, "{error}"),
        }
    }
}

impl std::error::Error for HostError {}

impl From<io::Error> for HostError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl HostError {
    /// The failure as an error of ACP (12.1), for whoever waits for the answer of a tool.
    pub fn payload(&self) -> ErrorPayload {
        let code = match self {
            Self::Tool(error) => return (**error).clone(),
            Self::Dataset(DatasetError::NotFound(_) | DatasetError::Outside(_)) => ErrorCode::TableNotFound,
            Self::UnknownSource { .. } | Self::Arguments(_) => ErrorCode::InvalidArguments,
            Self::Reference(_) | Self::Login { .. } => ErrorCode::CredentialsMissing,
            _ => ErrorCode::UpstreamError,
        };
        ErrorPayload { code: code.code().into(), name: code.name().to_owned(), message: self.to_string(), data: None }
    }
}

/// What became of a call. Only texts, notes and blocks are for the model.
#[derive(Debug)]
pub struct Outcome {
    /// What the server wrote for the model.
    pub model_text: String,
    /// Whether the tool failed.
    pub is_error: bool,
    /// The failure, as the server gave it to the host.
    pub error: Option<ErrorPayload>,
    /// Further content blocks as MCP writes them: pictures of 8.10, or what a plain MCP server answered beside its text.
    pub blocks: Vec<Value>,
    /// What the host has to tell the model, in writing (11.3).
    pub notes: Vec<String>,
    /// What was stored.
    pub stored: Vec<Stored>,
    /// About the call; `None` for a plain MCP server.
    pub info: Option<SystemInfo>,
}

/// What has to be ended in good order.
#[derive(Debug)]
enum Process {
    /// A child of this host.
    Child(Box<Server>),
    /// The session with a server elsewhere.
    Session(JoinHandle<()>),
}

/// What a server elsewhere may put into an answer: half of the longest line, since rows are escaped in it at worst.
const REMOTE_INLINE_MAX: u64 = 128 * 1024 * 1024;

/// How long the end of a session with a server elsewhere is waited for.
const SESSION_END: Duration = Duration::from_secs(5);

/// A server that runs, and what it published.
#[derive(Debug)]
pub struct Running {
    package: Package,
    modified: Option<SystemTime>,
    client: Client,
    process: Mutex<Option<Process>>,
    /// Whether paths of its files mean something here.
    local: bool,
    tmp: PathBuf,
    capability: Option<ServerCapability>,
    acp_version: Option<String>,
    instructions: Option<String>,
    tools: Vec<Tool>,
}

impl Running {
    /// Its package.
    pub fn package(&self) -> &Package {
        &self.package
    }

    /// What it announces; `None` where it is used as a plain MCP server (4.3).
    pub fn capability(&self) -> Option<&ServerCapability> {
        self.capability.as_ref()
    }

    /// The ACP version that it announces, also one that this host can't speak.
    pub fn acp_version(&self) -> Option<&str> {
        self.acp_version.as_deref()
    }

    /// Its instructions for the model.
    pub fn instructions(&self) -> Option<&str> {
        self.instructions.as_deref()
    }

    /// Its tools.
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// The tool of this name.
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// Process id, while it runs as a child of this host.
    pub fn pid(&self) -> Option<u32> {
        match self.process.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            Some(Process::Child(server)) => server.id(),
            _ => None,
        }
    }

    /// Whether it is the server of this package as it lies in its folder now.
    fn is_current(&self, package: &Package) -> bool {
        self.client.is_open() && self.package == *package && self.modified == modified(package)
    }

    async fn close(&self) {
        let process = self.process.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.client.close();
        match process {
            // One that doesn't end by itself is killed; there is nobody to tell.
            Some(Process::Child(server)) => _ = server.close().await,
            Some(Process::Session(session)) => _ = tokio::time::timeout(SESSION_END, session).await,
            None => {}
        }
    }
}

/// One server's place: starting takes a while, and only one call may do it.
type Slot = Arc<tokio::sync::Mutex<Option<Arc<Running>>>>;

/// A host. Clones share the servers. [`close`](Self::close) ends them in good order; dropping the last clone kills them.
#[derive(Clone)]
pub struct Host {
    shared: Arc<Shared>,
}

struct Shared {
    options: HostOptions,
    session: String,
    run: RunFolder,
    slots: Mutex<HashMap<PathBuf, Slot>>,
    calls: AtomicU64,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Host").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

impl Host {
    /// A host that has started nothing yet. Cleans up behind hosts that ended in the middle.
    pub fn new(options: HostOptions) -> io::Result<Self> {
        let run = RunFolder::new(&options.state.join("tmp"))?;
        store::clean(&options.project.join(datasets::FOLDER))?;
        for packages in [Some(&options.system), options.project_packages.as_ref()].into_iter().flatten() {
            // A folder that this user can't write in is somebody else's to clean.
            let _ = install::recover(packages);
        }
        let session = format!("{}-{}", options.name, uuid::Uuid::new_v4());
        let shared = Shared { options, session, run, slots: Mutex::default(), calls: AtomicU64::new(1) };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Where it finds everything.
    pub fn options(&self) -> &HostOptions {
        &self.shared.options
    }

    /// Folder of the datasets.
    pub fn data(&self) -> PathBuf {
        self.shared.options.project.join(datasets::FOLDER)
    }

    /// `sources.json` as it is now.
    pub fn sources(&self) -> Result<Sources, SourcesError> {
        Sources::read(&self.shared.options.sources)
    }

    /// The installed connectors as they are now; those of the project cover those of the system.
    pub fn packages(&self) -> io::Result<Listing> {
        let options = &self.shared.options;
        package::available(&options.system, options.project_packages.as_deref())
    }

    /// The installed connector of this id.
    pub fn package(&self, acp: &str) -> Result<Package, HostError> {
        let listing = self.packages()?;
        if let Some(package) = listing.packages.into_iter().find(|package| package.manifest.id == acp) {
            return Ok(package);
        }
        let folder = listing.broken.into_iter().find(|(folder, _)| folder.file_name().is_some_and(|name| name == acp));
        Err(HostError::NotInstalled { acp: acp.to_owned(), problem: folder.map(|(_, problem)| problem) })
    }

    /// The running server of a connector. It is started if it doesn't run, ended, or is no longer what lies in its folder.
    pub async fn server(&self, acp: &str) -> Result<Arc<Running>, HostError> {
        let package = self.package(acp)?;
        let slot = {
            let mut slots = self.shared.slots.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(slots.entry(package.folder.clone()).or_default())
        };
        let mut slot = slot.lock().await;
        if let Some(running) = slot.as_ref().filter(|running| running.is_current(&package)) {
            return Ok(Arc::clone(running));
        }
        if let Some(former) = slot.take() {
            former.close().await;
        }
        let running = Arc::new(self.start(package).await.map_err(|error| server_error(acp, &error))?);
        *slot = Some(Arc::clone(&running));
        Ok(running)
    }

    async fn start(&self, package: Package) -> Result<Running, ClientError> {
        let failed = |error: io::Error| ClientError::Start(error.to_string());
        let id = &package.manifest.id;
        let modified = modified(&package);
        let tmp = self.shared.run.subfolder(id).map_err(failed)?;
        let options = self.client_options(&tmp);
        let (client, process, local) = match &package.manifest.transport {
            Transport::Stdio { .. } => {
                let cache = self.cache_dir(&package);
                std::fs::create_dir_all(&cache).map_err(failed)?;
                let launch = Launch::of(&package)?.environment(self.shared.options.environment);
                let variables = self.shared.options.variables.iter();
                let launch = variables.fold(launch, |launch, (name, value)| launch.variable(name, value));
                let server = launch.cache_dir(&cache).tmp_dir(&tmp).spawn(options)?;
                (server.client().clone(), Process::Child(Box::new(server)), true)
            }
            Transport::Http { url, headers } => {
                let remote = crate::remote::connect(url, headers.as_ref(), options)?;
                (remote.client, Process::Session(remote.session), remote.local)
            }
        };
        let welcome = client.initialize().await?;
        let tools = client.list_tools().await?;
        Ok(Running {
            package,
            modified,
            client,
            process: Mutex::new(Some(process)),
            local,
            tmp,
            capability: welcome.acp,
            acp_version: welcome.acp_version,
            instructions: welcome.instructions,
            tools,
        })
    }

    fn client_options(&self, tmp: &Path) -> ClientOptions {
        let (data, tmp) = (self.data(), tmp.to_path_buf());
        ClientOptions::default()
            .name(&self.shared.options.name)
            .line_max(LINE_MAX)
            .capability(Some(ClientCapability {
                version: PROTOCOL_VERSION.to_owned(),
                stores_system_data: true,
                autocontext_delivery: Some(AutocontextDelivery::OnFirstCall),
                multi_table: Some(true),
                host_tables: Some(true),
            }))
            .read_table(Arc::new(move |params| {
                let (data, tmp) = (data.clone(), tmp.clone());
                Box::pin(async move {
                    let read = move || datasets::read_table(&data, &params.reference, INLINE_MAX_BYTES, &tmp);
                    tokio::task::spawn_blocking(read).await.unwrap_or_else(|error| {
                        Err(crate::client::RpcError { code: -32603, message: error.to_string(), data: None })
                    })
                })
            }))
    }

    /// A connector of the project has a cache of its own, whatever its id (13.1).
    fn cache_dir(&self, package: &Package) -> PathBuf {
        let options = &self.shared.options;
        let id = &package.manifest.id;
        let cache = options.state.join("cache");
        let of_project = options.project_packages.as_ref().is_some_and(|project| package.folder.starts_with(project));
        if !of_project {
            return cache.join(id);
        }
        // Only a name: another one would cost a cache, nothing else.
        let mut hasher = DefaultHasher::new();
        package.folder.hash(&mut hasher);
        cache.join(format!("{id}-{:016x}", hasher.finish()))
    }

    /// Ends the server of a connector, if it runs: before its folder is replaced or removed.
    pub async fn stop(&self, acp: &str) {
        let slots: Vec<Slot> =
            self.shared.slots.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        for slot in slots {
            let mut slot = slot.lock().await;
            if let Some(running) = slot.take_if(|running| running.package.manifest.id == acp) {
                running.close().await;
            }
        }
    }

    /// Ends every server.
    pub async fn close(&self) {
        let slots: Vec<Slot> = {
            let mut slots = self.shared.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.drain().map(|(_, slot)| slot).collect()
        };
        let closing = slots.into_iter().map(|slot| async move {
            if let Some(running) = slot.lock().await.take() {
                running.close().await;
            }
        });
        let mut tasks = tokio::task::JoinSet::new();
        closing.for_each(|closing| _ = tasks.spawn(closing));
        tasks.join_all().await;
    }

    /// The tool that is meant where none is named: the first extraction tool (4.2).
    pub async fn default_tool(&self, source: &str) -> Result<String, HostError> {
        let sources = self.sources().map_err(HostError::Sources)?;
        let acp = self.source(&sources, source)?.acp;
        let server = self.server(&acp).await?;
        let tool = server.capability().and_then(|capability| capability.extraction_tools.first());
        tool.cloned().ok_or_else(|| HostError::Arguments(format!("{acp} has no extraction tool: name a tool.")))
    }

    /// Calls a tool of a source with the source's credentials, settings and limits, stores what it extracts, and says in
    /// writing what the model has to know. Dropping the returned future cancels the call; a table that is being written then
    /// leaves nothing.
    pub async fn call(
        &self,
        source: &str,
        tool: &str,
        arguments: JsonObject,
        on_progress: Option<OnProgress>,
    ) -> Result<Outcome, HostError> {
        let sources = self.sources().map_err(HostError::Sources)?;
        let source = self.source(&sources, source)?;
        self.call_as(&sources, &source, tool, arguments, on_progress).await
    }

    /// [`call`](Self::call) for a source that need not be in the file yet; `sources` has the limits for all and the place
    /// where files that it refers to are.
    pub async fn call_as(
        &self,
        sources: &Sources,
        source: &Source,
        tool: &str,
        arguments: JsonObject,
        on_progress: Option<OnProgress>,
    ) -> Result<Outcome, HostError> {
        let server = self.server(&source.acp).await?;
        if server.capability().is_none() {
            return plain_call(&server, tool, arguments, on_progress).await;
        }
        let answered = self.ask(sources, source, &server, tool, arguments, on_progress).await?;
        self.keep(source.clone(), answered).await
    }

    /// The source of this id.
    pub(crate) fn source(&self, sources: &Sources, id: &str) -> Result<Source, HostError> {
        sources.get(id).cloned().ok_or_else(|| HostError::UnknownSource {
            id: id.to_owned(),
            known: sources.all().iter().map(|source| source.id.clone()).collect(),
        })
    }

    /// The answer of an ACP server, with nothing stored yet.
    pub(crate) async fn ask(
        &self,
        sources: &Sources,
        source: &Source,
        server: &Arc<Running>,
        tool: &str,
        arguments: JsonObject,
        on_progress: Option<OnProgress>,
    ) -> Result<Answered, HostError> {
        let Some(capability) = server.capability() else {
            return Err(HostError::Arguments(format!("{} is no ACP server, so it has no extractions.", source.acp)));
        };
        let window = server.tool(tool).and_then(|tool| Window::of(&tool.input_schema));
        let today = ZonedDateTime::now().date();
        let windowed = Window::apply(window.as_ref(), arguments, today).map_err(HostError::Arguments)?;
        let (mut meta, redactor) = self.meta(sources, source, capability).await?;
        // Tables of another computer come inside the answer.
        meta.inline_max_bytes = (!server.local).then_some(REMOTE_INLINE_MAX);
        let mut call = ToolCall::new(tool, windowed.arguments.clone()).meta(meta);
        if let Some(on_progress) = on_progress {
            call = call.on_progress(move |progress| on_progress(progress));
        }
        let mut answer = server.client.call(call).await.map_err(|error| HostError::Server {
            acp: source.acp.clone(),
            problem: redactor.redact(&error.to_string()).into_owned(),
        })?;
        if !server.local && names_files(&answer) {
            let problem =
                "its table is too large for its answer, and files of another computer can't be read".to_owned();
            return Err(HostError::Server { acp: source.acp.clone(), problem });
        }
        answer.model_text = redactor.redact(&answer.model_text).into_owned();
        if let Some(error) = &mut answer.meta.error {
            error.message = redactor.redact(&error.message).into_owned();
        }
        if let Some(window) = &window {
            window.resolve_stored(&mut answer.meta.system_info.arguments, today);
        }
        Ok(Answered { server: Arc::clone(server), windowed, answer })
    }

    /// `_meta.acp` of a call, and what must not come back in an answer.
    async fn meta(
        &self,
        sources: &Sources,
        source: &Source,
        capability: &ServerCapability,
    ) -> Result<(CallMeta, Redactor), HostError> {
        let resolved = {
            let (sources, source, project) = (sources.clone(), source.clone(), self.shared.options.project.clone());
            blocking(move || sources.resolve(&source, &project)).await?.map_err(HostError::Reference)?
        };
        let Resolved { credentials, config } = form::typed(resolved, capability);
        let schema = credentials.as_ref().and_then(|values| capability.credentials_schema.variant_of(values).ok());
        if schema.and_then(|schema| schema.login.as_ref()).is_some_and(|login| login.provider == form::PORTAL_LOGIN) {
            return Err(HostError::Login { source: source.id.clone() });
        }
        let redactor = credentials.as_ref().map_or_else(Redactor::default, |values| {
            // A field that no schema knows may be anything.
            let is_secret = |name: &str| {
                schema.and_then(|schema| schema.properties.get(name)).is_none_or(|property| property.write_only)
            };
            Redactor::of(values, is_secret)
        });
        let limits = sources.limits(source);
        let session = format!("{}:{}", self.shared.session, source.id);
        let meta = CallMeta {
            session: ConfigureParams {
                row_limit: limits.row_limit,
                cost_limit_usd: limits.cost_limit_usd,
                field_limit: limits.field_limit,
                tables: chosen_tables(source, capability),
                credentials: credentials.map(Some),
                config,
                default_resource_id: source.default_resource_id.clone().map(Some),
            },
            session_id: Some(session.clone()),
            conversation_id: Some(session),
            autocontext_blocks: source.autocontext_blocks.clone(),
            autocontext_delivered: (source.autocontext == Autocontext::Off).then_some(true),
            call_id: Some(format!("call-{}", self.shared.calls.fetch_add(1, Ordering::Relaxed))),
            ..CallMeta::default()
        };
        Ok((meta, redactor))
    }

    /// Stores what an answer holds, away from the tasks that serve others, and words what the model has to know.
    async fn keep(&self, source: Source, answered: Answered) -> Result<Outcome, HostError> {
        let (data, query_hint) = (self.data(), self.shared.options.query_hint.clone());
        stoppable(move |stop| {
            let Answered { server, windowed, answer } = answered;
            let now = ZonedDateTime::now();
            let asked = Asked { source: &source.id, template: windowed.template.as_ref(), now: &now, stop };
            let stored = if answer.is_extraction() { store::store(&data, &asked, &answer) } else { Ok(Vec::new()) };
            delete_files(&answer, &server.tmp);
            let stored = stored.map_err(HostError::Store)?;
            let mut notes = notes::of_stored(&answer, &stored, query_hint.as_deref());
            notes.extend(windowed.note);
            notes.extend(answer.meta.error.as_ref().and_then(|error| notes::of_error(error, &source.id)));
            // A path of another computer means nothing here.
            let has_files = server.local && !answer.is_error;
            let found = if has_files { artifacts::collect(answer.model_text, &data) } else { answer.model_text.into() };
            notes.extend(found.notes);
            Ok(Outcome {
                model_text: found.model_text,
                is_error: answer.is_error,
                error: answer.meta.error,
                blocks: found.blocks,
                notes,
                stored,
                info: Some(answer.meta.system_info),
            })
        })
        .await
    }
}

/// An answer that is not stored yet.
pub(crate) struct Answered {
    /// The server it came from.
    pub(crate) server: Arc<Running>,
    /// What was asked.
    pub(crate) windowed: Windowed,
    /// The answer, without secrets and with its dates resolved.
    pub(crate) answer: ToolAnswer,
}

impl Answered {
    /// Deletes the files of its tables.
    pub(crate) fn delete_files(&self) {
        delete_files(&self.answer, &self.server.tmp);
    }
}

/// Work that blocks, away from the tasks that serve others. When nobody waits for it any more, it is told to stop.
pub(crate) async fn stoppable<T: Send + 'static>(
    work: impl FnOnce(&AtomicBool) -> Result<T, HostError> + Send + 'static,
) -> Result<T, HostError> {
    let stop = StopOnDrop::default();
    let stopped = Arc::clone(&stop.0);
    blocking(move || work(&stopped)).await?
}

/// Tells a thread that writes to stop when the call it works for is gone.
#[derive(Default)]
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

async fn plain_call(
    server: &Running,
    tool: &str,
    arguments: JsonObject,
    on_progress: Option<OnProgress>,
) -> Result<Outcome, HostError> {
    let mut call = ToolCall::new(tool, arguments);
    if let Some(on_progress) = on_progress {
        call = call.on_progress(move |progress| on_progress(progress));
    }
    let failed = |error: ClientError| server_error(&server.package.manifest.id, &error);
    let answer = server.client.begin(call).await.map_err(failed)?.plain_answer().await.map_err(failed)?;
    let mut blocks = answer.content;
    let text = blocks.iter().position(|block| block["type"] == "text").map(|place| blocks.remove(place));
    let text = text.and_then(|block| block["text"].as_str().map(str::to_owned)).unwrap_or_default();
    Ok(Outcome {
        model_text: text,
        is_error: answer.is_error,
        error: None,
        blocks,
        notes: Vec::new(),
        stored: Vec::new(),
        info: None,
    })
}

/// The tables that a person chose for a source, with those that are always extracted (8.7).
fn chosen_tables(source: &Source, capability: &ServerCapability) -> Option<Vec<String>> {
    let (chosen, catalog) = (source.tables.as_ref()?, capability.table_catalog.as_ref()?);
    let required = catalog.iter().filter(|entry| entry.required == Some(true)).map(|entry| entry.name.clone());
    let mut tables: Vec<String> = required.collect();
    tables.extend(chosen.iter().filter(|name| !tables.contains(name)).cloned().collect::<Vec<_>>());
    Some(tables)
}

fn names_files(answer: &ToolAnswer) -> bool {
    let data = answer.meta.system_data.as_ref();
    data.is_some_and(|data| {
        data.table_uri.is_some() || data.tables.iter().flatten().any(|table| table.table_uri.is_some())
    })
}

/// Deletes the files of a table, also of one that could not be stored. Only those in the folder that the server was given.
fn delete_files(answer: &ToolAnswer, tmp: &Path) {
    let Some(data) = &answer.meta.system_data else { return };
    let parts = data.tables.iter().flatten().map(Table::of_table);
    for table in Table::of_data(data).into_iter().chain(parts) {
        // A file that can't be deleted goes with the folder when this host ends.
        let _ = table.delete_file(tmp);
    }
}

fn modified(package: &Package) -> Option<SystemTime> {
    std::fs::metadata(package.folder.join(MANIFEST)).and_then(|metadata| metadata.modified()).ok()
}

fn server_error(acp: &str, error: &ClientError) -> HostError {
    HostError::Server { acp: acp.to_owned(), problem: error.to_string() }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)
}
