//! Counting of concurrent calls.

use std::{fmt::Debug, sync::Arc};

use sandbar_core::{Grant, Result, SessionId};

/// Party whose concurrent calls are counted together.
#[derive(Clone, Copy, Debug)]
pub enum CallOwner<'a> {
    /// Holder of a token of the host.
    Token {
        name: &'a Arc<str>,
        grant: &'a Grant,
    },
    /// Holder of a token of one session: its traffic token, the access token derived from it, or a
    /// URL signed with that.
    Session(&'a SessionId),
    /// Peer without a token, at a public port of a session or at an unsecured sandbox.
    Visitor(&'a SessionId),
    /// Holder of a signed URL for the files of a template.
    TemplateUpload,
}

/// Slot of a request among the concurrent calls of its owner. Held until the response has ended.
pub trait CallSlot: Send + Sync + Debug {
    /// Takes the slot, as soon as the owner of the request is known; `TooManyCalls` at the limit.
    fn take(&self, owner: CallOwner<'_>) -> Result<()>;
}
