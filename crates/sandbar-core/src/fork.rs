//! Copies of a session.

use crate::{Labels, SessionId, SnapshotName};

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
}

impl Default for ForkRequest {
    fn default() -> Self {
        Self { from: None, count: 1, ids: Vec::new(), labels: Labels::new() }
    }
}
