//! State of authentication.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue};
use sandbar_core::Result;
use sandbar_host::Host;

use super::{
    keys::{self, ApiCaller, Keyring},
    token_lookup::TokenLookup,
};
use crate::{protocol::API_KEY, sandboxes::Sandboxes};

/// Authenticates requests.
#[derive(Debug)]
pub(crate) struct Auth {
    pub(super) host: Arc<Host>,
    pub(super) sandboxes: Arc<Sandboxes>,
    keyring: Arc<dyn Keyring>,
    pub(super) lookup: TokenLookup,
}

impl Auth {
    pub(crate) fn new(
        host: Arc<Host>,
        sandboxes: Arc<Sandboxes>,
        keyring: Arc<dyn Keyring>,
    ) -> Self {
        Self {
            host,
            sandboxes,
            keyring,
            lookup: TokenLookup::default(),
        }
    }

    /// Returns whether the host runs without tokens, so that every caller is an admin.
    pub(crate) fn is_disabled(&self) -> bool {
        self.keyring.is_open()
    }

    /// Authenticates the API key of a request.
    pub(crate) fn identify(&self, headers: &HeaderMap) -> Result<ApiCaller> {
        let key = headers.get(&API_KEY).map(HeaderValue::as_bytes);
        keys::identify(&*self.keyring, key)
    }

    /// Returns whether an API key is one of this host. Assumes so if the check fails.
    pub(crate) fn may_be_key(&self, key: &[u8]) -> bool {
        !matches!(self.keyring.caller(&keys::token_in_key(key)), Ok(None))
    }
}
