//! Privileges of a process as reported by the kernel, to compare those of programs that could gain
//! some when they are started.

use std::{fs, io, path::Path, process::Command};

use crate::{call::call, verdict::Inconclusive};

/// The command that prints the privileges of this process, for [`Privileges::of_program`].
pub(crate) const REPORT: &str = "report-privileges";

/// Name of the line that [`report`] adds for `no_new_privs`.
const NO_NEW_PRIVS: &str = "SandbarNoNewPrivs";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Privileges {
    /// Real, effective, saved and file system user.
    pub(crate) users: String,
    pub(crate) groups: String,
    pub(crate) inheritable: u64,
    pub(crate) permitted: u64,
    pub(crate) effective: u64,
    pub(crate) bounding: u64,
    pub(crate) ambient: u64,
    /// `no_new_privs` is set.
    pub(crate) no_new_privs: bool,
    /// Seccomp mode; 2 is a filter.
    pub(crate) seccomp: u32,
}

impl Privileges {
    pub(crate) fn own() -> Result<Self, Inconclusive> {
        Self::parse(&report())
    }

    /// Returns the privileges of `program`, a copy of this one, when it is started.
    pub(crate) fn of_program(program: &Path) -> io::Result<Result<Self, Inconclusive>> {
        #[expect(clippy::disallowed_methods, reason = "starts a copy of itself")]
        let output = Command::new(program).arg(REPORT).output()?;
        Ok(Self::parse(&String::from_utf8_lossy(&output.stdout)))
    }

    fn parse(status: &str) -> Result<Self, Inconclusive> {
        let field = |name: &str| {
            let value = status
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value
                .map(|value| value.split_whitespace().collect::<Vec<_>>().join(" "))
                .ok_or_else(|| {
                    Inconclusive(format!("field `{name}` is missing in /proc/self/status"))
                })
        };
        let set = |name: &str| {
            let value = field(name)?;
            u64::from_str_radix(&value, 16).map_err(|_| {
                Inconclusive(format!("field `{name}` is not a capability set: {value}"))
            })
        };
        Ok(Self {
            users: field("Uid")?,
            groups: field("Gid")?,
            inheritable: set("CapInh")?,
            permitted: set("CapPrm")?,
            effective: set("CapEff")?,
            bounding: set("CapBnd")?,
            // Old kernels and gVisor may not report these.
            ambient: set("CapAmb").unwrap_or(0),
            no_new_privs: field(NO_NEW_PRIVS)? == "1",
            seccomp: field("Seccomp")
                .ok()
                .and_then(|value| value.parse().ok())
                .unwrap_or(0),
        })
    }
}

/// Returns `/proc/self/status` with a line for `no_new_privs`, which not every kernel includes.
pub(crate) fn report() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let no_new_privs = call!(SYS_prctl, libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0).unwrap_or_default();
    format!("{status}{NO_NEW_PRIVS}:\t{no_new_privs}\n")
}
