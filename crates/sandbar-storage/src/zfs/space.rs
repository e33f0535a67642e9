//! Bytes: of a volume, of the pool, and the reserve that keeps a full pool workable.

use std::sync::atomic::Ordering;

use sandbar_core::{ByteCount, Error, ErrorCode, Result, SessionId};

use super::{
    ZfsStorage,
    command::{Failure, Fault},
    listing,
};
use crate::{Space, Usage};

/// zfs-fuse asks for far more room than a promotion takes; with less than this it refuses.
const SMALLEST_RESERVE: u64 = 8 << 20;
const LARGEST_RESERVE: u64 = 128 << 20;
const WRITTEN_MEANWHILE: u64 = 1 << 20;
/// How often the tightest quota ZFS takes is looked for.
const MOST_ATTEMPTS: usize = 20;

/// Something that can fail for lack of space.
pub(super) trait MayBeFull {
    fn is_full(&self) -> bool;
}

impl MayBeFull for Failure {
    fn is_full(&self) -> bool {
        self.fault == Fault::Full
    }
}

impl MayBeFull for Error {
    fn is_full(&self) -> bool {
        self.code() == ErrorCode::StorageFull
    }
}

impl ZfsStorage {
    /// What the live tree refers to beyond its base. ZFS does not count that; it is at least the difference in size, and
    /// at least what no snapshot shares.
    pub(super) fn volume_usage(&self, volume: &SessionId) -> Result<Usage> {
        let (live, base) = {
            let catalog = self.catalog();
            let live = catalog.live(volume)?;
            let base = catalog.bases.get(&live.mark.base).map_or(0, |base| base.referenced);
            (live, base)
        };
        let rows = listing::read_these(&self.tools, &["referenced", "usedbydataset"], &[&live.dataset])
            .map_err(|failure| failure.into_error(format!("read usage of session `{volume}`")))?;
        let found = listing::only(&rows, &live.dataset)?;
        let used = found.number("referenced").saturating_sub(base).max(found.number("usedbydataset"));
        Ok(Usage { used: ByteCount(used) })
    }

    pub(super) fn change_quota(&self, volume: &SessionId, quota: Option<ByteCount>) -> Result<()> {
        let live = self.catalog().live(volume)?;
        let refquota = self.refquota(&live.mark.base, quota)?;
        if refquota == live.refquota {
            return Ok(());
        }
        let fail = |failure: Failure| failure.into_error(format!("set the quota of session `{volume}`"));
        let set = |bound: u64| {
            let bound = if bound == 0 { "none".to_owned() } else { bound.to_string() };
            self.tools.zfs(&["set", &format!("refquota={bound}"), &live.dataset])
        };
        // ZFS takes no bound below what is there. The tightest it takes stops the writer just as well. What is there
        // grows for a while after a write, as the pool catches up, so the tightest may have to be found more than once.
        let mut bound = refquota;
        let mut attempts = 0;
        while let Err(failure) = set(bound) {
            if failure.fault != Fault::QuotaTooSmall || attempts == MOST_ATTEMPTS {
                return Err(fail(failure));
            }
            attempts += 1;
            bound = self.referenced(&live.dataset)?.saturating_add(WRITTEN_MEANWHILE);
        }
        if let Some(dataset) = self.catalog().datasets.get_mut(&live.dataset) {
            dataset.refquota = bound;
        }
        Ok(())
    }

    pub(super) fn pool_space(&self) -> Result<Space> {
        let pool = self.layout.pool.as_str();
        let fail = |failure: Failure| failure.into_error(format!("read the state of pool `{pool}`"));
        let state = self.tools.zpool(&["list", "-H", "-o", "health", pool]).map_err(fail)?.trim().to_owned();
        // A pool that has stopped answers no questions about space, or answers them never.
        if !matches!(state.as_str(), "ONLINE" | "DEGRADED") {
            return Ok(Space { total: ByteCount(0), available: ByteCount(0), state, healthy: false });
        }
        let rows = listing::read_these(&self.tools, &["used", "available"], &[pool]).map_err(fail)?;
        let found = listing::only(&rows, pool)?;
        let (used, available) = (found.number("used"), found.number("available"));
        let healthy = state == "ONLINE";
        Ok(Space { total: ByteCount(used + available), available: ByteCount(available), state, healthy })
    }

    /// Sets a little space aside: on a full pool zfs-fuse cannot promote or set a property, and so could not delete
    /// what has forks. OpenZFS keeps such a reserve itself.
    pub(super) fn prepare_reserve(&self) {
        if let Err(error) = self.set_reserve_aside() {
            tracing::warn!(error = error.chain(), "could not set space aside for deleting on a full pool");
        }
    }

    fn set_reserve_aside(&self) -> Result<()> {
        let sessions = self.layout.sessions.as_str();
        let rows = listing::read_these(&self.tools, &["refreservation"], &[sessions])
            .map_err(|failure| failure.into_error(format!("read the reserve of `{sessions}`")))?;
        if listing::only(&rows, sessions)?.number("refreservation") > 0 {
            return Ok(());
        }
        let size = (self.pool_space()?.total.get() / 32).clamp(SMALLEST_RESERVE, LARGEST_RESERVE);
        self.tools
            .zfs(&["set", &format!("refreservation={size}"), sessions])
            .map_err(|failure| failure.into_error(format!("reserve space for `{sessions}`")))?;
        Ok(())
    }

    /// Runs `action`, and once more with the reserve given up when there is no space left for it.
    pub(super) fn with_reserve<T, E: MayBeFull>(&self, action: impl Fn() -> Result<T, E>) -> Result<T, E> {
        match action() {
            Err(error) if error.is_full() => {}
            outcome => return outcome,
        }
        if self.tools.zfs(&["set", "refreservation=none", &self.layout.sessions]).is_ok() {
            self.reserve_is_spent.store(true, Ordering::Relaxed);
        }
        action()
    }

    /// Puts the reserve back. While the pool is still too full for it, the next call that frees something tries again.
    pub(super) fn restore_reserve(&self) {
        if self.reserve_is_spent.load(Ordering::Relaxed) {
            match self.set_reserve_aside() {
                Ok(()) => self.reserve_is_spent.store(false, Ordering::Relaxed),
                Err(error) => tracing::debug!(error = error.chain(), "the reserve is not back yet"),
            }
        }
    }

    /// OpenZFS frees blocks in the background; older versions are done when `destroy` returns and do not know the word.
    pub(super) fn wait_for_freeing(&self) {
        match self.tools.zpool(&["wait", "-t", "free", &self.layout.pool]) {
            Err(failure) if failure.fault != Fault::Unknown => {
                tracing::warn!(%failure, "could not wait for freed space");
            }
            _ => {}
        }
    }
}
