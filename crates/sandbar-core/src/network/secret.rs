//! Secrets a session uses without ever holding them.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::DomainPattern;
use crate::{Error, Result};

crate::id::name_type!(
    /// The name of a secret the host keeps.
    SecretName, "secret", "secret name", 128
);

/// What a secret is. It shows itself to nobody: neither in debug output nor in anything that is serialised.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(String);

impl SecretValue {
    /// A value that can be part of a header.
    pub fn new(value: impl Into<String>) -> Result<Self> {
        let value = value.into();
        if value.is_empty() || value.len() > 16 * 1024 || value.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return Err(Error::invalid("value", "the secret cannot be put into a header")
                .with_hint("use 1 byte to 16 KiB without line breaks or control characters"));
        }
        Ok(Self(value))
    }

    /// The secret itself, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue(…)")
    }
}

/// What may be told about a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretInfo {
    pub name: SecretName,
    pub changed: Timestamp,
}

/// For requests to `host`, put `header` with a secret in it. What the session itself sends under this name is replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeaderRule {
    pub host: DomainPattern,
    /// `None` is every port that speaks TLS.
    #[serde(default)]
    pub port: Option<u16>,
    pub header: String,
    pub secret: SecretName,
    /// What the header says, with `{}` for the secret: `Bearer {}`. Just the secret when absent.
    #[serde(default)]
    pub format: Option<String>,
}

impl HeaderRule {
    /// Checks what the types alone cannot.
    pub fn validate(&self) -> Result<()> {
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if self.header.is_empty() || self.header.len() > 256 || !self.header.bytes().all(token) {
            return Err(Error::invalid(
                "network.secrets.header",
                format!("`{}` is no header", self.header.escape_debug()),
            )
            .with_hint("use a name such as `Authorization` or `X-Api-Key`"));
        }
        // These say where a message goes and how long it is; replacing them would let a request become another.
        let framing = ["connection", "content-length", "host", "te", "trailer", "transfer-encoding", "upgrade"];
        if framing.iter().any(|name| self.header.eq_ignore_ascii_case(name)) {
            return Err(Error::invalid("network.secrets.header", format!("`{}` cannot carry a secret", self.header))
                .with_hint("use a header the server reads the key from, such as `Authorization`"));
        }
        if self.port == Some(0) {
            return Err(
                Error::invalid("network.secrets.port", "the port is zero").with_hint("leave it out for every port")
            );
        }
        if let Some(format) = &self.format
            && (format.matches("{}").count() != 1 || format.bytes().any(|byte| byte < 0x20 || byte == 0x7f))
        {
            return Err(Error::invalid(
                "network.secrets.format",
                format!("`{}` has no place for the secret", format.escape_debug()),
            )
            .with_hint("write `{}` once where the secret goes, as in `Bearer {}`"));
        }
        Ok(())
    }

    /// What the header says.
    pub fn render(&self, secret: &SecretValue) -> String {
        match &self.format {
            Some(format) => format.replacen("{}", secret.expose(), 1),
            None => secret.expose().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(header: &str, format: Option<&str>) -> HeaderRule {
        HeaderRule {
            host: "api.example".parse().unwrap(),
            port: None,
            header: header.into(),
            secret: SecretName::new("key").unwrap(),
            format: format.map(Into::into),
        }
    }

    #[test]
    fn a_secret_shows_itself_to_nobody() {
        let secret = SecretValue::new("hunter2").unwrap();
        assert!(!format!("{secret:?}").contains("hunter2"));
        assert_eq!(rule("Authorization", Some("Bearer {}")).render(&secret), "Bearer hunter2");
        assert_eq!(rule("X-Key", None).render(&secret), "hunter2");
        assert!(SecretValue::new("a\r\nb").is_err() && SecretValue::new("").is_err());
    }

    #[test]
    fn headers_that_would_make_another_request_of_it_are_refused() {
        rule("Authorization", Some("Bearer {}")).validate().unwrap();
        for (header, format) in [
            ("Host", None),
            ("content-length", None),
            ("Transfer-Encoding", None),
            ("a b", None),
            ("", None),
            ("X:", None),
            ("X", Some("no place")),
            ("X", Some("{}{}")),
            ("X", Some("{}\r\nY: z")),
        ] {
            assert!(rule(header, format).validate().is_err(), "{header} {format:?}");
        }
    }
}
