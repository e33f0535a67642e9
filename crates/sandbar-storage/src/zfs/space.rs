//! Space of a volume and of the pool, and the reserve for deletions on a full pool.

use std::sync::atomic::Ordering;

use sandbar_core::{ByteCount, Error, ErrorCode, Result, SessionId};

use super::{
    ZfsStorage,
    command::{Failure, Fault},
    listing,
};
use crate::{Space, Storage, Usage};

/// Minimum reserve: zfs-fuse requires much more free space than a promotion uses.
const MIN_RESERVE_BYTES: u64 = 8 << 20;
const MAX_RESERVE_BYTES: u64 = 128 << 20;
/// Added to the space in use, for writes between the query and setting the quota.
const QUOTA_SLACK_BYTES: u64 = 1 << 20;
/// Attempts to set a quota while the space in use grows.
const MAX_QUOTA_ATTEMPTS: usize = 20;

/// Error that may mean lack of space.
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

/// Returns the space of the live tree beyond its base. ZFS has no property for it; it is at least
/// the difference in size, and at least the space no snapshot shares.
pub(super) fn usage(store: &ZfsStorage, volume: &SessionId) -> Result<Usage> {
    let (live, base) = {
        let catalog = store.catalog();
        let live = catalog.live(volume)?;
        let base = catalog
            .bases
            .get(&live.mark.base)
            .map_or(0, |base| base.referenced);
        (live, base)
    };
    let rows = listing::read_these(
        &store.tools,
        &["referenced", "usedbydataset"],
        &[&live.dataset],
    )
    .map_err(|failure| failure.into_error(format!("read usage of session `{volume}`")))?;
    let found = listing::only(&rows, &live.dataset)?;
    let used = found
        .number("referenced")
        .saturating_sub(base)
        .max(found.number("usedbydataset"));
    Ok(Usage {
        used: ByteCount(used),
    })
}

pub(super) fn space(store: &ZfsStorage) -> Result<Space> {
    let pool = store.layout.pool.as_str();
    let fail = |failure: Failure| failure.into_error(format!("read the state of pool `{pool}`"));
    let state = store
        .tools
        .zpool(&["list", "-H", "-o", "health", pool])
        .map_err(fail)?
        .trim()
        .to_owned();
    // A suspended pool does not answer queries of its space.
    if !matches!(state.as_str(), "ONLINE" | "DEGRADED") {
        return Ok(Space {
            total: ByteCount(0),
            available: ByteCount(0),
            state,
            healthy: false,
        });
    }
    let rows = listing::read_these(&store.tools, &["used", "available"], &[pool]).map_err(fail)?;
    let found = listing::only(&rows, pool)?;
    let (used, available) = (found.number("used"), found.number("available"));
    let healthy = state == "ONLINE";
    Ok(Space {
        total: ByteCount(used + available),
        available: ByteCount(available),
        state,
        healthy,
    })
}

pub(super) fn set_quota(
    store: &ZfsStorage,
    volume: &SessionId,
    quota: Option<ByteCount>,
) -> Result<()> {
    let live = store.catalog().live(volume)?;
    let refquota = store.refquota(&live.mark.base, quota)?;
    if refquota == live.refquota {
        return Ok(());
    }
    let fail =
        |failure: Failure| failure.into_error(format!("set the quota of session `{volume}`"));
    let set = |bound: u64| {
        let bound = if bound == 0 {
            "none".to_owned()
        } else {
            bound.to_string()
        };
        store
            .tools
            .zfs(&["set", &format!("refquota={bound}"), &live.dataset])
    };
    // ZFS refuses a quota below the space in use. The lowest it accepts stops the writer as well.
    // The space in use still grows after a write, as the pool catches up, so this may take several
    // attempts.
    let mut bound = refquota;
    let mut attempts = 0;
    while let Err(failure) = set(bound) {
        if failure.fault != Fault::QuotaTooSmall || attempts == MAX_QUOTA_ATTEMPTS {
            return Err(fail(failure));
        }
        attempts += 1;
        bound = store
            .referenced(&live.dataset)?
            .saturating_add(QUOTA_SLACK_BYTES);
    }
    if let Some(dataset) = store.catalog().datasets.get_mut(&live.dataset) {
        dataset.refquota = bound;
    }
    Ok(())
}

impl ZfsStorage {
    /// Reserves space: on a full pool zfs-fuse can neither promote nor set a property, and so could
    /// not delete a volume with forks. OpenZFS has such a reserve itself.
    pub(super) fn prepare_reserve(&self) {
        if let Err(error) = self.set_reserve_aside() {
            tracing::warn!(
                error = error.chain(),
                "could not reserve space for deletions on a full pool"
            );
        }
    }

    fn set_reserve_aside(&self) -> Result<()> {
        let sessions = self.layout.sessions.as_str();
        let rows = listing::read_these(&self.tools, &["refreservation"], &[sessions])
            .map_err(|failure| failure.into_error(format!("read the reserve of `{sessions}`")))?;
        if listing::only(&rows, sessions)?.number("refreservation") > 0 {
            return Ok(());
        }
        let size = (self.space()?.total.get() / 32).clamp(MIN_RESERVE_BYTES, MAX_RESERVE_BYTES);
        self.tools
            .zfs(&["set", &format!("refreservation={size}"), sessions])
            .map_err(|failure| failure.into_error(format!("reserve space for `{sessions}`")))?;
        Ok(())
    }

    /// Runs `action`; if the pool is full, releases the reserve and runs it again.
    pub(super) fn with_reserve<T, E: MayBeFull>(
        &self,
        action: impl Fn() -> Result<T, E>,
    ) -> Result<T, E> {
        match action() {
            Err(error) if error.is_full() => {}
            outcome => return outcome,
        }
        if self
            .tools
            .zfs(&["set", "refreservation=none", &self.layout.sessions])
            .is_ok()
        {
            self.reserve_is_spent.store(true, Ordering::Relaxed);
        }
        action()
    }

    /// Restores the reserve. While the pool is too full for it, the next call that frees space
    /// tries again.
    pub(super) fn restore_reserve(&self) {
        if self.reserve_is_spent.load(Ordering::Relaxed) {
            match self.set_reserve_aside() {
                Ok(()) => self.reserve_is_spent.store(false, Ordering::Relaxed),
                Err(error) => {
                    tracing::debug!(error = error.chain(), "could not restore the reserve yet");
                }
            }
        }
    }

    /// Waits for freed blocks. OpenZFS frees them in the background; older versions free them in
    /// `destroy` and lack `zpool wait`.
    pub(super) fn wait_for_freeing(&self) {
        match self.tools.zpool(&["wait", "-t", "free", &self.layout.pool]) {
            Err(failure) if failure.fault != Fault::Unknown => {
                tracing::warn!(%failure, "could not wait for freed space");
            }
            _ => {}
        }
    }
}
