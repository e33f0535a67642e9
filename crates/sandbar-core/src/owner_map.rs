//! Mapping of uids and gids between a sandbox and the host.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Private range of host uids and gids. Id `n` inside a sandbox is `first + n` on the host and `n`
/// on disk: id-mapped mounts translate, so that one base serves every sandbox and a volume does not
/// depend on the range.
#[derive(Debug)]
pub struct OwnerMap {
    first: u32,
    namespace: OwnedFd,
}

impl OwnerMap {
    /// Number of ids inside a sandbox.
    pub const COUNT: u32 = 65_536;

    /// Takes a user namespace that maps `0..COUNT` to `first..first + COUNT`.
    pub const fn new(first: u32, namespace: OwnedFd) -> Self {
        Self { first, namespace }
    }

    /// Returns the host id of id 0 inside.
    pub const fn first(&self) -> u32 {
        self.first
    }

    /// Returns the host id of an id inside. Ids outside the range map to the overflow id of the
    /// sandbox.
    pub const fn on_host(&self, inside: u32) -> u32 {
        self.first
            + if inside < Self::COUNT {
                inside
            } else {
                OVERFLOW_ID
            }
    }

    /// Returns the id inside of a host id. Ids outside the range map to the overflow id.
    pub const fn inside(&self, on_host: u32) -> u32 {
        if on_host >= self.first && on_host - self.first < Self::COUNT {
            on_host - self.first
        } else {
            OVERFLOW_ID
        }
    }
}

/// Overflow uid and gid: shown by the kernel for ids that are not mapped.
const OVERFLOW_ID: u32 = 65_534;

/// The user namespace that holds the map.
impl AsFd for OwnerMap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.namespace.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_map_both_ways_and_others_to_the_overflow_id() {
        let map = OwnerMap::new(1_000_000, std::fs::File::open("/dev/null").unwrap().into());
        assert_eq!((map.on_host(0), map.on_host(33)), (1_000_000, 1_000_033));
        assert_eq!(
            (map.inside(1_000_033), map.inside(0), map.inside(1_065_536)),
            (33, 65_534, 65_534)
        );
        assert_eq!(map.on_host(70_000), 1_065_534);
    }
}
