//! Arguments several verbs take, and reading what was given.

use std::any::Any;

use clap::{Arg, ArgAction, ArgMatches};
use sandbar_core::{Error, ProcessId, Result, SessionId, SnapshotName};

use crate::parse;

/// The sandbox a verb is about.
pub(crate) fn id() -> Arg {
    Arg::new("id").value_name("ID").required(true).value_parser(parse::word::<SessionId>).help("The sandbox")
}

/// A snapshot of that sandbox.
pub(crate) fn snapshot(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).value_name(value).value_parser(parse::word::<SnapshotName>).help(help)
}

/// A process of that sandbox.
pub(crate) fn process() -> Arg {
    Arg::new("process")
        .value_name("PROCESS")
        .required(true)
        .value_parser(parse::word::<ProcessId>)
        .help("The process; `sandbar ps` lists them")
}

/// `--json`, on everything that lists.
pub(crate) fn json() -> Arg {
    flag("json", "Print JSON")
}

/// `-q`, on everything that lists.
pub(crate) fn quiet(help: &'static str) -> Arg {
    flag("quiet", help).short('q').conflicts_with("json")
}

/// `--name`, which is there or not.
pub(crate) fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

/// `--name VALUE`.
pub(crate) fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

/// `--name KEY=VALUE`, any number of times.
pub(crate) fn pairs(name: &'static str, help: &'static str) -> Arg {
    option(name, "KEY=VALUE", help).action(ArgAction::Append).value_parser(parse::key_value)
}

/// `--inject RULE`, any number of times.
pub(crate) fn inject() -> Arg {
    option("inject", "RULE", "Put a secret into requests to a host: 'HOST[:PORT] HEADER: TEXT WITH {SECRET}'")
        .action(ArgAction::Append)
        .value_parser(parse::injection)
        .long_help(
            "Put a secret of the host into every request to a host: 'HOST[:PORT] HEADER: TEXT WITH {SECRET}', where SECRET \
             is a name that `sandbar secret set` was given. The sandbox never holds the secret: the header is put in on the \
             way out. May be given several times",
        )
}

/// `--user USER`, on everything that starts a program.
pub(crate) fn user() -> Arg {
    option("user", "USER", "Who runs it, by name or number of the sandbox's own users; root when left out")
}

/// The program and its arguments, after `--`.
pub(crate) fn argv() -> Arg {
    Arg::new("argv")
        .value_name("COMMAND")
        .required(true)
        .num_args(1..)
        .trailing_var_arg(true)
        .help("The program and its arguments; no shell is involved")
}

/// A value that the definition requires.
pub(crate) fn required<T: Any + Clone + Send + Sync>(matches: &mut ArgMatches, name: &str) -> Result<T> {
    matches.remove_one(name).ok_or_else(|| Error::internal(format!("argument `{name}` is not there")))
}

/// A value that may be missing.
pub(crate) fn optional<T: Any + Clone + Send + Sync>(matches: &mut ArgMatches, name: &str) -> Option<T> {
    matches.remove_one(name)
}

/// All values given, in order.
pub(crate) fn many<T: Any + Clone + Send + Sync>(matches: &mut ArgMatches, name: &str) -> Vec<T> {
    matches.remove_many(name).map(Iterator::collect).unwrap_or_default()
}
