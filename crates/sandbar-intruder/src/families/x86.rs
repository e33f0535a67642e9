//! Kernel entry points of x86 only: old calls, and other system call tables that a filter may
//! miss.
#![expect(
    unsafe_code,
    reason = "other ways into the kernel are single instructions"
)]

use std::{arch::asm, io};

use crate::{
    attempt::{Attempt, Family},
    call::{Argument, call},
    child::{Ended, in_child, killed_by_filter},
    verdict::{Inconclusive, Outcome, held, not_permitted, refused},
};

pub(crate) const FAMILY: Family = Family {
    name: "x86",
    attempts: &[
        Attempt::new(
            "ports-all",
            "requests access to all I/O ports with `iopl`; escaped when the call succeeds",
            |_| refused(call!(SYS_iopl, 3), "got access to all I/O ports"),
        ),
        Attempt::new(
            "ports-one",
            "requests access to one I/O port with `ioperm`; escaped when the call succeeds",
            |_| refused(call!(SYS_ioperm, 0x80, 1, 1), "got access to an I/O port"),
        ),
        Attempt::new(
            "segment-table",
            "reads its local descriptor table with `modify_ldt`; escaped when the permission check passes",
            |_| {
                let mut table = [0_u8; 16];
                not_permitted(
                    call!(SYS_modify_ldt, 0, Argument::write(&mut table), 16),
                    "modify_ldt permitted",
                )
            },
        ),
        Attempt::new(
            "calls-of-32-bit",
            "unshares a user namespace through the 32-bit system call table; escaped when the call succeeds",
            |_| other_table(|| interrupt(310, libc::CLONE_NEWUSER)),
        ),
        Attempt::new(
            "calls-of-32-bit-keys",
            "joins a new session keyring through the 32-bit system call table; escaped when the call succeeds",
            // `keyctl(KEYCTL_JOIN_SESSION_KEYRING, NULL)`.
            |_| other_table(|| interrupt(288, libc::KEYCTL_JOIN_SESSION_KEYRING.cast_signed())),
        ),
        Attempt::new(
            "calls-of-x32",
            "unshares a user namespace through the x32 system call table; escaped when the call succeeds",
            |_| other_table(|| plain(0x4000_0000 + libc::SYS_unshare, libc::CLONE_NEWUSER)),
        ),
        Attempt::new(
            "calls-with-high-bits",
            "unshares a user namespace by a call number with ignored high bits set; escaped when the call succeeds",
            |_| {
                other_table(|| {
                    plain(
                        0x7fff_ffff_0000_0000 + libc::SYS_unshare,
                        libc::CLONE_NEWUSER,
                    )
                })
            },
        ),
    ],
};

/// Makes a call through another system call table. Kernels without that table send a signal.
fn other_table(work: impl FnOnce() -> i64) -> Outcome {
    use std::io::Write;
    let ended = in_child(|mut report| {
        let _ = write!(report, "{}", work());
    })?;
    let result = match ended {
        Ended::Reported(result) => result.parse::<i32>().map_err(io::Error::other)?,
        Ended::Killed(libc::SIGSYS) => return held(killed_by_filter()),
        Ended::Killed(libc::SIGSEGV | libc::SIGILL) => {
            return held("the kernel lacks this system call table");
        }
        Ended::Killed(signal) => {
            return Err(Inconclusive(format!(
                "child process was killed by signal {signal}"
            )));
        }
    };
    refused(
        if result < 0 {
            Err(io::Error::from_raw_os_error(-result))
        } else {
            Ok(())
        },
        "call succeeded through another entry than the filtered one",
    )
}

/// Makes a 64-bit system call with one argument, a zero second one, and a number of any width.
fn plain(number: i64, argument: i32) -> i64 {
    let result: i64;
    // SAFETY: both calls made here take numbers, and change only what the kernel keeps about this
    // process.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") i64::from(argument),
            in("rsi") 0_i64,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack)
        );
    }
    result
}

/// Makes a system call by `int 0x80`, the entry of 32-bit programs.
fn interrupt(number: i32, argument: i32) -> i64 {
    let result: i32;
    // SAFETY: as in `plain`. The compiler keeps `rbx` for itself, so it is put back.
    unsafe {
        asm!(
            "xchg {argument}, rbx",
            "int 0x80",
            "xchg {argument}, rbx",
            argument = inout(reg) i64::from(argument) => _,
            inlateout("eax") number => result,
            in("ecx") 0,
            lateout("r8") _,
            lateout("r9") _,
            lateout("r10") _,
            lateout("r11") _,
        );
    }
    i64::from(result)
}
