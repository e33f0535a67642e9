//! Host names and patterns.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Host name in lower case, without a trailing dot. Never an IP address in any notation that a
/// resolver might accept (`127.1`, `0x7f000001`, `2130706433`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DomainName(String);

impl DomainName {
    /// `localhost`.
    pub fn localhost() -> Self {
        Self("localhost".to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for DomainName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = |why: &str| {
            Err(Error::invalid("network", format!("host name `{}` {why}", text.escape_debug())).with_hint(
                "use labels of letters, digits, `-` and `_` with dots between them; names in other scripts in `xn--` form",
            ))
        };
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if name.is_empty() || name.len() > 253 {
            return refuse("is empty or longer than 253 bytes");
        }
        for label in name.split('.') {
            if label.is_empty() || label.len() > 63 {
                return refuse("has a part that is empty or longer than 63 bytes");
            }
            if !label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
            {
                return refuse("has a character that is not allowed");
            }
            if label.starts_with('-') || label.ends_with('-') {
                return refuse("has a part that starts or ends with `-`");
            }
        }
        let last = name.rsplit('.').next().unwrap_or_default();
        let is_number = last.bytes().all(|byte| byte.is_ascii_digit())
            || last
                .strip_prefix("0x")
                .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        if is_number {
            return refuse("ends in a number, like an address");
        }
        Ok(Self(name))
    }
}

/// Pattern for one host, or for all hosts below a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DomainPattern {
    Exact(DomainName),
    /// `*.example.com`: every name below `example.com`, at any depth, and not `example.com` itself.
    Below(DomainName),
}

impl DomainPattern {
    pub fn matches(&self, name: &DomainName) -> bool {
        match self {
            Self::Exact(exact) => exact == name,
            Self::Below(above) => name
                .0
                .strip_suffix(above.as_str())
                .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
        }
    }
}

impl FromStr for DomainPattern {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.strip_prefix("*.") {
            Some(above) => above.parse().map(Self::Below),
            None => text.parse().map(Self::Exact),
        }
    }
}

impl fmt::Display for DomainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for DomainPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => name.fmt(f),
            Self::Below(name) => write!(f, "*.{name}"),
        }
    }
}

super::policy::as_text!(DomainName, DomainPattern);

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> DomainName {
        text.parse().unwrap()
    }

    #[test]
    fn domain_name_ignores_case_and_trailing_dot() {
        assert_eq!(name("API.Example.com."), name("api.example.com"));
    }

    #[test]
    fn address_notations_are_not_domain_names() {
        for bad in [
            "127.0.0.1",
            "127.1",
            "2130706433",
            "0x7f000001",
            "0x7f.1",
            "1.2.3.0x4",
            "017700000001",
            "a.0x",
        ] {
            assert!(bad.parse::<DomainName>().is_err(), "{bad}");
        }
        for bad in [
            "",
            ".",
            "a..b",
            "-a.example",
            "a-.example",
            "a b",
            "*.a",
            "a/b",
            "a:b",
            "ü.example",
            "a@b",
            "a\0.b",
        ] {
            assert!(bad.parse::<DomainName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn wildcard_matches_names_below_only() {
        let below: DomainPattern = "*.example.com".parse().unwrap();
        assert!(below.matches(&name("a.example.com")) && below.matches(&name("a.b.example.com")));
        for other in [
            "example.com",
            "badexample.com",
            "example.com.evil.test",
            "com",
        ] {
            assert!(!below.matches(&name(other)), "{other}");
        }
        let exact: DomainPattern = "example.com".parse().unwrap();
        assert!(exact.matches(&name("EXAMPLE.com.")) && !exact.matches(&name("a.example.com")));
        for bad in ["*", "*.", "a.*.com", "**.com", "*.1.2.3.4"] {
            assert!(bad.parse::<DomainPattern>().is_err(), "{bad}");
        }
    }
}
