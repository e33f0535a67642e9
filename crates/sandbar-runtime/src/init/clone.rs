//! `vfork` on a separate stack, directly into a cgroup.
//!
//! The child shares the memory of the parent, which is suspended until the child has executed a
//! program or exited. So no page tables are copied. `libc::vfork` cannot be used from Rust, because
//! it returns twice on one stack; here the child calls `entry` on another stack and never returns.

#![expect(
    unsafe_code,
    reason = "a child on its own stack needs `clone3` in assembly"
)]

use std::{arch::asm, ffi::c_long, io, os::fd::RawFd, ptr};

/// `libc` declares it with a type that is too small.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

const STACK_BYTES: usize = 64 * 1024;

/// Stack of the child. One suffices, because the parent is suspended while it is in use.
#[derive(Debug)]
pub(super) struct ChildStack {
    memory: Box<[u128]>,
    /// This kernel has no `clone3`.
    no_clone3: bool,
}

impl ChildStack {
    pub(super) fn new() -> Self {
        Self {
            memory: vec![0; STACK_BYTES / size_of::<u128>()].into_boxed_slice(),
            no_clone3: false,
        }
    }
}

/// Runs `entry(argument)` in a child and returns its pid once the child has called `exec` or
/// `_exit`. On kernels without `clone3`, `cgroup` must be `None`: it fails with `ENOSYS` otherwise.
///
/// # Safety
/// `entry` must end in `exec` or `_exit`. Its writes to memory are visible to the parent, so it
/// must not leave data of the parent in an inconsistent state. Signals must be blocked, so that no
/// handler runs in the child.
pub(super) unsafe fn run_child<T>(
    stack: &mut ChildStack,
    cgroup: Option<RawFd>,
    entry: unsafe extern "C" fn(*mut T) -> !,
    argument: *mut T,
) -> io::Result<i32> {
    let base = stack.memory.as_mut_ptr();
    let size = size_of_val(&*stack.memory);
    let flags = libc::CLONE_VM as u64 | libc::CLONE_VFORK as u64;
    // SAFETY: all-zero is a valid `clone_args`.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = flags;
    arguments.exit_signal = libc::SIGCHLD as u64;
    arguments.stack = base as u64;
    arguments.stack_size = size as u64;
    if let Some(cgroup) = cgroup {
        arguments.flags |= CLONE_INTO_CGROUP;
        arguments.cgroup = u64::try_from(cgroup).unwrap_or_default();
    }
    let (entry, argument) = (entry as usize, argument as usize);
    let mut outcome = -c_long::from(libc::ENOSYS);
    if !stack.no_clone3 {
        let call = [
            ptr::from_mut(&mut arguments) as usize,
            size_of::<libc::clone_args>(),
        ];
        // SAFETY: the arguments are valid, the stack is unused, and the caller upholds the rest.
        outcome = unsafe { raw(libc::SYS_clone3, call, entry, argument) };
        stack.no_clone3 = outcome == -c_long::from(libc::ENOSYS);
    }
    if stack.no_clone3 && cgroup.is_none() {
        let top = base as usize + size;
        let flags = usize::try_from(flags).unwrap_or_default() | libc::SIGCHLD as usize;
        // SAFETY: as above. `clone` takes the top of the stack.
        outcome = unsafe { raw(libc::SYS_clone, [flags, top], entry, argument) };
    }
    match i32::try_from(outcome) {
        Ok(pid) if pid > 0 => Ok(pid),
        Ok(errno) => Err(io::Error::from_raw_os_error(-errno)),
        Err(_) => Err(io::Error::other("clone returned a pid out of range")),
    }
}

/// Makes the system call; in the child, on its new stack, calls `entry(argument)`.
///
/// # Safety
/// See [`run_child`].
#[cfg(target_arch = "x86_64")]
unsafe fn raw(call: c_long, arguments: [usize; 2], entry: usize, argument: usize) -> c_long {
    let result: c_long;
    // SAFETY: the parent continues with its own stack and registers; the child never returns here.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "mov rdi, r12",
            "call r9",
            "ud2",
            "2:",
            inlateout("rax") call => result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") 0,
            in("r10") 0,
            in("r8") 0,
            in("r9") entry,
            in("r12") argument,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result
}

/// Makes the system call; in the child, on its new stack, calls `entry(argument)`.
///
/// # Safety
/// See [`run_child`].
#[cfg(target_arch = "aarch64")]
unsafe fn raw(call: c_long, arguments: [usize; 2], entry: usize, argument: usize) -> c_long {
    let result: c_long;
    // SAFETY: the parent continues with its own stack and registers; the child never returns here.
    unsafe {
        asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x0, x10",
            "blr x9",
            "brk 1",
            "2:",
            inlateout("x0") arguments[0] => result,
            in("x1") arguments[1],
            in("x2") 0,
            in("x3") 0,
            in("x4") 0,
            in("x8") call,
            in("x9") entry,
            in("x10") argument,
        );
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn leave(seen: *mut u32) -> ! {
        // SAFETY: the parent is suspended, and its variable outlives the child.
        unsafe {
            *seen += 1;
            libc::_exit(7)
        }
    }

    #[test]
    fn child_shares_memory_and_parent_continues_after_exit() {
        let mut stack = ChildStack::new();
        let mut seen = 0;
        for round in 1..=3 {
            // SAFETY: `leave` exits at once and writes one variable.
            let pid = unsafe { run_child(&mut stack, None, leave, &raw mut seen) }.unwrap();
            let mut status = 0;
            // SAFETY: waits for a child of this process.
            assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
            assert_eq!((libc::WEXITSTATUS(status), seen), (7, round));
        }
    }
}
