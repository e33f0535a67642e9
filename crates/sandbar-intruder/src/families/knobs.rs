//! Files in /proc and /sys that change kernel settings or disclose kernel information.

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
        Attempt::new(
            "knob-core-pattern",
            "opens /proc/sys/kernel/core_pattern for writing; escaped when it opens",
            |_| open_for_writing("/proc/sys/kernel/core_pattern"),
        ),
        Attempt::new(
            "knob-modprobe",
            "opens /proc/sys/kernel/modprobe for writing; escaped when it opens",
            |_| open_for_writing("/proc/sys/kernel/modprobe"),
        ),
        Attempt::new(
            "knob-power-off",
            "opens /proc/sys/kernel/poweroff_cmd for writing; escaped when it opens",
            |_| open_for_writing("/proc/sys/kernel/poweroff_cmd"),
        ),
        Attempt::new(
            "knob-panic",
            "opens /proc/sys/kernel/panic for writing; escaped when it opens",
            |_| open_for_writing("/proc/sys/kernel/panic"),
        ),
        Attempt::new(
            "knob-host-name",
            "opens /proc/sys/kernel/hostname for writing; escaped when it opens",
            |_| open_for_writing("/proc/sys/kernel/hostname"),
        ),
        Attempt::new(
            "knob-last-pid",
            "opens /proc/sys/kernel/ns_last_pid for writing; escaped when it opens",
            |_| open_for_writing("/proc/sys/kernel/ns_last_pid"),
        ),
        Attempt::new(
            "knob-randomize",
            "opens /proc/sys/kernel/randomize_va_space for writing; escaped when it opens",
            |_| open_for_writing("/proc/sys/kernel/randomize_va_space"),
        ),
        Attempt::new(
            "knob-overcommit",
            "opens /proc/sys/vm/overcommit_memory for writing; escaped when it opens",
            |_| open_for_writing("/proc/sys/vm/overcommit_memory"),
        ),
        Attempt::new(
            "knob-forwarding",
            "opens /proc/sys/net/ipv4/ip_forward for writing; escaped when it opens",
            |_| open_for_writing("/proc/sys/net/ipv4/ip_forward"),
        ),
        Attempt::new(
            "knob-interpreters",
            "opens /proc/sys/fs/binfmt_misc/register for writing; escaped when it opens",
            |_| open_for_writing("/proc/sys/fs/binfmt_misc/register"),
        ),
        Attempt::new(
            "knob-sysrq",
            "opens /proc/sys/kernel/sysrq for writing; escaped when it opens",
            |_| open_for_writing("/proc/sys/kernel/sysrq"),
        ),
        Attempt::new(
            "knob-sysrq-trigger",
            "opens /proc/sysrq-trigger for writing; escaped when it opens",
            |_| open_for_writing("/proc/sysrq-trigger"),
        ),
        Attempt::new(
            "knob-interrupts",
            "opens /proc/irq/default_smp_affinity for writing; escaped when it opens",
            |_| open_for_writing("/proc/irq/default_smp_affinity"),
        ),
        Attempt::new(
            "knob-memory-types",
            "opens /proc/mtrr for writing; escaped when it opens",
            |_| open_for_writing("/proc/mtrr"),
        ),
        Attempt::new(
            "knob-uevent-helper",
            "opens /sys/kernel/uevent_helper for writing; escaped when it opens",
            |_| open_for_writing("/sys/kernel/uevent_helper"),
        ),
        Attempt::new(
            "knob-power-state",
            "opens /sys/power/state for writing; escaped when it opens",
            |_| open_for_writing("/sys/power/state"),
        ),
        Attempt::new(
            "knob-any-sysctl",
            "searches for a writable file below /proc/sys; escaped when there is one",
            |_| any_writable("/proc/sys", 8),
        ),
        Attempt::new(
            "knob-any-sys",
            "searches for a writable file below /sys; escaped when there is one",
            |_| any_writable("/sys", 6),
        ),
        Attempt::new(
            "knob-any-proc",
            "searches for a writable file directly in /proc; escaped when there is one",
            |_| any_writable("/proc", 0),
        ),
        Attempt::new(
            "tell-core",
            "reads kernel memory from /proc/kcore; escaped when it starts with an ELF header",
            |_| discloses("/proc/kcore", |start| start.starts_with(b"\x7fELF")),
        ),
        Attempt::new(
            "tell-symbols",
            "reads addresses from /proc/kallsyms; escaped when one is not zero",
            |_| discloses("/proc/kallsyms", first_column_is_an_address),
        ),
        Attempt::new(
            "tell-memory-map",
            "reads addresses from /proc/iomem; escaped when one is not zero",
            |_| discloses("/proc/iomem", first_column_is_an_address),
        ),
        Attempt::new(
            "tell-allocations",
            "reads addresses from /proc/vmallocinfo; escaped when the first is not null",
            |_| {
                discloses("/proc/vmallocinfo", |start| {
                    start.starts_with(b"0x") && !start.starts_with(b"0x(null)")
                })
            },
        ),
        Attempt::new(
            "tell-timers",
            "reads /proc/timer_list; escaped when it is not empty",
            |_| discloses("/proc/timer_list", is_not_empty),
        ),
        Attempt::new(
            "tell-slabs",
            "reads /proc/slabinfo; escaped when it is not empty",
            |_| discloses("/proc/slabinfo", is_not_empty),
        ),
        Attempt::new(
            "tell-log",
            "opens the kernel log at /proc/kmsg; escaped when it opens",
            |_| {
                // Reading would take lines away from the host's own reader.
                match File::open("/proc/kmsg") {
                    Ok(file) if is_null(&file) => held("masked"),
                    Ok(_) => escaped("opened /proc/kmsg"),
                    Err(error) => held(error),
                }
            },
        ),
        Attempt::new(
            "tell-firmware",
            "lists /sys/firmware; escaped when it is not empty",
            |_| lists("/sys/firmware"),
        ),
        Attempt::new(
            "tell-debug",
            "lists /sys/kernel/debug; escaped when it is not empty",
            |_| lists("/sys/kernel/debug"),
        ),
        Attempt::new(
            "tell-tracing",
            "lists /sys/kernel/tracing; escaped when it is not empty",
            |_| lists("/sys/kernel/tracing"),
        ),
        Attempt::new(
            "tell-security",
            "lists /sys/kernel/security; escaped when it is not empty",
            |_| lists("/sys/kernel/security"),
        ),
        Attempt::new(
            "tell-pinned",
            "lists /sys/fs/bpf; escaped when it is not empty",
            |_| lists("/sys/fs/bpf"),
        ),
    ],
};

/// Opens a file for writing, without writing.
fn open_for_writing(path: &str) -> Outcome {
    match File::options()
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
    {
        Ok(file) if is_null(&file) => held("masked"),
        Ok(_) => escaped(format!("opened {path}")),
        Err(error) => held(error),
    }
}

/// Returns whether a file is the null device, which often serves as a mask.
fn is_null(file: &File) -> bool {
    file.metadata()
        .is_ok_and(|file| file.file_type().is_char_device() && file.rdev() == libc::makedev(1, 3))
}

fn any_writable(root: &str, depth: usize) -> Outcome {
    match find_writable(Path::new(root), depth, |path| {
        // Every process may write files of its own.
        !path.starts_with("/proc/self") && !path.starts_with("/proc/thread-self")
    }) {
        Found::Nothing(looked) => held(format!("no writable file among {looked} entries")),
        Found::Writable(path) => escaped(format!("{} is writable", path.display())),
    }
}

fn discloses(path: &str, is_disclosure: impl Fn(&[u8]) -> bool) -> Outcome {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(1 << 20).read_to_end(&mut start));
    match read {
        Ok(_) if is_disclosure(&start) => escaped(format!("{path} discloses kernel data")),
        Ok(0) => held("empty"),
        Ok(_) => held("content without kernel data"),
        Err(error) => held(error),
    }
}

const fn is_not_empty(start: &[u8]) -> bool {
    !start.is_empty()
}

fn first_column_is_an_address(start: &[u8]) -> bool {
    let text = String::from_utf8_lossy(start);
    let columns = text
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    columns
        .flat_map(|column| column.split('-'))
        .any(|number| u64::from_str_radix(number, 16).is_ok_and(|n| n != 0))
}

fn lists(path: &str) -> Outcome {
    match fs::read_dir(path) {
        Ok(mut entries) => match entries.next() {
            Some(Ok(entry)) => escaped(format!("{} exists", entry.path().display())),
            _ => held("empty"),
        },
        Err(error) => held(error),
    }
}
