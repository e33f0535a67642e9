//! Context of one tool call.

use rmcp::model::JsonObject;
use sandbar_client::Client;
use sandbar_core::{Error, Result, SessionId, ToolCallId};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::definition::SANDBOX;
use crate::{ports::PortNames, progress::Progress, sandboxes::DefaultSandbox};

/// Tool call.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) client: &'a Client,
    pub(crate) default: &'a DefaultSandbox,
    pub(crate) ports: &'a PortNames,
    pub(crate) id: ToolCallId,
    pub(crate) arguments: JsonObject,
    /// Set when the caller asked for progress.
    pub(crate) progress: Option<Progress>,
}

impl Call<'_> {
    /// Returns the sandbox of the call, by name or by default.
    pub(crate) async fn sandbox(&mut self) -> Result<SessionId> {
        let asked = self.asked_sandbox()?;
        self.default.resolve(self.client, asked).await
    }

    /// Returns the sandbox that the call names.
    pub(crate) fn asked_sandbox(&mut self) -> Result<Option<SessionId>> {
        match self.arguments.remove(SANDBOX) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(id)) => SessionId::new(id).map(Some),
            Some(_) => Err(Error::invalid(SANDBOX, "`sandbox` is not a string")
                .with_hint("pass the id of a sandbox")),
        }
    }

    /// Parses the remaining arguments.
    pub(crate) fn read<T: DeserializeOwned>(&mut self) -> Result<T> {
        serde_json::from_value(std::mem::take(&mut self.arguments).into()).map_err(|error| {
            Error::invalid(
                "arguments",
                format!("arguments do not match the input schema: {error}"),
            )
            .with_hint("check the input schema of the tool")
        })
    }
}
