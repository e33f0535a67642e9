//! Calls that act on the whole machine. Each is given arguments it refuses after it has asked for permission.

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
            "sets the clock to 1970, which no machine that runs can be; escaped when it may",
            |_| {
                not_permitted(
                    call!(SYS_clock_settime, libc::CLOCK_REALTIME, Argument::read(&EPOCH)),
                    "may set the clock",
                )
            },
        ),
        Attempt::new("clock-set-old", "the same by `settimeofday`; escaped when it may", |_| {
            not_permitted(call!(SYS_settimeofday, Argument::read(&EPOCH), Argument::NULL), "may set the clock")
        }),
        Attempt::new("clock-adjust", "adjusts the tick to nothing, which is refused; escaped when it may", |_| {
            let mut adjustment = no_tick();
            not_permitted(call!(SYS_adjtimex, Argument::write(&mut adjustment)), "may adjust the clock")
        }),
        Attempt::new("clock-adjust-new", "the same by `clock_adjtime`; escaped when it may", |_| {
            let mut adjustment = no_tick();
            not_permitted(
                call!(SYS_clock_adjtime, libc::CLOCK_REALTIME, Argument::write(&mut adjustment)),
                "may adjust the clock",
            )
        }),
        Attempt::new("clock-wake", "makes a timer that wakes the machine; escaped when it gets one", |_| {
            refused(descriptor(call!(SYS_timerfd_create, libc::CLOCK_REALTIME_ALARM, libc::O_CLOEXEC)), "got one")
        }),
        Attempt::new("host-name", "sets the host name to what it is; escaped when it may", host_name),
        Attempt::new("domain-name", "sets the domain name to what it is; escaped when it may", domain_name),
        Attempt::new("reboot", "reboots with numbers that are not the right ones; escaped when it may", |_| {
            not_permitted(call!(SYS_reboot, 0, 0, 0, Argument::NULL), "may reboot")
        }),
        Attempt::new("swap-on", "swaps to a file of its own that is no swap space; escaped when it may", |_| {
            let scratch = Scratch::new()?;
            let file = text(scratch.file("file", &[0; 8192])?)?;
            not_permitted(call!(SYS_swapon, &file, 0), "may add swap space")
        }),
        Attempt::new("swap-off", "stops swapping to a file that is not there; escaped when it may", |_| {
            not_permitted(call!(SYS_swapoff, c"/sandbar-no-such-file"), "may remove swap space")
        }),
        Attempt::new("accounting", "writes accounts to a file that is not there; escaped when it may", |_| {
            not_permitted(call!(SYS_acct, c"/sandbar-no-such-file"), "may account")
        }),
        Attempt::new(
            "quotas",
            "reads the quotas of everybody on the root file system; escaped when it gets them",
            quotas,
        ),
        Attempt::new("kernel-log", "reads the kernel log; escaped when it gets a byte", |_| {
            const READ_ALL: i32 = 3;
            let mut log = [0_u8; 4096];
            let length = log.len();
            match call!(SYS_syslog, READ_ALL, Argument::write(&mut log), length) {
                Ok(0) => held("empty"),
                // The first line is enough to know whose it is.
                Ok(length) => escaped(String::from_utf8_lossy(&log[..length.min(100)])),
                Err(error) => held(error),
            }
        }),
        Attempt::new("hang-up", "hangs up its terminal, after it has left it; escaped when it may", |_| {
            call!(SYS_setsid)?;
            refused(call!(SYS_vhangup), "may hang up")
        }),
    ],
};

/// Before the machine was started, so that the kernel refuses it after it has looked at who asks.
const EPOCH: [i64; 2] = [0, 0];

/// `struct timex` that asks for a tick of no length.
fn no_tick() -> [u64; 26] {
    const TICK: u64 = 0x4000;
    let mut adjustment = [0; 26];
    adjustment[0] = TICK;
    adjustment
}

/// The two names of this machine.
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
    refused(call!(SYS_sethostname, Argument::read(host.as_slice()), host.len()), "may set it")
}

fn domain_name(_: &Facts) -> Outcome {
    let [_, domain] = names()?;
    refused(call!(SYS_setdomainname, Argument::read(domain.as_slice()), domain.len()), "may set it")
}

fn quotas(_: &Facts) -> Outcome {
    // `QCMD(Q_GETNEXTQUOTA, USRQUOTA)`.
    const GET_NEXT: u32 = 0x0080_0009 << 8;
    let root = std::fs::File::open("/")?;
    let mut quota = [0_u64; 16];
    let read = call!(SYS_quotactl_fd, std::os::fd::AsRawFd::as_raw_fd(&root), GET_NEXT, 0, Argument::write(&mut quota));
    match read {
        Ok(_) => escaped("read them"),
        Err(error) => held(error),
    }
}
