//! Copies of a session.

use crate::{Labels, Result, SessionId, SnapshotName, session::validate_labels};

/// A request for copies of a session; all are made, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkRequest {
    /// The snapshot to start from; now when absent.
    pub from: Option<SnapshotName>,
    /// 1 to [`MOST`](Self::MOST).
    pub count: usize,
    /// Names of the copies: none, or exactly `count`.
    pub ids: Vec<SessionId>,
    /// Added to the labels of the source.
    pub labels: Labels,
}

impl ForkRequest {
    pub const MOST: usize = 1000;

    /// Checks what the types alone cannot: label names.
    pub fn validate(&self) -> Result<()> {
        validate_labels(&self.labels)
    }
}

impl Default for ForkRequest {
    fn default() -> Self {
        Self { from: None, count: 1, ids: Vec::new(), labels: Labels::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorCode;

    #[test]
    fn labels_of_copies_are_checked_like_those_of_new_sessions() {
        let mut request = ForkRequest::default();
        request.labels.insert("team".into(), "red".into());
        request.validate().unwrap();
        request.labels.insert(String::new(), "x".into());
        let error = request.validate().unwrap_err();
        assert_eq!((error.code(), error.field()), (ErrorCode::InvalidArgument, Some("labels")));
    }
}
