//! `sandbar ttl`.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use sandbar_client::Client;
use sandbar_core::OnExpiry;

use crate::{
    arguments::SandboxArg,
    failure::Outcome,
    output, parse,
    view::{SessionView, end},
};

#[derive(Args, Debug)]
#[command(
    about = "Give a sandbox more time, or less, and say what becomes of it then",
    after_help = "\
Examples:
  sandbar ttl build-42 30m
  sandbar ttl build-42 8h --on-expiry pause
  sandbar ttl build-42 never"
)]
pub(crate) struct TtlArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
    /// How long it has from now: 30m, 1h, or `never` for no end
    #[arg(value_parser = lifetime)]
    time: Lifetime,
    /// What becomes of it then: destroy, pause or pause-files [default: what it was before]
    #[arg(long, value_name = "WHAT", value_parser = parse::word::<OnExpiry>)]
    on_expiry: Option<OnExpiry>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How long a sandbox has; `None` is for ever.
#[derive(Clone, Copy, Debug)]
struct Lifetime(Option<Duration>);

fn lifetime(text: &str) -> Result<Lifetime, String> {
    if text == "never" { Ok(Lifetime(None)) } else { parse::duration(text).map(|time| Lifetime(Some(time))) }
}

pub(crate) async fn execute(args: TtlArgs, client: &Client) -> Outcome {
    let session = client.set_expiry(&args.sandbox.id, args.time.0, args.on_expiry).await?;
    if args.json {
        output::json(&SessionView::from(&session))?;
    } else {
        output::line(session.expires.map_or_else(|| "never".to_owned(), |expires| end(expires, session.on_expiry)))?;
    }
    Ok(ExitCode::SUCCESS)
}
