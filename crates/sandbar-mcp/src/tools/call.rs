//! One call, and what it may use.

use rmcp::model::JsonObject;
use sandbar_client::Client;
use sandbar_core::{Error, Result, SessionId, ToolCallId};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::definition::SANDBOX;
use crate::{ports::PortNames, progress::Progress, sandboxes::DefaultSandbox};

/// A tool call.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) client: &'a Client,
    pub(crate) default: &'a DefaultSandbox,
    pub(crate) ports: &'a PortNames,
    pub(crate) id: ToolCallId,
    pub(crate) arguments: JsonObject,
    /// Where what the tool says meanwhile goes, when its caller wants to hear it.
    pub(crate) progress: Option<Progress>,
}

impl Call<'_> {
    /// The sandbox the call is for.
    pub(crate) async fn sandbox(&mut self) -> Result<SessionId> {
        let asked = self.asked_sandbox()?;
        self.default.resolve(self.client, asked).await
    }

    /// The sandbox the call names itself.
    pub(crate) fn asked_sandbox(&mut self) -> Result<Option<SessionId>> {
        match self.arguments.remove(SANDBOX) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(id)) => SessionId::new(id).map(Some),
            Some(_) => Err(Error::invalid(SANDBOX, "`sandbox` is not a string").with_hint("pass the id of a sandbox")),
        }
    }

    /// What is left of the arguments, as a tool wants them.
    pub(crate) fn read<T: DeserializeOwned>(&mut self) -> Result<T> {
        serde_json::from_value(std::mem::take(&mut self.arguments).into()).map_err(|error| {
            Error::invalid("arguments", format!("the arguments are not as the tool wants them: {error}"))
                .with_hint("look at the tool's input schema")
        })
    }
}
