//! Forks of a session.

use crate::{Labels, Result, SessionId, SnapshotName, session::validate_labels};

/// Request to fork a session. Either all forks are created, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkRequest {
    /// Snapshot to start from; the current state when absent.
    pub from: Option<SnapshotName>,
    /// 1 to [`MAX_COUNT`](Self::MAX_COUNT).
    pub count: usize,
    /// Ids of the forks: empty, or exactly `count`.
    pub ids: Vec<SessionId>,
    /// Added to the labels of the source.
    pub labels: Labels,
}

impl ForkRequest {
    pub const MAX_COUNT: usize = 1000;

    /// Checks the labels.
    pub fn validate(&self) -> Result<()> {
        validate_labels(&self.labels)
    }
}

impl Default for ForkRequest {
    fn default() -> Self {
        Self {
            from: None,
            count: 1,
            ids: Vec::new(),
            labels: Labels::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorCode;

    #[test]
    fn fork_labels_are_checked_like_session_labels() {
        let mut request = ForkRequest::default();
        request.labels.insert("team".into(), "red".into());
        request.validate().unwrap();
        request.labels.insert(String::new(), "x".into());
        let error = request.validate().unwrap_err();
        assert_eq!(
            (error.code(), error.field()),
            (ErrorCode::InvalidArgument, Some("labels"))
        );
    }
}
