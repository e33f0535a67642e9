//! What the box's root may do, and ways to may more.

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
            "looks at its capability sets; escaped when one it could use is not empty",
            capabilities,
        ),
        Attempt::new("capabilities-bounding", "looks at its bounding set; escaped when it is not empty", |_| {
            let bounding = Privileges::own()?.bounding;
            if bounding == 0 { held("empty") } else { escaped(format!("{bounding:#x}")) }
        }),
        Attempt::new(
            "capabilities-beyond",
            "looks at its sets, the bounding one too; escaped when there is one that is not about files and users",
            |_| beyond(&Privileges::own()?),
        ),
        Attempt::new(
            "set-user-id-beyond",
            "starts a program of root with the set-user-id bit; escaped when it may what is not about files and users",
            |facts| beyond(&Privileges::of_program(facts.path("set-root-file")?)??),
        ),
        Attempt::new("no-new-privileges", "looks whether programs may give it more; escaped when they may", |_| {
            if Privileges::own()?.gains_nothing { held("they may not") } else { escaped("they may") }
        }),
        Attempt::new("seccomp-filter", "looks for a filter on its system calls; escaped when there is none", |_| {
            match Privileges::own()?.seccomp {
                2 => held("there is a filter"),
                mode => escaped(format!("mode {mode}")),
            }
        }),
        Attempt::new("capabilities-raise", "gives itself CAP_SYS_ADMIN; escaped when the kernel agrees", |_| {
            refused(set_capabilities(SYS_ADMIN), "has CAP_SYS_ADMIN")
        }),
        Attempt::new("capabilities-ambient", "makes CAP_SYS_ADMIN ambient; escaped when the kernel agrees", |_| {
            const RAISE: i32 = 2;
            // Only what is inheritable can be ambient; without, the next call says no by itself.
            let _ = set_capabilities(SYS_ADMIN);
            refused(
                call!(SYS_prctl, libc::PR_CAP_AMBIENT, RAISE, SYS_ADMIN, 0, 0),
                "programs it starts have CAP_SYS_ADMIN",
            )
        }),
        Attempt::new("secure-bits", "sets its secure bits to what they are; escaped when it may", |_| {
            let bits = call!(SYS_prctl, libc::PR_GET_SECUREBITS, 0, 0, 0, 0).unwrap_or_default();
            refused(call!(SYS_prctl, libc::PR_SET_SECUREBITS, bits, 0, 0, 0), "may change them")
        }),
        Attempt::new("user-change", "becomes another user; escaped when it may", |_| {
            refused(call!(SYS_setresuid, STRANGER, STRANGER, STRANGER), "became another user")
        }),
        Attempt::new(
            "user-beyond",
            "becomes a user, and a group, that a box has no room for; escaped when it may",
            |_| {
                let user = result_in_child(|| call!(SYS_setresuid, NO_ROOM, NO_ROOM, NO_ROOM))?;
                let group = || call!(SYS_setresgid, NO_ROOM, NO_ROOM, NO_ROOM);
                refused(user.or(result_in_child(group)?), "became one")
            },
        ),
        Attempt::new("groups-change", "gives up its groups; escaped when it may", |_| {
            refused(call!(SYS_setgroups, 0, Argument::NULL), "gave them up")
        }),
        Attempt::new("owner-change", "gives a file of its own to another user; escaped when it may", |_| {
            let scratch = Scratch::here()?;
            refused(chown(scratch.file("file", b"")?, Some(STRANGER), None), "gave it away")
        }),
        Attempt::new(
            "owner-beyond",
            "gives a file of its own to a user, and a group, that a box has no room for; escaped when it may",
            |_| {
                let scratch = Scratch::here()?;
                let file = scratch.file("file", b"")?;
                let user = chown(&file, Some(NO_ROOM), None);
                refused(user.or_else(|_| chown(&file, None, Some(NO_ROOM))), "gave it away")
            },
        ),
        Attempt::new(
            "set-user-id-own",
            "makes a copy of itself, gives it to root of the box with the set-user-id bit and starts it; escaped when it \
             may what is not about files and users",
            own_set_user_id,
        ),
        Attempt::new(
            "set-user-id",
            "starts a program with the set-user-id bit of another user; escaped when it runs as that user",
            |facts| start(facts.path("set-user-file")?),
        ),
        Attempt::new(
            "set-user-id-root",
            "starts a program of root with the set-user-id bit; escaped when it may more than this one",
            |facts| start(facts.path("set-root-file")?),
        ),
        Attempt::new(
            "file-capabilities",
            "gives a file of its own capabilities; escaped when the kernel stores them",
            |_| set_file_capabilities(2),
        ),
        Attempt::new(
            "file-capabilities-namespaced",
            "the same, for the root of this namespace only; escaped when the kernel stores them",
            |_| set_file_capabilities(3),
        ),
        Attempt::new(
            "program-in-memory",
            "starts a program that is in no file system; escaped when it may more than this one",
            program_in_memory,
        ),
        Attempt::new("attribute-trusted", "sets a trusted attribute on a file; escaped when it may", |_| {
            set_attribute("trusted.sandbar", b"x")
        }),
        Attempt::new(
            "attribute-overlay-opaque",
            "makes a directory hide the layers below; escaped when the attribute is set",
            |_| set_attribute("trusted.overlay.opaque", b"y"),
        ),
        Attempt::new(
            "attribute-overlay-redirect",
            "redirects a directory to another of the layers below; escaped when the attribute is set",
            |_| set_attribute("trusted.overlay.redirect", b"/etc"),
        ),
        Attempt::new(
            "attribute-overlay-metacopy",
            "makes a file take its content from a layer below; escaped when the attribute is set",
            |_| set_attribute("trusted.overlay.metacopy", b""),
        ),
        Attempt::new("attribute-security", "sets a security attribute on a file; escaped when it may", |_| {
            set_attribute("security.sandbar", b"x")
        }),
    ],
};

const SYS_ADMIN: u32 = 21;
/// A user nobody in the suite is.
const STRANGER: u32 = 4242;
/// The first user a box has no room for.
const NO_ROOM: u32 = 65_536;

/// What a root with rights of its own may have: CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID.
const FILES_AND_USERS: u64 = 0b1111_1011;

fn beyond(sets: &Privileges) -> Outcome {
    let all = sets.permitted | sets.effective | sets.inheritable | sets.ambient | sets.bounding;
    let beyond = all & !FILES_AND_USERS;
    if beyond == 0 { held(format!("no more than {all:#x}")) } else { escaped(format!("{beyond:#x}")) }
}

fn own_set_user_id(_: &Facts) -> Outcome {
    const BITS: u32 = 0o4755;
    let scratch = Scratch::here()?;
    let program = scratch.file("program", &fs::read("/proc/self/exe")?)?;
    // Neither need work: then it is a program like others.
    let _ = chown(&program, Some(0), Some(0));
    fs::set_permissions(&program, fs::Permissions::from_mode(BITS))?;
    match Privileges::of_program(&program) {
        Ok(other) => beyond(&other?),
        Err(error) => held(format!("it does not start: {error}")),
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
            return escaped(format!("{name} {set:#x}"));
        }
    }
    held("all are empty")
}

/// Asks for one capability in every set.
fn set_capabilities(capability: u32) -> io::Result<usize> {
    const VERSION_3: u32 = 0x2008_0522;
    let header = [VERSION_3, 0];
    let bit = 1_u32 << capability;
    let sets = [bit, bit, bit, 0, 0, 0];
    call!(SYS_capset, Argument::read(&header), Argument::read(&sets))
}

fn start(program: &Path) -> Outcome {
    let own = Privileges::own()?;
    // What does not start at all says nothing about its bits.
    compare(&own, &Privileges::of_program(program)??)
}

fn compare(own: &Privileges, other: &Privileges) -> Outcome {
    if own.users != other.users || own.groups != other.groups {
        return escaped(format!(
            "it runs as {} {}, this one as {} {}",
            other.users, other.groups, own.users, own.groups
        ));
    }
    let gained = (other.permitted | other.effective) & !own.permitted;
    if gained != 0 {
        return escaped(format!("it gained {gained:#x}"));
    }
    if (own.gains_nothing && !other.gains_nothing) || other.seccomp < own.seccomp {
        return escaped("it lost a restriction");
    }
    held("it may no more than this one")
}

fn set_file_capabilities(version: u8) -> Outcome {
    let scratch = Scratch::here()?;
    let file = scratch.file("program", b"")?;
    // The version with the effective bit, the permitted and inheritable sets, and from version 3 on the root user.
    let mut value = vec![1, 0, 0, version];
    for word in [1_u32 << SYS_ADMIN, 0, 0, 0] {
        value.extend(word.to_le_bytes());
    }
    if version == 3 {
        value.extend(0_u32.to_le_bytes());
    }
    refused(set_attribute_of(&file, "security.capability", &value), "the kernel stored them")
}

fn set_attribute(name: &str, value: &[u8]) -> Outcome {
    let scratch = Scratch::here()?;
    let directory = scratch.directory("directory")?;
    let file = scratch.file("file", b"")?;
    let on_directory = set_attribute_of(&directory, name, value);
    let result = if on_directory.is_err() { set_attribute_of(&file, name, value) } else { on_directory };
    refused(result, format!("set {name}"))
}

fn set_attribute_of(path: &Path, name: &str, value: &[u8]) -> io::Result<usize> {
    call!(SYS_setxattr, &text(path)?, &text(name)?, Argument::read(value), value.len(), 0)
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
    // A file that is open for writing does not start; another process may still hold this very descriptor.
    let path = format!("/proc/self/fd/{}", program.as_raw_fd());
    let reader = File::open(&path)?;
    drop(program);
    match Privileges::of_program(Path::new(&format!("/proc/self/fd/{}", reader.as_raw_fd()))) {
        Ok(other) => compare(&own, &other?),
        Err(error) => held(format!("it does not start: {error}")),
    }
}
