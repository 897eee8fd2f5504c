//! A connector, declared in one place: what it says about itself, its resources, its blocks and its tools.

use std::sync::Arc;
use std::time::Duration;

use acp_protocol::autocontext::{BlockDescriptor, ResourceSummary, is_block_id};
use acp_protocol::capability::{
    AutocontextDelivery, AutocontextInfo, CostInfo, CostModel, Defaults, ResourceIdInfo, ServerCapability,
    TableCatalogEntry,
};
use acp_protocol::setup::{CredentialsSchema, SetupSchema};
use acp_protocol::{ANNOTATION_URL, PROTOCOL_VERSION, TOOL_AUTOCONTEXT, TOOL_AUTOCONTEXT_DATA};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::arguments::{RESOURCE_ID, TABLES};
use crate::call::Call;
use crate::check::Steps;
use crate::clock::Clock;
use crate::error::Result;
use crate::tables::Catalogue;
use crate::tool::{Answer, Tool, ToolEntry};

/// How long a host may take to hand over a table.
const HOST_PATIENCE: Duration = Duration::from_secs(60);

/// What a connector publishes about itself (4.2).
#[derive(Clone, Debug)]
pub struct About {
    /// `serverInfo.name`, also the package id.
    pub name: &'static str,
    /// Name for people.
    pub title: &'static str,
    /// Semantic version.
    pub version: &'static str,
    /// What a model should know first, under 2 KB.
    pub instructions: &'static str,
    /// Rows the model sees unless the host says otherwise.
    pub row_limit: u32,
    /// The most a call may cost in USD unless the host says otherwise; 0 where the source is free.
    pub cost_limit_usd: f64,
    /// The form of the credentials.
    pub credentials: CredentialsSchema,
    /// The form of the settings.
    pub config: Option<SetupSchema>,
    /// What a resource is.
    pub resource_id: ResourceIdInfo,
    /// URL patterns of a resource, so that a pasted link works as `resource_id` (8.11).
    pub resource_urls: &'static [&'static str],
    /// How long a block is kept unless it says otherwise.
    pub cache_ttl: Duration,
    /// How autocontext can be delivered.
    pub delivery: &'static [AutocontextDelivery],
    /// How the source charges.
    pub cost_model: CostModel,
    /// How a cost comes about.
    pub cost_description: &'static str,
}

impl About {
    /// Every way to deliver autocontext, for connectors that have blocks (7.5).
    pub const EVERY_DELIVERY: &[AutocontextDelivery] =
        &[AutocontextDelivery::Inject, AutocontextDelivery::Suggest, AutocontextDelivery::OnFirstCall];
}

/// A resource a call works on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resource {
    /// The id in its normal form.
    pub id: String,
    /// Its level, for sources with several, such as `dataset` and `table`. Blocks apply to levels.
    pub level: &'static str,
}

/// Where data come from: what the core can't know.
pub trait Source: Send + Sync + 'static {
    /// Normalises a `resource_id`: variants, quotes, links. An id that can't be one is
    /// [`Error::resource_not_found`](crate::Error::resource_not_found), with the expected format.
    fn resource(&self, id: &str) -> Result<Resource>;

    /// The resource that a call is really about, once its credentials are known: for sources where a name in its normal form
    /// can stand for something else, such as a page for the site it belongs to. It runs before tools and blocks do. Unless
    /// a source says otherwise, a name stands for itself.
    fn resolve(&self, call: &Call, resource: &Resource) -> impl Future<Output = Result<Resource>> + Send {
        let _ = call;
        std::future::ready(Ok(resource.clone()))
    }

    /// Every resource these credentials reach, in the source's order.
    fn resources(&self, call: &Call) -> impl Future<Output = Result<Vec<ResourceSummary>>> + Send;

    /// Tries the credentials of the call out for the command `check`: one step for each reason why calls fail, with its
    /// fix. The call has no resource. Without steps of its own a source is known by its list of resources, which `check`
    /// asks for afterwards.
    fn check(&self, call: &Call, steps: &mut Steps) -> impl Future<Output = ()> + Send {
        let _ = (call, steps);
        std::future::ready(())
    }

    /// Reads something small of the call's resource, to prove that it can be read, and says what was found.
    fn see(&self, call: &Call) -> impl Future<Output = Result<String>> + Send {
        std::future::ready(call.resource().map(|resource| format!("{} is a resource of this source", resource.id)))
    }
}

/// An autocontext block: something a model should know about a resource before it asks for data (7.1).
pub(crate) struct Block {
    pub(crate) descriptor: BlockDescriptor,
    pub(crate) ttl: Option<Duration>,
    pub(crate) read: ReadBlock,
}

type ReadBlock = Box<dyn Fn(Arc<Call>) -> BoxFuture<'static, Result<BlockData>> + Send + Sync>;

/// What a block holds. JSON is whole; what has parts that could not be read is delivered and not kept.
#[derive(Debug)]
pub struct BlockData {
    pub(crate) data: Value,
    pub(crate) is_whole: bool,
}

impl BlockData {
    /// Data of which parts are missing because they could not be read: the next one who asks reads them again.
    pub fn partial(data: Value) -> Self {
        Self { data, is_whole: false }
    }
}

impl From<Value> for BlockData {
    fn from(data: Value) -> Self {
        Self { data, is_whole: true }
    }
}

/// Builds a [`Connector`].
pub struct Builder<S> {
    source: Arc<S>,
    about: About,
    blocks: Vec<Block>,
    tools: Vec<ToolEntry>,
    clock: Clock,
    catalogue: Catalogue,
    host_patience: Duration,
}

/// A connector, ready to serve.
pub struct Connector {
    pub(crate) about: About,
    pub(crate) source: Box<dyn AnySource>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) tools: Vec<ToolEntry>,
    pub(crate) clock: Clock,
    pub(crate) catalogue: Catalogue,
    pub(crate) host_patience: Duration,
}

impl Connector {
    /// Starts a declaration.
    pub fn builder<S: Source>(about: About, source: S) -> Builder<S> {
        Builder {
            source: Arc::new(source),
            about,
            blocks: Vec::new(),
            tools: Vec::new(),
            clock: Clock::System,
            catalogue: Catalogue::default(),
            host_patience: HOST_PATIENCE,
        }
    }

    /// The capability published in `initialize` (4.2).
    pub fn capability(&self) -> ServerCapability {
        let about = &self.about;
        ServerCapability {
            version: PROTOCOL_VERSION.to_owned(),
            defaults: Defaults {
                row_limit: about.row_limit,
                cost_limit_usd: about.cost_limit_usd,
                field_limit: self.catalogue.field_limit,
                tables: self.catalogue.defaults.clone(),
            },
            credentials_schema: about.credentials.clone(),
            config_schema: about.config.clone(),
            resource_id: about.resource_id.clone(),
            autocontext: AutocontextInfo { cache_ttl_s: about.cache_ttl.as_secs(), delivery: about.delivery.to_vec() },
            cost: CostInfo {
                currency: "USD".to_owned(),
                model: about.cost_model,
                description: about.cost_description.to_owned(),
            },
            extraction_tools: self
                .tools
                .iter()
                .filter(|tool| tool.extraction)
                .map(|tool| tool.spec.name.to_owned())
                .collect(),
            table_catalog: Some(self.catalogue.entries.clone()).filter(|entries| !entries.is_empty()),
        }
    }

    /// The same connector with these tools alone, in the order of the declaration; no names are all of them. The reserved
    /// tools can be named and stay in any case. The error says what can be named.
    pub(crate) fn only(mut self, names: &[String]) -> Result<Self, String> {
        if names.is_empty() {
            return Ok(self);
        }
        let known: Vec<&str> = self.tools.iter().map(|tool| tool.spec.name).collect();
        let listed = known.join(", ");
        let reserved = [TOOL_AUTOCONTEXT, TOOL_AUTOCONTEXT_DATA];
        if let Some(unknown) = names.iter().find(|name| !known.iter().chain(&reserved).any(|known| known == name)) {
            return Err(format!("--tools: there is no tool {unknown:?}. The tools are: {listed}."));
        }
        self.tools.retain(|tool| names.iter().any(|name| name == tool.spec.name));
        if self.tools.is_empty() {
            return Err(format!(
                "--tools: name at least one of {listed}. {} are always there.",
                reserved.join(" and ")
            ));
        }
        let extracting = self.tools.iter().filter(|tool| tool.extraction).map(|tool| tool.spec.name);
        self.catalogue.keep_tools(&extracting.collect::<Vec<_>>());
        Ok(self)
    }

    /// Whether the source has resources at all; without, `resource_id.format` is `none` (6.1).
    pub(crate) fn has_resources(&self) -> bool {
        self.about.resource_id.format != "none"
    }
}

impl<S: Source> Builder<S> {
    /// Adds a tool. The first that extracts is the default tool (4.2).
    ///
    /// It panics where the declaration is wrong: a reserved name, a name that is taken, or hints that contradict what the
    /// tool is (see [`Hints`](crate::Hints)).
    #[must_use]
    pub fn tool<T: Tool<Source = S>>(mut self) -> Self {
        let name = T::SPEC.name;
        assert!(name != TOOL_AUTOCONTEXT && name != TOOL_AUTOCONTEXT_DATA, "the tool name {name} is reserved");
        assert!(self.tools.iter().all(|tool| tool.spec.name != name), "two tools are called {name}");
        let tool = ToolEntry::of::<T>(self.source.clone());
        assert!(
            !T::SPEC.resource || !tool.input.properties().contains_key(RESOURCE_ID),
            "{name} has a field {RESOURCE_ID}; the core adds that argument, see Call::resource"
        );
        if let Some(contradiction) = T::SPEC.hints.contradiction(T::Answer::EXTRACTION) {
            panic!("the tool {name} {contradiction}");
        }
        self.tools.push(tool);
        self
    }

    /// Adds a block that exists for every resource. `description` says what it holds.
    #[must_use]
    pub fn block<F, Fut, D>(self, id: &str, description: &str, read: F) -> Self
    where
        F: Fn(Arc<S>, Arc<Call>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<D>> + Send + 'static,
        D: Into<BlockData>,
    {
        self.block_for(id, description, &[], None, read)
    }

    /// Adds a block that exists for some levels only (none: all), and that is kept for its own time (`None`: the
    /// connector's).
    #[must_use]
    pub fn block_for<F, Fut, D>(
        mut self,
        id: &str,
        description: &str,
        levels: &[&str],
        ttl: Option<Duration>,
        read: F,
    ) -> Self
    where
        F: Fn(Arc<S>, Arc<Call>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<D>> + Send + 'static,
        D: Into<BlockData>,
    {
        assert!(self.blocks.iter().all(|block| block.descriptor.id != id), "two blocks are called {id}");
        assert!(is_block_id(id), "the block id {id} must be lowercase words joined by _");
        let applies_to = (!levels.is_empty()).then(|| levels.iter().map(ToString::to_string).collect());
        let source = self.source.clone();
        let descriptor = BlockDescriptor { id: id.to_owned(), description: description.to_owned(), applies_to };
        let read = move |call| -> BoxFuture<'static, Result<BlockData>> {
            let data = read(source.clone(), call);
            Box::pin(async move { Ok(data.await?.into()) })
        };
        self.blocks.push(Block { descriptor, ttl, read: Box::new(read) });
        self
    }

    /// Declares the fields per row that the model sees of tables with a view: a sign to hosts that the connector has
    /// such tables (4.2).
    #[must_use]
    pub fn field_limit(mut self, fields: u32) -> Self {
        self.catalogue.field_limit = Some(fields);
        self
    }

    /// Declares the tables that tools of several tables can make, and which of them are extracted when nobody asks for
    /// others (`None`: all). The tools get the argument `tables` (8.7).
    #[must_use]
    pub fn table_catalog(mut self, entries: Vec<TableCatalogEntry>, defaults: Option<Vec<String>>) -> Self {
        self.catalogue.entries = entries;
        self.catalogue.defaults = defaults;
        self
    }

    /// How long a host may take to hand over a table; a minute where nothing is said.
    #[must_use]
    pub fn host_patience(mut self, patience: Duration) -> Self {
        self.host_patience = patience;
        self
    }

    /// Replaces the machine's clock.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Ends the declaration.
    pub fn build(self) -> Connector {
        let Self { source, about, blocks, mut tools, clock, catalogue, host_patience } = self;
        for tool in tools.iter_mut().filter(|tool| tool.spec.resource) {
            tool.input.add_first(RESOURCE_ID, resource_argument(&about));
        }
        let extraction_tools: Vec<&str> =
            tools.iter().filter(|tool| tool.extraction).map(|tool| tool.spec.name).collect();
        catalogue.assert_valid(&extraction_tools);
        for tool in tools.iter_mut().filter(|tool| tool.extraction) {
            if let Some(argument) = catalogue.argument(tool.spec.name) {
                let own = tool.input.properties().contains_key(TABLES);
                assert!(!own, "the argument {TABLES} of {} is the catalogue's", tool.spec.name);
                tool.input.add_first(TABLES, argument);
            }
        }
        Connector { about, source: Box::new(source), blocks, tools, clock, catalogue, host_patience }
    }
}

/// The argument `resource_id`, as every tool that needs a resource publishes it (6.2).
fn resource_argument(about: &About) -> Value {
    let description = about.resource_id.description.trim_end_matches('.');
    let mut argument = json!({"type": "string", "description": format!("{description}. Omit for the default.")});
    if !about.resource_urls.is_empty() {
        argument[ANNOTATION_URL] = json!(about.resource_urls);
    }
    argument
}

impl Block {
    /// Whether the block exists for a resource of this level.
    pub(crate) fn applies_to(&self, level: &str) -> bool {
        self.descriptor.applies_to.as_ref().is_none_or(|levels| levels.iter().any(|known| known == level))
    }
}

/// A [`Source`] whose type is no longer known.
pub(crate) trait AnySource: Send + Sync {
    fn resource(&self, id: &str) -> Result<Resource>;
    fn resolve<'a>(&'a self, call: &'a Call, resource: &'a Resource) -> BoxFuture<'a, Result<Resource>>;
    fn resources(&self, call: Arc<Call>) -> BoxFuture<'static, Result<Vec<ResourceSummary>>>;
    fn check<'a>(&'a self, call: &'a Call, steps: &'a mut Steps) -> BoxFuture<'a, ()>;
    fn see<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<String>>;
}

impl<S: Source> AnySource for Arc<S> {
    fn resource(&self, id: &str) -> Result<Resource> {
        S::resource(self, id)
    }

    fn resolve<'a>(&'a self, call: &'a Call, resource: &'a Resource) -> BoxFuture<'a, Result<Resource>> {
        Box::pin(S::resolve(self, call, resource))
    }

    fn resources(&self, call: Arc<Call>) -> BoxFuture<'static, Result<Vec<ResourceSummary>>> {
        let source = self.clone();
        Box::pin(async move { S::resources(&source, &call).await })
    }

    fn check<'a>(&'a self, call: &'a Call, steps: &'a mut Steps) -> BoxFuture<'a, ()> {
        Box::pin(S::check(self, call, steps))
    }

    fn see<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<String>> {
        Box::pin(S::see(self, call))
    }
}
