//! Error codes, and how each one looks on the wire and to a shell.
//!
//! The table below is the only list of codes. It also generates `docs/errors.md`.

use std::fmt;

macro_rules! error_codes {
    ($($code:ident, $rpc:literal, $http:literal, $exit:literal, $meaning:literal;)*) => {
        /// Stable code of an [`Error`](crate::Error). Names are part of the wire contract: they are
        /// never reused for another meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $(#[doc = $meaning] $code,)*
        }

        impl ErrorCode {
            /// Every code, in the order of `docs/errors.md`.
            pub const ALL: [Self; [$(Self::$code),*].len()] = [$(Self::$code),*];

            /// Returns the name that clients match on.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$code => stringify!($code),)*
                }
            }

            /// Returns the Connect / gRPC status code, in Connect's spelling.
            pub const fn rpc_code(self) -> &'static str {
                match self {
                    $(Self::$code => $rpc,)*
                }
            }

            /// Returns the HTTP status of a unary Connect call that ends with this code.
            pub const fn http_status(self) -> u16 {
                match self {
                    $(Self::$code => $http,)*
                }
            }

            /// Returns the exit code of a CLI verb that ends with this code.
            pub const fn exit_code(self) -> u8 {
                match self {
                    $(Self::$code => $exit,)*
                }
            }

            /// Returns one sentence for the reference page.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$code => $meaning,)*
                }
            }
        }
    };
}

error_codes! {
    SessionNotFound, "not_found", 404, 1, "No session has this id.";
    SessionExists, "already_exists", 409, 1, "The id is in use by another session.";
    SessionPaused, "failed_precondition", 400, 1,
        "The session is paused; resume it first.";
    SessionDestroying, "failed_precondition", 400, 1, "The session is being destroyed.";
    ProcessNotFound, "not_found", 404, 1,
        "The session has no such process, or the process has exited.";
    ProcessReadyTimeout, "deadline_exceeded", 504, 1,
        "The process was not ready within `ready_timeout`.";
    RollbackInProgress, "failed_precondition", 400, 1, "The session is being rolled back.";
    InvalidState, "failed_precondition", 400, 1,
        "The operation is not possible in the current state of the object.";
    MaxSessionsReached, "resource_exhausted", 429, 1, "The host has `max_sessions` sessions.";
    ToolsInFlight, "failed_precondition", 400, 1,
        "Tool calls of the session did not end before the drain timeout.";
    SnapshotsNotAvailable, "failed_precondition", 400, 1,
        "Reserved for storage without snapshots. No current storage raises it.";
    SnapshotNotFound, "not_found", 404, 1, "The session has no snapshot of this name.";
    SnapshotExists, "already_exists", 409, 1, "The session has a snapshot of this name.";
    BaseNotFound, "not_found", 404, 1, "No base has this name.";
    BaseExists, "already_exists", 409, 1, "The name is in use by another base.";
    FileNotFound, "not_found", 404, 1, "The path does not exist in the session.";
    SecretNotFound, "not_found", 404, 1, "No secret has this name.";
    TokenNotFound, "not_found", 404, 1, "No access token has this name.";
    TokenExists, "already_exists", 409, 1, "The name is in use by another access token.";
    UserNotFound, "not_found", 404, 1, "The session's `/etc/passwd` has no such user.";
    StorageFull, "resource_exhausted", 429, 1,
        "The pool or the quota of the session has no space left.";
    SlowReader, "resource_exhausted", 429, 1,
        "The client did not read its stream for `slow_reader_timeout`.";
    TooManyCalls, "resource_exhausted", 429, 1,
        "The access token or the session has reached a limit of calls, watches, processes or ports.";
    InvalidArgument, "invalid_argument", 400, 1,
        "A field of the request is not valid; `field` names it.";
    Timeout, "deadline_exceeded", 504, 1, "The operation did not end before its deadline.";
    Unavailable, "unavailable", 503, 1, "The host cannot serve the call now; retry later.";
    Unauthenticated, "unauthenticated", 401, 1, "The access token is missing or not valid.";
    PermissionDenied, "permission_denied", 403, 1,
        "The access token, the policy or the kernel does not permit the operation.";
    Internal, "internal", 500, 1, "The host or the machine failed; the request was not at fault.";
}

impl ErrorCode {
    /// Returns the code of this name; `None` for a code of a newer host.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.as_str() == name)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::{fmt::Write as _, fs};

    use super::*;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md");
    const UPDATE_VARIABLE: &str = "SANDBAR_UPDATE_DOCS";

    fn page() -> String {
        let mut page = "# Error codes

<!-- Generated from crates/sandbar-core/src/error_code.rs. Rewrite it with
SANDBAR_UPDATE_DOCS=1 cargo nextest run -p sandbar-core -E 'test(error_page)' -->

Every error carries one of these codes in `ErrorDetail.code`, whatever the protocol; see
[the API](api.md#errors). `HTTP` is the status of a unary Connect call; calls of the E2B API have
statuses of their own. `exit` is the exit code of the CLI. Besides these, the CLI exits with 2 for a
wrong command line, and `exec`, `run` and `attach` pass on the exit code of the command: 126 if it
cannot be executed, 127 if it does not exist, 124 after its timeout.

| code | RPC code | HTTP | exit | meaning |
|---|---|---|---|---|
"
        .to_owned();
        for code in ErrorCode::ALL {
            let _ = writeln!(
                page,
                "| `{code}` | `{}` | {} | {} | {} |",
                code.rpc_code(),
                code.http_status(),
                code.exit_code(),
                code.meaning(),
            );
        }
        page
    }

    #[test]
    fn error_page_matches_the_table() {
        if std::env::var_os(UPDATE_VARIABLE).is_some() {
            fs::write(PAGE, page()).unwrap();
        }
        assert_eq!(
            fs::read_to_string(PAGE).unwrap_or_default(),
            page(),
            "docs/errors.md is out of date: run this test with {UPDATE_VARIABLE}=1 to rewrite it"
        );
    }

    #[test]
    fn error_code_is_found_by_its_name() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_name(code.as_str()), Some(code));
        }
        assert_eq!(ErrorCode::from_name("Nonsense"), None);
    }

    #[test]
    fn http_status_follows_from_the_rpc_code() {
        for one in ErrorCode::ALL {
            for other in ErrorCode::ALL {
                assert!(
                    one.rpc_code() != other.rpc_code() || one.http_status() == other.http_status(),
                    "{one} and {other}"
                );
            }
        }
    }
}
