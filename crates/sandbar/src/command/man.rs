//! `sandbar man`.

use std::{fs, path::PathBuf, process::ExitCode};

use clap::{Arg, ArgMatches, Command, value_parser};
use sandbar_core::{Error, Result};

use crate::{arguments::required, cli, failure::Outcome};

#[derive(Debug)]
pub(crate) struct ManArgs {
    directory: PathBuf,
}

pub(crate) fn define() -> Command {
    Command::new("man")
        .about("Write the manual pages, one for every verb")
        .after_help(
            "\
Examples:
  sandbar man /usr/local/share/man/man1 && man sandbar-rollback",
        )
        .arg(
            Arg::new("directory")
                .value_name("DIRECTORY")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("Directory for the pages; it is made if it is missing"),
        )
}

impl ManArgs {
    pub(crate) fn read(matches: &mut ArgMatches) -> Result<Self> {
        Ok(Self { directory: required(matches, "directory")? })
    }
}

pub(crate) fn execute(args: &ManArgs) -> Outcome {
    let directory = &args.directory;
    fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(cli::define(), directory))
        .map_err(|error| Error::io(format!("could not write manual pages to `{}`", directory.display()), error))?;
    Ok(ExitCode::SUCCESS)
}
