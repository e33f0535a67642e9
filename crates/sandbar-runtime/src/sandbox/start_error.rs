//! User-facing errors for commands that could not start.

use std::io;

use sandbar_core::{Error, ErrorCode};

use crate::protocol::Stage;

/// Failed step of a command's start, and its cause.
pub(super) type StartFailure = (Stage, io::Error);

/// Builds the error for a command that init could not start.
pub(super) fn start_error((stage, cause): StartFailure, program: &str, cwd: &str) -> Error {
    let program = program.escape_debug();
    match (stage, cause.raw_os_error()) {
        (Stage::Directory, _) => Error::invalid(
            "cwd",
            format!(
                "working directory `{}` cannot be entered: {cause}",
                cwd.escape_debug()
            ),
        )
        .with_hint("give a directory that exists in the session and that the user may enter"),
        (Stage::User, _) => Error::invalid(
            "user",
            format!("`{program}` cannot run as this user: {cause}"),
        )
        .with_hint("leave out `user` to run as root of the sandbox"),
        (Stage::Exec, Some(libc::ENOENT | libc::ENOTDIR)) => Error::new(
            ErrorCode::FileNotFound,
            format!("command `{program}` was not found in the session"),
        )
        .with_field("argv")
        .with_hint("check the name and `PATH`; for a script, also its interpreter"),
        (Stage::Exec, Some(libc::EACCES | libc::ENOEXEC | libc::EPERM)) => {
            Error::invalid("argv", format!("command `{program}` is not executable"))
                .with_hint("give it execute permission, and make sure it is built for this machine")
        }
        // Some kernels return ENAMETOOLONG instead of E2BIG.
        (Stage::Exec, Some(libc::E2BIG | libc::ENAMETOOLONG)) => Error::invalid(
            "argv",
            format!("arguments and environment of `{program}` are too long"),
        )
        .with_hint("pass the data through stdin or a file"),
        // The file decides the rest: `ELOOP` for interpreters in a circle, `ETXTBSY`, a damaged ELF
        // header.
        (Stage::Exec, _) => Error::invalid(
            "argv",
            format!("command `{program}` cannot be executed: {cause}"),
        )
        .with_hint("check the file, and for a script its interpreter"),
        (Stage::Fork, Some(libc::EAGAIN)) => Error::new(
            ErrorCode::Unavailable,
            format!("`{program}` cannot start: the session's process limit is reached"),
        )
        .with_field("resources.pids")
        .with_hint("end some of its processes, or raise the limit"),
        _ => Error::io(format!("start `{program}`"), cause),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exec_error_caused_by_a_file_is_not_internal() {
        for errno in [libc::ELOOP, libc::ETXTBSY, libc::EINVAL, libc::ELIBBAD] {
            let cause = io::Error::from_raw_os_error(errno);
            let error = start_error((Stage::Exec, cause), "/workspace/loop", "/");
            assert_eq!(error.code(), ErrorCode::InvalidArgument, "{errno}");
            assert_eq!(error.field(), Some("argv"));
        }
    }
}
