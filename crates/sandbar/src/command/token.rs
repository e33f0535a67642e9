//! `sandbar token`.

use std::{process::ExitCode, time::Duration};

use clap::{Arg, ArgAction, ArgMatches, Command};
use sandbar_client::Client;
use sandbar_core::{Error, Result, TokenInfo, TokenName, TokenScope};

use crate::{
    arguments::{json, many, option, optional, quiet, required},
    failure::{Outcome, exit, say_error},
    output, parse,
    view::{NewTokenView, TokenView, age, moment},
};

#[derive(Debug)]
pub(crate) enum TokenCommand {
    New { name: TokenName, scopes: Vec<TokenScope>, expires: Option<Duration>, json: bool },
    Ls { quiet: bool, json: bool },
    Rm { names: Vec<TokenName> },
}

pub(crate) fn define() -> Command {
    let name = || Arg::new("name").value_name("NAME").required(true).value_parser(parse::word::<TokenName>);
    Command::new("token")
        .about("Give others access to this host, as much as they need")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("new")
                .about("Make an access token and print its secret, once")
                .long_about(
                    "\
Make an access token and print its secret, once: the host keeps only a hash of it.

Scopes: `admin` is everything; `read` is looking at everything but secrets and tokens; `session:ID` is everything about
one sandbox, and ends with it. The audit log calls whoever uses the token `token:NAME`.",
                )
                .after_help(
                    "\
Examples:
  sandbar token new monitoring --scope read
  SANDBAR_TOKEN=$(sandbar token new ci --scope admin --expires 30d) ./deploy.sh
  sandbar token new agent --scope session:box --scope session:other --expires 8h",
                )
                .args([
                    name().help("Its name"),
                    option("scope", "SCOPE", "What it allows: admin, read or session:ID; may be repeated")
                        .required(true)
                        .action(ArgAction::Append)
                        .value_parser(parse::word::<TokenScope>),
                    option("expires", "TIME", "How long it is good for, for example 8h or 30d [default: for ever]")
                        .value_parser(parse::long_duration),
                    json(),
                ]),
        )
        .subcommand(
            Command::new("ls")
                .about("List access tokens by name; their secrets are kept nowhere")
                .after_help("Examples:\n  sandbar token ls\n  sandbar token ls --json")
                .args([quiet("Print names only"), json()]),
        )
        .subcommand(
            Command::new("rm")
                .about("Take access tokens back; calls made with them end at once")
                .after_help("Examples:\n  sandbar token rm ci")
                .arg(name().num_args(1..).help("The tokens")),
        )
}

impl TokenCommand {
    pub(crate) fn read(matches: &mut ArgMatches) -> Result<Self> {
        match matches.remove_subcommand() {
            Some((verb, mut given)) if verb == "new" => Ok(Self::New {
                name: required(&mut given, "name")?,
                scopes: many(&mut given, "scope"),
                expires: optional(&mut given, "expires"),
                json: given.get_flag("json"),
            }),
            Some((verb, mut given)) if verb == "rm" => Ok(Self::Rm { names: many(&mut given, "name") }),
            Some((_, given)) => Ok(Self::Ls { quiet: given.get_flag("quiet"), json: given.get_flag("json") }),
            None => Err(Error::internal("there is no verb after `token`")),
        }
    }
}

pub(crate) async fn execute(command: TokenCommand, client: &Client) -> Outcome {
    match command {
        TokenCommand::New { name, scopes, expires, json } => {
            let made = client.create_token(&name, &scopes, expires).await?;
            if json {
                output::json(&NewTokenView::from(&made))?;
            } else {
                output::line(made.secret.reveal())?;
            }
            Ok(ExitCode::SUCCESS)
        }
        TokenCommand::Ls { quiet, json } => list(quiet, json, client).await,
        TokenCommand::Rm { names } => remove(&names, client).await,
    }
}

async fn list(quiet: bool, json: bool, client: &Client) -> Outcome {
    let tokens = client.list_tokens().await?;
    if json {
        output::json(&tokens.iter().map(TokenView::from).collect::<Vec<_>>())?;
    } else if quiet {
        tokens.iter().try_for_each(|token| output::line(&token.name))?;
    } else {
        output::table(["NAME", "SCOPES", "CREATED", "EXPIRES", "USED"], tokens.iter().map(row))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(token: &TokenInfo) -> [String; 5] {
    let scopes: Vec<String> = token.scopes.iter().map(ToString::to_string).collect();
    [
        token.name.to_string(),
        scopes.join(","),
        age(token.created),
        token.expires.map_or_else(|| "never".to_owned(), moment),
        token.last_used.map_or_else(|| "-".to_owned(), age),
    ]
}

async fn remove(names: &[TokenName], client: &Client) -> Outcome {
    let mut code = ExitCode::SUCCESS;
    for name in names {
        match client.revoke_token(name).await {
            Ok(()) => output::line(name)?,
            Err(error) => {
                say_error(&error);
                code = ExitCode::from(exit::FAILED);
            }
        }
    }
    Ok(code)
}
