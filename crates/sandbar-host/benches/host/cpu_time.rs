//! CPU time of this process and everything it started.

use std::{collections::HashMap, fs, time::Duration};

const WATCHED: Duration = Duration::from_secs(5);

/// Milliseconds of CPU time a second, over a while in which nothing is asked of the host.
pub(crate) fn while_idle() -> f64 {
    let before = used();
    std::thread::sleep(WATCHED);
    (used() - before) / WATCHED.as_secs_f64()
}

/// Milliseconds used so far by this process and its descendants that live.
fn used() -> f64 {
    let table: HashMap<u32, (u32, u64)> = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            Some((pid, parse(&fs::read_to_string(entry.path().join("stat")).ok()?)?))
        })
        .collect();
    let own = std::process::id();
    let ours = |mut pid: u32| {
        while pid != own {
            match table.get(&pid) {
                Some((parent, _)) => pid = *parent,
                None => return false,
            }
        }
        true
    };
    let ticks: u64 = table.iter().filter(|(pid, _)| ours(**pid)).map(|(_, (_, ticks))| ticks).sum();
    #[expect(clippy::cast_precision_loss, reason = "a few minutes of ticks")]
    let ticks = ticks as f64;
    ticks * 1000.0 / f64::from(u32::try_from(rustix::param::clock_ticks_per_second()).unwrap())
}

/// Parent and ticks, from `/proc/PID/stat`.
fn parse(stat: &str) -> Option<(u32, u64)> {
    // The name in brackets may hold anything; what counts comes after it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some((u32::try_from(number(1)?).ok()?, number(11)? + number(12)?))
}
