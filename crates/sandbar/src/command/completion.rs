//! `sandbar completion`.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::{Arg, ArgMatches, Command};
use sandbar_core::Result;

use crate::{
    arguments::required,
    completion::Shell,
    failure::{Failure, Outcome},
};

#[derive(Debug)]
pub(crate) struct CompletionArgs {
    shell: Shell,
}

pub(crate) fn define() -> Command {
    Command::new("completion")
        .about("Print the script that makes a shell complete sandbar's verbs, options and names")
        .long_about(
            "\
Print the script that makes a shell complete sandbar's verbs, options and names.

Sandboxes, snapshots, processes, bases, secrets and files in sandboxes are asked for while you type; a host that does not
answer within a second is left alone. The script need not be loaded again after an update.",
        )
        .after_help(
            "\
Examples:
  source <(sandbar completion bash)                                            in ~/.bashrc
  source <(sandbar completion zsh)                                             in ~/.zshrc, after compinit
  sandbar completion fish > ~/.config/fish/completions/sandbar.fish            once
  sandbar completion bash > /usr/share/bash-completion/completions/sandbar     for everybody",
        )
        .arg(
            Arg::new("shell")
                .value_name("SHELL")
                .required(true)
                .value_parser(clap::value_parser!(Shell))
                .help("The shell"),
        )
}

impl CompletionArgs {
    pub(crate) fn read(matches: &mut ArgMatches) -> Result<Self> {
        Ok(Self { shell: required(matches, "shell")? })
    }
}

pub(crate) fn execute(args: &CompletionArgs) -> Outcome {
    io::stdout().lock().write_all(args.shell.script().as_bytes()).map_err(Failure::writing)?;
    Ok(ExitCode::SUCCESS)
}
