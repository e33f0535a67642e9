//! What a command starts with: descriptors, environment, session.

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
            "looks for the host's secret in its own environment; escaped when it is there",
            environment_secret,
        ),
        Attempt::new(
            "environment-variables",
            "looks for variables of the host in its own environment; escaped when one it was not given is there",
            environment_variables,
        ),
        Attempt::new(
            "descriptors-inherited",
            "looks for descriptors beyond the standard streams; escaped when there is one",
            |facts| match facts.inherited.iter().find(|&&number| number > 2) {
                Some(number) => escaped(format!("descriptor {number}: {}", describe(*number))),
                None => held(format!("{} descriptors", facts.inherited.len())),
            },
        ),
        Attempt::new(
            "descriptors-sockets",
            "looks for sockets among its descriptors; escaped when there is one",
            |facts| find(facts, "a socket", |file| file.file_type().is_socket()),
        ),
        Attempt::new(
            "descriptors-directories",
            "looks for directories among its descriptors; escaped when there is one",
            |facts| find(facts, "a directory", fs::Metadata::is_dir),
        ),
        Attempt::new(
            "descriptors-files",
            "looks for files among its descriptors that it could open again for writing; escaped when one opens",
            writable_files,
        ),
        Attempt::new(
            "session-of-the-host",
            "looks at its process session and group; escaped when they began outside of the box",
            session,
        ),
        Attempt::new(
            "working-directory-outside",
            "asks where it was started; escaped when its working directory is not below its root",
            working_directory,
        ),
    ],
};

fn environment_secret(facts: &Facts) -> Outcome {
    for (name, value) in env::vars_os() {
        if facts.finds_secret(value.as_bytes())? || facts.finds_secret(name.as_bytes())? {
            return escaped(format!("the secret is in `{}`", name.display()));
        }
    }
    held(format!("none of {} variables holds it", env::vars_os().count()))
}

/// What a runtime may set by itself; the suite gives nothing.
const EXPECTED: [&str; 6] = ["PATH", "HOME", "TERM", "USER", "LOGNAME", "HOSTNAME"];

fn environment_variables(_: &Facts) -> Outcome {
    let stranger =
        env::vars_os().map(|(name, _)| name).find(|name| !EXPECTED.iter().any(|known| OsStr::new(known) == name));
    match stranger {
        Some(name) => escaped(format!("`{}` is there", name.display())),
        None => held("nothing but what a runtime sets"),
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
            return escaped(format!("descriptor {number} is {what}: {}", describe(number)));
        }
    }
    held(format!("none of {} descriptors is {what}", facts.inherited.len()))
}

fn writable_files(facts: &Facts) -> Outcome {
    for &number in &facts.inherited {
        let path = format!("/proc/self/fd/{number}");
        let metadata = fs::metadata(&path)?;
        let block = metadata.file_type().is_block_device();
        if (metadata.is_file() || block) && open(Path::new(&path), libc::O_WRONLY).is_ok() {
            return escaped(format!("descriptor {number} opens again for writing: {}", describe(number)));
        }
    }
    held("no descriptor is a file it could write")
}

fn session(_: &Facts) -> Outcome {
    // Leaders outside of the process namespace are 0.
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
    // The same directory, or the name is a lie.
    let (by_name, by_place) = (fs::metadata(&here)?, File::open(".")?.metadata()?);
    if (by_name.dev(), by_name.ino()) == (by_place.dev(), by_place.ino()) {
        held(here.display())
    } else {
        escaped(format!("{} is another directory", here.display()))
    }
}
