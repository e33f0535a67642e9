//! Process trees without cgroups, as far as `/proc` shows them.
//!
//! Best effort: found are the processes of the leader's session and its descendants. A daemon that made a session of
//! its own and lost its parent is not found; [`isolation`](crate::Runtime::isolation) says so.

use std::{collections::HashSet, fs};

use rustix::process::{Pid, Signal, kill_process};

pub(crate) struct Entry {
    pid: i32,
    parent: i32,
    session: i32,
    zombie: bool,
}

/// Ends the process session `leader` and all its descendants.
pub(crate) fn kill(leader: u32) {
    // A process may fork while the list is read; a few rounds catch the children.
    for _ in 0..16 {
        let members = members(leader);
        if members.is_empty() {
            return;
        }
        for pid in members.into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

fn members(leader: u32) -> Vec<i32> {
    let Ok(leader) = i32::try_from(leader) else { return Vec::new() };
    let entries = processes();
    let mut found: HashSet<i32> =
        entries.iter().filter(|entry| entry.session == leader || entry.pid == leader).map(|entry| entry.pid).collect();
    loop {
        let before = found.len();
        found.extend(
            entries.iter().filter(|entry| found.contains(&entry.parent)).map(|entry| entry.pid).collect::<Vec<_>>(),
        );
        if found.len() == before {
            break;
        }
    }
    entries.iter().filter(|entry| !entry.zombie && found.contains(&entry.pid)).map(|entry| entry.pid).collect()
}

fn processes() -> Vec<Entry> {
    let directory = fs::read_dir("/proc").into_iter().flatten().flatten();
    directory
        .filter_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            parse(pid, &fs::read_to_string(entry.path().join("stat")).ok()?)
        })
        .collect()
}

/// `pid (name) state ppid pgrp session …`; the name may hold anything, so the last `)` ends it.
pub(crate) fn parse(pid: i32, stat: &str) -> Option<Entry> {
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    let zombie = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let _group = fields.next()?;
    Some(Entry { pid, parent, session: fields.next()?.parse().ok()?, zombie })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let entry = parse(7, "7 (a) b) c) S 3 5 6 0 -1").unwrap();
        assert_eq!((entry.parent, entry.session, entry.zombie), (3, 6, false));
        assert!(parse(7, "7 (dead) Z 3 5 6").unwrap().zombie);
        assert!(parse(7, "nonsense").is_none());
    }
}
