//! The programs of `tests/foreign` and their interpreters.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use sandbar_testing::installed_python;

/// Returns a file of `tests/foreign`.
pub(crate) fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/foreign")
        .join(name)
}

/// Returns an executable script of `tests/foreign`.
pub(crate) fn script(name: &str) -> Command {
    Command::new(file(name))
}

/// Returns a Python that has what is imported: the one setup made, the machine's, or the Google
/// Cloud SDK's, which brings gRPC. Panics when none has it.
pub(crate) fn python_with(imports: &str) -> Command {
    let sdk = Path::new("/usr/lib/google-cloud-sdk");
    let candidates = [
        installed_python("bin/python3"),
        Some("python3".into()),
        Some("/usr/bin/python3".into()),
        Some(sdk.join("platform/bundledpythonunix/bin/python3")),
    ];
    let commands = candidates.into_iter().flatten().map(|program| {
        let mut command = Command::new(program);
        command
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("GOOGLE_SDK_LIBRARIES", sdk.join("lib/third_party"));
        command
    });
    let has_all = |command: &Command| {
        let mut probe = Command::new(command.get_program());
        probe.envs(
            command
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        probe
            .args(["-c", imports])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    };
    let found = commands.into_iter().find(has_all);
    found.unwrap_or_else(|| {
        panic!(
            "no Python can do `{}`: run `make setup-tests`",
            imports.trim()
        )
    })
}

/// Returns a Java that can compile a source file. On Debian its configuration is in `/etc`, and a
/// Java without it does not work.
pub(crate) fn java() -> Option<Command> {
    let installed = std::fs::read_dir("/usr/lib/jvm")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let homes = std::env::var_os("JAVA_HOME")
        .map(PathBuf::from)
        .into_iter()
        .chain(installed);
    homes
        .filter(|home| {
            home.join("conf/security/java.security").exists() && home.join("bin/javac").exists()
        })
        .map(|home| Command::new(home.join("bin/java")))
        .next()
}
