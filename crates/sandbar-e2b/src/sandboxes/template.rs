//! The source of a new sandbox.

use sandbar_core::BaseName;

use super::SandboxNote;

/// A built template, a snapshot or a base, resolved by name.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub(crate) base: BaseName,
    /// Template id shown in the details of the sandbox.
    pub(crate) id: String,
    pub(crate) alias: Option<String>,
    /// Note that new sandboxes start with.
    pub(crate) defaults: SandboxNote,
}
