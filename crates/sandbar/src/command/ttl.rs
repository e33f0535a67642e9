//! `sandbar ttl`.

use std::{process::ExitCode, time::Duration};

use clap::{Arg, ArgMatches, Command};
use sandbar_client::Client;
use sandbar_core::{OnExpiry, Result, SessionId};

use crate::{
    arguments::{id, json, option, optional, required},
    failure::Outcome,
    output, parse,
    view::{SessionView, end},
};

#[derive(Debug)]
pub(crate) struct TtlArgs {
    id: SessionId,
    time: Lifetime,
    on_expiry: Option<OnExpiry>,
    json: bool,
}

/// How long a sandbox has; `None` is for ever.
#[derive(Clone, Copy, Debug)]
struct Lifetime(Option<Duration>);

pub(crate) fn define() -> Command {
    Command::new("ttl")
        .about("Give a sandbox more time, or less, and say what becomes of it then")
        .after_help(
            "\
Examples:
  sandbar ttl build-42 30m
  sandbar ttl build-42 8h --on-expiry pause
  sandbar ttl build-42 never",
        )
        .arg(id())
        .arg(
            Arg::new("time")
                .value_name("TIME")
                .required(true)
                .value_parser(lifetime)
                .help("How long it has from now: 30m, 1h, or `never` for no end"),
        )
        .arg(
            option(
                "on-expiry",
                "WHAT",
                "What becomes of it then: destroy, pause or pause-files [default: what it was before]",
            )
            .value_parser(parse::word::<OnExpiry>),
        )
        .arg(json())
}

fn lifetime(text: &str) -> Result<Lifetime, String> {
    if text == "never" { Ok(Lifetime(None)) } else { parse::duration(text).map(|time| Lifetime(Some(time))) }
}

impl TtlArgs {
    pub(crate) fn read(matches: &mut ArgMatches) -> Result<Self> {
        Ok(Self {
            id: required(matches, "id")?,
            time: required(matches, "time")?,
            on_expiry: optional(matches, "on-expiry"),
            json: matches.get_flag("json"),
        })
    }
}

pub(crate) async fn execute(args: TtlArgs, client: &Client) -> Outcome {
    let session = client.set_expiry(&args.id, args.time.0, args.on_expiry).await?;
    if args.json {
        output::json(&SessionView::from(&session))?;
    } else {
        output::line(session.expires.map_or_else(|| "never".to_owned(), |expires| end(expires, session.on_expiry)))?;
    }
    Ok(ExitCode::SUCCESS)
}
