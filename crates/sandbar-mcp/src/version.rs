//! The versions of the protocol, and what tells them apart.

use serde_json::json;

use crate::jsonrpc::Fault;

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Version {
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    /// Without a handshake: every request says which version it speaks.
    V2026_07_28,
}

impl Version {
    /// Newest first, as they are told to clients.
    pub(crate) const ALL: [Self; 5] =
        [Self::V2026_07_28, Self::V2025_11_25, Self::V2025_06_18, Self::V2025_03_26, Self::V2024_11_05];

    /// What a client is offered that shakes hands on a version we do not know.
    pub(crate) const NEWEST_BY_HANDSHAKE: Self = Self::V2025_11_25;

    /// What a client speaks over HTTP that does not say: the header came later.
    pub(crate) const UNSAID: Self = Self::V2025_03_26;

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    pub(crate) fn find(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.as_str() == text)
    }

    /// What both sides speak after a handshake: what was asked for, or the newest we have.
    pub(crate) fn by_handshake(asked: &str) -> Self {
        Self::find(asked).filter(|version| !version.is_stateless()).unwrap_or(Self::NEWEST_BY_HANDSHAKE)
    }

    /// Whether every request stands for itself.
    pub(crate) fn is_stateless(self) -> bool {
        self >= Self::V2026_07_28
    }

    /// Whether several messages may come as one.
    pub(crate) fn has_batches(self) -> bool {
        self <= Self::V2025_03_26
    }

    /// Whether tools say how dangerous they are, and progress says something beside a number.
    pub(crate) fn has_annotations(self) -> bool {
        self >= Self::V2025_03_26
    }

    /// Whether tools have titles, and answers a form that programs read.
    pub(crate) fn has_structured_content(self) -> bool {
        self >= Self::V2025_06_18
    }
}

/// The refusal of a version we do not speak.
pub(crate) fn unsupported(requested: &str) -> Fault {
    let supported: Vec<&str> = Version::ALL.map(Version::as_str).into();
    Fault {
        code: Fault::UNSUPPORTED_VERSION,
        message: "this version of the protocol is not spoken here".into(),
        data: Some(json!({"supported": supported, "requested": requested})),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_ends_at_what_was_asked_for_or_at_the_newest_that_has_one() {
        for version in Version::ALL.into_iter().filter(|version| !version.is_stateless()) {
            assert_eq!(Version::by_handshake(version.as_str()), version);
        }
        for other in ["2026-07-28", "1900-01-01", "2099-01-01", ""] {
            assert_eq!(Version::by_handshake(other), Version::V2025_11_25);
        }
    }
}
