//! Owners of files and processes: who they are inside a sandbox, and who they are on the host.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A private range of the host's users and groups. Owner `n` inside a sandbox is `first + n` on the host, and `n` on disk:
/// mounts made with the map translate, so that one base serves every sandbox and a volume does not know which range it
/// was used with.
#[derive(Debug)]
pub struct OwnerMap {
    first: u32,
    namespace: OwnedFd,
}

impl OwnerMap {
    /// How many owners there are inside a sandbox.
    pub const COUNT: u32 = 65_536;

    /// `namespace` is a user namespace that maps `0..COUNT` to `first..first + COUNT`.
    pub const fn new(first: u32, namespace: OwnedFd) -> Self {
        Self { first, namespace }
    }

    /// The host's owner that is 0 inside.
    pub const fn first(&self) -> u32 {
        self.first
    }

    /// Who `inside` is on the host. One the sandbox has no room for is its nobody.
    pub const fn on_host(&self, inside: u32) -> u32 {
        self.first + if inside < Self::COUNT { inside } else { NOBODY }
    }

    /// Who `on_host` is inside. An owner outside the range is nobody there.
    pub const fn inside(&self, on_host: u32) -> u32 {
        if on_host >= self.first && on_host - self.first < Self::COUNT { on_host - self.first } else { NOBODY }
    }
}

/// What the kernel shows for owners it cannot translate, and who that is inside.
const NOBODY: u32 = 65_534;

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
    fn owners_translate_both_ways_and_strangers_are_nobody() {
        let map = OwnerMap::new(1_000_000, std::fs::File::open("/dev/null").unwrap().into());
        assert_eq!((map.on_host(0), map.on_host(33)), (1_000_000, 1_000_033));
        assert_eq!((map.inside(1_000_033), map.inside(0), map.inside(1_065_536)), (33, 65_534, 65_534));
        assert_eq!(map.on_host(70_000), 1_065_534);
    }
}
