//! The `sandbar` command line: one binary that is the host, its client and its doctor.
//!
//! `main` is not async on purpose: `up` leaves the machine's mount namespace before the first thread exists, so that
//! every mount it makes dies with it.

mod arguments;
mod attachment;
mod attendance;
mod bench;
mod cli;
mod command;
mod completion;
mod config;
mod connection;
mod descriptor_limit;
mod doctor;
mod e2b_environment;
mod env_vars;
mod failure;
mod input;
mod interrupt;
mod local_authority;
mod local_files;
mod logging;
mod mount_namespace;
mod name_server;
mod output;
mod parse;
mod progress;
mod registry_login;
mod screen;
mod secret_input;
mod terminal;
mod top;
mod trace_export;
mod tree;
mod view;

use std::process::ExitCode;

use clap::Parser as _;

use crate::{cli::Cli, failure::report};

fn main() -> ExitCode {
    // Before anything else: the same binary is the spawner and the init of boxes.
    sandbar_runtime::run_role();
    if let Some(code) = completion::serve(std::env::args_os()) {
        return code;
    }
    match command::dispatch(Cli::parse()) {
        Ok(code) => code,
        Err(failure) => report(&failure),
    }
}
