//! How many files and connections this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::output;

/// Lets this process have as many as it may. What was started before keeps the usual number, which programs expect.
pub(crate) fn raise() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        output::say(format_args!("note: could not raise the number of open files: {error}"));
    }
}
