//! Owners of a sandbox without a sandbox.

#![expect(unsafe_code, reason = "`pre_exec` runs code between fork and exec")]

use std::{
    fs::{self, File},
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use rustix::thread::{UnshareFlags, unshare_unsafe};
use sandbar_core::OwnerMap;

/// A map whose owner 0 is `first` on the host. Needs root.
pub fn owner_map(first: u32) -> OwnerMap {
    // It waits for the end of its input, and keeps the namespace alive until we hold it ourselves.
    let mut command = Command::new("/bin/cat");
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    // SAFETY: between fork and exec one system call is made, in a process of a single thread.
    unsafe {
        command.pre_exec(|| Ok(unshare_unsafe(UnshareFlags::NEWUSER)?));
    }
    let mut keeper = command.spawn().unwrap();
    let map = format!("0 {first} {}", OwnerMap::COUNT);
    let directory = format!("/proc/{}", keeper.id());
    let written = ["uid_map", "gid_map"].map(|name| fs::write(format!("{directory}/{name}"), &map));
    let namespace = File::open(format!("{directory}/ns/user"));
    drop(keeper.stdin.take());
    keeper.wait().unwrap();
    for outcome in written {
        outcome.unwrap();
    }
    OwnerMap::new(first, namespace.unwrap().into())
}
