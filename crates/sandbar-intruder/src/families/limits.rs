//! A better standing than the box was given: limits, priorities, what the kernel kills first.

use std::{fs, io};

use crate::{
    attempt::{Attempt, Family},
    call::{Argument, call},
    facts::Facts,
    verdict::{Inconclusive, Outcome, escaped, held, refused},
};

pub(crate) const FAMILY: Family = Family {
    name: "limits",
    attempts: &[
        Attempt::new("limit-raise", "raises each of its limits; escaped when one rises above its bound", raise_limits),
        Attempt::new("limit-locked-memory", "locks more memory than its limit; escaped when it may", lock_memory),
        Attempt::new("limit-oom-score", "makes the kernel spare it when memory is short; escaped when it may", |_| {
            refused(fs::write("/proc/self/oom_score_adj", "-1000"), "the kernel would kill others first")
        }),
        Attempt::new("limit-real-time", "takes a real-time priority; escaped when it gets one", |_| {
            let priority = 1_i32;
            refused(
                call!(SYS_sched_setscheduler, 0, libc::SCHED_FIFO, Argument::read(&priority)),
                "runs before everything else",
            )
        }),
        Attempt::new("limit-deadline", "takes a deadline schedule; escaped when it gets one", |_| deadline()),
        Attempt::new("limit-priority", "raises its priority; escaped when it rises", |_| {
            refused(call!(SYS_setpriority, libc::PRIO_PROCESS, 0, -10), "nice -10")
        }),
        Attempt::new("limit-terminals", "opens 128 terminals; escaped when it gets them all", |_| terminals()),
        Attempt::new("limit-disk-priority", "takes a real-time disk priority; escaped when it gets one", |_| {
            const WHO_PROCESS: i32 = 1;
            const REAL_TIME: i32 = 1 << 13;
            refused(call!(SYS_ioprio_set, WHO_PROCESS, 0, REAL_TIME), "reads and writes before everything else")
        }),
    ],
};

fn terminals() -> Outcome {
    let mut opened = Vec::new();
    while opened.len() < 128 {
        match fs::File::options().read(true).write(true).open("/dev/ptmx") {
            Ok(terminal) => opened.push(terminal),
            Err(error) => return held(format!("{error} after {}", opened.len())),
        }
    }
    escaped("takes the machine's terminals away from others")
}

fn raise_limits(_: &Facts) -> Outcome {
    // Fifteen on every architecture there is, and the kernel says when there are fewer.
    let mut refusals = 0;
    for resource in 0..16_u32 {
        let mut limit = [0_u64; 2];
        if call!(SYS_prlimit64, 0, resource, Argument::NULL, Argument::write(&mut limit)).is_err() {
            break;
        }
        let [soft, hard] = limit;
        if hard == u64::MAX {
            continue;
        }
        let raised = [soft, hard + 1];
        match call!(SYS_prlimit64, 0, resource, Argument::read(&raised), Argument::NULL) {
            Ok(_) => return escaped(format!("raised limit {resource} above {hard}")),
            Err(_) => refusals += 1,
        }
    }
    if refusals == 0 {
        return Err(Inconclusive("no limit is bounded".to_owned()));
    }
    held(format!("{refusals} limits stayed as they are"))
}

fn lock_memory(_: &Facts) -> Outcome {
    const MOST: u64 = 1 << 30;
    let mut limit = [0_u64; 2];
    call!(SYS_prlimit64, 0, libc::RLIMIT_MEMLOCK, Argument::NULL, Argument::write(&mut limit))?;
    let [_, hard] = limit;
    if hard > MOST {
        return escaped("nothing bounds what it may lock");
    }
    // Not one page of it is touched, and the kernel compares before it does.
    let length = usize::try_from(hard).map_err(io::Error::other)? + (1 << 20);
    let none = -1_i32;
    let place = call!(SYS_mmap, 0, length, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, none, 0)?;
    refused(call!(SYS_mlock2, place, length, 1), format!("locked {length} bytes"))
}

/// `struct sched_attr`.
#[repr(C)]
struct Schedule {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

fn deadline() -> Outcome {
    const DEADLINE: u32 = 6;
    let schedule = Schedule {
        size: 48,
        policy: DEADLINE,
        flags: 0,
        nice: 0,
        priority: 0,
        runtime: 1_000_000,
        deadline: 1_000_000_000,
        period: 1_000_000_000,
    };
    refused(call!(SYS_sched_setattr, 0, Argument::read(&schedule), 0), "a share of the processor is its own")
}
