//! `sandbar completion`.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::Args;

use crate::{
    completion::Shell,
    failure::{Failure, Outcome},
};

#[derive(Args, Debug)]
#[command(
    about = "Print the script that makes a shell complete sandbar's verbs, options and names",
    long_about = "\
Print the script that makes a shell complete sandbar's verbs, options and names.

Names of sandboxes, snapshots, processes, bases, secrets and files in sandboxes come from the host, with a timeout of one
second. The script need not be loaded again after an update.",
    after_help = "\
Examples:
  source <(sandbar completion bash)                                            in ~/.bashrc
  source <(sandbar completion zsh)                                             in ~/.zshrc, after compinit
  sandbar completion fish > ~/.config/fish/completions/sandbar.fish            once
  sandbar completion bash > /usr/share/bash-completion/completions/sandbar     for all users"
)]
pub(crate) struct CompletionArgs {
    /// The shell
    shell: Shell,
}

pub(crate) fn execute(args: &CompletionArgs) -> Outcome {
    io::stdout()
        .lock()
        .write_all(args.shell.script().as_bytes())
        .map_err(Failure::writing)?;
    Ok(ExitCode::SUCCESS)
}
