//! The MCP server of a connector: answers `initialize`, `acp/configure`, `tools/list` and `tools/call`.
//!
//! One [`Server`] is one session. What sessions share, the connector and its memory, is in [`Shared`].

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use acp_protocol::capability::ClientCapability;
use acp_protocol::error::ErrorCode;
use acp_protocol::result::ResultKind;
use acp_protocol::{JsonObject, KEY, METHOD_CONFIGURE, TOOL_AUTOCONTEXT, TOOL_AUTOCONTEXT_DATA, compatible};
use futures::FutureExt;
use jiff::tz::TimeZone;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelledNotificationParam, CustomRequest, CustomResult,
    ElicitationCapability, ErrorData, ExperimentalCapabilities, Implementation, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ProtocolVersion, ServerCapabilities, ServerConfig, Tool,
    ToolAnnotations,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};

use crate::answer::{Cost, Delivered, Facts};
use crate::arguments::{InputSchema, RESOURCE_ID, TABLES};
use crate::audit::{self, Audit, AuditedCall};
use crate::autocontext;
use crate::cache::{DeliveryKey, Memory};
use crate::call::{Call, Progress, Reports, lock};
use crate::cleanup::Cleanup;
use crate::connector::{Connector, Resource};
use crate::credentials::Credentials;
use crate::error::{Error, Result};
use crate::host_tables::{self, Host};
use crate::outgoing::{self, Handover, Outbox, OutgoingTables};
use crate::revisions::Revisions;
use crate::session::{CallSettings, InForce, Settings};
use crate::spool::TableFiles;
use crate::table::{Keep, TableSettings};
use crate::tool::{Hints, Outcome, Run, ToolEntry};

/// How often a client that asked for progress hears of it.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);
/// A client that hears nothing this long may give up on a call.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// What the sessions of a process share.
pub(crate) struct Shared {
    /// Where calls are recorded, if at all.
    pub(crate) audit: Option<Audit>,
    /// The calls that run, and what those leave that end early.
    pub(crate) cleanup: Cleanup,
    connector: Connector,
    memory: Arc<Memory>,
    files: TableFiles,
    info: ServerConfig,
    revisions: Revisions,
    tools: Vec<Tool>,
    autocontext_input: InputSchema,
    autocontext_data_input: InputSchema,
}

/// One session.
#[derive(Clone)]
pub(crate) struct Server {
    shared: Arc<Shared>,
    settings: Arc<Mutex<Settings>>,
    outgoing: Arc<OutgoingTables>,
    /// How its client reaches it, as the audit log names it.
    transport: &'static str,
}

/// Folders that the host gave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Folders {
    /// `ACP_CACHE_DIR`.
    pub(crate) cache: Option<PathBuf>,
    /// `ACP_TMP_DIR`.
    pub(crate) tmp: Option<PathBuf>,
}

impl Shared {
    pub(crate) fn new(connector: Connector, folders: Folders) -> Self {
        let shared_place = folders.tmp.is_none();
        let directory = folders.tmp.unwrap_or_else(|| std::env::temp_dir().join("acp-results"));
        let autocontext_input = autocontext::input(&connector);
        let autocontext_data_input = autocontext::data_input(&connector);
        let mut tools: Vec<Tool> = connector.tools.iter().map(published).collect();
        let reserved = [
            (TOOL_AUTOCONTEXT, "Autocontext", &autocontext_input, Hints::READS_REMOTE),
            (TOOL_AUTOCONTEXT_DATA, "Autocontext blocks", &autocontext_data_input, Hints::READS_LOCAL),
        ];
        tools.extend(reserved.map(|(name, title, input, hints)| tool(name, title, &input.description, input, hints)));
        Self {
            audit: None,
            cleanup: Cleanup::default(),
            memory: Arc::new(Memory::new(connector.clock, folders.cache)),
            files: TableFiles { directory, shared_place, prefix: connector.about.name.to_owned() },
            info: server_info(&connector),
            revisions: Revisions::default(),
            tools,
            autocontext_input,
            autocontext_data_input,
            connector,
        }
    }

    /// Sets which revisions of MCP are announced.
    pub(crate) fn announce(&mut self, revisions: Revisions) {
        self.info.protocol_version = revisions.newest_with_sessions();
        self.revisions = revisions;
    }

    /// The tools as `tools/list` has them.
    pub(crate) fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// The connector.
    pub(crate) fn connector(&self) -> &Connector {
        &self.connector
    }

    /// What a tool takes, a reserved one too.
    pub(crate) fn input_of(&self, tool: &str) -> Option<&InputSchema> {
        match tool {
            TOOL_AUTOCONTEXT => Some(&self.autocontext_input),
            TOOL_AUTOCONTEXT_DATA => Some(&self.autocontext_data_input),
            _ => self.connector.tools.iter().find(|entry| entry.spec.name == tool).map(|entry| &entry.input),
        }
    }
}

fn server_info(connector: &Connector) -> ServerConfig {
    let about = &connector.about;
    let mut experimental = ExperimentalCapabilities::new();
    let capability = serde_json::to_value(connector.capability()).unwrap_or_default();
    experimental.insert(KEY.to_owned(), capability.as_object().cloned().unwrap_or_default());
    let capabilities = ServerCapabilities::builder().enable_experimental_with(experimental).enable_tools().build();
    ServerConfig::new(capabilities)
        .with_protocol_version(Revisions::default().newest_with_sessions())
        .with_server_info(Implementation::new(about.name, about.version).with_title(about.title))
        .with_instructions(about.instructions)
}

/// A tool of the connector as the model sees it, with the advice to call autocontext first.
fn published(entry: &ToolEntry) -> Tool {
    let mut description = entry.input.description.clone();
    if entry.extraction && entry.spec.resource {
        description.push_str(" Call autocontext for the resource_id first.");
    }
    tool(entry.spec.name, entry.spec.title, &description, &entry.input, entry.spec.hints)
}

fn tool(name: &str, title: &str, description: &str, input: &InputSchema, hints: Hints) -> Tool {
    Tool::new(name.to_owned(), description.to_owned(), input.schema.clone()).with_title(title).with_annotations(
        ToolAnnotations::new()
            .read_only(hints.read_only)
            .destructive(hints.destructive)
            .idempotent(hints.idempotent)
            .open_world(hints.open_world),
    )
}

/// What the client said about itself, as far as it counts: a client of another major version gets MCP alone.
#[derive(Clone, Debug, Default)]
struct Client {
    capability: Option<ClientCapability>,
    /// Whether the revision lets servers ask their clients anything.
    can_be_asked: bool,
    /// Whether it can ask a person.
    elicits: bool,
}

impl Client {
    fn of(context: &RequestContext<RoleServer>) -> Self {
        let capabilities = context.client_capabilities();
        let elicits = capabilities.as_ref().is_some_and(|capabilities| {
            let forms = |elicitation: &ElicitationCapability| elicitation.form.is_some() || elicitation.url.is_none();
            capabilities.elicitation.as_ref().is_some_and(forms)
        });
        let declared = capabilities.and_then(|capabilities| capabilities.experimental);
        let capability = declared
            .and_then(|experimental| experimental.get(KEY).cloned())
            .and_then(|acp| serde_json::from_value::<ClientCapability>(Value::Object(acp)).ok())
            .filter(|capability| compatible(&capability.version));
        Self { capability, can_be_asked: has_sessions(context), elicits }
    }

    fn host_tables(&self) -> bool {
        self.can_be_asked && self.capability.as_ref().and_then(|capability| capability.host_tables).unwrap_or(false)
    }

    fn multi_table(&self) -> bool {
        self.capability.as_ref().and_then(|capability| capability.multi_table).unwrap_or(false)
    }

    /// Who wants the whole table: a host that declared it, or that sent `_meta.acp` without declaring anything.
    fn keep(&self, meta: bool) -> Keep {
        match &self.capability {
            Some(capability) if capability.stores_system_data => Keep::Everything,
            Some(_) => Keep::Nothing,
            None if meta => Keep::Everything,
            None => Keep::Inline,
        }
    }
}

/// Whether a request belongs to a session: since 2026-07-28 MCP has none, and its servers send no requests.
fn has_sessions(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_none_or(|revision| revision.has_initialize())
}

/// A call that passed every check that needs no source.
struct Prepared {
    run: Run,
    call: Call,
    settings: CallSettings,
    multi_table: bool,
}

impl Server {
    /// A new session.
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, settings: Arc::default(), outgoing: Arc::default(), transport: "stdio" }
    }

    /// A new session of a transport that many share.
    pub(crate) fn in_outbox(shared: Arc<Shared>, outbox: Arc<Outbox>) -> Self {
        Self {
            shared,
            settings: Arc::default(),
            outgoing: Arc::new(OutgoingTables::in_outbox(outbox)),
            transport: "http",
        }
    }

    /// The tables of this session's answers, for the transport.
    pub(crate) fn outgoing_tables(&self) -> Arc<OutgoingTables> {
        self.outgoing.clone()
    }

    fn configure(&self, params: Option<Value>) -> Result<CustomResult, ErrorData> {
        let started = Instant::now();
        let about = &self.shared.connector.about;
        let catalogue = &self.shared.connector.catalogue;
        let fields = audit::field_names(params.as_ref(), about);
        // A connector's own code normalises the default resource.
        let settings = std::panic::catch_unwind(AssertUnwindSafe(|| self.read_settings(params)))
            .unwrap_or_else(|_| Err(ErrorData::internal_error(panicked().message().to_owned(), None)));
        let mut session = lock(&self.settings);
        let mut next = session.clone();
        let read = settings.map(|settings| next.merge(settings));
        let in_force = next.in_force(about, catalogue);
        if let Some(audit) = &self.shared.audit {
            audit
                .configured(&self.shared, self.transport, &fields, &in_force, read.as_ref().err(), started)
                .map_err(|error| protocol_error(&error))?;
        }
        read?;
        // Whatever can fail was done before the session changes.
        *session = next;
        let answer = in_force.configured(catalogue);
        Ok(CustomResult::new(serde_json::to_value(answer).unwrap_or_default()))
    }

    fn read_settings(&self, params: Option<Value>) -> Result<Settings, ErrorData> {
        let fields = match params {
            None | Some(Value::Null) => JsonObject::new(),
            Some(Value::Object(fields)) => fields,
            Some(_) => return Err(ErrorData::invalid_params("acp/configure takes an object.", None)),
        };
        let about = &self.shared.connector.about;
        let catalogue = &self.shared.connector.catalogue;
        let mut settings = Settings::read(&fields, about, catalogue).map_err(|error| protocol_error(&error))?;
        settings.check_credentials(about).map_err(|error| protocol_error(&error))?;
        settings.normalise_default(|id| self.shared.connector.source.resource(id).ok().map(|resource| resource.id));
        Ok(settings)
    }

    /// What is known about a call before anything of it is read.
    fn facts(&self, tool: &str) -> Facts {
        let connector = &self.shared.connector;
        Facts {
            server: connector.about.name,
            tool: tool.to_owned(),
            resource_id: None,
            arguments: JsonObject::new(),
            in_force: lock(&self.settings).in_force(&connector.about, &connector.catalogue),
            warnings: Vec::new(),
            started: Instant::now(),
            clock: connector.clock,
            cost: Cost::default(),
            running: None,
            mark: None,
        }
    }

    /// Answers a call. Whatever goes wrong inside, a panic too, is an error answer with complete `system_info`.
    async fn answer(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
        facts: &mut Facts,
    ) -> CallToolResult {
        let arguments = request.arguments.unwrap_or_default();
        let progress = Arc::default();
        let work = self.dispatch(&request.name, arguments, context, facts, &progress);
        let work = AssertUnwindSafe(self.watched(work, &progress, context));
        let outcome = work.catch_unwind().await.unwrap_or_else(|_| Err(panicked()));
        match outcome {
            Ok(answer) => answer,
            Err(error) => {
                facts.collect();
                tracing::debug!(tool = %facts.tool, code = error.code().code(), "the call failed");
                facts.error(&error)
            }
        }
    }

    /// The checks in their order: the tool, the limits, the arguments, host tables, the resource, credentials and
    /// settings. Then the work.
    async fn dispatch(
        &self,
        name: &str,
        arguments: JsonObject,
        context: &RequestContext<RoleServer>,
        facts: &mut Facts,
        progress: &Arc<Mutex<Progress>>,
    ) -> Result<CallToolResult> {
        let connector = &self.shared.connector;
        let about = &connector.about;
        let entry = connector.tools.iter().find(|tool| tool.spec.name == name);
        if entry.is_none() && name != TOOL_AUTOCONTEXT && name != TOOL_AUTOCONTEXT_DATA {
            return Err(self.unknown_tool());
        }
        let settings = CallSettings::read(context.meta.0.get(KEY), about, &connector.catalogue)?;
        facts.warnings.extend(settings.warnings.clone());
        let mut merged = lock(&self.settings).clone();
        merged.merge(settings.settings.clone());
        facts.in_force = merged.in_force(about, &connector.catalogue);
        match entry {
            None if name == TOOL_AUTOCONTEXT => self.autocontext(arguments, settings, facts).await,
            None => self.autocontext_data(arguments, facts),
            Some(entry) => {
                let mut prepared = self.prepare(entry, arguments, settings, context, facts)?;
                prepared.call.progress = progress.clone();
                self.resolve(&mut prepared.call, facts).await?;
                self.run(prepared, context, facts).await
            }
        }
    }

    fn unknown_tool(&self) -> Error {
        let names: Vec<&str> = self.shared.tools.iter().map(|tool| tool.name.as_ref()).collect();
        Error::invalid_arguments(format!("There is no tool of that name. The tools are: {}.", names.join(", ")))
    }

    fn prepare(
        &self,
        entry: &ToolEntry,
        mut arguments: JsonObject,
        settings: CallSettings,
        context: &RequestContext<RoleServer>,
        facts: &mut Facts,
    ) -> Result<Prepared> {
        let connector = &self.shared.connector;
        let about = &connector.about;
        arguments = entry.input.rename(arguments)?;
        let resource_id = if entry.spec.resource { take_resource_id(&mut arguments)? } else { None };
        let mut arguments = entry.input.check(arguments)?;
        facts.arguments.clone_from(&arguments);
        let asked = match connector.catalogue.argument(entry.spec.name) {
            Some(_) if entry.extraction => take_tables(&mut arguments),
            _ => None,
        };
        let link = entry.input.link(&arguments).map(str::to_owned);
        let run = entry.prepare(arguments.clone())?;
        let client = Client::of(context);
        if entry.input.reads_host_tables() && !client.host_tables() {
            return Err(host_tables::unsupported(client.can_be_asked));
        }
        let resource = match entry.spec.resource {
            true => Some(self.resource(resource_id.or(link), &facts.in_force)?),
            false => None,
        };
        facts.resource_id = resource.as_ref().map(|resource| resource.id.clone());
        if entry.spec.credentials && about.credentials.needed() {
            facts.in_force.usable_credentials(about)?;
        }
        facts.in_force.check_config(about)?;
        let mut call = self.call(resource, &facts.in_force);
        call.call_id.clone_from(&settings.call_id);
        call.asks = Some(context.peer.clone()).filter(|_| client.can_be_asked && client.elicits);
        call.conversation = settings.conversation_id.clone().or_else(|| settings.session_id.clone());
        call.tables.sampling = settings.sampling;
        call.tables.inline_max_bytes = settings.inline_max_bytes;
        call.tables.keep = client.keep(settings.present);
        call.tables.handover = Handover::of(&context.extensions);
        call.selection = connector
            .catalogue
            .select(asked.as_deref(), facts.in_force.tables.as_deref(), Some(entry.spec.name))
            .filter(|_| entry.extraction);
        if client.host_tables() {
            let any_file = !outgoing::over_http(&context.extensions);
            let (peer, tmp) = (context.peer.clone(), self.shared.files.directory.clone());
            let (call_id, patience) = (settings.call_id.clone(), connector.host_patience);
            call.host = Some(Host { peer, call_id, tmp, any_file, patience });
        }
        call.reports =
            Mutex::new(Reports { arguments, warnings: std::mem::take(&mut facts.warnings), cost: Cost::default() });
        let multi_table = client.multi_table();
        Ok(Prepared { run, call, settings, multi_table })
    }

    /// A call outside any session, with default settings.
    pub(crate) fn call_with(&self, credentials: Credentials, resource: Option<Resource>) -> Call {
        let connector = &self.shared.connector;
        let settings = Settings::default().in_force(&connector.about, &connector.catalogue);
        self.call(resource, &InForce { credentials: Some(credentials), ..settings })
    }

    fn call(&self, resource: Option<Resource>, in_force: &InForce) -> Call {
        Call {
            resource,
            credentials: in_force.credentials.clone(),
            config: in_force.config.clone(),
            clock: self.shared.connector.clock,
            tables: TableSettings {
                row_limit: in_force.row_limit,
                sampling: acp_protocol::session::Sampling::Head,
                inline_max_bytes: acp_protocol::INLINE_MAX_BYTES,
                keep: Keep::Nothing,
                files: self.shared.files.clone(),
                handover: Handover::File,
            },
            reports: Mutex::default(),
            progress: Arc::default(),
            cost_limit_usd: in_force.cost_limit_usd,
            selection: None,
            host: None,
            conversation: None,
            call_id: None,
            asks: None,
            cleanup: self.shared.cleanup.clone(),
        }
    }

    fn resource(&self, given: Option<String>, in_force: &InForce) -> Result<Resource> {
        let about = &self.shared.connector.about;
        let id = given.or_else(|| in_force.default_resource_id.clone()).ok_or_else(|| {
            Error::new(
                ErrorCode::ResourceRequired,
                format!(
                    "Missing resource_id ({}). Call autocontext without arguments to list the available resources.",
                    about.resource_id.format
                ),
            )
        })?;
        self.shared.connector.source.resource(&id)
    }

    /// Puts the resource that a call is really about into the call.
    async fn resolve(&self, call: &mut Call, facts: &mut Facts) -> Result<()> {
        let Some(resource) = call.resource.take() else { return Ok(()) };
        let resolved = self.shared.connector.source.resolve(call, &resource).await;
        let resolved = resolved.inspect_err(|_| facts.warnings.append(&mut lock(&call.reports).warnings))?;
        facts.resource_id = Some(resolved.id.clone());
        call.resource = Some(resolved);
        Ok(())
    }

    async fn run(
        &self,
        prepared: Prepared,
        context: &RequestContext<RoleServer>,
        facts: &mut Facts,
    ) -> Result<CallToolResult> {
        let Prepared { run, call, settings, multi_table } = prepared;
        let call = Arc::new(call);
        let connector = &self.shared.connector;
        facts.running = Some(call.clone());
        let outcome = run(call.clone()).await;
        let attached = match &outcome {
            Ok(Outcome::Extraction(_) | Outcome::Tables(_)) => {
                autocontext::attach(connector, &self.shared.memory, &call, &settings).await
            }
            _ => None,
        };
        facts.collect();
        let outcome = outcome?;
        if let Some(resource) = &call.resource {
            self.shared.memory.used(&call.identity(), &resource.id);
        }
        let today = connector.clock.today(&TimeZone::system());
        let handover = &call.tables.handover;
        let delivered = Delivered { tables: &self.outgoing, request: &context.id, handover };
        let selection = call.selection.as_ref();
        let (attached, mark) = attached.unzip();
        let answer = match outcome {
            Outcome::Info(value) => Ok(facts.plain(ResultKind::Info, &value, false)),
            Outcome::Extraction(extraction) => {
                facts.extraction(*extraction, today, attached, &delivered, None, selection)
            }
            Outcome::Tables(tables) if multi_table => facts.tables(*tables, selection, today, attached, &delivered),
            Outcome::Tables(tables) => {
                let empty = call.table(Vec::new())?;
                facts.main_table(*tables, selection, today, attached, &delivered, empty)
            }
        }?;
        facts.mark = mark;
        Ok(answer)
    }

    /// Works on a call while telling the client how far it is.
    async fn watched(
        &self,
        work: impl Future<Output = Result<CallToolResult>>,
        progress: &Mutex<Progress>,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult> {
        let mut work = std::pin::pin!(work);
        let token = context.meta.get_progress_token();
        let mut ticks = tokio::time::interval(PROGRESS_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut told, mut told_at) = (Progress::default(), Instant::now());
        loop {
            tokio::select! {
                biased;
                finished = &mut work => return finished,
                _ = ticks.tick(), if token.is_some() => {
                    let mut now = lock(progress).clone();
                    if now == told || now.done <= told.done {
                        if told_at.elapsed() < HEARTBEAT {
                            continue;
                        }
                        // Progress must grow with every message, also with one that only says that all is well.
                        now.done = told.done + 0.001;
                        now.message = "Still working.".to_owned();
                    }
                    if let Some(token) = token.clone() {
                        let mut param = ProgressNotificationParam::new(token, now.done);
                        param.total = now.total;
                        param.message = Some(now.message.clone());
                        let _ = context.peer.notify_progress(param).await;
                    }
                    (told, told_at) = (now, Instant::now());
                }
            }
        }
    }

    fn autocontext_data(&self, arguments: JsonObject, facts: &mut Facts) -> Result<CallToolResult> {
        let connector = &self.shared.connector;
        let mut arguments = self.shared.autocontext_data_input.rename(arguments)?;
        let resource = take_resource_id(&mut arguments)?.map(|id| connector.source.resource(&id)).transpose()?;
        facts.arguments = self.shared.autocontext_data_input.check(arguments)?;
        facts.resource_id = resource.as_ref().map(|resource| resource.id.clone());
        let descriptors = autocontext::descriptors(connector, resource.as_ref().map(|resource| resource.level));
        Ok(facts.plain(ResultKind::AutocontextData, &descriptors, false))
    }

    async fn autocontext(
        &self,
        arguments: JsonObject,
        settings: CallSettings,
        facts: &mut Facts,
    ) -> Result<CallToolResult> {
        let connector = &self.shared.connector;
        let input = &self.shared.autocontext_input;
        let mut arguments = input.rename(arguments)?;
        let wanted = autocontext::requested(connector, &arguments)?;
        let resource_id = take_resource_id(&mut arguments)?;
        let arguments = input.check(arguments)?;
        let resource = resource_id.map(|id| connector.source.resource(&id)).transpose()?;
        facts.resource_id = resource.as_ref().map(|resource| resource.id.clone());
        facts.arguments.clone_from(&arguments);
        let query = arguments.get("query").and_then(Value::as_str).filter(|query| !query.is_empty());
        if connector.has_resources() && connector.about.credentials.needed() {
            facts.in_force.usable_credentials(&connector.about)?;
        }
        facts.in_force.check_config(&connector.about)?;
        let mut call = self.call(resource, &facts.in_force);
        self.resolve(&mut call, facts).await?;
        facts.warnings.append(&mut lock(&call.reports).warnings);
        let call = Arc::new(call);
        let Some(resource) = call.resource.clone() else {
            if !wanted.is_empty() {
                facts.warnings.push("request_data was ignored, because no resource_id was given.".to_owned());
            }
            let default = facts.in_force.default_resource_id.clone();
            let (list, cached) =
                autocontext::list(connector, &self.shared.memory, &call, default.as_deref(), query).await?;
            return Ok(facts.plain(ResultKind::Autocontext, &list, cached));
        };
        if query.is_some() {
            facts.warnings.push("query was ignored, because a resource_id was given.".to_owned());
        }
        let delivery = autocontext::read(connector, &self.shared.memory, &call, &wanted).await?;
        facts.warnings.extend(delivery.warnings);
        if let Some(session) = settings.session_id {
            self.shared.memory.mark_delivered(DeliveryKey {
                identity: call.identity(),
                session,
                resource: resource.id,
            });
        }
        Ok(facts.plain(ResultKind::Autocontext, &delivery.blocks, delivery.cached))
    }
}

/// Takes the selection of tables out of the arguments.
fn take_tables(arguments: &mut JsonObject) -> Option<Vec<String>> {
    let names = arguments.shift_remove(TABLES)?;
    Some(names.as_array()?.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

/// The error for code that panicked.
pub(crate) fn panicked() -> Error {
    Error::upstream(
        "The connector failed unexpectedly and goes on. Run the call again; if it happens again, report it.",
    )
}

/// Takes `resource_id` out of the arguments; empty and `null` are none.
fn take_resource_id(arguments: &mut JsonObject) -> Result<Option<String>> {
    match arguments.shift_remove(RESOURCE_ID) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(id)) => Ok(Some(id.trim().to_owned()).filter(|id| !id.is_empty())),
        Some(_) => Err(Error::invalid_arguments("The argument resource_id must be a string.")),
    }
}

fn protocol_error(error: &Error) -> ErrorData {
    let mut data = error.data().cloned().unwrap_or_default();
    data.insert("name".to_owned(), json!(error.code().name()));
    ErrorData::new(rmcp::model::ErrorCode(error.code().code()), error.message().to_owned(), Some(data.into()))
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        self.shared.info.clone()
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(self.shared.revisions.all())
    }

    async fn list_tools(
        &self,
        params: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        if params.is_some_and(|params| params.cursor.is_some()) {
            return Err(ErrorData::invalid_params("There is no such page: tools/list has one.", None));
        }
        Ok(ListToolsResult::with_all_items(self.shared.tools.clone()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.shared.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        match request.method.as_str() {
            METHOD_CONFIGURE if !has_sessions(&context) => Err(ErrorData::new(
                rmcp::model::ErrorCode::METHOD_NOT_FOUND,
                "acp/configure needs a session, and this revision of MCP has none. Send the same fields in _meta.acp of every call, or connect with initialize.",
                None,
            )),
            METHOD_CONFIGURE => self.configure(request.params),
            // Methods that MCP knows arrive here when their params can't be read.
            known if MCP_METHODS.contains(&known) && (has_sessions(&context) || !known_from_sessions(known)) => {
                Err(ErrorData::invalid_params(
                    format!("The params of {known} do not have the form that MCP asks for."),
                    None,
                ))
            }
            _ => Err(ErrorData::new(rmcp::model::ErrorCode::METHOD_NOT_FOUND, "Method not found", None)),
        }
    }

    async fn on_cancelled(&self, cancelled: CancelledNotificationParam, _: NotificationContext<RoleServer>) {
        if let Some(request) = cancelled.request_id {
            self.outgoing.forget(&request);
        }
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let cancelled = context.ct.clone();
        let _running = self.shared.cleanup.running();
        // A client that asks for a revision that is not announced gets another one.
        let revision = context.protocol_version().filter(|asked| self.supported_protocol_versions().contains(asked));
        let revision = revision.as_ref().map(|revision| revision.as_str());
        let facts = self.facts(&request.name);
        let mut call = AuditedCall::new(&self.shared, self.transport, revision, &context.meta, facts);
        // In the handler's own task: requests to the client find their stream only from there. Dropping the work is
        // what stops it, since the library only discards the answer.
        let answer = tokio::select! {
            answer = self.answer(request, &context, &mut call.facts) => answer,
            () = cancelled.cancelled() => {
                tracing::debug!(tool = %call.facts.tool, "the call was cancelled");
                return Err(ErrorData::internal_error("The call was cancelled.", None));
            }
            () = self.shared.cleanup.ending() => {
                return Err(ErrorData::internal_error("The server ends.", None));
            }
        };
        if cancelled.is_cancelled() {
            self.outgoing.forget(&context.id);
            return Ok(answer.into());
        }
        if let Err(error) = call.answered(&answer) {
            self.outgoing.forget(&context.id);
            return Ok(call.facts.error(&error).into());
        }
        if let Some(mark) = call.facts.mark.take() {
            mark.keep();
        }
        Ok(answer.into())
    }
}

/// Whether 2026-07-28 took a method out.
fn known_from_sessions(method: &str) -> bool {
    matches!(method, "initialize" | "ping" | "logging/setLevel")
}

/// Requests of MCP revisions that this server speaks.
pub(crate) const MCP_METHODS: [&str; 7] =
    ["initialize", "ping", "server/discover", "tools/list", "tools/call", "logging/setLevel", "completion/complete"];
