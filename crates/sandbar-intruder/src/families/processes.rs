//! Processes of the host, and process 1 of the box, which answers to the host.

use std::{
    fs::{self, File},
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::Path,
};

use crate::{
    attempt::{Attempt, Family},
    call::{Argument, by_number, call, descriptor, open},
    facts::{Facts, visible_processes},
    verdict::{Inconclusive, Outcome, escaped, held, not_permitted, refused},
};

pub(crate) const FAMILY: Family = Family {
    name: "processes",
    attempts: &[
        Attempt::new(
            "host-pid-visible",
            "lists a host process in /proc; escaped when the directory opens",
            |facts| {
                let pid = facts.number("host-pid")?;
                refused(
                    fs::read_dir(format!("/proc/{pid}")),
                    "listed the host process",
                )
            },
        ),
        Attempt::new(
            "host-pid-signal",
            "sends signal 0 to a host process; escaped when the call succeeds",
            |facts| {
                refused(
                    call!(SYS_kill, facts.number("host-pid")?, 0),
                    "signalled the host process",
                )
            },
        ),
        Attempt::new(
            "host-pid-signal-thread",
            "sends signal 0 to a host thread; escaped when the call succeeds",
            |facts| {
                let pid = facts.number("host-pid")?;
                refused(call!(SYS_tgkill, pid, pid, 0), "signalled the host thread")
            },
        ),
        Attempt::new(
            "host-pid-handle",
            "opens a pidfd of a host process; escaped when the call succeeds",
            |facts| {
                refused(
                    process_handle(facts.number("host-pid")?),
                    "opened a pidfd of the host process",
                )
            },
        ),
        Attempt::new(
            "host-pid-trace",
            "attaches to a host process with ptrace; escaped when the call succeeds",
            |facts| refused(trace(facts.number("host-pid")?), "traces the host process"),
        ),
        Attempt::new(
            "host-pid-read-memory",
            "reads memory of a host process; escaped when the permission check passes",
            |facts| {
                not_permitted(
                    transfer(libc::SYS_process_vm_readv, facts.number("host-pid")?),
                    "memory read permitted",
                )
            },
        ),
        Attempt::new(
            "host-pid-limits",
            "reads resource limits of a host process; escaped when the call succeeds",
            |facts| {
                let mut limits = [0_u64; 2];
                let pid = facts.number("host-pid")?;
                let read = call!(
                    SYS_prlimit64,
                    pid,
                    libc::RLIMIT_NOFILE,
                    Argument::NULL,
                    Argument::write(&mut limits)
                );
                refused(read, "read the limits of the host process")
            },
        ),
        Attempt::new(
            "host-pid-priority",
            "reads the priority of a host process; escaped when the call succeeds",
            |facts| {
                let pid = facts.number("host-pid")?;
                refused(
                    call!(SYS_getpriority, libc::PRIO_PROCESS, pid),
                    "read the priority of the host process",
                )
            },
        ),
        Attempt::new(
            "host-pid-environment",
            "reads the environment of every visible process; escaped when one contains the secret",
            |facts| find_secret(facts, "environ"),
        ),
        Attempt::new(
            "process-1-environment",
            "reads the environment of pid 1; escaped when it contains the secret",
            process_1_environment,
        ),
        Attempt::new(
            "process-1-trace",
            "attaches to pid 1 with ptrace; escaped when the call succeeds",
            |_| refused(trace(1), "traces pid 1"),
        ),
        Attempt::new(
            "process-1-read-memory",
            "reads memory of pid 1; escaped when the permission check passes",
            |_| {
                not_permitted(
                    transfer(libc::SYS_process_vm_readv, 1),
                    "memory read permitted",
                )
            },
        ),
        Attempt::new(
            "process-1-write-memory",
            "writes memory of pid 1; escaped when the permission check passes",
            |_| {
                not_permitted(
                    transfer(libc::SYS_process_vm_writev, 1),
                    "memory write permitted",
                )
            },
        ),
        Attempt::new(
            "process-1-memory-file",
            "opens /proc/1/mem for writing; escaped when it opens",
            |_| {
                refused(
                    open(Path::new("/proc/1/mem"), libc::O_RDWR),
                    "opened /proc/1/mem",
                )
            },
        ),
        Attempt::new(
            "process-1-maps",
            "reads the memory map of pid 1; escaped when it is not empty",
            |_| read_file("/proc/1/maps"),
        ),
        Attempt::new(
            "process-1-vectors",
            "reads the auxiliary vector of pid 1; escaped when it is not empty",
            |_| read_file("/proc/1/auxv"),
        ),
        Attempt::new(
            "process-1-descriptors",
            "reads the descriptor links of pid 1; escaped when it reads the target of one",
            process_1_descriptors,
        ),
        Attempt::new(
            "process-1-take-descriptor",
            "copies descriptors of pid 1 with `pidfd_getfd`; escaped when the permission check passes",
            take_descriptor,
        ),
        Attempt::new(
            "process-1-overwrite-program",
            "opens the executable of pid 1 for writing (CVE-2019-5736); escaped when it opens or fails with ETXTBSY",
            |_| overwrite_program(Path::new("/proc/1/exe")),
        ),
        Attempt::new(
            "every-process-overwrite-program",
            "opens the executable of every other visible process for writing; escaped when one opens or fails with ETXTBSY",
            overwrite_every_program,
        ),
        Attempt::new(
            "process-1-compare",
            "compares kernel resources with those of pid 1 by `kcmp`; escaped when the permission check passes",
            |_| {
                // The file system state of both.
                const KCMP_FS: i32 = 3;
                not_permitted(
                    call!(SYS_kcmp, own_pid()?, 1, KCMP_FS, 0, 0),
                    "kcmp permitted",
                )
            },
        ),
        Attempt::new(
            "process-1-move-pages",
            "queries the page locations of pid 1 with `move_pages`; escaped when the permission check passes",
            |_| {
                not_permitted(
                    call!(
                        SYS_move_pages,
                        1,
                        0,
                        Argument::NULL,
                        Argument::NULL,
                        Argument::NULL,
                        0
                    ),
                    "move_pages permitted",
                )
            },
        ),
        Attempt::new(
            "process-1-migrate-pages",
            "migrates pages of pid 1 to another memory node; escaped when the permission check passes",
            |_| {
                let nowhere = 0_u64;
                not_permitted(
                    call!(
                        SYS_migrate_pages,
                        1,
                        1,
                        Argument::read(&nowhere),
                        Argument::read(&nowhere)
                    ),
                    "migrate_pages permitted",
                )
            },
        ),
        Attempt::new(
            "process-1-advise",
            "advises on memory of pid 1 with `process_madvise`; escaped when the permission check passes",
            |_| advise(),
        ),
        Attempt::new(
            "process-1-robust-list",
            "reads the robust futex list of pid 1; escaped when the call succeeds",
            |_| {
                let (mut head, mut length) = (0_usize, 0_usize);
                refused(
                    call!(
                        SYS_get_robust_list,
                        1,
                        Argument::write(&mut head),
                        Argument::write(&mut length)
                    ),
                    "read the address of the robust list",
                )
            },
        ),
    ],
};

fn own_pid() -> Result<i32, Inconclusive> {
    i32::try_from(std::process::id()).map_err(|_| Inconclusive("an impossible pid".to_owned()))
}

fn process_handle(pid: i32) -> io::Result<OwnedFd> {
    descriptor(call!(SYS_pidfd_open, pid, 0))
}

/// Attaches without stopping. The kernel detaches when the tracer ends.
fn trace(pid: i32) -> io::Result<usize> {
    call!(SYS_ptrace, libc::PTRACE_SEIZE, pid, 0, 0)
}

/// Copies one byte from or to an unmapped address: the kernel checks permission first.
fn transfer(number: libc::c_long, pid: i32) -> io::Result<usize> {
    let byte = [0_u8];
    let here = [byte.as_ptr().expose_provenance(), 1];
    let there = [8_usize, 1];
    by_number(
        number,
        &[
            Argument::from(pid),
            Argument::read(&here),
            Argument::from(1),
            Argument::read(&there),
            Argument::from(1),
        ],
    )
}

fn read_file(path: &str) -> Outcome {
    match fs::read(path) {
        Ok(content) if content.is_empty() => held("empty"),
        result => refused(result, format!("read {path}")),
    }
}

/// Looks for the secret in a file of every process.
fn find_secret(facts: &Facts, file: &str) -> Outcome {
    let processes = visible_processes()?;
    for process in &processes {
        if fs::read(process.join(file))
            .is_ok_and(|content| facts.finds_secret(&content).unwrap_or(false))
        {
            return escaped(format!(
                "read the secret from {}",
                process.join(file).display()
            ));
        }
    }
    facts.text("secret")?;
    held(format!(
        "no environment of {} processes contains the secret",
        processes.len()
    ))
}

fn process_1_environment(facts: &Facts) -> Outcome {
    match fs::read("/proc/1/environ") {
        Ok(content) if facts.finds_secret(&content)? => {
            escaped("read the secret from /proc/1/environ")
        }
        Ok(content) => held(format!("{} bytes without the secret", content.len())),
        Err(error) => held(error),
    }
}

fn process_1_descriptors(_: &Facts) -> Outcome {
    let entries = match fs::read_dir("/proc/1/fd") {
        Ok(entries) => entries,
        Err(error) => return held(error),
    };
    let mut last = "no descriptor listed".to_owned();
    for entry in entries.flatten() {
        match fs::read_link(entry.path()) {
            Ok(target) => {
                return escaped(format!(
                    "{} is {}",
                    entry.path().display(),
                    target.display()
                ));
            }
            Err(error) => last = error.to_string(),
        }
    }
    held(last)
}

fn take_descriptor(_: &Facts) -> Outcome {
    let handle = match process_handle(1) {
        Ok(handle) => handle,
        Err(error) => return held(error),
    };
    let mut last = Err(io::Error::from_raw_os_error(libc::EBADF));
    for number in 0..16 {
        last = descriptor(call!(SYS_pidfd_getfd, handle.as_raw_fd(), number, 0));
        if last.is_ok() {
            break;
        }
    }
    not_permitted(last, "pidfd_getfd permitted")
}

fn overwrite_program(link: &Path) -> Outcome {
    match File::options().write(true).open(link) {
        // The kernel checks for a running executable after the permission check.
        Err(error) if error.raw_os_error() == Some(libc::ETXTBSY) => {
            escaped("write access permitted: the open failed with ETXTBSY only")
        }
        result => refused(result, "opened the executable for writing"),
    }
}

fn overwrite_every_program(_: &Facts) -> Outcome {
    let own = fs::read_link("/proc/self/exe")?;
    let mut last = held("no other executable is visible");
    for process in visible_processes()? {
        let link = process.join("exe");
        if fs::read_link(&link).is_ok_and(|program| program != own) {
            last = overwrite_program(&link);
            if matches!(last, Ok(crate::verdict::Verdict::Escaped(_))) {
                break;
            }
        }
    }
    last
}

fn advise() -> Outcome {
    let handle = match process_handle(1) {
        Ok(handle) => handle,
        Err(error) => return held(error),
    };
    // An unmapped page.
    let place = [4096_usize, 4096];
    let advised = call!(
        SYS_process_madvise,
        handle.as_raw_fd(),
        Argument::read(&place),
        1,
        libc::MADV_COLD,
        0
    );
    not_permitted(advised, "process_madvise permitted")
}
