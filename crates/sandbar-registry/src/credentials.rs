//! Who we are to a registry.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::HeaderValue;
use sandbar_core::{Error, Result};

/// A name and a password, or a token in its place.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub username: String,
    pub password: String,
}

impl Credentials {
    /// The value of an `Authorization` header.
    pub(crate) fn basic(&self) -> Result<HeaderValue> {
        let pair = STANDARD.encode(format!("{}:{}", self.username, self.password));
        secret(&format!("Basic {pair}"))
    }
}

/// A header nobody sees in a log.
pub(crate) fn secret(value: &str) -> Result<HeaderValue> {
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| Error::invalid("image", "the registry's token has characters no header can have"))?;
    value.set_sensitive(true);
    Ok(value)
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("username", &self.username).finish_non_exhaustive()
    }
}
