//! One thing a machine can or cannot do.

use serde::Serialize;

/// How a probe ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Status {
    /// It was tried and works.
    Ok,
    /// It was tried and does not work here.
    Missing,
    /// The machine may have it; this version of Sandbar does not use it yet.
    Later,
}

impl Status {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Missing => "missing",
            Self::Later => "later",
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

    pub(crate) fn later(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, status: Status::Later, detail: detail.into(), fix: None }
    }
}
