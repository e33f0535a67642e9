//! Raising the box's limits, priorities and OOM score.

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
        Attempt::new(
            "limit-raise",
            "raises the hard limit of each resource; escaped when one rises",
            raise_limits,
        ),
        Attempt::new(
            "limit-locked-memory",
            "locks more memory than RLIMIT_MEMLOCK; escaped when the call succeeds or the limit exceeds 1 GiB",
            lock_memory,
        ),
        Attempt::new(
            "limit-oom-score",
            "exempts itself from the OOM killer; escaped when the write succeeds",
            |_| {
                refused(
                    fs::write("/proc/self/oom_score_adj", "-1000"),
                    "oom_score_adj set to -1000",
                )
            },
        ),
        Attempt::new(
            "limit-real-time",
            "sets a real-time scheduling policy; escaped when the call succeeds",
            |_| {
                let priority = 1_i32;
                refused(
                    call!(
                        SYS_sched_setscheduler,
                        0,
                        libc::SCHED_FIFO,
                        Argument::read(&priority)
                    ),
                    "SCHED_FIFO set",
                )
            },
        ),
        Attempt::new(
            "limit-deadline",
            "sets a deadline scheduling policy; escaped when the call succeeds",
            |_| deadline(),
        ),
        Attempt::new(
            "limit-priority",
            "lowers its nice value to -10; escaped when the call succeeds",
            |_| {
                refused(
                    call!(SYS_setpriority, libc::PRIO_PROCESS, 0, -10),
                    "nice value set to -10",
                )
            },
        ),
        Attempt::new(
            "limit-terminals",
            "opens 128 pseudo-terminals; escaped when all open",
            |_| terminals(),
        ),
        Attempt::new(
            "limit-disk-priority",
            "sets a real-time I/O priority; escaped when the call succeeds",
            |_| {
                const WHO_PROCESS: i32 = 1;
                const REAL_TIME: i32 = 1 << 13;
                refused(
                    call!(SYS_ioprio_set, WHO_PROCESS, 0, REAL_TIME),
                    "real-time I/O priority set",
                )
            },
        ),
    ],
};

fn terminals() -> Outcome {
    let mut opened = Vec::new();
    while opened.len() < 128 {
        match fs::File::options().read(true).write(true).open("/dev/ptmx") {
            Ok(terminal) => opened.push(terminal),
            Err(error) => return held(format!("{error} after {} terminals", opened.len())),
        }
    }
    escaped("opened 128 terminals, which count against the limit of the host")
}

fn raise_limits(_: &Facts) -> Outcome {
    // All architectures have sixteen resources or fewer; `prlimit` rejects numbers above.
    let mut refusals = 0;
    for resource in 0..16_u32 {
        let mut limit = [0_u64; 2];
        if call!(
            SYS_prlimit64,
            0,
            resource,
            Argument::NULL,
            Argument::write(&mut limit)
        )
        .is_err()
        {
            break;
        }
        let [soft, hard] = limit;
        if hard == u64::MAX {
            continue;
        }
        let raised = [soft, hard + 1];
        match call!(
            SYS_prlimit64,
            0,
            resource,
            Argument::read(&raised),
            Argument::NULL
        ) {
            Ok(_) => return escaped(format!("raised limit {resource} above {hard}")),
            Err(_) => refusals += 1,
        }
    }
    if refusals == 0 {
        return Err(Inconclusive("every resource is unlimited".to_owned()));
    }
    held(format!("{refusals} hard limits unchanged"))
}

fn lock_memory(_: &Facts) -> Outcome {
    const MAX_LOCKED_BYTES: u64 = 1 << 30;
    let mut limit = [0_u64; 2];
    call!(
        SYS_prlimit64,
        0,
        libc::RLIMIT_MEMLOCK,
        Argument::NULL,
        Argument::write(&mut limit)
    )?;
    let [_, hard] = limit;
    if hard > MAX_LOCKED_BYTES {
        return escaped("RLIMIT_MEMLOCK exceeds 1 GiB");
    }
    // No page is touched: the kernel checks the limit before it locks.
    let length = usize::try_from(hard).map_err(io::Error::other)? + (1 << 20);
    let none = -1_i32;
    let place = call!(
        SYS_mmap,
        0,
        length,
        libc::PROT_NONE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        none,
        0
    )?;
    refused(
        call!(SYS_mlock2, place, length, 1),
        format!("locked {length} bytes"),
    )
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
    refused(
        call!(SYS_sched_setattr, 0, Argument::read(&schedule), 0),
        "SCHED_DEADLINE set",
    )
}
