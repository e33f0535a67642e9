//! Credentials for a registry.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::HeaderValue;
use sandbar_core::{Error, Result};

/// User name and password, or a token as the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub username: String,
    pub password: String,
}

impl Credentials {
    /// Returns the value of the `Authorization` header.
    pub(crate) fn basic(&self) -> Result<HeaderValue> {
        let pair = STANDARD.encode(format!("{}:{}", self.username, self.password));
        secret(&format!("Basic {pair}"))
    }
}

/// Creates a header value that is marked sensitive, so that it is not logged.
pub(crate) fn secret(value: &str) -> Result<HeaderValue> {
    let mut value = HeaderValue::from_str(value).map_err(|_| {
        Error::invalid(
            "image",
            "token of the registry contains characters that are invalid in a header",
        )
    })?;
    value.set_sensitive(true);
    Ok(value)
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}
