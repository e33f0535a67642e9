//! Pseudo terminals, and programs that run on one under control of a test.

#![expect(unsafe_code, reason = "`pre_exec` runs code between fork and exec")]

use std::{
    fs::File,
    io::{Read, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::{Child, Command},
    sync::{Arc, Mutex},
    thread,
};

use rustix::{
    process::{
        Pid, Signal, ioctl_tiocsctty, kill_process, set_parent_process_death_signal, setsid,
    },
    pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt},
    termios::{Winsize, tcgetattr, tcsetwinsize},
};
use sandbar_core::MutexExt as _;

use crate::eventually;

/// Both ends of a pseudo terminal.
#[derive(Debug)]
pub struct Pty {
    controller: OwnedFd,
    device: OwnedFd,
}

impl Pty {
    pub fn open(rows: u16, columns: u16) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let controller = openpt(flags).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let device = ioctl_tiocgptpeer(&controller, flags).unwrap();
        let pty = Self { controller, device };
        pty.resize(rows, columns);
        pty
    }

    /// The end a person sits at.
    pub fn controller(&self) -> BorrowedFd<'_> {
        self.controller.as_fd()
    }

    /// The end programs have.
    pub fn device(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    /// Resizes the terminal; its programs get SIGWINCH.
    pub fn resize(&self, rows: u16, columns: u16) {
        tcsetwinsize(
            &self.controller,
            Winsize {
                ws_row: rows,
                ws_col: columns,
                ws_xpixel: 0,
                ws_ypixel: 0,
            },
        )
        .unwrap();
    }

    /// Everything about its mode, in a form that compares.
    pub fn modes(&self) -> String {
        format!("{:?}", tcgetattr(&self.device).unwrap())
    }
}

/// A program at a terminal of its own. It is killed when this goes out of scope.
#[derive(Debug)]
pub struct Seat {
    pty: Pty,
    child: Child,
    shown: Arc<Mutex<Vec<u8>>>,
    /// Bytes of the output that were examined.
    looked_at: usize,
}

impl Seat {
    /// Starts the program with the terminal as its stdin, stdout, stderr and controlling terminal.
    pub fn start(mut command: Command, rows: u16, columns: u16) -> Self {
        let pty = Pty::open(rows, columns);
        let end = || pty.device().try_clone_to_owned().unwrap();
        command.stdin(end()).stdout(end()).stderr(end());
        // SAFETY: between fork and exec the closure makes three system calls and allocates nothing.
        unsafe {
            command.pre_exec(|| {
                set_parent_process_death_signal(Some(Signal::KILL))?;
                setsid()?;
                // Descriptor 0 is the terminal by now.
                Ok(ioctl_tiocsctty(BorrowedFd::borrow_raw(0))?)
            });
        }
        let child = command.spawn().unwrap();
        // The command holds ends of the terminal, too.
        drop(command);
        let shown = Arc::new(Mutex::new(Vec::new()));
        let mut screen = File::from(pty.controller().try_clone_to_owned().unwrap());
        thread::spawn({
            let shown = Arc::clone(&shown);
            move || {
                let mut buffer = [0; 4096];
                // It fails when the last program has left the terminal.
                while let Ok(length @ 1..) = screen.read(&mut buffer) {
                    shown.lock_unpoisoned().extend_from_slice(&buffer[..length]);
                }
            }
        });
        Self {
            pty,
            child,
            shown,
            looked_at: 0,
        }
    }

    pub fn pty(&self) -> &Pty {
        &self.pty
    }

    /// Everything shown so far.
    pub fn screen(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock_unpoisoned()).into_owned()
    }

    /// Presses keys.
    pub fn press(&self, keys: &str) {
        let mut keyboard = File::from(self.pty.controller().try_clone_to_owned().unwrap());
        keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until this is shown, after everything waited for before.
    #[track_caller]
    pub fn see(&mut self, text: &str) {
        let mut found = None;
        eventually(&format!("{text:?} is shown"), || {
            let shown = self.shown.lock_unpoisoned();
            found = shown[self.looked_at..]
                .windows(text.len())
                .position(|part| part == text.as_bytes());
            found.is_some()
        });
        self.looked_at += found.unwrap_or_default() + text.len();
    }

    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Waits for the end of the program; its exit code.
    #[track_caller]
    pub fn finish(&mut self) -> Option<i32> {
        let mut status = None;
        eventually("the program ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.and_then(|status| status.code())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            // The output, for the failure report.
            #[expect(clippy::print_stderr, reason = "part of the report of a failed test")]
            {
                eprintln!("the screen showed: {:?}", self.screen());
            }
        }
    }
}
