//! The floor: what the kernel alone takes, from a small process with one thread.

#![expect(unsafe_code, reason = "`fork` and `clone3` have no safe wrapper")]

use std::{
    ffi::CStr,
    io::{Read, Write},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::net::UnixStream,
    },
    time::Instant,
};

use crate::measure::milliseconds;

const TRUE: &CStr = c"/usr/bin/true";
const ECHO: &CStr = c"/usr/bin/echo";
const NAMESPACES: i32 = libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;
const NEW_TIME: u64 = 0x80;

/// A process that measures when it is asked to.
#[derive(Debug)]
pub struct Floor {
    socket: UnixStream,
}

impl Floor {
    /// Forks it; to be called before there are threads.
    pub fn start() -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        // SAFETY: the process has one thread yet.
        if unsafe { libc::fork() } == 0 {
            drop(ours);
            serve(theirs);
        }
        Self { socket: ours }
    }

    /// Milliseconds `vfork`, `exec` and `wait` take.
    pub fn exec(&mut self) -> f64 {
        self.ask(b'e')
    }

    /// Milliseconds until a program in fresh namespaces with a root of its own has said something
    /// and ended.
    pub fn new_box(&mut self) -> f64 {
        self.ask(b'b')
    }

    fn ask(&mut self, what: u8) -> f64 {
        self.socket.write_all(&[what]).unwrap();
        let mut answer = [0; 8];
        self.socket.read_exact(&mut answer).unwrap();
        f64::from_le_bytes(answer)
    }
}

fn serve(mut socket: UnixStream) -> ! {
    let mut what = [0];
    while socket.read_exact(&mut what).is_ok() {
        let took = if what[0] == b'e' { exec() } else { new_box() };
        socket.write_all(&took.to_le_bytes()).unwrap();
    }
    // SAFETY: ends the measuring process without running what belongs to the other one.
    unsafe { libc::_exit(0) }
}

fn exec() -> f64 {
    let started = Instant::now();
    let argv = [TRUE.as_ptr(), std::ptr::null()];
    let envp = [c"PATH=/usr/bin".as_ptr(), std::ptr::null()];
    let mut pid = 0;
    // SAFETY: valid, null-terminated lists. The C library does this with vfork.
    let outcome = unsafe {
        libc::posix_spawn(
            &raw mut pid,
            TRUE.as_ptr(),
            std::ptr::null(),
            std::ptr::null(),
            argv.as_ptr().cast::<*mut libc::c_char>(),
            envp.as_ptr().cast::<*mut libc::c_char>(),
        )
    };
    assert_eq!(outcome, 0);
    wait(pid);
    milliseconds(started)
}

fn new_box() -> f64 {
    let started = Instant::now();
    let (mut go_reader, mut go_writer) = std::io::pipe().unwrap();
    let (mut output, output_writer) = std::io::pipe().unwrap();
    // SAFETY: all-zero is a valid `clone_args`.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = u64::try_from(NAMESPACES).unwrap() | NEW_TIME;
    arguments.exit_signal = libc::SIGCHLD as u64;
    // SAFETY: valid arguments; this process has one thread.
    let pid = unsafe {
        libc::syscall(
            libc::SYS_clone3,
            &raw mut arguments,
            size_of::<libc::clone_args>(),
        )
    };
    if pid == 0 {
        go_reader.read_exact(&mut [0]).unwrap();
        become_box(&output_writer.into());
    }
    drop(output_writer);
    for kind in ["uid_map", "gid_map"] {
        std::fs::write(format!("/proc/{pid}/{kind}"), "0 0 65536").unwrap();
    }
    go_writer.write_all(b"g").unwrap();
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    wait(i32::try_from(pid).unwrap());
    let took = milliseconds(started);
    assert_eq!(text, "hello\n");
    took
}

fn become_box(output: &OwnedFd) -> ! {
    // SAFETY: system calls of a process of our own that ends in exec or abort.
    unsafe {
        let check = |outcome: i32| {
            if outcome != 0 {
                libc::abort();
            }
        };
        check(libc::mount(
            std::ptr::null(),
            c"/".as_ptr(),
            std::ptr::null(),
            libc::MS_REC | libc::MS_PRIVATE,
            std::ptr::null(),
        ));
        check(libc::mount(
            c"/".as_ptr(),
            c"/mnt".as_ptr(),
            std::ptr::null(),
            libc::MS_BIND | libc::MS_REC,
            std::ptr::null(),
        ));
        check(libc::chdir(c"/mnt".as_ptr()));
        check(
            i32::try_from(libc::syscall(
                libc::SYS_pivot_root,
                c".".as_ptr(),
                c".".as_ptr(),
            ))
            .unwrap_or(-1),
        );
        check(libc::umount2(c".".as_ptr(), libc::MNT_DETACH));
        check(libc::mount(
            c"proc".as_ptr(),
            c"/proc".as_ptr(),
            c"proc".as_ptr(),
            0,
            std::ptr::null(),
        ));
        libc::dup2(output.as_raw_fd(), 1);
        let argv = [ECHO.as_ptr(), c"hello".as_ptr(), std::ptr::null()];
        let envp = [c"PATH=/usr/bin".as_ptr(), std::ptr::null()];
        libc::execve(ECHO.as_ptr(), argv.as_ptr(), envp.as_ptr());
        libc::abort()
    }
}

fn wait(pid: i32) {
    let mut status = 0;
    // SAFETY: waits for our own child.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert_eq!(status, 0);
}
