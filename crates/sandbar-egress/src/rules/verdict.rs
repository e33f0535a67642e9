//! Result of evaluating the rules.

/// Permission or denial, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    is_allowed: bool,
    reason: String,
}

impl Verdict {
    pub(crate) const fn allowed(reason: String) -> Self {
        Self {
            is_allowed: true,
            reason,
        }
    }

    pub(crate) const fn denied(reason: String) -> Self {
        Self {
            is_allowed: false,
            reason,
        }
    }

    pub(crate) const fn is_allowed(&self) -> bool {
        self.is_allowed
    }

    /// Returns the entry that matched, or what was missing.
    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }
}
