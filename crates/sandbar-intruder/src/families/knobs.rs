//! Files in /proc and /sys that are not files: switches of the kernel, and what it knows.

use std::{
    fs::{self, File},
    io::Read,
    os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    path::Path,
};

use crate::{
    attempt::{Attempt, Family},
    verdict::{Outcome, escaped, held},
    walk::{Found, find_writable},
};

pub(crate) const FAMILY: Family = Family {
    name: "knobs",
    attempts: &[
        Attempt::new("knob-core-pattern", "opens the core pattern for writing; escaped when it opens", |_| {
            open_for_writing("/proc/sys/kernel/core_pattern")
        }),
        Attempt::new("knob-modprobe", "opens the path of modprobe for writing; escaped when it opens", |_| {
            open_for_writing("/proc/sys/kernel/modprobe")
        }),
        Attempt::new("knob-power-off", "opens the power-off command for writing; escaped when it opens", |_| {
            open_for_writing("/proc/sys/kernel/poweroff_cmd")
        }),
        Attempt::new("knob-panic", "opens the panic switch for writing; escaped when it opens", |_| {
            open_for_writing("/proc/sys/kernel/panic")
        }),
        Attempt::new("knob-host-name", "opens the host name for writing; escaped when it opens", |_| {
            open_for_writing("/proc/sys/kernel/hostname")
        }),
        Attempt::new("knob-last-pid", "opens the last process number for writing; escaped when it opens", |_| {
            open_for_writing("/proc/sys/kernel/ns_last_pid")
        }),
        Attempt::new("knob-randomize", "opens address randomisation for writing; escaped when it opens", |_| {
            open_for_writing("/proc/sys/kernel/randomize_va_space")
        }),
        Attempt::new("knob-overcommit", "opens memory overcommitment for writing; escaped when it opens", |_| {
            open_for_writing("/proc/sys/vm/overcommit_memory")
        }),
        Attempt::new("knob-forwarding", "opens packet forwarding for writing; escaped when it opens", |_| {
            open_for_writing("/proc/sys/net/ipv4/ip_forward")
        }),
        Attempt::new(
            "knob-interpreters",
            "opens the registry of interpreters for writing; escaped when it opens",
            |_| open_for_writing("/proc/sys/fs/binfmt_misc/register"),
        ),
        Attempt::new("knob-sysrq", "opens the SysRq switch for writing; escaped when it opens", |_| {
            open_for_writing("/proc/sys/kernel/sysrq")
        }),
        Attempt::new("knob-sysrq-trigger", "opens the SysRq trigger for writing; escaped when it opens", |_| {
            open_for_writing("/proc/sysrq-trigger")
        }),
        Attempt::new("knob-interrupts", "opens interrupt affinity for writing; escaped when it opens", |_| {
            open_for_writing("/proc/irq/default_smp_affinity")
        }),
        Attempt::new("knob-memory-types", "opens memory type registers for writing; escaped when it opens", |_| {
            open_for_writing("/proc/mtrr")
        }),
        Attempt::new("knob-uevent-helper", "opens the uevent helper for writing; escaped when it opens", |_| {
            open_for_writing("/sys/kernel/uevent_helper")
        }),
        Attempt::new("knob-power-state", "opens the power state for writing; escaped when it opens", |_| {
            open_for_writing("/sys/power/state")
        }),
        Attempt::new(
            "knob-any-sysctl",
            "looks for a file below /proc/sys it may write; escaped when there is one",
            |_| any_writable("/proc/sys", 8),
        ),
        Attempt::new("knob-any-sys", "looks for a file below /sys it may write; escaped when there is one", |_| {
            any_writable("/sys", 6)
        }),
        Attempt::new(
            "knob-any-proc",
            "looks for a file right below /proc it may write; escaped when there is one",
            |_| any_writable("/proc", 0),
        ),
        Attempt::new("tell-core", "reads the memory of the kernel from /proc/kcore; escaped when it is there", |_| {
            tells("/proc/kcore", |start| start.starts_with(b"\x7fELF"))
        }),
        Attempt::new("tell-symbols", "reads addresses from /proc/kallsyms; escaped when one is not zero", |_| {
            tells("/proc/kallsyms", first_column_is_an_address)
        }),
        Attempt::new("tell-memory-map", "reads addresses from /proc/iomem; escaped when one is not zero", |_| {
            tells("/proc/iomem", first_column_is_an_address)
        }),
        Attempt::new("tell-allocations", "reads addresses from /proc/vmallocinfo; escaped when there is one", |_| {
            tells("/proc/vmallocinfo", |start| start.starts_with(b"0x") && !start.starts_with(b"0x(null)"))
        }),
        Attempt::new("tell-timers", "reads /proc/timer_list; escaped when there is something", |_| {
            tells("/proc/timer_list", something)
        }),
        Attempt::new("tell-slabs", "reads /proc/slabinfo; escaped when there is something", |_| {
            tells("/proc/slabinfo", something)
        }),
        Attempt::new("tell-log", "opens the kernel log at /proc/kmsg; escaped when it opens", |_| {
            // Reading would take lines away from the host's own reader.
            match File::open("/proc/kmsg") {
                Ok(file) if is_null(&file) => held("masked"),
                Ok(_) => escaped("opened it"),
                Err(error) => held(error),
            }
        }),
        Attempt::new("tell-firmware", "looks into /sys/firmware; escaped when there is something", |_| {
            lists("/sys/firmware")
        }),
        Attempt::new("tell-debug", "looks into /sys/kernel/debug; escaped when there is something", |_| {
            lists("/sys/kernel/debug")
        }),
        Attempt::new("tell-tracing", "looks into /sys/kernel/tracing; escaped when there is something", |_| {
            lists("/sys/kernel/tracing")
        }),
        Attempt::new("tell-security", "looks into /sys/kernel/security; escaped when there is something", |_| {
            lists("/sys/kernel/security")
        }),
        Attempt::new("tell-pinned", "looks into /sys/fs/bpf; escaped when there is something", |_| {
            lists("/sys/fs/bpf")
        }),
    ],
};

/// Opens and does not write.
fn open_for_writing(path: &str) -> Outcome {
    match File::options().write(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path) {
        Ok(file) if is_null(&file) => held("masked"),
        Ok(_) => escaped(format!("opened {path}")),
        Err(error) => held(error),
    }
}

/// Masks are often the null device.
fn is_null(file: &File) -> bool {
    file.metadata().is_ok_and(|file| file.file_type().is_char_device() && file.rdev() == libc::makedev(1, 3))
}

fn any_writable(root: &str, depth: usize) -> Outcome {
    match find_writable(Path::new(root), depth, |path| {
        // Every process may write files of its own.
        !path.starts_with("/proc/self") && !path.starts_with("/proc/thread-self")
    }) {
        Found::Nothing(looked) => held(format!("none of {looked} files")),
        Found::Writable(path) => escaped(format!("may write {}", path.display())),
    }
}

fn tells(path: &str, something: impl Fn(&[u8]) -> bool) -> Outcome {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(1 << 20).read_to_end(&mut start));
    match read {
        Ok(_) if something(&start) => escaped(format!("{path} tells")),
        Ok(0) => held("empty"),
        Ok(_) => held("it tells nothing"),
        Err(error) => held(error),
    }
}

const fn something(start: &[u8]) -> bool {
    !start.is_empty()
}

fn first_column_is_an_address(start: &[u8]) -> bool {
    let text = String::from_utf8_lossy(start);
    let columns = text.lines().filter_map(|line| line.split_whitespace().next());
    columns.flat_map(|column| column.split('-')).any(|number| u64::from_str_radix(number, 16).is_ok_and(|n| n != 0))
}

fn lists(path: &str) -> Outcome {
    match fs::read_dir(path) {
        Ok(mut entries) => match entries.next() {
            Some(Ok(entry)) => escaped(format!("{} is there", entry.path().display())),
            _ => held("empty"),
        },
        Err(error) => held(error),
    }
}
