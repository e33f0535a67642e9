//! What E2B says about the ports of a sandbox, for whoever leads requests there.

use http::{HeaderMap, HeaderName};
use sandbar_core::{Result, SessionId, SessionState};
use sandbar_host::PortAccess;

use crate::{
    E2b,
    keys::{envd_token, is_same, token_in},
    sandbox::SandboxNote,
    visitor::{ACCESS_TOKEN, API_KEY},
};

/// Carries the token that opens the ports of a sandbox where not everybody may reach them.
pub const TRAFFIC_TOKEN: HeaderName = HeaderName::from_static("e2b-traffic-access-token");

/// Stands for the port in `maskRequestHost`.
const PORT_IN_MASK: &str = "${PORT}";

/// What an E2B client said about the ports of one sandbox.
#[derive(Clone, Debug)]
pub struct PortRules {
    note: SandboxNote,
}

impl PortRules {
    /// The `Host` that a server is to see, where that is not the one it was asked by.
    pub fn host_header(&self, port: u16) -> Option<String> {
        let mask = self.note.network.as_ref()?.mask_request_host.as_ref()?;
        Some(mask.replace(PORT_IN_MASK, &port.to_string()))
    }

    /// Whether what listens there is spoken to in TLS.
    pub fn speaks_tls(&self, port: u16) -> bool {
        self.note.network.as_ref().is_some_and(|network| network.has_https(port))
    }
}

impl E2b {
    /// The rules of a sandbox; `None` where no E2B client has made it.
    pub async fn port_rules(&self, session: &SessionId) -> Result<Option<PortRules>> {
        Ok(self.surface.known_note(session).await?.map(|note| PortRules { note }))
    }

    /// Wakes a sandbox in this state if a request may do so; `SessionPaused` when it sleeps on.
    pub async fn wake_for_request(&self, session: &SessionId, rules: &PortRules, state: SessionState) -> Result<()> {
        self.surface.wake_for_request(session, &rules.note, state).await
    }

    /// Takes out what opens this host or the agent of the sandbox: what listens in a sandbox never sees it.
    pub fn take_out_keys(&self, headers: &mut HeaderMap, access: &PortAccess) {
        let keyring = &self.surface.keyring;
        let opens_host = |key: &[u8]| !matches!(keyring.holder(&token_in(key)), Ok(None));
        if headers.get(API_KEY).is_some_and(|key| opens_host(key.as_bytes())) {
            headers.remove(API_KEY);
        }
        let token = envd_token(access.token.reveal());
        if headers.get(ACCESS_TOKEN).is_some_and(|shown| is_same(shown.as_bytes(), &token)) {
            headers.remove(ACCESS_TOKEN);
        }
    }
}
