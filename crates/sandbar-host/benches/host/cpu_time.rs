//! CPU time of this process and everything it started.

use std::{collections::HashMap, fs, time::Duration};

const WATCHED: Duration = Duration::from_secs(5);

/// Milliseconds of CPU time per second while the host is idle.
pub(crate) fn while_idle() -> f64 {
    let before = used();
    std::thread::sleep(WATCHED);
    (used() - before) / WATCHED.as_secs_f64()
}

/// Milliseconds used so far by this process and its descendants, those of their threads that live.
#[expect(clippy::cast_precision_loss, reason = "a few minutes of nanoseconds")]
fn used() -> f64 {
    let parents: HashMap<u32, u32> = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            Some((
                pid,
                parent(&fs::read_to_string(entry.path().join("stat")).ok()?)?,
            ))
        })
        .collect();
    let own = std::process::id();
    let is_ours = |mut pid: u32| {
        while pid != own {
            match parents.get(&pid) {
                Some(parent) => pid = *parent,
                None => return false,
            }
        }
        true
    };
    let nanoseconds: u64 = parents
        .keys()
        .filter(|pid| is_ours(**pid))
        .map(|pid| on_cpu(*pid))
        .sum();
    nanoseconds as f64 / 1e6
}

/// Nanoseconds its threads have had a processor.
fn on_cpu(pid: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    // Looking costs more than what is looked for.
    let looker = rustix::thread::gettid().as_raw_pid().to_string();
    threads
        .filter(|thread| thread.file_name().to_str() != Some(&looker))
        .filter_map(|thread| {
            let schedule = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            schedule.split_whitespace().next()?.parse::<u64>().ok()
        })
        .sum()
}

/// The parent, from `/proc/PID/stat`.
fn parent(stat: &str) -> Option<u32> {
    // The name in brackets may hold anything; what counts comes after it.
    stat.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
}
