//! Looking for some bytes everywhere a session is: the memory of its processes, and the files
//! below.

use std::{
    fs::{self, File},
    io::{Read, Seek, SeekFrom},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use rustix::fs::{SeekFrom as SparseSeek, seek, statfs};

const PAGE: u64 = 4096;
/// Pages that are read at a time.
const STRETCH: u64 = 256;
const OVERLAY: i64 = 0x794c_7630;

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    memchr::memmem::find(haystack, needle).is_some()
}

/// Every process that is in a group of a host. The hosts of other tests may be among them; what is
/// looked for is not theirs.
fn processes() -> impl Iterator<Item = u32> {
    let all = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    all.filter(|pid| {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        groups.split('/').any(|part| part.starts_with("sandbar-"))
    })
}

/// Finds the bytes in the memory, environment and arguments of the processes.
pub(crate) fn in_processes(needle: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for pid in processes() {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        for file in ["environ", "cmdline"] {
            if fs::read(format!("/proc/{pid}/{file}"))
                .is_ok_and(|content| contains(&content, needle))
            {
                found.push(format!("{file} of {pid} {name}"));
            }
        }
        for region in regions_with(pid, needle).unwrap_or_default() {
            found.push(format!("memory of {pid} {name} at {region}"));
        }
    }
    found
}

/// A process that has ended meanwhile has no memory.
fn regions_with(pid: u32, needle: &[u8]) -> Option<Vec<String>> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    let pages = File::open(format!("/proc/{pid}/pagemap")).ok()?;
    let mut found = Vec::new();
    for line in maps.lines() {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let (start, end) = (
            u64::from_str_radix(start, 16).ok()?,
            u64::from_str_radix(end, 16).ok()?,
        );
        if !rest.starts_with('r') || rest.contains("[v") {
            continue;
        }
        if region_contains(&memory, &pages, start..end, needle) {
            found.push(line.to_owned());
        }
    }
    Some(found)
}

/// Reads only pages that are there: looking at the others would make them.
fn region_contains(
    memory: &File,
    pages: &File,
    range: std::ops::Range<u64>,
    needle: &[u8],
) -> bool {
    let mut kept: Vec<u8> = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let count = STRETCH.min((range.end - at) / PAGE);
        let mut entries = vec![0; usize::try_from(count * 8).unwrap()];
        if pages.read_exact_at(&mut entries, at / PAGE * 8).is_err() {
            return false;
        }
        for entry in entries.chunks_exact(8) {
            let is_there = entry[7] & 0b1100_0000 != 0;
            let mut page = vec![0; usize::try_from(PAGE).unwrap()];
            if is_there && memory.read_exact_at(&mut page, at).is_ok() {
                kept.extend(page);
                if contains(&kept, needle) {
                    return true;
                }
                // A match may continue in the next page.
                kept.drain(..kept.len() - needle.len());
            } else {
                kept.clear();
            }
            at += PAGE;
        }
    }
    false
}

/// The files below a directory that have the bytes in them, those of `except` left out. Overlays
/// are left out as well: their layers are files, too.
pub(crate) fn in_files(directory: &Path, needle: &[u8], except: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(path) = left.pop() {
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            continue;
        };
        if metadata.is_dir() {
            if statfs(&path).is_ok_and(|system| system.f_type != OVERLAY) {
                let entries = fs::read_dir(&path)
                    .into_iter()
                    .flatten()
                    .filter_map(Result::ok);
                left.extend(entries.map(|entry| entry.path()));
            }
        } else if metadata.is_file()
            && !path
                .as_os_str()
                .to_string_lossy()
                .starts_with(&*except.to_string_lossy())
        {
            found.extend(file_contains(&path, needle).then_some(path));
        }
    }
    found
}

/// Without reading the holes of it.
fn file_contains(path: &Path, needle: &[u8]) -> bool {
    let Ok(mut file) = File::open(path) else {
        return false;
    };
    let mut kept: Vec<u8> = Vec::new();
    let mut at = 0;
    while let Ok(data) = seek(&file, SparseSeek::Data(at)) {
        let Ok(hole) = seek(&file, SparseSeek::Hole(data)) else {
            return false;
        };
        file.seek(SeekFrom::Start(data)).unwrap();
        kept.clear();
        let mut left = hole - data;
        while left > 0 {
            let mut piece = vec![0; usize::try_from(left.min(1 << 20)).unwrap()];
            let Ok(length @ 1..) = file.read(&mut piece) else {
                break;
            };
            kept.extend(&piece[..length]);
            if contains(&kept, needle) {
                return true;
            }
            kept.drain(..kept.len().saturating_sub(needle.len()));
            left -= length as u64;
        }
        at = hole;
    }
    false
}
