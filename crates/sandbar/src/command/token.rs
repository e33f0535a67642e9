//! `sandbar token`.

use std::{process::ExitCode, time::Duration};

use clap::Subcommand;
use sandbar_client::Client;
use sandbar_core::{TokenInfo, TokenName, TokenScope};

use crate::{
    cli::parse,
    failure::{Outcome, exit, say_error},
    terminal::output,
    view::{NewTokenView, TokenView, age, moment},
};

#[derive(Debug, Subcommand)]
#[command(about = "Manage access tokens of this host and their scopes")]
pub(crate) enum TokenCommand {
    #[command(
        about = "Make an access token and print its secret, once",
        long_about = "\
Make an access token and print its secret, once: the host keeps only a hash of it.

Scopes: `admin` allows everything; `read` allows reading everything but secrets and tokens; `session:ID` allows everything
in one sandbox, and ends with it. The audit log names callers with this token `token:NAME`.",
        after_help = "\
Examples:
  sandbar token new monitoring --scope read
  SANDBAR_TOKEN=$(sandbar token new ci --scope admin --expires 30d) ./deploy.sh
  sandbar token new agent --scope session:box --scope session:other --expires 8h"
    )]
    New {
        /// Name of the token
        #[arg(value_parser = parse::word::<TokenName>)]
        name: TokenName,
        /// Scope: admin, read or session:ID; may be given several times
        #[arg(long, required = true, value_parser = parse::word::<TokenScope>)]
        scope: Vec<TokenScope>,
        /// Lifetime, for example 8h or 30d [default: unlimited]
        #[arg(long, value_name = "TIME", value_parser = parse::long_duration)]
        expires: Option<Duration>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    #[command(
        about = "List access tokens by name; their secrets are not stored",
        after_help = "Examples:\n  sandbar token ls\n  sandbar token ls --json"
    )]
    Ls {
        /// Print names only
        #[arg(short, long, conflicts_with = "json")]
        quiet: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    #[command(
        about = "Revoke access tokens; calls made with them end at once",
        after_help = "Examples:\n  sandbar token rm ci"
    )]
    Rm {
        /// The tokens
        #[arg(value_name = "NAME", required = true, value_parser = parse::word::<TokenName>)]
        names: Vec<TokenName>,
    },
}

pub(crate) async fn execute(command: TokenCommand, client: &Client) -> Outcome {
    match command {
        TokenCommand::New {
            name,
            scope,
            expires,
            json,
        } => {
            let made = client.create_token(&name, &scope, expires).await?;
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
        tokens
            .iter()
            .try_for_each(|token| output::line(&token.name))?;
    } else {
        output::table(
            ["NAME", "SCOPES", "CREATED", "EXPIRES", "USED"],
            tokens.iter().map(row),
        )?;
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
