//! Sources of the values of arguments.

use clap::{Arg, ValueHint};
use sandbar_core::SessionState;

use super::{Candidate, answer::Paths};
use crate::cli::parse;

/// Source of the values of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// No candidates.
    Anything,
    Words(Vec<Candidate>),
    /// Prefixes of values.
    Prefixes(Vec<Candidate>),
    Paths(Paths),
    WordsOrPaths(Vec<Candidate>, Paths),
    /// Local path, or one in a sandbox.
    Side,
    Live(Names),
}

/// Kinds of names that the host provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    Sessions,
    Snapshots,
    Processes,
    Bases,
    Secrets,
    Tokens,
    Tools,
}

/// Returns the source of the values of an argument; `verb` includes subcommands: `base rm`.
pub(super) fn source_of(verb: &str, argument: &Arg) -> Source {
    let possible: Vec<Candidate> = argument
        .get_possible_values()
        .iter()
        .map(|value| {
            Candidate::new(
                value.get_name(),
                value
                    .get_help()
                    .map(ToString::to_string)
                    .unwrap_or_default(),
            )
        })
        .collect();
    if !possible.is_empty() {
        return Source::Words(possible);
    }
    match (verb, argument.get_id().as_str(), argument.is_positional()) {
        ("cp", "source" | "target", _) => Source::Side,
        ("rollback", "snapshot", _) | ("diff", "from" | "to", _) | ("fork", "from", _) => {
            Source::Live(Names::Snapshots)
        }
        ("base rm", "names", _) | (_, "base", _) => Source::Live(Names::Bases),
        ("secret rm", "names", _) | ("secret set", "name", _) => Source::Live(Names::Secrets),
        ("token rm", "names", _) => Source::Live(Names::Tokens),
        ("token new", "scope", _) => Source::Prefixes(plain(&["admin", "read", "session:"])),
        ("tool", "name", _) => Source::Live(Names::Tools),
        ("base import", "source", _) => Source::WordsOrPaths(
            vec![Candidate::new("host", "this machine's programs")],
            Paths::Files,
        ),
        ("run", "volume", _) => Source::Paths(Paths::Directories),
        ("up", "storage", _) => words(&["auto", "zfs", "btrfs", "local-disk"]),
        ("up", "runtime", _) => words(&["auto", "gvisor", "native", "none"]),
        ("ls", "state", _) => words(&SessionState::ALL.map(SessionState::as_str)),
        (_, "signal", _) => words(&parse::signal_names()),
        ("launch", "ready", _) => Source::Prefixes(plain(&["tcp", "http:/", "log:"])),
        ("launch", "restart", _) => words(&["no", "on-failure", "always"]),
        (_, "network" | "policy", _) => {
            Source::Prefixes(plain(&["none", "full", "allow=", "deny=", "@"]))
        }
        ("attach", "replay", _) => words(&["none", "tail", "all"]),
        (_, "id" | "ids", true) | ("mcp", "sandbox", _) => Source::Live(Names::Sessions),
        (_, "process", true) => Source::Live(Names::Processes),
        _ => match argument.get_value_hint() {
            ValueHint::DirPath => Source::Paths(Paths::Directories),
            ValueHint::AnyPath if is_directory(argument) => Source::Paths(Paths::Directories),
            ValueHint::AnyPath | ValueHint::FilePath | ValueHint::ExecutablePath => {
                Source::Paths(Paths::Files)
            }
            _ => Source::Anything,
        },
    }
}

fn is_directory(argument: &Arg) -> bool {
    argument
        .get_value_names()
        .is_some_and(|names| names.iter().any(|name| name.as_str() == "DIR"))
}

fn words(values: &[&str]) -> Source {
    Source::Words(plain(values))
}

fn plain(values: &[&str]) -> Vec<Candidate> {
    values
        .iter()
        .map(|value| Candidate::plain(*value))
        .collect()
}
