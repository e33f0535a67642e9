//! `sandbar env`.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use serde::Serialize;

use crate::{
    arguments::{flag, json},
    connection, env_vars,
    failure::Outcome,
    output,
};

#[derive(Debug)]
pub(crate) struct EnvArgs {
    unset: bool,
    json: bool,
}

pub(crate) fn define() -> Command {
    Command::new("env")
        .about("Print the lines that point a shell and the programs it starts at this host")
        .long_about(
            "\
Print the lines that point a shell and the programs it starts at this host: SANDBAR_URL and SANDBAR_TOKEN.

They are what the command line and the clients read. The token opens the host to whoever has it. No host has to answer.",
        )
        .after_help(
            "\
Examples:
  eval \"$(sandbar env)\"
  eval \"$(sandbar env --unset)\"
  sandbar --url http://10.0.0.7:9100 env
  curl -H \"authorization: Bearer $(sandbar env --json | jq -r .SANDBAR_TOKEN)\" ...",
        )
        .args([flag("unset", "Print the lines that take it back").conflicts_with("json"), json()])
}

impl EnvArgs {
    pub(crate) fn read(matches: &mut ArgMatches) -> Self {
        Self { unset: matches.get_flag("unset"), json: matches.get_flag("json") }
    }
}

/// The variables, under their own names.
#[derive(Debug, Serialize)]
struct Variables {
    #[serde(rename = "SANDBAR_URL")]
    url: String,
    #[serde(rename = "SANDBAR_TOKEN")]
    token: Option<String>,
}

pub(crate) fn execute(args: &EnvArgs, url: Option<&str>) -> Outcome {
    if args.unset {
        output::line(format_args!("unset {} {}", env_vars::URL, env_vars::TOKEN))?;
        return Ok(ExitCode::SUCCESS);
    }
    let url = connection::server_url(url);
    let variables = Variables { token: connection::token_for(&url)?, url };
    if args.json {
        output::json(&variables)?;
        return Ok(ExitCode::SUCCESS);
    }
    output::line(format_args!("export {}={}", env_vars::URL, output::shell_word(&variables.url)))?;
    match &variables.token {
        Some(token) => output::line(format_args!("export {}={}", env_vars::TOKEN, output::shell_word(token)))?,
        None => output::say(format_args!(
            "note: no token for {} is known here; set {} to one, or {} to the data directory of the host",
            variables.url,
            env_vars::TOKEN,
            env_vars::DATA_DIR
        )),
    }
    Ok(ExitCode::SUCCESS)
}
