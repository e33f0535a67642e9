//! The program `runsc`: where it is, what this version knows, and calls to it.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read, Seek},
    os::{
        fd::OwnedFd,
        unix::{fs::PermissionsExt, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{MemfdFlags, memfd_create},
    mount::{MountFlags, MountPropagationFlags, mount, mount_change},
    process::{Pid, PidfdFlags, pidfd_open},
    thread::{UnshareFlags, unshare_unsafe},
};
use sandbar_core::{Error, ErrorCode, Result};

use super::tree::OwnMounts;
use crate::BoxNetwork;

/// Far more than any call takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// Where it is looked for when there is no `PATH`.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/usr/sbin";

#[derive(Debug)]
pub(super) struct Runsc {
    program: PathBuf,
    pub(super) version: String,
    pub(super) platform: &'static str,
    /// What every call begins with.
    flags: Vec<OsString>,
}

/// One call of `runsc`.
#[derive(Debug, Default)]
pub(super) struct Call<'a> {
    pub(super) verb: &'a str,
    pub(super) arguments: Vec<&'a OsStr>,
    /// Standard input and output.
    pub(super) streams: Option<[OwnedFd; 2]>,
    /// `cgroup.procs` files the call, and all it starts, is put into.
    pub(super) doors: Vec<OwnedFd>,
    pub(super) mounts: Option<OwnMounts>,
    /// Whether the container has a network beside the loopback of its own.
    pub(super) network: BoxNetwork,
}

impl Runsc {
    /// Finds the program and asks it what it knows; nothing is assumed from its version.
    pub(super) fn find(program: Option<&Path>) -> Result<Self> {
        let program = match program {
            Some(program) => program.to_owned(),
            None => search().ok_or_else(|| unavailable("the program `runsc` is not installed"))?,
        };
        let ask = |arguments: &[&str]| {
            let mut command = Command::new(&program);
            command.args(arguments);
            finish(command, None, arguments.join(" ").as_str())
                .map_err(|error| unavailable(&format!("`{}` does not answer", program.display())).with_source(error))
        };
        let version = ask(&["--version"])?;
        let version = version.lines().next().and_then(|line| line.rsplit(' ').next()).unwrap_or_default().to_owned();
        let known = ask(&["flags"])?;
        let has = |flag: &str| knows(&known, flag);
        if !has("host-fifo") {
            return Err(unavailable(&format!("runsc {version} cannot open named pipes of the host (`--host-fifo`)")));
        }
        let platform = choose_platform(&known, &ask(&["help", "platforms"]).unwrap_or_default());
        let mut flags: Vec<OsString> = vec![
            "--host-fifo=open".into(),
            // The host changes files of a session too, and commands see it at once.
            "--file-access=shared".into(),
            // The host's cgroups hold the sandbox from outside.
            "--ignore-cgroups".into(),
            format!("--platform={platform}").into(),
        ];
        if has("overlay2") {
            // Newer versions would keep what commands write to themselves.
            flags.push("--overlay2=none".into());
        }
        if !rustix::process::geteuid().is_root() {
            flags.push("--rootless".into());
        }
        Ok(Self { program, version, platform, flags })
    }

    /// Calls a verb and waits for its end. `state` is where it keeps what it knows of its containers.
    pub(super) fn call(&self, state: &Path, call: Call<'_>) -> Result<()> {
        let mut command = Command::new(&self.program);
        let network = match call.network {
            BoxNetwork::Closed => "--network=none",
            // A network stack of the container's own, on the interface in the namespace it was given.
            BoxNetwork::Gated => "--network=sandbox",
        };
        command.arg("--root").arg(state).args(&self.flags).arg(network).arg(call.verb).args(&call.arguments);
        let (doors, mounts, is_gated) = (call.doors, call.mounts, call.network == BoxNetwork::Gated);
        let enter = move || {
            for door in &doors {
                rustix::io::write(door, b"0")?;
            }
            mounts.as_ref().map_or(Ok(()), OwnMounts::enter)?;
            if is_gated { hide_signs_of_the_first_network() } else { Ok(()) }
        };
        // SAFETY: between fork and exec only system calls on prepared memory are made.
        unsafe { command.pre_exec(enter) };
        let what = format!("`runsc {}`", call.verb);
        finish(command, call.streams, &what).map(drop).map_err(|error| Error::io(format!("have {what} done"), error))
    }
}

/// `runsc` refuses to use the machine's own network, and takes every network for it that has settings which older kernels
/// showed only there. In a mount namespace of the call's own, between fork and exec: nothing here allocates.
fn hide_signs_of_the_first_network() -> io::Result<()> {
    // SAFETY: the caller is a forked child with one thread.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    mount_change(c"/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    let nothing = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount(c"none", c"/proc/sys/net", c"tmpfs", nothing, None)?)
}

/// Runs the command to its end, and returns what it said. What it leaves running keeps our memory file as its standard
/// error, not a pipe that would break.
fn finish(mut command: Command, streams: Option<[OwnedFd; 2]>, what: &str) -> io::Result<String> {
    let mut said = File::from(memfd_create("runsc", MemfdFlags::CLOEXEC)?);
    match streams {
        Some([stdin, stdout]) => command.stdin(stdin).stdout(stdout),
        None => command.stdin(Stdio::null()).stdout(said.try_clone()?),
    };
    command.env_clear().current_dir("/").stderr(said.try_clone()?);
    let mut child = command.spawn()?;
    // The command holds descriptors for the child.
    drop(command);
    let is_over = wait(&child, PATIENCE);
    if !matches!(is_over, Ok(true)) {
        let _ = child.kill();
    }
    let status = child.wait()?;
    let mut text = String::new();
    said.rewind()?;
    said.read_to_string(&mut text).or_else(|error| if text.is_empty() { Err(error) } else { Ok(0) })?;
    if !is_over? {
        return Err(io::Error::new(io::ErrorKind::TimedOut, format!("{what} does not end: {}", last_line(&text))));
    }
    if status.success() { Ok(text) } else { Err(io::Error::other(format!("{what}: {status}: {}", last_line(&text)))) }
}

/// `false` when it still runs after this time.
fn wait(child: &Child, limit: Duration) -> io::Result<bool> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    let limit = Timespec { tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX), tv_nsec: 0 };
    loop {
        match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&limit)) {
            Err(rustix::io::Errno::INTR) => {}
            outcome => return Ok(outcome? > 0),
        }
    }
}

fn last_line(text: &str) -> &str {
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it said nothing")
}

fn search() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| USUAL_PATH.into());
    std::env::split_paths(&path)
        .map(|place| place.join("runsc"))
        .find(|program| program.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0))
}

/// Whether the list of flags has this one: a line `  -name type`.
fn knows(flags: &str, name: &str) -> bool {
    flags.lines().any(|line| line.strip_prefix("  -").is_some_and(|line| line.split_whitespace().next() == Some(name)))
}

/// Systrap where this version has it, since it is several times faster; else ptrace, which always works. KVM needs a
/// machine of its own.
fn choose_platform(flags: &str, platforms: &str) -> &'static str {
    let description = flags.lines().skip_while(|line| !line.starts_with("  -platform ")).nth(1).unwrap_or_default();
    if [description, platforms].iter().any(|text| text.contains("systrap")) { "systrap" } else { "ptrace" }
}

fn unavailable(message: &str) -> Error {
    Error::new(ErrorCode::Unavailable, message)
        .with_field("container_runtime")
        .with_hint("install gVisor (`apt-get install runsc`, or https://gvisor.dev), or choose another runtime")
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "  -overlay\n    \tDEPRECATED\n  -platform string\n    \tspecifies which platform to use: ptrace (default), kvm.\n";
    const NEW: &str =
        "  -overlay2 value\n    \twrap\n  -platform string\n    \twhich platform: systrap (default), ptrace, kvm.\n";

    #[test]
    fn flags_are_known_by_their_whole_name_and_the_fastest_safe_platform_is_chosen() {
        assert!(knows(OLD, "overlay") && !knows(OLD, "overlay2") && !knows(OLD, "over"));
        assert!(knows(NEW, "overlay2"));
        assert_eq!(choose_platform(OLD, "ptrace\nkvm\n"), "ptrace");
        assert_eq!(choose_platform(NEW, ""), "systrap");
        assert_eq!(choose_platform(OLD, "systrap\nptrace\n"), "systrap");
    }

    #[test]
    fn a_program_that_fails_is_quoted_and_one_that_is_missing_is_named() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo first; echo the reason >&2; exit 3"]);
        let error = finish(command, None, "`runsc x`").unwrap_err().to_string();
        assert!(error.contains("the reason") && error.contains("`runsc x`"), "{error}");
        let error = Runsc::find(Some(Path::new("/no/such/runsc"))).unwrap_err();
        assert_eq!((error.code(), error.field()), (ErrorCode::Unavailable, Some("container_runtime")));
        assert!(error.message().contains("/no/such/runsc") && error.hint().is_some());
    }
}
