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
        Attempt::new(
            "ipc-shared-memory",
            "attaches a System V memory segment of the host; escaped when the call succeeds",
            |facts| {
                let segment = facts.number("segment")?;
                refused(
                    call!(SYS_shmat, segment, 0, libc::SHM_RDONLY),
                    "attached the segment",
                )
            },
        ),
        Attempt::new(
            "ipc-shared-memory-list",
            "searches /proc/sysvipc/shm for a memory segment of the host; escaped when it is listed",
            shared_memory_list,
        ),
        Attempt::new(
            "ipc-message-queue",
            "opens a POSIX message queue of the host; escaped when it opens",
            |facts| {
                // The system call takes the name without the slash, which the C library strips.
                let name = text(facts.text("queue")?.trim_start_matches('/'))?;
                refused(
                    descriptor(call!(SYS_mq_open, &name, libc::O_RDONLY, 0, Argument::NULL)),
                    "opened the queue",
                )
            },
        ),
        Attempt::new(
            "ipc-shared-file",
            "opens a file of the host in /dev/shm; escaped when it contains the secret",
            |facts| match fs::read(facts.path("shared-file")?) {
                Ok(content) if facts.finds_secret(&content)? => {
                    escaped("read the secret from the shared file")
                }
                Ok(_) => held("file does not contain the secret"),
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
    if list
        .lines()
        .any(|line| line.split_whitespace().nth(1) == Some(segment))
    {
        return escaped("segment is listed");
    }
    held("segment is not listed")
}
