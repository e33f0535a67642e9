//! The `sandbar` command line: one binary that is the host, its client and its diagnosis tool.
//!
//! `main` is not async on purpose: `up` enters a private mount namespace before the first thread
//! starts, so that all its mounts end with the process.

mod bench;
mod cli;
mod client;
mod command;
mod completion;
mod config;
mod doctor;
mod env_vars;
mod failure;
mod local_host;
mod terminal;
mod top;
mod view;

use std::process::ExitCode;

use clap::Parser as _;

use crate::{cli::Cli, failure::report};

fn main() -> ExitCode {
    // First of all: the same binary also serves as the spawner and the init of boxes, and
    // as the worker server.
    sandbar_runtime::run_role();
    sandbar_host::run_worker_role();
    if let Some(code) = completion::serve(std::env::args_os()) {
        return code;
    }
    match command::dispatch(Cli::parse()) {
        Ok(code) => code,
        Err(failure) => report(&failure),
    }
}
