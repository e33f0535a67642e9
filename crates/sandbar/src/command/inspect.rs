//! `sandbar inspect`.

use std::process::ExitCode;

use clap::Args;
use sandbar_client::Client;
use sandbar_core::{Capability, SessionUsage};

use crate::{
    cli::arguments::SandboxArg,
    failure::Outcome,
    terminal::output,
    view::{SessionView, age, end, enforcement, length, moment, origin, printable_labels},
};

#[derive(Args, Debug)]
#[command(
    about = "Show everything known about a sandbox",
    after_help = "\
Examples:
  sandbar inspect build-42
  sandbar inspect build-42 --json"
)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn execute(args: InspectArgs, client: &Client) -> Outcome {
    let session = client.get_session_with_usage(&args.sandbox.id).await?;
    if args.json {
        output::json(&SessionView::from(&session))?;
        return Ok(ExitCode::SUCCESS);
    }
    let capabilities = client.capabilities().await?;
    let network = client.get_network(&args.sandbox.id).await?;
    let network = match &network.enforced {
        Capability::Yes => network.policy.to_string(),
        Capability::No(_) => format!(
            "{} (enforced: {})",
            network.policy,
            enforcement(&network.enforced)
        ),
    };
    let SessionUsage {
        cpu_time,
        memory,
        processes,
    } = session.usage.unwrap_or_default();
    let rows = [
        ("id", Some(session.id.to_string())),
        ("state", Some(session.state.to_string())),
        ("base", Some(session.base.to_string())),
        ("forked from", origin(&session)),
        (
            "created",
            Some(format!(
                "{} ({})",
                moment(session.created),
                age(session.created)
            )),
        ),
        (
            "expires",
            session
                .expires
                .map(|expires| end(expires, session.on_expiry)),
        ),
        (
            "idle pause",
            session
                .idle_timeout
                .map(|time| format!("after {}", length(time))),
        ),
        (
            "cpu time",
            cpu_time.map(|time| format!("{:.1} s since its box started", time.as_secs_f64())),
        ),
        ("memory", memory.map(|memory| memory.to_string())),
        ("processes", processes.map(|count| count.to_string())),
        ("space used", Some(session.space_used.to_string())),
        (
            "quota",
            Some(
                session
                    .quota
                    .map_or_else(|| "none".to_owned(), |quota| quota.to_string()),
            ),
        ),
        ("turns", Some(session.turn_count.to_string())),
        ("snapshots", Some(session.snapshot_count.to_string())),
        (
            "labels",
            Some(printable_labels(&session.labels)).filter(|labels| !labels.is_empty()),
        ),
        ("storage", Some(session.storage.to_string())),
        ("runtime", Some(session.runtime.to_string())),
        ("isolation", Some(capabilities.isolation)),
        ("root rights", Some(session.root_rights.to_string())),
        ("network", Some(network)),
    ];
    for (name, value) in rows {
        if let Some(value) = value {
            output::line(format_args!("{:<12} {value}", format!("{name}:")))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
