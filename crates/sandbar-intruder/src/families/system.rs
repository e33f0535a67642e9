//! Calls that act on the whole machine, most with arguments that the kernel rejects after its
//! permission check.

use crate::{
    attempt::{Attempt, Family},
    call::{Argument, call, descriptor, text},
    facts::Facts,
    scratch::Scratch,
    verdict::{Outcome, escaped, held, not_permitted, refused},
};

pub(crate) const FAMILY: Family = Family {
    name: "system",
    attempts: &[
        Attempt::new(
            "clock-set",
            "sets the clock to a time before boot with `clock_settime`; escaped when the permission check passes",
            |_| {
                not_permitted(
                    call!(
                        SYS_clock_settime,
                        libc::CLOCK_REALTIME,
                        Argument::read(&EPOCH)
                    ),
                    "clock change permitted",
                )
            },
        ),
        Attempt::new(
            "clock-set-old",
            "sets the clock to a time before boot with `settimeofday`; escaped when the permission check passes",
            |_| {
                not_permitted(
                    call!(SYS_settimeofday, Argument::read(&EPOCH), Argument::NULL),
                    "clock change permitted",
                )
            },
        ),
        Attempt::new(
            "clock-adjust",
            "sets an invalid tick length with `adjtimex`; escaped when the permission check passes",
            |_| {
                let mut adjustment = no_tick();
                not_permitted(
                    call!(SYS_adjtimex, Argument::write(&mut adjustment)),
                    "clock adjustment permitted",
                )
            },
        ),
        Attempt::new(
            "clock-adjust-new",
            "sets an invalid tick length with `clock_adjtime`; escaped when the permission check passes",
            |_| {
                let mut adjustment = no_tick();
                not_permitted(
                    call!(
                        SYS_clock_adjtime,
                        libc::CLOCK_REALTIME,
                        Argument::write(&mut adjustment)
                    ),
                    "clock adjustment permitted",
                )
            },
        ),
        Attempt::new(
            "clock-wake",
            "creates a timer that wakes the machine from suspend; escaped when the call succeeds",
            |_| {
                refused(
                    descriptor(call!(
                        SYS_timerfd_create,
                        libc::CLOCK_REALTIME_ALARM,
                        libc::O_CLOEXEC
                    )),
                    "created a wake-up timer",
                )
            },
        ),
        Attempt::new(
            "host-name",
            "sets the host name to its current value; escaped when the call succeeds",
            host_name,
        ),
        Attempt::new(
            "domain-name",
            "sets the domain name to its current value; escaped when the call succeeds",
            domain_name,
        ),
        Attempt::new(
            "reboot",
            "calls `reboot` with invalid magic numbers; escaped when the permission check passes",
            |_| {
                not_permitted(
                    call!(SYS_reboot, 0, 0, 0, Argument::NULL),
                    "reboot permitted",
                )
            },
        ),
        Attempt::new(
            "swap-on",
            "adds a file without a swap header as swap space; escaped when the permission check passes",
            |_| {
                let scratch = Scratch::new()?;
                let file = text(scratch.file("file", &[0; 8192])?)?;
                not_permitted(call!(SYS_swapon, &file, 0), "swapon permitted")
            },
        ),
        Attempt::new(
            "swap-off",
            "removes a nonexistent file from swap space; escaped when the permission check passes",
            |_| {
                not_permitted(
                    call!(SYS_swapoff, c"/sandbar-no-such-file"),
                    "swapoff permitted",
                )
            },
        ),
        Attempt::new(
            "accounting",
            "enables process accounting to a nonexistent file; escaped when the permission check passes",
            |_| not_permitted(call!(SYS_acct, c"/sandbar-no-such-file"), "acct permitted"),
        ),
        Attempt::new(
            "quotas",
            "reads the quotas of all users on the root file system; escaped when the call succeeds",
            quotas,
        ),
        Attempt::new(
            "kernel-log",
            "reads the kernel log with `syslog`; escaped when it is not empty",
            |_| {
                const READ_ALL: i32 = 3;
                let mut log = [0_u8; 4096];
                let length = log.len();
                match call!(SYS_syslog, READ_ALL, Argument::write(&mut log), length) {
                    Ok(0) => held("empty"),
                    // The first line shows which kernel wrote the log.
                    Ok(length) => escaped(String::from_utf8_lossy(&log[..length.min(100)])),
                    Err(error) => held(error),
                }
            },
        ),
        Attempt::new(
            "hang-up",
            "hangs up the current terminal from a new session; escaped when the call succeeds",
            |_| {
                call!(SYS_setsid)?;
                refused(call!(SYS_vhangup), "vhangup succeeded")
            },
        ),
    ],
};

/// Time before boot, which the kernel rejects after its permission check.
const EPOCH: [i64; 2] = [0, 0];

/// Returns a `struct timex` that sets a tick of length zero, which is invalid.
fn no_tick() -> [u64; 26] {
    const TICK: u64 = 0x4000;
    let mut adjustment = [0; 26];
    adjustment[0] = TICK;
    adjustment
}

/// Returns the host name and the domain name.
fn names() -> std::io::Result<[Vec<u8>; 2]> {
    const LENGTH: usize = 65;
    let mut names = [0_u8; 6 * LENGTH];
    call!(SYS_uname, Argument::write(&mut names))?;
    let name = |number: usize| {
        let name = &names[number * LENGTH..(number + 1) * LENGTH];
        name.iter().copied().take_while(|&byte| byte != 0).collect()
    };
    Ok([name(1), name(5)])
}

fn host_name(_: &Facts) -> Outcome {
    let [host, _] = names()?;
    refused(
        call!(SYS_sethostname, Argument::read(host.as_slice()), host.len()),
        "host name set",
    )
}

fn domain_name(_: &Facts) -> Outcome {
    let [_, domain] = names()?;
    refused(
        call!(
            SYS_setdomainname,
            Argument::read(domain.as_slice()),
            domain.len()
        ),
        "domain name set",
    )
}

fn quotas(_: &Facts) -> Outcome {
    // `QCMD(Q_GETNEXTQUOTA, USRQUOTA)`.
    const GET_NEXT: u32 = 0x0080_0009 << 8;
    let root = std::fs::File::open("/")?;
    let mut quota = [0_u64; 16];
    let read = call!(
        SYS_quotactl_fd,
        std::os::fd::AsRawFd::as_raw_fd(&root),
        GET_NEXT,
        0,
        Argument::write(&mut quota)
    );
    match read {
        Ok(_) => escaped("read a quota"),
        Err(error) => held(error),
    }
}
