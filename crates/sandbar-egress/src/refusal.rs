//! Reasons for a connection that was not made.

/// Reason why a destination was not connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) reason: String,
    /// The rules denied it. Otherwise the connection was allowed and failed.
    pub(crate) denied: bool,
}

impl Refusal {
    /// Returns the refusal of a destination that the rules deny.
    pub(crate) const fn denied(reason: String) -> Self {
        Self {
            reason,
            denied: true,
        }
    }

    /// Returns the refusal of a destination that is allowed and could not be reached.
    pub(crate) const fn unreachable(reason: String) -> Self {
        Self {
            reason,
            denied: false,
        }
    }
}
