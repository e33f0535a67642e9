//! One thing a machine can or cannot do.

use sandbar_core::Capability;
use serde::Serialize;

/// How a probe ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Status {
    /// It was tried and works.
    Ok,
    /// It was tried and does not work here.
    Missing,
}

impl Status {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Missing => "missing",
        }
    }
}

/// What a probe found.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) name: &'static str,
    pub(crate) status: Status,
    pub(crate) detail: String,
    /// How to get what is missing.
    pub(crate) fix: Option<String>,
}

impl Finding {
    pub(crate) fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, status: Status::Ok, detail: detail.into(), fix: None }
    }

    pub(crate) fn missing(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, status: Status::Missing, detail: detail.into(), fix: Some(fix.into()) }
    }
}

/// What something is, and what it can and cannot do, in one line.
pub(crate) fn abilities<const COUNT: usize>(what: &str, capabilities: [(&str, &Capability); COUNT]) -> String {
    let mut parts = vec![what.to_owned()];
    parts.extend(capabilities.map(|(name, capability)| match capability {
        Capability::Yes => name.to_owned(),
        Capability::No(reason) => format!("no {name} ({reason})"),
    }));
    parts.join("; ")
}
