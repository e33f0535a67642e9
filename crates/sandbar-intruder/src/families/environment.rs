//! State that a command inherits: descriptors, environment, session.

use std::{
    env,
    ffi::OsStr,
    fs::{self, File},
    os::unix::{
        ffi::OsStrExt,
        fs::{FileTypeExt, MetadataExt},
    },
    path::Path,
};

use crate::{
    attempt::{Attempt, Family},
    call::{call, open},
    facts::Facts,
    verdict::{Outcome, escaped, held},
};

pub(crate) const FAMILY: Family = Family {
    name: "environment",
    attempts: &[
        Attempt::new(
            "environment-secret",
            "searches its own environment for the secret; escaped when a variable contains it",
            environment_secret,
        ),
        Attempt::new(
            "environment-variables",
            "searches its own environment for variables it was not given; escaped when there is one",
            environment_variables,
        ),
        Attempt::new(
            "descriptors-inherited",
            "searches for inherited descriptors beyond the standard streams; escaped when there is one",
            |facts| match facts.inherited.iter().find(|&&number| number > 2) {
                Some(number) => escaped(format!("descriptor {number}: {}", describe(*number))),
                None => held(format!("{} descriptors", facts.inherited.len())),
            },
        ),
        Attempt::new(
            "descriptors-sockets",
            "searches for sockets among the inherited descriptors; escaped when there is one",
            |facts| find(facts, "a socket", |file| file.file_type().is_socket()),
        ),
        Attempt::new(
            "descriptors-directories",
            "searches for directories among the inherited descriptors; escaped when there is one",
            |facts| find(facts, "a directory", fs::Metadata::is_dir),
        ),
        Attempt::new(
            "descriptors-files",
            "reopens inherited files and block devices for writing; escaped when one opens",
            writable_files,
        ),
        Attempt::new(
            "session-of-the-host",
            "reads its process session and process group; escaped when a leader is outside its pid namespace",
            session,
        ),
        Attempt::new(
            "working-directory-outside",
            "reads its working directory; escaped when it is not below the root",
            working_directory,
        ),
    ],
};

fn environment_secret(facts: &Facts) -> Outcome {
    for (name, value) in env::vars_os() {
        if facts.finds_secret(value.as_bytes())? || facts.finds_secret(name.as_bytes())? {
            return escaped(format!("variable `{}` contains the secret", name.display()));
        }
    }
    held(format!(
        "none of {} variables contains the secret",
        env::vars_os().count()
    ))
}

/// Variables that a runtime may set by default. The suite sets none.
const EXPECTED: [&str; 6] = ["PATH", "HOME", "TERM", "USER", "LOGNAME", "HOSTNAME"];

fn environment_variables(_: &Facts) -> Outcome {
    let unexpected = env::vars_os()
        .map(|(name, _)| name)
        .find(|name| !EXPECTED.iter().any(|known| OsStr::new(known) == name));
    match unexpected {
        Some(name) => escaped(format!("variable `{}` is set", name.display())),
        None => held("only variables that a runtime sets"),
    }
}

fn describe(number: i32) -> String {
    fs::read_link(format!("/proc/self/fd/{number}"))
        .map_or_else(|error| error.to_string(), |link| link.display().to_string())
}

fn find(facts: &Facts, what: &str, matches: impl Fn(&fs::Metadata) -> bool) -> Outcome {
    for &number in &facts.inherited {
        let metadata = fs::metadata(format!("/proc/self/fd/{number}"))?;
        if matches(&metadata) {
            return escaped(format!(
                "descriptor {number} is {what}: {}",
                describe(number)
            ));
        }
    }
    held(format!(
        "none of {} descriptors is {what}",
        facts.inherited.len()
    ))
}

fn writable_files(facts: &Facts) -> Outcome {
    for &number in &facts.inherited {
        let path = format!("/proc/self/fd/{number}");
        let metadata = fs::metadata(&path)?;
        let block = metadata.file_type().is_block_device();
        if (metadata.is_file() || block) && open(Path::new(&path), libc::O_WRONLY).is_ok() {
            return escaped(format!(
                "descriptor {number} reopens for writing: {}",
                describe(number)
            ));
        }
    }
    held("no descriptor reopens for writing")
}

fn session(_: &Facts) -> Outcome {
    // The kernel reports leaders outside the pid namespace as 0.
    let session = call!(SYS_getsid, 0)?;
    let group = call!(SYS_getpgid, 0)?;
    if session == 0 || group == 0 {
        return escaped(format!("session {session}, group {group}"));
    }
    held(format!("session {session}, group {group}"))
}

fn working_directory(_: &Facts) -> Outcome {
    let here = env::current_dir()?;
    if !here.is_absolute() || here.starts_with("(unreachable)") {
        return escaped(here.display());
    }
    // The path must name the same directory as the kernel's reference.
    let (by_name, by_place) = (fs::metadata(&here)?, File::open(".")?.metadata()?);
    if (by_name.dev(), by_name.ino()) == (by_place.dev(), by_place.ino()) {
        held(here.display())
    } else {
        escaped(format!("{} is another directory", here.display()))
    }
}
