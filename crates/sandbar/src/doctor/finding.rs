//! Result of one probe.

use sandbar_core::Capability;
use serde::Serialize;

/// Status of a probed feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Status {
    /// The feature works.
    Ok,
    /// The feature does not work here.
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

/// Result of one probe.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) name: &'static str,
    pub(crate) status: Status,
    pub(crate) detail: String,
    /// Instruction to get what is missing.
    pub(crate) fix: Option<String>,
}

impl Finding {
    pub(crate) fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self {
            name,
            status: Status::Ok,
            detail: detail.into(),
            fix: None,
        }
    }

    pub(crate) fn missing(
        name: &'static str,
        detail: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            name,
            status: Status::Missing,
            detail: detail.into(),
            fix: Some(fix.into()),
        }
    }
}

/// Returns a description and its capabilities on one line.
pub(crate) fn abilities<const COUNT: usize>(
    what: &str,
    capabilities: [(&str, &Capability); COUNT],
) -> String {
    let mut parts = vec![what.to_owned()];
    parts.extend(capabilities.map(|(name, capability)| match capability {
        Capability::Yes => name.to_owned(),
        Capability::No(reason) => format!("no {name} ({reason})"),
    }));
    parts.join("; ")
}
