//! Options of a copy, and its summary.

use sandbar_core::Result;

/// Handling of entries and metadata that permissions or the file system do not allow to be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fidelity {
    /// Fail.
    Exact,
    /// Leave it out and note it in [`CopySummary::notes`].
    BestEffort,
}

/// Handling of overlayfs whiteouts and internal attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverlayInternals {
    /// Copy them: the copy is an overlay layer, too.
    Keep,
    /// Leave them out: the copy is an ordinary tree.
    Drop,
}

/// Options of [`copy_tree`](super::copy_tree).
#[derive(Clone, Copy)]
pub struct CopyOptions<'a> {
    pub fidelity: Fidelity,
    pub overlay_internals: OverlayInternals,
    /// Called often with the entries and bytes copied so far.
    pub progress: &'a dyn Fn(u64, u64),
    /// Called for each entry; its error ends the copy.
    pub check: &'a dyn Fn() -> Result<()>,
}

impl CopyOptions<'_> {
    /// Exact copy with overlay internals, for snapshots and rollback.
    pub const VERBATIM: CopyOptions<'static> = CopyOptions {
        fidelity: Fidelity::Exact,
        overlay_internals: OverlayInternals::Keep,
        progress: &|_, _| {},
        check: &|| Ok(()),
    };
}

impl std::fmt::Debug for CopyOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CopyOptions")
            .field("fidelity", &self.fidelity)
            .field("overlay_internals", &self.overlay_internals)
            .finish_non_exhaustive()
    }
}

/// Result of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopySummary {
    /// Directory entries, the root not counted.
    pub entries: u64,
    /// Sizes of the regular files, each hard-linked file once.
    pub bytes: u64,
    /// Number of entries and attributes left out.
    pub omitted: u64,
    /// Descriptions of the first few of them.
    pub notes: Vec<String>,
}

impl CopySummary {
    const MAX_NOTES: usize = 20;

    pub(crate) fn note(&mut self, note: impl FnOnce() -> String) {
        self.omitted += 1;
        if self.notes.len() < Self::MAX_NOTES {
            self.notes.push(note());
        }
    }
}
