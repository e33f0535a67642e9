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
            "looks for a process of the host in /proc; escaped when it is there",
            |facts| {
                let pid = facts.number("host-pid")?;
                refused(fs::read_dir(format!("/proc/{pid}")), "sees it")
            },
        ),
        Attempt::new("host-pid-signal", "signals a process of the host (signal 0); escaped when it may", |facts| {
            refused(call!(SYS_kill, facts.number("host-pid")?, 0), "could signal it")
        }),
        Attempt::new(
            "host-pid-signal-thread",
            "signals a thread of the host (signal 0); escaped when it may",
            |facts| {
                let pid = facts.number("host-pid")?;
                refused(call!(SYS_tgkill, pid, pid, 0), "could signal it")
            },
        ),
        Attempt::new("host-pid-handle", "takes a handle of a process of the host; escaped when it gets one", |facts| {
            refused(process_handle(facts.number("host-pid")?), "holds it")
        }),
        Attempt::new("host-pid-trace", "traces a process of the host; escaped when it may", |facts| {
            refused(trace(facts.number("host-pid")?), "traces it")
        }),
        Attempt::new("host-pid-read-memory", "reads memory of a process of the host; escaped when it may", |facts| {
            not_permitted(transfer(libc::SYS_process_vm_readv, facts.number("host-pid")?), "may read it")
        }),
        Attempt::new("host-pid-limits", "reads limits of a process of the host; escaped when it may", |facts| {
            let mut limits = [0_u64; 2];
            let pid = facts.number("host-pid")?;
            let read = call!(SYS_prlimit64, pid, libc::RLIMIT_NOFILE, Argument::NULL, Argument::write(&mut limits));
            refused(read, "may read and set them")
        }),
        Attempt::new(
            "host-pid-priority",
            "reads the priority of a process of the host; escaped when it may",
            |facts| {
                let pid = facts.number("host-pid")?;
                refused(call!(SYS_getpriority, libc::PRIO_PROCESS, pid), "sees it")
            },
        ),
        Attempt::new(
            "host-pid-environment",
            "reads the environment of every process it sees; escaped when one holds the secret",
            |facts| find_secret(facts, "environ"),
        ),
        Attempt::new(
            "process-1-environment",
            "reads the environment of process 1; escaped when it holds the secret",
            process_1_environment,
        ),
        Attempt::new("process-1-trace", "traces process 1; escaped when it may", |_| refused(trace(1), "traces it")),
        Attempt::new("process-1-read-memory", "reads memory of process 1; escaped when it may", |_| {
            not_permitted(transfer(libc::SYS_process_vm_readv, 1), "may read it")
        }),
        Attempt::new("process-1-write-memory", "writes memory of process 1; escaped when it may", |_| {
            not_permitted(transfer(libc::SYS_process_vm_writev, 1), "may write it")
        }),
        Attempt::new("process-1-memory-file", "opens /proc/1/mem for writing; escaped when it opens", |_| {
            refused(open(Path::new("/proc/1/mem"), libc::O_RDWR), "opened it")
        }),
        Attempt::new("process-1-maps", "reads the memory map of process 1; escaped when there is one", |_| {
            read_file("/proc/1/maps")
        }),
        Attempt::new("process-1-vectors", "reads the start-up vector of process 1; escaped when there is one", |_| {
            read_file("/proc/1/auxv")
        }),
        Attempt::new(
            "process-1-descriptors",
            "looks through the descriptors of process 1; escaped when it learns what one of them is",
            process_1_descriptors,
        ),
        Attempt::new(
            "process-1-take-descriptor",
            "copies descriptors out of process 1; escaped when it gets one or may ask for one",
            take_descriptor,
        ),
        Attempt::new(
            "process-1-overwrite-program",
            "opens the program of process 1 for writing, as CVE-2019-5736 did; escaped when it opens or is only busy",
            |_| overwrite_program(Path::new("/proc/1/exe")),
        ),
        Attempt::new(
            "every-process-overwrite-program",
            "the same with every program that is not its own; escaped when one opens or is only busy",
            overwrite_every_program,
        ),
        Attempt::new("process-1-compare", "compares itself with process 1 by `kcmp`; escaped when it may", |_| {
            // The file system state of both.
            const KCMP_FS: i32 = 3;
            not_permitted(call!(SYS_kcmp, own_pid()?, 1, KCMP_FS, 0, 0), "may look into it")
        }),
        Attempt::new("process-1-move-pages", "asks where the pages of process 1 are; escaped when it may", |_| {
            not_permitted(
                call!(SYS_move_pages, 1, 0, Argument::NULL, Argument::NULL, Argument::NULL, 0),
                "may move its pages",
            )
        }),
        Attempt::new("process-1-migrate-pages", "moves process 1 to other memory; escaped when it may", |_| {
            let nowhere = 0_u64;
            not_permitted(
                call!(SYS_migrate_pages, 1, 1, Argument::read(&nowhere), Argument::read(&nowhere)),
                "may move its pages",
            )
        }),
        Attempt::new("process-1-advise", "advises on memory of process 1; escaped when it may", |_| advise()),
        Attempt::new("process-1-robust-list", "asks for the lock list of process 1; escaped when it gets it", |_| {
            let (mut head, mut length) = (0_usize, 0_usize);
            refused(
                call!(SYS_get_robust_list, 1, Argument::write(&mut head), Argument::write(&mut length)),
                "knows an address inside it",
            )
        }),
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

/// One byte between this process and an address nobody maps: permission is asked first.
fn transfer(number: libc::c_long, pid: i32) -> io::Result<usize> {
    let byte = [0_u8];
    let here = [byte.as_ptr().expose_provenance(), 1];
    let there = [8_usize, 1];
    by_number(
        number,
        &[Argument::from(pid), Argument::read(&here), Argument::from(1), Argument::read(&there), Argument::from(1)],
    )
}

fn read_file(path: &str) -> Outcome {
    match fs::read(path) {
        Ok(content) if content.is_empty() => held("empty"),
        result => refused(result, "read it"),
    }
}

/// Looks for the secret in a file of every process.
fn find_secret(facts: &Facts, file: &str) -> Outcome {
    let processes = visible_processes()?;
    for process in &processes {
        if fs::read(process.join(file)).is_ok_and(|content| facts.finds_secret(&content).unwrap_or(false)) {
            return escaped(format!("found the secret in {}", process.join(file).display()));
        }
    }
    facts.text("secret")?;
    held(format!("none of {} processes holds the secret", processes.len()))
}

fn process_1_environment(facts: &Facts) -> Outcome {
    match fs::read("/proc/1/environ") {
        Ok(content) if facts.finds_secret(&content)? => escaped("read the secret"),
        Ok(content) => held(format!("{} bytes without the secret", content.len())),
        Err(error) => held(error),
    }
}

fn process_1_descriptors(_: &Facts) -> Outcome {
    let entries = match fs::read_dir("/proc/1/fd") {
        Ok(entries) => entries,
        Err(error) => return held(error),
    };
    let mut last = "process 1 shows no descriptors".to_owned();
    for entry in entries.flatten() {
        match fs::read_link(entry.path()) {
            Ok(target) => return escaped(format!("{} is {}", entry.path().display(), target.display())),
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
    not_permitted(last, "took a descriptor of process 1")
}

fn overwrite_program(link: &Path) -> Outcome {
    match File::options().write(true).open(link) {
        // A program that runs cannot be written, and that is the only reason here.
        Err(error) if error.raw_os_error() == Some(libc::ETXTBSY) => escaped("only busy"),
        result => refused(result, "opened it for writing"),
    }
}

fn overwrite_every_program(_: &Facts) -> Outcome {
    let own = fs::read_link("/proc/self/exe")?;
    let mut last = held("every process it can look into runs this program");
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
    // A page nobody maps.
    let place = [4096_usize, 4096];
    let advised = call!(SYS_process_madvise, handle.as_raw_fd(), Argument::read(&place), 1, libc::MADV_COLD, 0);
    not_permitted(advised, "may advise")
}
