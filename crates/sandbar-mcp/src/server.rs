//! Handlers of the MCP methods.

use rmcp::{
    RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestMethod, CallToolRequestParams, CallToolResponse,
        CompleteRequestMethod, CompleteRequestParams, CompleteResult, ConstString, CustomRequest,
        CustomResult, DiscoverResult, ErrorCode, ErrorData, Implementation,
        ListPromptsRequestMethod, ListPromptsResult, ListResourceTemplatesRequestMethod,
        ListResourceTemplatesResult, ListResourcesRequestMethod, ListResourcesResult,
        ListToolsResult, MetaObject, PaginatedRequestParams, ProtocolVersion, ServerCapabilities,
        ServerConfig, ToolsCapability,
    },
    service::RequestContext,
};
use sandbar_client::Client;
use sandbar_core::Error;
use serde_json::json;

use crate::{
    call_id::{McpSession, call_id},
    ports::PortNames,
    progress::Progress,
    sandboxes::DefaultSandbox,
    tools::{Call, Catalogue},
    version::{is_stateless, spoken},
};

/// Time that clients may cache responses which do not change while the host runs.
const CACHE_TTL_MS: u64 = 300_000;

const INSTRUCTIONS: &str = "Sandboxes are isolated Linux environments to run commands and edit files in. Paths are paths inside the \
sandbox; relative paths start at /workspace. Take a snapshot before a risky change, and roll back if it fails.";

/// MCP server of one host, for one caller.
#[derive(Clone, Debug)]
pub struct McpServer {
    client: Client,
    default: DefaultSandbox,
    ports: PortNames,
    catalogue: Catalogue,
    mcp_session: Option<McpSession>,
    sends_progress: bool,
}

impl McpServer {
    /// Returns a server that calls the host through `client`, with the permissions of its token.
    pub fn new(client: Client, default: DefaultSandbox, ports: PortNames) -> Self {
        Self {
            client,
            default,
            ports,
            catalogue: Catalogue::default(),
            mcp_session: Some(McpSession::new()),
            sends_progress: true,
        }
    }

    /// Shares the cached list of the host's tools with other servers.
    pub(crate) fn with_catalogue(mut self, catalogue: &Catalogue) -> Self {
        self.catalogue = catalogue.clone();
        self
    }

    /// Sets the MCP session of the request; `None` for a request outside of a session.
    pub(crate) fn with_session(mut self, mcp_session: Option<McpSession>) -> Self {
        self.mcp_session = mcp_session;
        self
    }

    /// Disables progress notifications, for a client that accepts only the response.
    pub(crate) fn without_progress(mut self) -> Self {
        self.sends_progress = false;
        self
    }

    fn instructions(&self) -> String {
        let fork = if self.default.only_one().is_none() {
            " Fork a sandbox to try several approaches in parallel."
        } else {
            ""
        };
        let sandbox = if self.default.is_nothing() {
            "Create a sandbox with sandbox_create and pass its id as `sandbox` to every other tool."
                .to_owned()
        } else {
            format!("Parameter `sandbox` of a tool: {}", self.default.explain())
        };
        format!("{INSTRUCTIONS}{fork} {sandbox}")
    }
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let mut tools = ToolsCapability::default();
        tools.list_changed = Some(false);
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = Some(tools);
        let mut info = ServerConfig::new(capabilities).with_instructions(self.instructions());
        info.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        info.server_info = identity();
        info
    }

    async fn discover(
        &self,
        _context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, ErrorData> {
        let versions = self.supported_protocol_versions().into_owned();
        let mut found = DiscoverResult::from_server_info(versions, self.get_info());
        found.ttl_ms = CACHE_TTL_MS;
        found.cache_scope = CacheScope::Private;
        Ok(found)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let version = spoken(&context);
        let tools = self
            .catalogue
            .list(&self.client, &version, &self.default)
            .await;
        let mut listed =
            ListToolsResult::with_all_items(tools.map_err(|error| internal_error(&error))?);
        if is_stateless(&version) {
            listed.ttl_ms = Some(CACHE_TTL_MS);
            listed.cache_scope = Some(CacheScope::Private);
        }
        Ok(listed)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let version = spoken(&context);
        let id = call_id(&request, &context, &version, self.mcp_session.as_ref())
            .map_err(|error| ErrorData::invalid_params(error.message().to_owned(), None))?;
        let token = context
            .meta
            .get_progress_token()
            .filter(|_| self.sends_progress);
        let call = Call {
            client: &self.client,
            default: &self.default,
            ports: &self.ports,
            id,
            arguments: request.arguments.unwrap_or_default(),
            progress: token.map(|token| Progress::new(token, &version, context.peer.clone())),
        };
        let work = self.catalogue.call(&request.name, call);
        // Cancellation ends the command. `rmcp` sends no response to a cancelled request, so this
        // error is not sent either.
        let Some(answer) = context.ct.run_until_cancelled(work).await else {
            return Err(ErrorData::internal_error("request was cancelled", None));
        };
        let mut result = answer?.into_result(&version);
        if is_stateless(&version) {
            let meta = result.meta.get_or_insert_with(MetaObject::new);
            meta.insert(
                "io.modelcontextprotocol/serverInfo".into(),
                json!(identity()),
            );
        }
        Ok(result.into())
    }

    /// Handles requests of an unknown method or with invalid parameters.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method;
        if method == CallToolRequestMethod::VALUE {
            let message = "`name` of the tool is not a string, or `arguments` is not an object";
            return Err(ErrorData::invalid_params(message, None));
        }
        let message = format!("method `{}` not found", method.escape_debug());
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None))
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourcesRequestMethod>())
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Err(ErrorData::method_not_found::<
            ListResourceTemplatesRequestMethod,
        >())
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }
}

fn identity() -> Implementation {
    Implementation::new("sandbar", env!("CARGO_PKG_VERSION")).with_title("Sandbar")
}

/// Maps an error that is no fault of the request.
fn internal_error(error: &Error) -> ErrorData {
    let mut message = error.chain();
    if let Some(hint) = error.hint() {
        message.push_str("; ");
        message.push_str(hint);
    }
    ErrorData::internal_error(message, Some(json!({"code": error.code().as_str()})))
}
