//! What is answered to which method.

use sandbar_client::Client;
use sandbar_core::Error;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{
    call_id::{Conversation, call_id},
    jsonrpc::{Fault, Params, Request},
    meta::Meta,
    ports::PortNames,
    progress::Progress,
    sandboxes::DefaultSandbox,
    tools::{Call, Catalogue},
    version::Version,
};

/// How long clients may keep what does not change while the host runs.
const FRESH: u64 = 300_000;

const INSTRUCTIONS: &str = "Sandboxes: machines of their own to run commands and edit files in. Paths are those inside the \
sandbox; relative ones start at /workspace. Take a snapshot before something risky and roll back when it went wrong.";

/// The MCP server of one host, for one caller.
#[derive(Clone, Debug)]
pub struct McpServer {
    client: Client,
    default: DefaultSandbox,
    ports: PortNames,
    catalogue: Catalogue,
}

/// How a request reached us.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting<'a> {
    /// What is spoken where a request does not say itself.
    pub(crate) version: Version,
    pub(crate) conversation: Option<&'a Conversation>,
    /// Where notifications can go before the answer.
    pub(crate) outgoing: Option<&'a mpsc::Sender<Value>>,
}

impl McpServer {
    /// A server that does everything through `client`, and so what its token allows.
    pub fn new(client: Client, default: DefaultSandbox, ports: PortNames) -> Self {
        Self { client, default, ports, catalogue: Catalogue::default() }
    }

    /// The same for another caller, with what is known of the host's tools.
    pub(crate) fn sharing(mut self, catalogue: &Catalogue) -> Self {
        self.catalogue = catalogue.clone();
        self
    }

    /// The answer to a request. Dropping this ends what it started.
    pub(crate) async fn respond(&self, request: &Request, setting: Setting<'_>) -> Result<Value, Fault> {
        let meta = Meta::read(&request.params)?;
        let version = meta.version.unwrap_or(setting.version);
        let result = match request.method.as_str() {
            "initialize" if !version.is_stateless() => Ok(self.greet(&request.params)),
            // Nothing is logged to clients, whatever the level.
            "ping" | "logging/setLevel" if !version.is_stateless() => Ok(json!({})),
            "server/discover" if version.is_stateless() => Ok(self.introduce()),
            "tools/list" => self.list_tools(version).await,
            "tools/call" => self.call_tool(request, meta, version, setting).await,
            other => {
                let message = format!("there is no method `{}`", other.escape_debug());
                Err(Fault::new(Fault::METHOD_NOT_FOUND, message))
            }
        };
        result.map(|result| sign(result, version))
    }

    /// The version a handshake ends at.
    pub(crate) fn handshake(params: &Params) -> Version {
        Version::by_handshake(params.get("protocolVersion").and_then(Value::as_str).unwrap_or_default())
    }

    fn greet(&self, params: &Params) -> Value {
        json!({
            "protocolVersion": Self::handshake(params).as_str(),
            "capabilities": capabilities(),
            "serverInfo": identity(),
            "instructions": self.instructions(),
        })
    }

    fn introduce(&self) -> Value {
        json!({
            "supportedVersions": Version::ALL.map(Version::as_str),
            "capabilities": capabilities(),
            "instructions": self.instructions(),
            "ttlMs": FRESH,
            "cacheScope": "private",
        })
    }

    fn instructions(&self) -> String {
        let fork = if self.default.only_one().is_none() { " Fork to try several ways at once." } else { "" };
        let sandbox = if self.default.is_nothing() {
            "Make a sandbox with sandbox_create and pass its id as `sandbox` to every other tool.".to_owned()
        } else {
            format!("`sandbox` of a tool: {}", self.default.explain())
        };
        format!("{INSTRUCTIONS}{fork} {sandbox}")
    }

    async fn list_tools(&self, version: Version) -> Result<Value, Fault> {
        let tools = self.catalogue.list(&self.client, version, &self.default).await.map_err(|error| broken(&error))?;
        let mut listed = json!({"tools": tools});
        if version.is_stateless() {
            listed["ttlMs"] = FRESH.into();
            listed["cacheScope"] = "private".into();
        }
        Ok(listed)
    }

    async fn call_tool(
        &self,
        request: &Request,
        meta: Meta,
        version: Version,
        setting: Setting<'_>,
    ) -> Result<Value, Fault> {
        let Some(Value::String(name)) = request.params.get("name") else {
            return Err(Fault::invalid_params("`name` of the tool is missing, or not a string"));
        };
        let arguments = match request.params.get("arguments") {
            None | Some(Value::Null) => Params::new(),
            Some(Value::Object(arguments)) => arguments.clone(),
            Some(_) => return Err(Fault::invalid_params("`arguments` is not an object")),
        };
        let call = Call {
            client: &self.client,
            default: &self.default,
            ports: &self.ports,
            id: call_id(request, &meta, version, setting.conversation).map_err(|error| broken(&error))?,
            arguments,
            progress: meta
                .progress_token
                .zip(setting.outgoing)
                .map(|(token, outgoing)| Progress::new(token, version, outgoing.clone())),
        };
        Ok(self.catalogue.call(name, call).await?.to_json(version))
    }
}

fn capabilities() -> Value {
    json!({"tools": {"listChanged": false}})
}

fn identity() -> Value {
    json!({"name": "sandbar", "title": "Sandbar", "version": env!("CARGO_PKG_VERSION")})
}

/// Says whose answer it is and that it is whole, where the version wants that said each time.
fn sign(mut result: Value, version: Version) -> Value {
    if version.is_stateless() {
        result["resultType"] = "complete".into();
        result["_meta"]["io.modelcontextprotocol/serverInfo"] = identity();
    }
    result
}

/// Something went wrong that no other request of the caller would have avoided.
fn broken(error: &Error) -> Fault {
    let mut message = error.chain();
    if let Some(hint) = error.hint() {
        message.push_str("; ");
        message.push_str(hint);
    }
    Fault { code: Fault::INTERNAL, message, data: Some(json!({"code": error.code().as_str()})) }
}
