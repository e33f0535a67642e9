//! `sandbar ttl`.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use sandbar_client::Client;
use sandbar_core::OnExpiry;

use crate::{
    cli::{arguments::SandboxArg, parse},
    failure::Outcome,
    terminal::output,
    view::{SessionView, end},
};

#[derive(Args, Debug)]
#[command(
    about = "Set the time to live of a sandbox and the action at its end",
    after_help = "\
Examples:
  sandbar ttl build-42 30m
  sandbar ttl build-42 8h --on-expiry pause
  sandbar ttl build-42 never"
)]
pub(crate) struct TtlArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
    /// Time to live from now: 30m, 1h, or `never`
    #[arg(value_parser = lifetime)]
    time: Lifetime,
    /// Action at its end: destroy, pause or pause-files [default: unchanged]
    #[arg(long, value_name = "ACTION", value_parser = parse::word::<OnExpiry>)]
    on_expiry: Option<OnExpiry>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Time to live; `None` is unlimited.
#[derive(Clone, Copy, Debug)]
struct Lifetime(Option<Duration>);

fn lifetime(text: &str) -> Result<Lifetime, String> {
    if text == "never" {
        Ok(Lifetime(None))
    } else {
        parse::duration(text).map(|time| Lifetime(Some(time)))
    }
}

pub(crate) async fn execute(args: TtlArgs, client: &Client) -> Outcome {
    let session = client
        .set_expiry(&args.sandbox.id, args.time.0, args.on_expiry)
        .await?;
    if args.json {
        output::json(&SessionView::from(&session))?;
    } else {
        output::line(session.expires.map_or_else(
            || "never".to_owned(),
            |expires| end(expires, session.on_expiry),
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
