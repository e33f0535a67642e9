//! `sandbar network`.

use std::process::ExitCode;

use clap::Args;
use sandbar_client::Client;
use sandbar_core::{ByteCount, HeaderRule, NetworkPolicy, NetworkStatus};

use crate::{
    cli::{
        arguments::{INJECT_HELP, INJECT_LONG_HELP, SandboxArg},
        parse,
    },
    failure::Outcome,
    terminal::output,
    view::{NetworkView, enforcement, injection},
};

#[derive(Args, Debug)]
#[command(
    about = "Show or change the network policy of a sandbox, with its traffic",
    long_about = "\
Show or change the network policy of a sandbox, with its traffic.

A change applies to new connections at once; running processes are not restarted. A change that turns on TLS inspection, and
with gvisor one that opens a closed sandbox, needs a new box: it is refused while processes run in the current one.",
    after_help = "\
Examples:
  sandbar network build-42
  sandbar network build-42 --json
  sandbar network build-42 set none
  sandbar network build-42 set allow=github.com,*.githubusercontent.com
  sandbar network build-42 set 'allow=*.example.com:443,10.0.0.0/8:5432'
  sandbar network build-42 set deny=ads.example
  sandbar network build-42 set @policy.json
  sandbar network build-42 set allow=api.openai.com --inject 'api.openai.com Authorization: Bearer {openai}'"
)]
pub(crate) struct NetworkArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
    /// Set the policy
    #[arg(value_name = "set", value_parser = ["set"], hide_possible_values = true, requires = "policy")]
    set: Option<String>,
    /// None, full, allow=DESTINATION,…, deny=DESTINATION,… or @FILE with a policy in JSON
    #[arg(value_parser = parse::network)]
    policy: Option<NetworkPolicy>,
    #[arg(
        long,
        value_name = "RULE",
        value_parser = parse::injection,
        requires = "policy",
        help = INJECT_HELP,
        long_help = INJECT_LONG_HELP
    )]
    inject: Vec<HeaderRule>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn execute(args: NetworkArgs, client: &Client) -> Outcome {
    let status = match args.policy {
        Some(mut policy) => {
            policy.secrets.extend(args.inject);
            client.set_network(&args.sandbox.id, policy).await?
        }
        None => client.get_network(&args.sandbox.id).await?,
    };
    if args.json {
        output::json(&NetworkView::new(&args.sandbox.id, &status))?;
    } else {
        print(&status)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(status: &NetworkStatus) -> Outcome<()> {
    let NetworkStatus {
        policy, traffic, ..
    } = status;
    let ranges: Vec<String> = policy
        .private_ranges
        .iter()
        .map(ToString::to_string)
        .collect();
    let mut rows = vec![
        ("policy", policy.to_string()),
        ("enforced", enforcement(&status.enforced)),
    ];
    rows.extend(
        policy
            .secrets
            .iter()
            .map(|rule| ("inject", injection(rule))),
    );
    rows.extend(Some(("private", ranges.join(","))).filter(|_| !ranges.is_empty()));
    rows.extend(policy.inspect_tls.then(|| ("tls", "inspected".to_owned())));
    rows.extend(limits(policy).map(|limits| ("limits", limits)));
    rows.extend(
        policy
            .allow_public_ingress
            .then(|| ("ingress", "ports are public".to_owned())),
    );
    rows.extend([
        ("sent", ByteCount(traffic.bytes_sent).to_string()),
        ("received", ByteCount(traffic.bytes_received).to_string()),
        ("connections", traffic.connections.to_string()),
        ("allowed", traffic.allowed.to_string()),
        ("denied", traffic.denied.to_string()),
    ]);
    rows.extend(
        status
            .traffic_token
            .as_ref()
            .map(|token| ("token", token.expose().to_owned())),
    );
    rows.into_iter().try_for_each(|(name, value)| {
        output::line(format_args!("{:<12} {value}", format!("{name}:")))
    })
}

fn limits(policy: &NetworkPolicy) -> Option<String> {
    let limits = &policy.limits;
    let parts: Vec<String> = [
        limits
            .bytes_per_second
            .map(|bytes| format!("{bytes} a second")),
        limits
            .connections
            .map(|count| format!("{count} connections")),
        limits
            .new_connections_per_second
            .map(|count| format!("{count} new connections a second")),
    ]
    .into_iter()
    .flatten()
    .collect();
    if parts.is_empty() {
        None
    } else {
        Some(parts.join(", "))
    }
}
