//! `sandbar secret`.

use std::process::ExitCode;

use clap::Subcommand;
use sandbar_client::Client;
use sandbar_core::{SecretName, SecretValue};

use crate::{
    cli::parse,
    failure::{Failure, Outcome, exit, say_error},
    terminal::{output, read_secret},
    view::{SecretView, age},
};

#[derive(Debug, Subcommand)]
#[command(about = "Store secrets that sandboxes use without holding them")]
pub(crate) enum SecretCommand {
    #[command(
        about = "Store or change a secret and print its name",
        long_about = "\
Store or change a secret and print its name.

The value is read from stdin, never from the command line, where other users could see it; a line break at its end is
removed. At a terminal it is prompted for and not echoed. A change applies from the next request on.",
        after_help = "\
Examples:
  sandbar secret set openai
  pass show openai | sandbar secret set openai
  sandbar new --network allow=api.openai.com --inject 'api.openai.com Authorization: Bearer {openai}'"
    )]
    Set {
        /// Name of the secret
        #[arg(value_parser = parse::word::<SecretName>)]
        name: SecretName,
    },
    #[command(
        about = "List secrets by name; their values cannot be read back",
        after_help = "Examples:\n  sandbar secret ls\n  sandbar secret ls --json"
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
        about = "Delete secrets; requests that need them fail from then on",
        after_help = "Examples:\n  sandbar secret rm openai"
    )]
    Rm {
        /// The secrets
        #[arg(value_name = "NAME", required = true, value_parser = parse::word::<SecretName>)]
        names: Vec<SecretName>,
    },
}

pub(crate) async fn execute(command: SecretCommand, client: &Client) -> Outcome {
    match command {
        SecretCommand::Set { name } => set(&name, client).await,
        SecretCommand::Ls { quiet, json } => list(quiet, json, client).await,
        SecretCommand::Rm { names } => remove(&names, client).await,
    }
}

async fn set(name: &SecretName, client: &Client) -> Outcome {
    let value = read_secret("secret set", format_args!("value of `{name}`: ")).await?;
    let Some(value) = value else {
        return Ok(ExitCode::from(exit::INTERRUPTED));
    };
    let value = SecretValue::new(value).map_err(Failure::Usage)?;
    output::line(client.put_secret(name, &value).await?.name)?;
    Ok(ExitCode::SUCCESS)
}

async fn list(quiet: bool, json: bool, client: &Client) -> Outcome {
    let secrets = client.list_secrets().await?;
    if json {
        output::json(&secrets.iter().map(SecretView::from).collect::<Vec<_>>())?;
    } else if quiet {
        secrets
            .iter()
            .try_for_each(|secret| output::line(&secret.name))?;
    } else {
        let rows = secrets
            .iter()
            .map(|secret| [secret.name.to_string(), age(secret.changed)]);
        output::table(["NAME", "CHANGED"], rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn remove(names: &[SecretName], client: &Client) -> Outcome {
    let mut code = ExitCode::SUCCESS;
    for name in names {
        match client.delete_secret(name).await {
            Ok(()) => output::line(name)?,
            Err(error) => {
                say_error(&error);
                code = ExitCode::from(exit::FAILED);
            }
        }
    }
    Ok(code)
}
