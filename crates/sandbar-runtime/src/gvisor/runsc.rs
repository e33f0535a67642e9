//! The program `runsc`: lookup, supported flags, and calls.

#![expect(unsafe_code, reason = "`pre_exec` runs code between fork and exec")]

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

use super::tree::StartMounts;
use crate::{BoxNetwork, native::oom_score};

/// Limits a call. Far more than any takes, even on a busy machine.
const CALL_TIMEOUT: Duration = Duration::from_mins(1);

/// Search path if `PATH` is not set.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/usr/sbin";

#[derive(Debug)]
pub(super) struct Runsc {
    program: PathBuf,
    pub(super) version: String,
    pub(super) platform: &'static str,
    /// Flags of every call.
    flags: Vec<OsString>,
}

/// One call of `runsc`.
#[derive(Debug, Default)]
pub(super) struct Call<'a> {
    pub(super) verb: &'a str,
    pub(super) arguments: Vec<&'a OsStr>,
    /// Standard input and output.
    pub(super) streams: Option<[OwnedFd; 2]>,
    /// `cgroup.procs` of the groups that the call and its descendants enter.
    pub(super) procs: Vec<OwnedFd>,
    pub(super) mounts: Option<StartMounts>,
    /// Network of the container.
    pub(super) network: BoxNetwork,
}

impl Runsc {
    /// Finds the program and queries its flags. Nothing is inferred from its version.
    pub(super) fn find(program: Option<&Path>) -> Result<Self> {
        let program = match program {
            Some(program) => program.to_owned(),
            None => search().ok_or_else(|| unavailable("program `runsc` was not found"))?,
        };
        let ask = |arguments: &[&str]| {
            #[expect(clippy::disallowed_methods, reason = "this module owns `runsc`")]
            let mut command = Command::new(&program);
            command.args(arguments);
            finish(command, None, arguments.join(" ").as_str()).map_err(|error| {
                unavailable(&format!("`{}` does not work", program.display())).with_source(error)
            })
        };
        let version = ask(&["--version"])?;
        let version = version
            .lines()
            .next()
            .and_then(|line| line.rsplit(' ').next())
            .unwrap_or_default()
            .to_owned();
        let known = ask(&["flags"])?;
        let has = |flag: &str| has_flag(&known, flag);
        if !has("host-fifo") {
            return Err(unavailable(&format!(
                "runsc {version} does not support `--host-fifo`"
            )));
        }
        let platform = choose_platform(&known, &ask(&["help", "platforms"]).unwrap_or_default());
        let mut flags: Vec<OsString> = vec![
            "--host-fifo=open".into(),
            // The host also changes files of a session, and commands must see that at once.
            "--file-access=shared".into(),
            // The container is started in the host's cgroups.
            "--ignore-cgroups".into(),
            format!("--platform={platform}").into(),
        ];
        if has("overlay2") {
            // Newer versions default to an overlay, which would hide writes from the host.
            flags.push("--overlay2=none".into());
        }
        if !rustix::process::geteuid().is_root() {
            flags.push("--rootless".into());
        }
        Ok(Self {
            program,
            version,
            platform,
            flags,
        })
    }

    /// Runs a `runsc` command and waits for its end. `state` is the directory of its state.
    pub(super) fn call(&self, state: &Path, call: Call<'_>) -> Result<()> {
        #[expect(clippy::disallowed_methods, reason = "this module owns `runsc`")]
        let mut command = Command::new(&self.program);
        let network = match call.network {
            BoxNetwork::Closed => "--network=none",
            // The container's own network stack, on the interface in its network namespace.
            BoxNetwork::Egress => "--network=sandbox",
        };
        command
            .arg("--root")
            .arg(state)
            .args(&self.flags)
            .arg(network)
            .arg(call.verb)
            .args(&call.arguments);
        let (procs, mounts, has_egress) =
            (call.procs, call.mounts, call.network == BoxNetwork::Egress);
        let is_container = call.streams.is_some();
        let enter = move || {
            for procs in &procs {
                rustix::io::write(procs, b"0")?;
            }
            if is_container {
                oom_score::raise_program()?;
            }
            mounts.as_ref().map_or(Ok(()), StartMounts::enter)?;
            if has_egress {
                hide_network_sysctls()
            } else {
                Ok(())
            }
        };
        // SAFETY: between fork and exec only system calls on prepared memory are made.
        unsafe { command.pre_exec(enter) };
        let what = format!("`runsc {}`", call.verb);
        finish(command, call.streams, &what)
            .map(drop)
            .map_err(|error| Error::io(format!("run {what}"), error))
    }
}

/// Covers `/proc/sys/net` in a new mount namespace. `runsc` refuses to run in the machine's initial
/// network namespace, and detects it by sysctls that newer kernels have in every namespace. Called
/// between fork and exec, so it must not allocate.
fn hide_network_sysctls() -> io::Result<()> {
    // SAFETY: the caller is a single-threaded forked child.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    mount_change(
        c"/",
        MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC,
    )?;
    let nothing = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount(c"none", c"/proc/sys/net", c"tmpfs", nothing, None)?)
}

/// Runs the command to its end and returns its output. Processes that it leaves running keep a
/// memfd as stderr; a pipe would break.
fn finish(mut command: Command, streams: Option<[OwnedFd; 2]>, what: &str) -> io::Result<String> {
    let mut log = File::from(memfd_create("runsc", MemfdFlags::CLOEXEC)?);
    match streams {
        Some([stdin, stdout]) => command.stdin(stdin).stdout(stdout),
        None => command.stdin(Stdio::null()).stdout(log.try_clone()?),
    };
    command
        .env_clear()
        .current_dir("/")
        .stderr(log.try_clone()?);
    let mut child = command.spawn()?;
    // Closes the descriptors that were passed to the child.
    drop(command);
    let has_ended = wait(&child, CALL_TIMEOUT);
    if !matches!(has_ended, Ok(true)) {
        let _ = child.kill();
    }
    let status = child.wait()?;
    let mut text = String::new();
    log.rewind()?;
    log.read_to_string(&mut text)
        .or_else(|error| if text.is_empty() { Err(error) } else { Ok(0) })?;
    if !has_ended? {
        return Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("{what} did not end in time: {}", last_line(&text)),
        ));
    }
    if status.success() {
        Ok(text)
    } else {
        Err(io::Error::other(format!(
            "{what}: {status}: {}",
            last_line(&text)
        )))
    }
}

/// Returns `false` if the child still runs after this time.
fn wait(child: &Child, limit: Duration) -> io::Result<bool> {
    let pid = i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .ok_or(io::ErrorKind::InvalidInput)?;
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    let limit = Timespec {
        tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: 0,
    };
    loop {
        match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&limit)) {
            Err(rustix::io::Errno::INTR) => {}
            outcome => return Ok(outcome? > 0),
        }
    }
}

fn last_line(text: &str) -> &str {
    text.lines()
        .map(str::trim)
        .rfind(|line| !line.is_empty())
        .unwrap_or("no output")
}

fn search() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    std::env::split_paths(&path)
        .map(|directory| directory.join("runsc"))
        .find(|program| {
            program
                .metadata()
                .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
        })
}

/// Returns whether the list of flags has this one, as a line `  -name type`.
fn has_flag(flags: &str, name: &str) -> bool {
    flags.lines().any(|line| {
        line.strip_prefix("  -")
            .is_some_and(|line| line.split_whitespace().next() == Some(name))
    })
}

/// Returns `systrap` if this version has it, since it is several times faster, or else `ptrace`,
/// which always works. KVM would need nested virtualisation.
fn choose_platform(flags: &str, platforms: &str) -> &'static str {
    let description = flags
        .lines()
        .skip_while(|line| !line.starts_with("  -platform "))
        .nth(1)
        .unwrap_or_default();
    if [description, platforms]
        .iter()
        .any(|text| text.contains("systrap"))
    {
        "systrap"
    } else {
        "ptrace"
    }
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
    const NEW: &str = "  -overlay2 value\n    \twrap\n  -platform string\n    \twhich platform: systrap (default), ptrace, kvm.\n";

    #[test]
    fn systrap_is_chosen_if_runsc_has_it() {
        assert!(has_flag(OLD, "overlay") && !has_flag(OLD, "overlay2") && !has_flag(OLD, "over"));
        assert!(has_flag(NEW, "overlay2"));
        assert_eq!(choose_platform(OLD, "ptrace\nkvm\n"), "ptrace");
        assert_eq!(choose_platform(NEW, ""), "systrap");
        assert_eq!(choose_platform(OLD, "systrap\nptrace\n"), "systrap");
    }

    #[test]
    fn failed_or_missing_runsc_is_named_in_the_error() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo first; echo the reason >&2; exit 3"]);
        let error = finish(command, None, "`runsc x`").unwrap_err().to_string();
        assert!(
            error.contains("the reason") && error.contains("`runsc x`"),
            "{error}"
        );
        let error = Runsc::find(Some(Path::new("/no/such/runsc"))).unwrap_err();
        assert_eq!(
            (error.code(), error.field()),
            (ErrorCode::Unavailable, Some("container_runtime"))
        );
        assert!(error.message().contains("/no/such/runsc") && error.hint().is_some());
    }
}
