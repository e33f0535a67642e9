//! Arguments that several verbs take.
//!
//! Comments on these structs are not doc comments: clap takes the doc comment of a flattened struct
//! for the description of the verb.

use clap::Args;
use sandbar_core::{ProcessId, SessionId};

use crate::cli::parse;

// The sandbox a verb is about.
#[derive(Args, Debug)]
pub(crate) struct SandboxArg {
    /// The sandbox
    #[arg(value_parser = parse::word::<SessionId>)]
    pub(crate) id: SessionId,
}

// A process of a sandbox.
#[derive(Args, Debug)]
pub(crate) struct ProcessTarget {
    /// The sandbox
    #[arg(value_parser = parse::word::<SessionId>)]
    pub(crate) id: SessionId,
    /// The process; `sandbar ps` lists them
    #[arg(value_parser = parse::word::<ProcessId>)]
    pub(crate) process: ProcessId,
}

// Directory and user a program starts with.
#[derive(Args, Debug)]
pub(crate) struct StartOptions {
    /// Working directory; /workspace when left out
    #[arg(short = 'w', long, value_name = "DIR")]
    pub(crate) cwd: Option<String>,
    /// User to run as, by name or uid in the sandbox; root when left out
    #[arg(long)]
    pub(crate) user: Option<String>,
}

/// Short help of `--inject`.
pub(crate) const INJECT_HELP: &str =
    "Add a header with a secret to requests to a host: 'HOST[:PORT] HEADER: TEXT WITH {SECRET}'";

/// Long help of `--inject`.
pub(crate) const INJECT_LONG_HELP: &str = "\
Add a header with a secret to every request to a host: 'HOST[:PORT] HEADER: TEXT WITH {SECRET}', where SECRET is a name \
given to `sandbar secret set`. The sandbox never holds the secret: the egress gateway adds the header. May be given \
several times";
