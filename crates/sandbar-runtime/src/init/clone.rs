//! `vfork` with a stack of its own, and straight into a cgroup.
//!
//! The child borrows the memory of the parent, which sleeps until the child has executed a program or exited: nothing is
//! copied, so that starting a command costs what the kernel must do and no more. `libc::vfork` cannot be used from Rust,
//! since it returns twice on one stack; here the child calls `entry` on another stack and never returns.

use std::{arch::asm, ffi::c_long, io, os::fd::RawFd, ptr};

/// `libc` has it in a type too small for it.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

const STACK: usize = 64 * 1024;

/// The stack the child runs on. One is enough: the parent sleeps while it is in use.
#[derive(Debug)]
pub(super) struct ChildStack {
    memory: Box<[u128]>,
    /// This kernel has no `clone3`, and need not be asked again.
    is_old: bool,
}

impl ChildStack {
    pub(super) fn new() -> Self {
        Self { memory: vec![0; STACK / size_of::<u128>()].into_boxed_slice(), is_old: false }
    }
}

/// Runs `entry(argument)` in a child and returns its pid once the child has called `exec` or `_exit`. Kernels without
/// `clone3` start the child in the caller's cgroup; `cgroup` is refused there.
///
/// # Safety
/// `entry` must end in `exec` or `_exit`, and do nothing the sleeping parent could trip over: its writes to memory stay.
/// Signals must be blocked, so that no handler runs in the child.
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
    if !stack.is_old {
        let call = [ptr::from_mut(&mut arguments) as usize, size_of::<libc::clone_args>()];
        // SAFETY: the arguments are valid, the stack is large and unused, and the rest is the caller's promise.
        outcome = unsafe { raw(libc::SYS_clone3, call, entry, argument) };
        stack.is_old = outcome == -c_long::from(libc::ENOSYS);
    }
    if stack.is_old && cgroup.is_none() {
        let top = base as usize + size;
        let flags = usize::try_from(flags).unwrap_or_default() | libc::SIGCHLD as usize;
        // SAFETY: as above; this older call takes the top of the stack.
        outcome = unsafe { raw(libc::SYS_clone, [flags, top], entry, argument) };
    }
    match i32::try_from(outcome) {
        Ok(pid) if pid > 0 => Ok(pid),
        Ok(errno) => Err(io::Error::from_raw_os_error(-errno)),
        Err(_) => Err(io::Error::other("the kernel returned an impossible pid")),
    }
}

/// Makes the system call; in the child, on its new stack, calls `entry(argument)`.
///
/// # Safety
/// See [`run_child`].
#[cfg(target_arch = "x86_64")]
unsafe fn raw(call: c_long, arguments: [usize; 2], entry: usize, argument: usize) -> c_long {
    let result: c_long;
    // SAFETY: the parent's registers and stack are as the kernel left them; the child never comes back here.
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
    // SAFETY: the parent's registers and stack are as the kernel left them; the child never comes back here.
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
        // SAFETY: the parent sleeps and its variable lives.
        unsafe {
            *seen += 1;
            libc::_exit(7)
        }
    }

    #[test]
    fn the_child_runs_on_the_parents_memory_and_the_parent_goes_on() {
        let mut stack = ChildStack::new();
        let mut seen = 0;
        for round in 1..=3 {
            // SAFETY: `leave` exits at once and touches one variable.
            let pid = unsafe { run_child(&mut stack, None, leave, &raw mut seen) }.unwrap();
            let mut status = 0;
            // SAFETY: waits for our own child.
            assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
            assert_eq!((libc::WEXITSTATUS(status), seen), (7, round));
        }
    }
}
