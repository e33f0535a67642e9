//! Owner ids of a member: uid and gid, and those in its ACLs and file capabilities.

use super::entry::ArchiveEntry;

const ACL_HEADER: usize = 4;
const ACL_ENTRY: usize = 8;
const ACL_USER: u16 = 0x02;
const ACL_GROUP: u16 = 0x08;

/// Revision and size of `security.capability`: version 2 for the initial user namespace, version 3
/// with the root uid of another one.
const VFS_CAP_V2: (u8, usize) = (2, 20);
const VFS_CAP_V3: (u8, usize) = (3, 24);

impl ArchiveEntry {
    /// Translates every owner id. An ID-mapped mount shows and accepts host ids; an archive holds
    /// the ids inside the sandbox.
    pub fn translate_owners(&mut self, translate: &dyn Fn(u32) -> u32) {
        self.uid = translate(self.uid);
        self.gid = translate(self.gid);
        for (name, value) in &mut self.xattrs {
            match name.to_bytes() {
                b"system.posix_acl_access" | b"system.posix_acl_default" => {
                    translate_acl(value, translate);
                }
                b"security.capability" => translate_capability(value, translate),
                _ => {}
            }
        }
    }
}

/// Translates a POSIX ACL: a version, then entries of tag, permissions and id. Only user and group
/// entries have an id.
fn translate_acl(value: &mut [u8], translate: &dyn Fn(u32) -> u32) {
    let Some(entries) = value.get_mut(ACL_HEADER..) else {
        return;
    };
    for entry in entries.chunks_exact_mut(ACL_ENTRY) {
        let [tag_low, tag_high, _, _, number @ ..] = entry else {
            continue;
        };
        let Ok(before) = <[u8; 4]>::try_from(&*number) else {
            continue;
        };
        if matches!(
            u16::from_le_bytes([*tag_low, *tag_high]),
            ACL_USER | ACL_GROUP
        ) {
            number.copy_from_slice(&translate(u32::from_le_bytes(before)).to_le_bytes());
        }
    }
}

/// Translates file capabilities. Those for root uid 0 are written as version 2, without an id.
fn translate_capability(value: &mut Vec<u8>, translate: &dyn Fn(u32) -> u32) {
    let Some(revision) = value.get(3).copied() else {
        return;
    };
    let root = match (revision, value.len()) {
        VFS_CAP_V2 => 0,
        VFS_CAP_V3 => {
            let Some(Ok(number)) = value.get(VFS_CAP_V2.1..).map(<[u8; 4]>::try_from) else {
                return;
            };
            u32::from_le_bytes(number)
        }
        _ => return,
    };
    value.truncate(VFS_CAP_V2.1);
    value[3] = VFS_CAP_V2.0;
    let root = translate(root);
    if root != 0 {
        value[3] = VFS_CAP_V3.0;
        value.extend(root.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use rustix::fs::Timespec;

    use super::*;
    use crate::archive::EntryKind;

    fn entry(xattrs: &[(&str, &[u8])]) -> ArchiveEntry {
        ArchiveEntry {
            path: b"x".to_vec(),
            kind: EntryKind::File,
            mode: 0o644,
            uid: 0,
            gid: 1000,
            modified: Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            size: 0,
            segments: None,
            xattrs: xattrs
                .iter()
                .map(|(name, value)| (CString::new(*name).unwrap(), value.to_vec()))
                .collect(),
        }
    }

    #[test]
    fn translate_owners_maps_every_id_and_back() {
        let acl = sandbar_testing::tree::acl();
        let capability = sandbar_testing::tree::capability();
        let before = entry(&[
            ("security.capability", &capability),
            ("system.posix_acl_access", &acl),
            ("user.note", b"1234"),
        ]);
        let mut there = before.clone();
        there.translate_owners(&|owner| owner + 70_000);
        assert_eq!((there.uid, there.gid), (70_000, 71_000));
        assert_eq!(
            (there.xattrs[0].1[3], &there.xattrs[0].1[20..]),
            (3, &70_000u32.to_le_bytes()[..])
        );
        // Only the entry of user 1234 has an id.
        assert_eq!(there.xattrs[1].1[16..20], 71_234u32.to_le_bytes());
        assert_eq!(there.xattrs[1].1[..16], acl[..16]);
        assert_eq!(there.xattrs[1].1[20..], acl[20..]);
        assert_eq!(there.xattrs[2].1, b"1234");
        there.translate_owners(&|owner| owner - 70_000);
        assert_eq!(
            (there.uid, there.gid, there.xattrs),
            (before.uid, before.gid, before.xattrs)
        );
    }

    #[test]
    fn translate_owners_leaves_malformed_xattrs() {
        let nonsense: [(&str, &[u8]); 4] = [
            ("security.capability", b"\x01\x00\x00\x03short"),
            ("security.capability", b""),
            ("system.posix_acl_access", b"\x02\x00"),
            ("system.posix_acl_default", b"\x02\x00\x00\x00\x02\x00\x07"),
        ];
        let mut found = entry(&nonsense);
        found.translate_owners(&|owner| owner + 1);
        assert_eq!(found.xattrs, entry(&nonsense).xattrs);
    }
}
