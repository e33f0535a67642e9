//! File entries in the format of E2B, which is that of Go.

use buffa_types::google::protobuf::Timestamp;
use sandbar_core::{EntryType, FileDetails};

use super::names::Names;
use crate::generated::filesystem::{EntryInfo, FileType};

/// Prefix of extended attributes that hold the metadata of an uploaded file.
pub(in crate::envd) const METADATA_PREFIX: &str = "user.e2b.";

/// Block size of E2B's file system.
const BLOCK_SIZE: u64 = 4096;

pub(super) fn entry_info(details: FileDetails, names: &Names) -> EntryInfo {
    let FileDetails {
        stat,
        link_end,
        attributes,
    } = details;
    let is_link = stat.entry == EntryType::Symlink;
    let path = stat.path.to_string_lossy().into_owned();
    let (kind, mode) = match (&link_end, is_link) {
        (Some(end), _) => (file_type(end.entry), end.mode & 0o777),
        (None, true) => (FileType::FILE_TYPE_UNSPECIFIED, 0),
        (None, false) => (file_type(stat.entry), stat.mode & 0o777),
    };
    // A dangling link is reported as its own target.
    let target = || {
        link_end.as_ref().map_or_else(
            || path.clone(),
            |end| end.path.to_string_lossy().into_owned(),
        )
    };
    let metadata = attributes.into_iter().filter_map(|(name, value)| {
        let key = name
            .strip_prefix(METADATA_PREFIX)
            .filter(|key| !key.is_empty())?;
        Some((key.to_owned(), String::from_utf8(value).ok()?))
    });
    EntryInfo {
        name: stat
            .path
            .file_name()
            .map_or_else(|| "/".into(), |name| name.to_string_lossy().into_owned()),
        r#type: kind.into(),
        size: i64::try_from(size(stat.entry, stat.size.get())).unwrap_or(i64::MAX),
        mode,
        permissions: permissions(stat.entry, stat.mode),
        owner: names.user(stat.uid),
        group: names.group(stat.gid),
        modified_time: Some(Timestamp {
            seconds: stat.modified.as_second(),
            nanos: stat.modified.subsec_nanosecond(),
            ..Default::default()
        })
        .into(),
        symlink_target: is_link.then(target),
        metadata: metadata.collect(),
        is_symlink: is_link,
        path,
        ..Default::default()
    }
}

/// Returns the reported size: at least one block for a directory, as on E2B's file system. On some
/// of ours an empty directory has size 0.
fn size(entry: EntryType, size: u64) -> u64 {
    if entry == EntryType::Directory {
        size.max(BLOCK_SIZE)
    } else {
        size
    }
}

fn file_type(entry: EntryType) -> FileType {
    match entry {
        EntryType::File => FileType::FILE_TYPE_FILE,
        EntryType::Directory => FileType::FILE_TYPE_DIRECTORY,
        _ => FileType::FILE_TYPE_UNSPECIFIED,
    }
}

/// Formats a mode as Go's `fs.FileMode` does: letters for type and special bits, then nine for
/// permissions.
fn permissions(entry: EntryType, mode: u32) -> String {
    let mut text = String::new();
    text.push_str(match entry {
        EntryType::File => "",
        EntryType::Directory => "d",
        EntryType::Symlink => "L",
        EntryType::BlockDevice => "D",
        EntryType::CharDevice => "Dc",
        EntryType::Fifo => "p",
        EntryType::Socket => "S",
    });
    for (bit, letter) in [(0o4000, 'u'), (0o2000, 'g'), (0o1000, 't')] {
        if mode & bit != 0 {
            text.push(letter);
        }
    }
    if text.is_empty() {
        text.push('-');
    }
    for (index, letter) in "rwxrwxrwx".chars().enumerate() {
        text.push(if mode & (0o400 >> index) != 0 {
            letter
        } else {
            '-'
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_formatted_as_in_go() {
        for (entry, mode, written) in [
            (EntryType::File, 0o644, "-rw-r--r--"),
            (EntryType::Directory, 0o755, "drwxr-xr-x"),
            (EntryType::Symlink, 0o777, "Lrwxrwxrwx"),
            (EntryType::Directory, 0o1777, "dtrwxrwxrwx"),
            (EntryType::File, 0o4755, "urwxr-xr-x"),
            (EntryType::File, 0o6711, "ugrwx--x--x"),
            (EntryType::CharDevice, 0o620, "Dcrw--w----"),
            (EntryType::Fifo, 0o600, "prw-------"),
        ] {
            assert_eq!(permissions(entry, mode), written);
        }
    }
}
