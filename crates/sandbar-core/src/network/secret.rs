//! Secrets that a session uses without ever having them.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::DomainPattern;
use crate::{Error, Result};

crate::id::name_type!(
    /// Name of a secret of the host.
    SecretName, "secret", "secret name", 128
);

/// Value of a secret. It appears neither in debug output nor in serialised data.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(String);

impl SecretValue {
    /// Returns the value if it can be part of a header.
    pub fn new(value: impl Into<String>) -> Result<Self> {
        let value = value.into();
        if value.is_empty()
            || value.len() > 16 * 1024
            || value.bytes().any(|byte| byte < 0x20 || byte == 0x7f)
        {
            return Err(
                Error::invalid("value", "the secret cannot be part of a header")
                    .with_hint("use 1 byte to 16 KiB without line breaks or control characters"),
            );
        }
        Ok(Self(value))
    }

    /// Returns the plain value. Only for adding it to a request, and for storing it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue(…)")
    }
}

/// Description of a secret, without its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretInfo {
    pub name: SecretName,
    pub changed: Timestamp,
}

/// Adds `header` with a secret to requests to `host`. A header of this name that the session sends
/// is replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeaderRule {
    pub host: DomainPattern,
    /// Every port with TLS when `None`.
    #[serde(default)]
    pub port: Option<u16>,
    pub header: String,
    pub secret: SecretName,
    /// Value of the header, with `{}` for the secret: `Bearer {}`. Only the secret when absent.
    #[serde(default)]
    pub format: Option<String>,
}

impl HeaderRule {
    /// Checks header name, port and format.
    pub fn validate(&self) -> Result<()> {
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if self.header.is_empty() || self.header.len() > 256 || !self.header.bytes().all(token) {
            return Err(Error::invalid(
                "network.secrets.header",
                format!("header name `{}` is not valid", self.header.escape_debug()),
            )
            .with_hint("use a name such as `Authorization` or `X-Api-Key`"));
        }
        // These headers define the target and the length of a message. Replacing them would permit
        // request smuggling.
        let framing = [
            "connection",
            "content-length",
            "host",
            "te",
            "trailer",
            "transfer-encoding",
            "upgrade",
        ];
        if framing
            .iter()
            .any(|name| self.header.eq_ignore_ascii_case(name))
        {
            return Err(Error::invalid(
                "network.secrets.header",
                format!("header `{}` cannot have a secret", self.header),
            )
            .with_hint("use a header the server reads the key from, such as `Authorization`"));
        }
        if self.port == Some(0) {
            return Err(Error::invalid("network.secrets.port", "the port is zero")
                .with_hint("leave it out for every port"));
        }
        if let Some(format) = &self.format
            && (format.matches("{}").count() != 1
                || format.bytes().any(|byte| byte < 0x20 || byte == 0x7f))
        {
            return Err(Error::invalid(
                "network.secrets.format",
                format!(
                    "format `{}` has no `{{}}` for the secret",
                    format.escape_debug()
                ),
            )
            .with_hint("write `{}` once where the secret goes, as in `Bearer {}`"));
        }
        Ok(())
    }

    /// Returns the value of the header.
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
    fn secret_is_absent_from_debug_output() {
        let secret = SecretValue::new("hunter2").unwrap();
        assert!(!format!("{secret:?}").contains("hunter2"));
        assert_eq!(
            rule("Authorization", Some("Bearer {}")).render(&secret),
            "Bearer hunter2"
        );
        assert_eq!(rule("X-Key", None).render(&secret), "hunter2");
        assert!(SecretValue::new("a\r\nb").is_err() && SecretValue::new("").is_err());
    }

    #[test]
    fn framing_headers_are_refused() {
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
            assert!(
                rule(header, format).validate().is_err(),
                "{header} {format:?}"
            );
        }
    }
}
