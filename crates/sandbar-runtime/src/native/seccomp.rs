//! Seccomp filter of a box.
//!
//! The filter is an allow-list. Other system calls fail with `EPERM`, and those newer than the list
//! with `ENOSYS`, so that programs fall back as on an older kernel. It searches the list binarily:
//! on installation the kernel evaluates the filter once for every system call number, and a linear
//! search would take as long as starting a program.

#![expect(unsafe_code, reason = "`seccomp` has no safe wrapper")]

use std::{io, sync::LazyLock};

use super::syscalls::{ALLOWED, NEWEST};

/// Flags of clone and unshare that create namespaces.
const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWCGROUP) as u32
    | 0x80;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;

const ALLOW: u32 = 0x7FFF_0000;
const fn errno(number: i32) -> u32 {
    0x0005_0000 | number.cast_unsigned()
}

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const fn low_argument(index: u32) -> u32 {
    16 + 8 * index
}
const fn high_argument(index: u32) -> u32 {
    low_argument(index) + 4
}

const LOAD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_GREATER_OR_EQUAL: u16 = 0x35;
const JUMP_IF_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;
const JUMP: u16 = 0x05;

/// Result for a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Return(u32),
    /// Depends on arguments: index into [`RULES`].
    Check(usize),
}

/// Comparison of one argument with some values.
struct Check {
    /// Offset of the compared half of an argument in `struct seccomp_data`.
    word: u32,
    /// Matching values, or a bit mask if `by_bits`.
    values: &'static [u32],
    by_bits: bool,
    matching: Next,
    otherwise: Next,
}

/// Step after a comparison.
enum Next {
    Return(u32),
    Check(&'static Check),
}

/// Rule for a system call that depends on its arguments.
struct Rule {
    call: libc::c_long,
    check: Check,
}

/// As `u32`, the width that a filter compares.
const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541C;
const F_SETLEASE: u32 = 1024;
const F_SETDELEG: u32 = 1040;

/// Protocols of netlink sockets that programs need: interfaces and routes, and socket statistics.
/// The others configure the machine or listen to it.
const NETLINK: Check = Check {
    word: low_argument(2),
    values: &[libc::NETLINK_ROUTE as u32, libc::NETLINK_SOCK_DIAG as u32],
    by_bits: false,
    matching: Next::Return(ALLOW),
    otherwise: Next::Return(errno(libc::EPROTONOSUPPORT)),
};

/// Socket families other than those without further conditions.
const OTHER_FAMILY: Check = Check {
    word: low_argument(0),
    values: &[libc::AF_NETLINK as u32],
    by_bits: false,
    matching: Next::Check(&NETLINK),
    otherwise: Next::Return(errno(libc::EAFNOSUPPORT)),
};

/// Limits of another process may be read and not set: init has the uid of commands.
const NO_NEW_LIMIT: Check = Check {
    word: low_argument(2),
    values: &[0],
    by_bits: false,
    matching: Next::Check(&Check {
        word: high_argument(2),
        values: &[0],
        by_bits: false,
        matching: Next::Return(ALLOW),
        otherwise: Next::Return(errno(libc::EPERM)),
    }),
    otherwise: Next::Return(errno(libc::EPERM)),
};

/// System calls that depend on their arguments.
const RULES: [Rule; 9] = [
    // clone3 is not checked: its flags are in memory, which a filter cannot read. The limit of zero
    // namespaces in the box's user namespace covers it.
    Rule {
        call: libc::SYS_clone,
        check: refuse_bits(low_argument(0), &[NAMESPACES]),
    },
    Rule {
        call: libc::SYS_unshare,
        check: refuse_bits(low_argument(0), &[NAMESPACES]),
    },
    Rule {
        call: libc::SYS_socket,
        check: Check {
            word: low_argument(0),
            values: &[
                libc::AF_UNIX as u32,
                libc::AF_INET as u32,
                libc::AF_INET6 as u32,
            ],
            by_bits: false,
            matching: Next::Return(ALLOW),
            otherwise: Next::Check(&OTHER_FAMILY),
        },
    },
    Rule {
        call: libc::SYS_socketpair,
        check: Check {
            word: low_argument(0),
            values: &[libc::AF_UNIX as u32],
            by_bits: false,
            matching: Next::Return(ALLOW),
            otherwise: Next::Return(errno(libc::EAFNOSUPPORT)),
        },
    },
    // Injecting input into a terminal.
    Rule {
        call: libc::SYS_ioctl,
        check: refuse(low_argument(1), &[TIOCSTI, TIOCLINUX]),
    },
    // Opening a leased file blocks until the lease holder responds, by default for 45 seconds. A
    // box could block threads of the host, or init.
    Rule {
        call: libc::SYS_fcntl,
        check: refuse(low_argument(1), &[F_SETLEASE, F_SETDELEG]),
    },
    // PER_LINUX, PER_LINUX32, UNAME26, ADDR_NO_RANDOMIZE (for debuggers), and the value that only
    // queries.
    Rule {
        call: libc::SYS_personality,
        check: Check {
            word: low_argument(0),
            values: &[0, 0x0008, 0x0002_0000, 0x0004_0000, u32::MAX],
            by_bits: false,
            matching: Next::Return(ALLOW),
            otherwise: Next::Return(errno(libc::EPERM)),
        },
    },
    // Process 0 is the caller.
    Rule {
        call: libc::SYS_prlimit64,
        check: Check {
            word: low_argument(0),
            values: &[0],
            by_bits: false,
            matching: Next::Return(ALLOW),
            otherwise: Next::Check(&NO_NEW_LIMIT),
        },
    },
    // Leaves a device node behind, which Landlock does not see.
    Rule {
        call: libc::SYS_renameat2,
        check: refuse_bits(low_argument(4), &[libc::RENAME_WHITEOUT]),
    },
];

const fn refuse(word: u32, values: &'static [u32]) -> Check {
    Check {
        word,
        values,
        by_bits: false,
        matching: Next::Return(errno(libc::EPERM)),
        otherwise: Next::Return(ALLOW),
    }
}

const fn refuse_bits(word: u32, values: &'static [u32]) -> Check {
    Check {
        by_bits: true,
        ..refuse(word, values)
    }
}

/// The filter. Built once, by the spawner, and inherited by every box.
static FILTER: LazyLock<Vec<libc::sock_filter>> = LazyLock::new(|| build(ALLOWED, &RULES));

/// Builds the filter, so that boxes need not.
pub(crate) fn prepare() {
    LazyLock::force(&FILTER);
}

/// Installs the filter for this thread and all its descendants. Requires no_new_privs, or
/// CAP_SYS_ADMIN in the caller's user namespace.
pub(crate) fn restrict() -> io::Result<()> {
    install(&FILTER)
}

/// As [`restrict`], to `allowed` alone, whatever the arguments.
pub(crate) fn restrict_to(allowed: &[libc::c_long]) -> io::Result<()> {
    install(&build(allowed, &[]))
}

fn install(filter: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: the program outlives the call, which copies it.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0,
            &raw const program,
        )
    };
    if outcome == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn build(allowed: &[libc::c_long], rules: &[Rule]) -> Vec<libc::sock_filter> {
    let mut filter = vec![
        step(LOAD, 0, 0, ARCH),
        // Other architectures, such as 32-bit x86, have other system call numbers.
        step(JUMP_IF_EQUAL, 1, 0, ARCHITECTURE),
        step(RETURN, 0, 0, errno(libc::ENOSYS)),
        step(LOAD, 0, 0, NUMBER),
    ];
    search(&ranges(allowed, rules), &mut filter);
    filter
}

/// Returns runs of consecutive system calls with the same verdict, each by its first number.
fn ranges(allowed: &[libc::c_long], rules: &[Rule]) -> Vec<(u32, Verdict)> {
    let verdict = |number: u32| {
        let call = libc::c_long::from(number);
        if let Some(check) = rules.iter().position(|rule| rule.call == call) {
            Verdict::Check(check)
        } else if allowed.contains(&call) {
            Verdict::Return(ALLOW)
        } else {
            Verdict::Return(errno(libc::EPERM))
        }
    };
    let newest = u32::try_from(NEWEST).unwrap_or_default();
    let mut found: Vec<(u32, Verdict)> = Vec::new();
    for number in 0..=newest {
        let verdict = verdict(number);
        if found.last().is_none_or(|(_, last)| *last != verdict) {
            found.push((number, verdict));
        }
    }
    // Newer system calls, and those of the x32 ABI, whose numbers have bit 30 set.
    found.push((newest + 1, Verdict::Return(errno(libc::ENOSYS))));
    found
}

/// Appends a binary search for the run that contains the system call number.
fn search(ranges: &[(u32, Verdict)], filter: &mut Vec<libc::sock_filter>) {
    if let [(_, verdict)] = ranges {
        decide(*verdict, filter);
        return;
    }
    let (low, high) = ranges.split_at(ranges.len() / 2);
    let mut below = Vec::new();
    search(low, &mut below);
    if let Ok(over) = u8::try_from(below.len()) {
        filter.push(step(JUMP_IF_GREATER_OR_EQUAL, over, 0, high[0].0));
    } else {
        // Conditional jumps skip at most 255 instructions; use an unconditional one.
        filter.push(step(JUMP_IF_GREATER_OR_EQUAL, 0, 1, high[0].0));
        filter.push(step(
            JUMP,
            0,
            0,
            u32::try_from(below.len()).unwrap_or_default(),
        ));
    }
    filter.append(&mut below);
    search(high, filter);
}

fn decide(verdict: Verdict, filter: &mut Vec<libc::sock_filter>) {
    match verdict {
        Verdict::Return(value) => filter.push(step(RETURN, 0, 0, value)),
        Verdict::Check(index) => compare(&RULES[index].check, filter),
    }
}

fn compare(check: &Check, filter: &mut Vec<libc::sock_filter>) {
    filter.push(step(LOAD, 0, 0, check.word));
    let code = if check.by_bits {
        JUMP_IF_ANY_BIT
    } else {
        JUMP_IF_EQUAL
    };
    let mut otherwise = Vec::new();
    follow(&check.otherwise, &mut otherwise);
    // On a match, jump over the remaining comparisons and what follows without a match.
    let mut left = check.values.len() - 1 + otherwise.len();
    for value in check.values {
        filter.push(step(
            code,
            u8::try_from(left).unwrap_or_default(),
            0,
            *value,
        ));
        left = left.saturating_sub(1);
    }
    filter.append(&mut otherwise);
    follow(&check.matching, filter);
}

fn follow(next: &Next, filter: &mut Vec<libc::sock_filter>) {
    match next {
        Next::Return(value) => filter.push(step(RETURN, 0, 0, *value)),
        Next::Check(check) => compare(check, filter),
    }
}

const fn step(code: u16, jump_true: u8, jump_false: u8, value: u32) -> libc::sock_filter {
    libc::sock_filter {
        code,
        jt: jump_true,
        jf: jump_false,
        k: value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evaluates the filter as the kernel does.
    fn run(filter: &[libc::sock_filter], arch: u32, number: u32, arguments: &[u64]) -> u32 {
        let (mut at, mut value) = (0usize, 0u32);
        loop {
            let libc::sock_filter { code, jt, jf, k } = filter[at];
            at += 1;
            let jump = match code {
                LOAD => {
                    value = match k {
                        NUMBER => number,
                        ARCH => arch,
                        _ => {
                            let word = ((k - low_argument(0)) / 4) as usize;
                            let whole = arguments.get(word / 2).copied().unwrap_or_default();
                            let half = if word.is_multiple_of(2) {
                                whole & u64::from(u32::MAX)
                            } else {
                                whole >> 32
                            };
                            u32::try_from(half).unwrap()
                        }
                    };
                    continue;
                }
                RETURN => return k,
                JUMP => {
                    at += k as usize;
                    continue;
                }
                JUMP_IF_EQUAL => value == k,
                JUMP_IF_GREATER_OR_EQUAL => value >= k,
                JUMP_IF_ANY_BIT => value & k != 0,
                _ => unreachable!("code {code}"),
            };
            at += usize::from(if jump { jt } else { jf });
        }
    }

    #[test]
    fn filter_for_every_number_returns_the_listed_verdict() {
        let filter = build(ALLOWED, &RULES);
        let checked: Vec<libc::c_long> = RULES.iter().map(|rule| rule.call).collect();
        for number in 0..=u32::try_from(NEWEST).unwrap() {
            let call = libc::c_long::from(number);
            if checked.contains(&call) {
                continue;
            }
            let expected = if ALLOWED.contains(&call) {
                ALLOW
            } else {
                errno(libc::EPERM)
            };
            assert_eq!(
                run(&filter, ARCHITECTURE, number, &[]),
                expected,
                "system call {number}"
            );
        }
    }

    #[test]
    fn filter_with_checked_argument_returns_its_verdict() {
        let filter = build(ALLOWED, &RULES);
        let call = |number: libc::c_long, arguments: &[u64]| {
            run(
                &filter,
                ARCHITECTURE,
                u32::try_from(number).unwrap(),
                arguments,
            )
        };
        let no = errno(libc::EPERM);
        assert_eq!(call(libc::SYS_clone, &[libc::SIGCHLD as u64]), ALLOW);
        for flag in [
            libc::CLONE_NEWUSER,
            libc::CLONE_NEWNS,
            libc::CLONE_NEWNET,
            libc::CLONE_NEWPID,
        ] {
            assert_eq!(
                call(
                    libc::SYS_clone,
                    &[u64::from((flag | libc::SIGCHLD).cast_unsigned())]
                ),
                no
            );
            assert_eq!(
                call(libc::SYS_unshare, &[u64::from(flag.cast_unsigned())]),
                no
            );
        }
        assert_eq!(call(libc::SYS_unshare, &[libc::CLONE_FILES as u64]), ALLOW);
        assert_eq!(call(libc::SYS_socket, &[libc::AF_INET6 as u64]), ALLOW);
        for family in [libc::AF_PACKET, libc::AF_VSOCK, libc::AF_ALG] {
            assert_eq!(
                call(libc::SYS_socket, &[u64::from(family.cast_unsigned())]),
                errno(libc::EAFNOSUPPORT)
            );
        }
        assert_eq!(call(libc::SYS_ioctl, &[0, TIOCSTI.into()]), no);
        assert_eq!(call(libc::SYS_ioctl, &[0, 0x5413]), ALLOW);
        assert_eq!(call(libc::SYS_personality, &[0x0040_0000]), no);
        assert_eq!(
            call(
                libc::SYS_fcntl,
                &[0, libc::F_SETLEASE.cast_unsigned().into()]
            ),
            no
        );
        for command in [
            libc::F_GETFL,
            libc::F_SETLKW,
            libc::F_OFD_SETLKW,
            libc::F_GETLEASE,
            libc::F_SETPIPE_SZ,
        ] {
            assert_eq!(
                call(libc::SYS_fcntl, &[0, command.cast_unsigned().into()]),
                ALLOW
            );
        }
    }

    #[test]
    fn filter_with_several_checked_arguments_returns_its_verdict() {
        let filter = build(ALLOWED, &RULES);
        let call = |number: libc::c_long, arguments: &[u64]| {
            let number = u32::try_from(number).unwrap();
            run(&filter, ARCHITECTURE, number, arguments)
        };
        let no = errno(libc::EPERM);
        let netlink = |protocol: u32| {
            let (family, kind) = (libc::AF_NETLINK as u64, libc::SOCK_RAW as u64);
            call(libc::SYS_socket, &[family, kind, protocol.into()])
        };
        for protocol in 0..=22 {
            // Routes and socket statistics.
            let expected = match protocol {
                0 | 4 => ALLOW,
                _ => errno(libc::EPROTONOSUPPORT),
            };
            assert_eq!(netlink(protocol), expected, "protocol {protocol}");
        }
        assert_eq!(
            call(libc::SYS_socket, &[libc::AF_INET as u64, 1, 17]),
            ALLOW
        );
        let (low, high) = (0x1000, 0x7f00_0000_0000);
        for (pid, new, expected) in [
            (0, low, ALLOW),
            (0, high, ALLOW),
            (1, 0, ALLOW),
            (1, low, no),
            (1, high, no),
            (77, high | low, no),
        ] {
            let outcome = call(libc::SYS_prlimit64, &[pid, 7, new, 0]);
            assert_eq!(outcome, expected, "prlimit64({pid}, {new:#x})");
        }
        for (flags, expected) in [(0, ALLOW), (1, ALLOW), (2, ALLOW), (4, no), (5, no)] {
            let outcome = call(libc::SYS_renameat2, &[0, 0, 0, 0, flags]);
            assert_eq!(outcome, expected, "renameat2 with flags {flags}");
        }
    }

    #[test]
    fn filter_for_foreign_abi_returns_enosys() {
        let filter = build(ALLOWED, &RULES);
        assert_eq!(run(&filter, 0x4000_0003, 1, &[]), errno(libc::ENOSYS));
        assert_eq!(
            run(&filter, ARCHITECTURE, 0x4000_0001, &[]),
            errno(libc::ENOSYS)
        );
        assert_eq!(
            run(
                &filter,
                ARCHITECTURE,
                u32::try_from(NEWEST).unwrap() + 1,
                &[]
            ),
            errno(libc::ENOSYS)
        );
    }

    #[test]
    fn filter_stays_short() {
        let ranges = ranges(ALLOWED, &RULES).len();
        assert!(ranges < 200, "{ranges} runs make the search too long");
        assert!(build(ALLOWED, &RULES).len() < 400);
    }
}
