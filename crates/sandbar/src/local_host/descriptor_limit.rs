//! Limit on open file descriptors of this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::terminal::output;

/// Raises the soft limit to the hard limit. Processes started earlier keep the default, which
/// programs expect.
pub(crate) fn raise() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    if let Err(error) = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    ) {
        output::say(format_args!(
            "note: could not raise the limit on open files: {error}"
        ));
    }
}
