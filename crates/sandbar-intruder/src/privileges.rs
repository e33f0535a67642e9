//! What a process may do, as the kernel tells it: for programs that might gain something when they are started.

use std::{fs, io, path::Path, process::Command};

use crate::{call::call, verdict::Inconclusive};

/// The command that prints the privileges of this process, for [`Privileges::of_program`].
pub(crate) const REPORT: &str = "report-privileges";

/// The line for `no_new_privs`, under a name of ours.
const GAINS_NOTHING: &str = "GainsNothing";

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
    /// Programs it starts can give it nothing (`no_new_privs`).
    pub(crate) gains_nothing: bool,
    /// 2 with a filter.
    pub(crate) seccomp: u32,
}

impl Privileges {
    pub(crate) fn own() -> Result<Self, Inconclusive> {
        Self::parse(&report())
    }

    /// Those of `program`, a copy of this one, once it runs.
    pub(crate) fn of_program(program: &Path) -> io::Result<Result<Self, Inconclusive>> {
        let output = Command::new(program).arg(REPORT).output()?;
        Ok(Self::parse(&String::from_utf8_lossy(&output.stdout)))
    }

    fn parse(status: &str) -> Result<Self, Inconclusive> {
        let field = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value
                .map(|value| value.split_whitespace().collect::<Vec<_>>().join(" "))
                .ok_or_else(|| Inconclusive(format!("the kernel does not tell `{name}` in /proc/self/status")))
        };
        let set = |name: &str| {
            let value = field(name)?;
            u64::from_str_radix(&value, 16).map_err(|_| Inconclusive(format!("`{name}: {value}` is not a set")))
        };
        Ok(Self {
            users: field("Uid")?,
            groups: field("Gid")?,
            inheritable: set("CapInh")?,
            permitted: set("CapPrm")?,
            effective: set("CapEff")?,
            bounding: set("CapBnd")?,
            // Old kernels, and those that only look like one, may not tell these.
            ambient: set("CapAmb").unwrap_or(0),
            gains_nothing: field(GAINS_NOTHING)? == "1",
            seccomp: field("Seccomp").ok().and_then(|value| value.parse().ok()).unwrap_or(0),
        })
    }
}

/// What `/proc/self/status` tells, and what it does not tell everywhere.
pub(crate) fn report() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let gains_nothing = call!(SYS_prctl, libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0).unwrap_or_default();
    format!("{status}{GAINS_NOTHING}:\t{gains_nothing}\n")
}
