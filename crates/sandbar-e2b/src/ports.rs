//! Settings of E2B clients for the ports of a sandbox, for the ingress of the server.

use http::HeaderMap;
use sandbar_core::{Result, SessionId, SessionState};
use sandbar_host::PortAccess;

use crate::{
    E2b,
    auth::{access_token, is_equal},
    protocol::{ACCESS_TOKEN, API_KEY},
    sandboxes::SandboxNote,
};

/// Stands for the port in `maskRequestHost`.
const PORT_PLACEHOLDER: &str = "${PORT}";

/// Settings for the ports of one sandbox.
#[derive(Clone, Debug)]
pub struct PortRules {
    note: SandboxNote,
}

impl PortRules {
    /// Returns the `Host` header for the server in the sandbox, if it is to be replaced.
    pub fn host_header(&self, port: u16) -> Option<String> {
        let mask = self.note.network.as_ref()?.mask_request_host.as_ref()?;
        Some(mask.replace(PORT_PLACEHOLDER, &port.to_string()))
    }

    /// Returns whether the server on a port speaks TLS.
    pub fn speaks_tls(&self, port: u16) -> bool {
        self.note
            .network
            .as_ref()
            .is_some_and(|network| network.has_https(port))
    }
}

impl E2b {
    /// Returns the rules of a sandbox; `None` if it was not created through the E2B API.
    pub async fn port_rules(&self, session: &SessionId) -> Result<Option<PortRules>> {
        let note = self.sandboxes.stored_note(session).await?;
        Ok(note.map(|note| PortRules { note }))
    }

    /// Wakes a sandbox in this state if a request may do so; fails with `SessionPaused` otherwise.
    pub async fn wake_for_request(
        &self,
        session: &SessionId,
        rules: &PortRules,
        state: SessionState,
    ) -> Result<()> {
        self.sandboxes
            .wake_for_request(session, &rules.note, state)
            .await
    }

    /// Removes API keys of this host and the access token of the sandbox from the headers of a
    /// request, so that a server in the sandbox never receives them.
    pub fn remove_credentials(&self, headers: &mut HeaderMap, access: &PortAccess) {
        if headers
            .get(API_KEY)
            .is_some_and(|key| self.auth.may_be_key(key.as_bytes()))
        {
            headers.remove(API_KEY);
        }
        let token = access_token(access.token.reveal());
        if headers
            .get(ACCESS_TOKEN)
            .is_some_and(|presented| is_equal(presented.as_bytes(), &token))
        {
            headers.remove(ACCESS_TOKEN);
        }
    }
}
