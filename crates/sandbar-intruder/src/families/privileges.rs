//! Privileges of the box's root, and ways to gain more.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::{
        fd::AsRawFd,
        unix::fs::{PermissionsExt, chown},
    },
    path::Path,
};

use crate::{
    attempt::{Attempt, Family},
    call::{Argument, call, descriptor, text},
    child::result_in_child,
    facts::Facts,
    privileges::Privileges,
    scratch::Scratch,
    verdict::{Outcome, escaped, held, refused},
};

pub(crate) const FAMILY: Family = Family {
    name: "privileges",
    attempts: &[
        Attempt::new(
            "capabilities",
            "reads its permitted, effective, inheritable and ambient sets; escaped when one is not empty",
            capabilities,
        ),
        Attempt::new(
            "capabilities-bounding",
            "reads its bounding set; escaped when it is not empty",
            |_| {
                let bounding = Privileges::own()?.bounding;
                if bounding == 0 {
                    held("empty")
                } else {
                    escaped(format!("bounding set is {bounding:#x}"))
                }
            },
        ),
        Attempt::new(
            "capabilities-beyond",
            "reads its capability sets, the bounding set included; escaped when one exceeds the file and user capabilities",
            |_| beyond(&Privileges::own()?),
        ),
        Attempt::new(
            "set-user-id-beyond",
            "starts a set-user-id program of root; escaped when its sets exceed the file and user capabilities",
            |facts| beyond(&Privileges::of_program(facts.path("set-root-file")?)??),
        ),
        Attempt::new(
            "no-new-privileges",
            "reads `no_new_privs`; escaped when it is not set",
            |_| {
                if Privileges::own()?.no_new_privs {
                    held("no_new_privs is set")
                } else {
                    escaped("no_new_privs is not set")
                }
            },
        ),
        Attempt::new(
            "seccomp-filter",
            "reads its seccomp mode; escaped when it has no filter",
            |_| match Privileges::own()?.seccomp {
                2 => held("seccomp mode 2"),
                mode => escaped(format!("seccomp mode {mode}")),
            },
        ),
        Attempt::new(
            "capabilities-raise",
            "adds CAP_SYS_ADMIN to its capability sets; escaped when the call succeeds",
            |_| refused(set_capabilities(SYS_ADMIN), "gained CAP_SYS_ADMIN"),
        ),
        Attempt::new(
            "capabilities-ambient",
            "adds CAP_SYS_ADMIN to its ambient set; escaped when the call succeeds",
            |_| {
                const RAISE: i32 = 2;
                // Only inheritable capabilities can be ambient. If this fails, so does the next
                // call.
                let _ = set_capabilities(SYS_ADMIN);
                refused(
                    call!(SYS_prctl, libc::PR_CAP_AMBIENT, RAISE, SYS_ADMIN, 0, 0),
                    "ambient set contains CAP_SYS_ADMIN",
                )
            },
        ),
        Attempt::new(
            "secure-bits",
            "sets its securebits to their current value; escaped when the call succeeds",
            |_| {
                let bits =
                    call!(SYS_prctl, libc::PR_GET_SECUREBITS, 0, 0, 0, 0).unwrap_or_default();
                refused(
                    call!(SYS_prctl, libc::PR_SET_SECUREBITS, bits, 0, 0, 0),
                    "securebits set",
                )
            },
        ),
        Attempt::new(
            "user-change",
            "changes its uid; escaped when the call succeeds",
            |_| {
                refused(
                    call!(SYS_setresuid, OTHER_UID, OTHER_UID, OTHER_UID),
                    "changed its uid",
                )
            },
        ),
        Attempt::new(
            "user-beyond",
            "changes its uid and gid to one outside the range of a box; escaped when a call succeeds",
            |_| {
                let user = result_in_child(|| {
                    call!(
                        SYS_setresuid,
                        ID_BEYOND_RANGE,
                        ID_BEYOND_RANGE,
                        ID_BEYOND_RANGE
                    )
                })?;
                let group = || {
                    call!(
                        SYS_setresgid,
                        ID_BEYOND_RANGE,
                        ID_BEYOND_RANGE,
                        ID_BEYOND_RANGE
                    )
                };
                refused(user.or(result_in_child(group)?), "changed its uid or gid")
            },
        ),
        Attempt::new(
            "groups-change",
            "drops its supplementary groups; escaped when the call succeeds",
            |_| {
                refused(
                    call!(SYS_setgroups, 0, Argument::NULL),
                    "dropped its groups",
                )
            },
        ),
        Attempt::new(
            "owner-change",
            "changes the owner of one of its files; escaped when the call succeeds",
            |_| {
                let scratch = Scratch::here()?;
                refused(
                    chown(scratch.file("file", b"")?, Some(OTHER_UID), None),
                    "changed the owner",
                )
            },
        ),
        Attempt::new(
            "owner-beyond",
            "changes the owner and group of one of its files to one outside the range of a box; escaped when a call succeeds",
            |_| {
                let scratch = Scratch::here()?;
                let file = scratch.file("file", b"")?;
                let user = chown(&file, Some(ID_BEYOND_RANGE), None);
                refused(
                    user.or_else(|_| chown(&file, None, Some(ID_BEYOND_RANGE))),
                    "changed the owner",
                )
            },
        ),
        Attempt::new(
            "set-user-id-own",
            "starts a set-user-id copy of itself owned by root of the box; escaped when its sets exceed the file and user capabilities",
            own_set_user_id,
        ),
        Attempt::new(
            "set-user-id",
            "starts a set-user-id program of another user; escaped when it gains ids or privileges",
            |facts| start(facts.path("set-user-file")?),
        ),
        Attempt::new(
            "set-user-id-root",
            "starts a set-user-id program of root; escaped when it gains ids or privileges",
            |facts| start(facts.path("set-root-file")?),
        ),
        Attempt::new(
            "file-capabilities",
            "sets file capabilities (version 2) on one of its files; escaped when the attribute is stored",
            |_| set_file_capabilities(2),
        ),
        Attempt::new(
            "file-capabilities-namespaced",
            "sets file capabilities (version 3, for this user namespace) on one of its files; escaped when the attribute is stored",
            |_| set_file_capabilities(3),
        ),
        Attempt::new(
            "program-in-memory",
            "starts a program from a memfd; escaped when it gains ids or privileges",
            program_in_memory,
        ),
        Attempt::new(
            "attribute-trusted",
            "sets a `trusted.` attribute; escaped when the attribute is stored",
            |_| set_attribute("trusted.sandbar", b"x"),
        ),
        Attempt::new(
            "attribute-overlay-opaque",
            "marks a directory opaque for overlayfs, which hides the lower layers; escaped when the attribute is stored",
            |_| set_attribute("trusted.overlay.opaque", b"y"),
        ),
        Attempt::new(
            "attribute-overlay-redirect",
            "redirects a directory to another one of the lower layers of overlayfs; escaped when the attribute is stored",
            |_| set_attribute("trusted.overlay.redirect", b"/etc"),
        ),
        Attempt::new(
            "attribute-overlay-metacopy",
            "makes overlayfs read a file's content from a lower layer; escaped when the attribute is stored",
            |_| set_attribute("trusted.overlay.metacopy", b""),
        ),
        Attempt::new(
            "attribute-security",
            "sets a `security.` attribute; escaped when the attribute is stored",
            |_| set_attribute("security.sandbar", b"x"),
        ),
    ],
};

const SYS_ADMIN: u32 = 21;
/// Uid that no process of the suite runs as.
const OTHER_UID: u32 = 4242;
/// First uid and gid outside the range of a box.
const ID_BEYOND_RANGE: u32 = 65_536;

/// Capabilities of root with `RootRights::Own`: CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID,
/// SETUID.
const FILES_AND_USERS: u64 = 0b1111_1011;

fn beyond(sets: &Privileges) -> Outcome {
    let all = sets.permitted | sets.effective | sets.inheritable | sets.ambient | sets.bounding;
    let beyond = all & !FILES_AND_USERS;
    if beyond == 0 {
        held(format!("all sets within {all:#x}"))
    } else {
        escaped(format!("capabilities {beyond:#x}"))
    }
}

fn own_set_user_id(_: &Facts) -> Outcome {
    const BITS: u32 = 0o4755;
    let scratch = Scratch::here()?;
    let program = scratch.file("program", &fs::read("/proc/self/exe")?)?;
    // A failure leaves a plain program, which gains nothing.
    let _ = chown(&program, Some(0), Some(0));
    fs::set_permissions(&program, fs::Permissions::from_mode(BITS))?;
    match Privileges::of_program(&program) {
        Ok(other) => beyond(&other?),
        Err(error) => held(format!("program does not start: {error}")),
    }
}

fn capabilities(_: &Facts) -> Outcome {
    let own = Privileges::own()?;
    for (name, set) in [
        ("permitted", own.permitted),
        ("effective", own.effective),
        ("inheritable", own.inheritable),
        ("ambient", own.ambient),
    ] {
        if set != 0 {
            return escaped(format!("{name} set is {set:#x}"));
        }
    }
    held("all sets are empty")
}

/// Requests exactly one capability in the effective, permitted and inheritable sets.
fn set_capabilities(capability: u32) -> io::Result<usize> {
    const VERSION_3: u32 = 0x2008_0522;
    let header = [VERSION_3, 0];
    let bit = 1_u32 << capability;
    let sets = [bit, bit, bit, 0, 0, 0];
    call!(SYS_capset, Argument::read(&header), Argument::read(&sets))
}

fn start(program: &Path) -> Outcome {
    let own = Privileges::own()?;
    // A program that does not start is inconclusive: its set-user-id bit was not tested.
    compare(&own, &Privileges::of_program(program)??)
}

fn compare(own: &Privileges, other: &Privileges) -> Outcome {
    if own.users != other.users || own.groups != other.groups {
        return escaped(format!(
            "started program has uids {} and gids {}, the caller {} and {}",
            other.users, other.groups, own.users, own.groups
        ));
    }
    let gained = (other.permitted | other.effective) & !own.permitted;
    if gained != 0 {
        return escaped(format!("started program gained capabilities {gained:#x}"));
    }
    if (own.no_new_privs && !other.no_new_privs) || other.seccomp < own.seccomp {
        return escaped("started program lost no_new_privs or its seccomp filter");
    }
    held("started program has no more privileges than the caller")
}

fn set_file_capabilities(version: u8) -> Outcome {
    let scratch = Scratch::here()?;
    let file = scratch.file("program", b"")?;
    // The version with the effective bit, the permitted and inheritable sets, and from version 3 on
    // the root user.
    let mut value = vec![1, 0, 0, version];
    for word in [1_u32 << SYS_ADMIN, 0, 0, 0] {
        value.extend(word.to_le_bytes());
    }
    if version == 3 {
        value.extend(0_u32.to_le_bytes());
    }
    refused(
        set_attribute_of(&file, "security.capability", &value),
        "file capabilities stored",
    )
}

fn set_attribute(name: &str, value: &[u8]) -> Outcome {
    let scratch = Scratch::here()?;
    let directory = scratch.directory("directory")?;
    let file = scratch.file("file", b"")?;
    let on_directory = set_attribute_of(&directory, name, value);
    let result = if on_directory.is_err() {
        set_attribute_of(&file, name, value)
    } else {
        on_directory
    };
    refused(result, format!("attribute {name} stored"))
}

fn set_attribute_of(path: &Path, name: &str, value: &[u8]) -> io::Result<usize> {
    call!(
        SYS_setxattr,
        &text(path)?,
        &text(name)?,
        Argument::read(value),
        value.len(),
        0
    )
}

fn program_in_memory(_: &Facts) -> Outcome {
    const CLOSE_ON_EXEC: u32 = 1;
    let own = Privileges::own()?;
    let program = match descriptor(call!(SYS_memfd_create, c"intruder", CLOSE_ON_EXEC)) {
        Ok(program) => program,
        Err(error) => return held(error),
    };
    let mut program = File::from(program);
    program.write_all(&fs::read("/proc/self/exe")?)?;
    // `execve` fails with `ETXTBSY` while a descriptor of the file is open for writing.
    let path = format!("/proc/self/fd/{}", program.as_raw_fd());
    let reader = File::open(&path)?;
    drop(program);
    match Privileges::of_program(Path::new(&format!("/proc/self/fd/{}", reader.as_raw_fd()))) {
        Ok(other) => compare(&own, &other?),
        Err(error) => held(format!("program does not start: {error}")),
    }
}
