//! `sandbar man`.

use std::{fs, path::PathBuf, process::ExitCode};

use clap::{Args, CommandFactory as _};
use sandbar_core::Error;

use crate::{cli::Cli, failure::Outcome};

#[derive(Args, Debug)]
#[command(
    about = "Write the manual pages, one for every verb",
    after_help = "\
Examples:
  sandbar man /usr/local/share/man/man1 && man sandbar-rollback"
)]
pub(crate) struct ManArgs {
    /// Directory for the pages; created if missing
    directory: PathBuf,
}

pub(crate) fn execute(args: &ManArgs) -> Outcome {
    let directory = &args.directory;
    fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), directory))
        .map_err(|error| {
            Error::io(
                format!("could not write manual pages to `{}`", directory.display()),
                error,
            )
        })?;
    Ok(ExitCode::SUCCESS)
}
