//! Killing of process trees without cgroups, through `/proc`.
//!
//! Best effort: finds the processes in the leader's process session and its descendants. A daemon
//! in a session of its own whose parent has exited is missed; the runtime's
//! [`isolation`](crate::Runtime::isolation) says so.

use std::{collections::HashSet, fs};

use rustix::process::{Pid, Signal, kill_process};

/// Limits how often `/proc` is scanned for processes to kill.
const MAX_ROUNDS: usize = 16;

/// Fields of `/proc/PID/stat`.
pub(crate) struct Entry {
    pid: i32,
    parent: i32,
    session: i32,
    zombie: bool,
}

/// Kills the process session of `leader` and all its descendants.
pub(crate) fn kill(leader: u32) {
    // A process may fork while `/proc` is read, so its children are found in the next round.
    for _ in 0..MAX_ROUNDS {
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
    let Ok(leader) = i32::try_from(leader) else {
        return Vec::new();
    };
    let entries = processes();
    let mut found: HashSet<i32> = entries
        .iter()
        .filter(|entry| entry.session == leader || entry.pid == leader)
        .map(|entry| entry.pid)
        .collect();
    loop {
        let before = found.len();
        found.extend(
            entries
                .iter()
                .filter(|entry| found.contains(&entry.parent))
                .map(|entry| entry.pid)
                .collect::<Vec<_>>(),
        );
        if found.len() == before {
            break;
        }
    }
    entries
        .iter()
        .filter(|entry| !entry.zombie && found.contains(&entry.pid))
        .map(|entry| entry.pid)
        .collect()
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

/// Parses `pid (name) state ppid pgrp session …`. The name may contain `)`, so the last one ends
/// it.
pub(crate) fn parse(pid: i32, stat: &str) -> Option<Entry> {
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    let zombie = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let _group = fields.next()?;
    Some(Entry {
        pid,
        parent,
        session: fields.next()?.parse().ok()?,
        zombie,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_name_with_parentheses_does_not_shift_fields() {
        let entry = parse(7, "7 (a) b) c) S 3 5 6 0 -1").unwrap();
        assert_eq!((entry.parent, entry.session, entry.zombie), (3, 6, false));
        assert!(parse(7, "7 (dead) Z 3 5 6").unwrap().zombie);
        assert!(parse(7, "nonsense").is_none());
    }
}
