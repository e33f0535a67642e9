//! Result of an attempt.

use std::{fmt, io};

/// Verdict on the boundary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Held(String),
    Escaped(String),
}

/// The attempt could not be made, so there is no verdict on the boundary.
#[derive(Debug)]
pub(crate) struct Inconclusive(pub(crate) String);

pub(crate) type Outcome = Result<Verdict, Inconclusive>;

impl Verdict {
    pub(crate) const fn exit_code(&self) -> u8 {
        match self {
            Self::Held(_) => 0,
            Self::Escaped(_) => 1,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held(why) => write!(f, "held: {}", one_line(why)),
            Self::Escaped(what) => write!(f, "ESCAPED: {}", one_line(what)),
        }
    }
}

/// Preparing an attempt failed.
impl From<io::Error> for Inconclusive {
    fn from(error: io::Error) -> Self {
        Self(format!("prepare: {error}"))
    }
}

/// Reduces a text to one line.
pub(crate) fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[expect(clippy::unnecessary_wraps, reason = "attempts end with it")]
pub(crate) fn held(why: impl fmt::Display) -> Outcome {
    Ok(Verdict::Held(why.to_string()))
}

#[expect(clippy::unnecessary_wraps, reason = "attempts end with it")]
pub(crate) fn escaped(what: impl fmt::Display) -> Outcome {
    Ok(Verdict::Escaped(what.to_string()))
}

/// Judges a call that is an escape if it succeeds, and only then.
pub(crate) fn refused<T>(result: io::Result<T>, reached: impl fmt::Display) -> Outcome {
    match result {
        Ok(_) => escaped(reached),
        Err(error) => held(error),
    }
}

/// Judges a call that is made so that it cannot succeed: unless it fails with a lack of permission
/// or `ENOSYS`, it has passed the kernel's permission check.
pub(crate) fn not_permitted<T>(result: io::Result<T>, reached: impl fmt::Display) -> Outcome {
    match result {
        Ok(_) => escaped(reached),
        Err(error) if is_refusal(&error) => held(error),
        Err(error) => escaped(format!("{reached}: permission check passed, then {error}")),
    }
}

fn is_refusal(error: &io::Error) -> bool {
    const ABSENT: [i32; 6] = [
        libc::ENOSYS,
        libc::EOPNOTSUPP,
        libc::EPROTONOSUPPORT,
        libc::EAFNOSUPPORT,
        libc::ENOTTY,
        libc::ESRCH,
    ];
    error.kind() == io::ErrorKind::PermissionDenied
        || error
            .raw_os_error()
            .is_some_and(|number| ABSENT.contains(&number))
}
