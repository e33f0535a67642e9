//! How commands can run here.

use super::{
    Finding,
    scratch::{find_program, run},
};

pub(crate) fn none() -> Finding {
    Finding::ok("none", "commands run without isolation: for trusted use only")
}

pub(crate) fn native() -> Finding {
    Finding::later("native", "namespaces, seccomp and Landlock come with a later release")
}

pub(crate) fn gvisor() -> Finding {
    const NAME: &str = "gvisor";
    let Some(path) = find_program("runsc") else {
        return Finding::later(NAME, "`runsc` is not installed, and this release does not use it yet");
    };
    match run("runsc", &["--version"]) {
        Ok(version) => {
            let version = version.lines().next().unwrap_or_default().to_owned();
            Finding::later(NAME, format!("`{}` ({version}) is there; this release does not use it yet", path.display()))
        }
        Err(why) => Finding::later(NAME, format!("{why}; this release does not use it yet")),
    }
}
