//! System V and POSIX objects, which have no path.

use std::fs;

use crate::{
    attempt::{Attempt, Family},
    call::{Argument, call, descriptor, text},
    facts::Facts,
    verdict::{Outcome, escaped, held, refused},
};

pub(crate) const FAMILY: Family = Family {
    name: "ipc",
    attempts: &[
        Attempt::new("ipc-shared-memory", "attaches a memory segment of the host; escaped when it may", |facts| {
            let segment = facts.number("segment")?;
            refused(call!(SYS_shmat, segment, 0, libc::SHM_RDONLY), "attached it")
        }),
        Attempt::new(
            "ipc-shared-memory-list",
            "looks for a memory segment of the host in /proc/sysvipc; escaped when it is listed",
            shared_memory_list,
        ),
        Attempt::new("ipc-message-queue", "opens a message queue of the host; escaped when it opens", |facts| {
            // Without the slash a library would take off.
            let name = text(facts.text("queue")?.trim_start_matches('/'))?;
            refused(descriptor(call!(SYS_mq_open, &name, libc::O_RDONLY, 0, Argument::NULL)), "opened it")
        }),
        Attempt::new(
            "ipc-shared-file",
            "opens a file of the host in /dev/shm; escaped when it holds the secret",
            |facts| match fs::read(facts.path("shared-file")?) {
                Ok(content) if facts.finds_secret(&content)? => escaped("read the secret"),
                Ok(_) => held("another file"),
                Err(error) => held(error),
            },
        ),
    ],
};

fn shared_memory_list(facts: &Facts) -> Outcome {
    let segment = facts.text("segment")?;
    let list = match fs::read_to_string("/proc/sysvipc/shm") {
        Ok(list) => list,
        Err(error) => return held(error),
    };
    // The second column is the id.
    if list.lines().any(|line| line.split_whitespace().nth(1) == Some(segment)) {
        return escaped("it is listed");
    }
    held("it is not listed")
}
