//! `sandbar new`.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use sandbar_client::Client;
use sandbar_core::{
    BaseName, ByteCount, HeaderRule, NetworkPolicy, OnExpiry, Resources, RootRights, SessionId, SessionSpec,
};

use crate::{
    arguments::{INJECT_HELP, INJECT_LONG_HELP},
    failure::Outcome,
    output, parse,
    view::SessionView,
};

// What a sandbox is made from; `new` and `run` share it. No doc comment: clap would take it for the description of the
// verb.
#[derive(Args, Debug)]
pub(crate) struct SandboxOptions {
    /// The base to start from; `sandbar base ls` lists them
    #[arg(long, value_name = "NAME", default_value = "host", value_parser = parse::word::<BaseName>)]
    base: BaseName,
    /// Tag the sandbox; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse::key_value)]
    label: Vec<(String, String)>,
    /// Set a variable for everything that runs in it; may be given several times
    #[arg(short, long, value_name = "KEY=VALUE", value_parser = parse::key_value)]
    env: Vec<(String, String)>,
    /// Bound what the sandbox may hold beyond its base: 512M, 2G
    #[arg(long, value_name = "SIZE", value_parser = parse::size)]
    quota: Option<ByteCount>,
    /// CPUs it may use: 0.5, 2
    #[arg(long, value_name = "N", value_parser = parse::cpus, allow_negative_numbers = true)]
    cpus: Option<f64>,
    /// Memory it may use: 512M
    #[arg(long, value_name = "SIZE", value_parser = parse::size)]
    memory: Option<ByteCount>,
    /// What it may reach: none, full, allow=DESTINATION,…, deny=DESTINATION,… or @FILE with a policy in JSON
    #[arg(long, value_name = "POLICY", value_parser = parse::network)]
    network: Option<NetworkPolicy>,
    #[arg(
        long,
        value_name = "RULE",
        value_parser = parse::injection,
        requires = "network",
        help = INJECT_HELP,
        long_help = INJECT_LONG_HELP
    )]
    inject: Vec<HeaderRule>,
    /// How long it has: 30m, 1h; `sandbar ttl` changes that
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    ttl: Option<Duration>,
    /// What becomes of it after that time: destroy, pause or pause-files
    #[arg(long, value_name = "WHAT", default_value = "destroy", value_parser = parse::word::<OnExpiry>)]
    on_expiry: OnExpiry,
    /// Pause it by itself when nobody used it for this time
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    idle: Option<Duration>,
    /// What root may do in it: bare, like everybody; own, with sudo, su and chown
    #[arg(long, value_name = "RIGHTS", default_value = "bare", value_parser = parse::word::<RootRights>)]
    root_rights: RootRights,
}

impl SandboxOptions {
    pub(crate) fn into_spec(self, id: Option<SessionId>) -> SessionSpec {
        let secrets = self.inject;
        let network = self.network.map(|mut policy| {
            policy.secrets.extend(secrets);
            policy
        });
        SessionSpec {
            base: self.base,
            id,
            quota: self.quota,
            labels: self.label.into_iter().collect(),
            resources: Resources { cpus: self.cpus, memory: self.memory, ..Resources::default() },
            network,
            env: self.env.into_iter().collect(),
            time_to_live: self.ttl,
            on_expiry: self.on_expiry,
            idle_timeout: self.idle,
            root_rights: self.root_rights,
            workspace_user: None,
        }
    }
}

#[derive(Args, Debug)]
#[command(
    about = "Make a sandbox and print its id",
    after_help = "\
Examples:
  sandbar new
  sandbar new --id build-42 --label team=red --quota 2G --ttl 1h
  id=$(sandbar new --base debian)
  sandbar new --json | jq -r .session_id
  sandbar new --network allow=github.com,api.github.com
  sandbar new --network allow=api.openai.com --inject 'api.openai.com Authorization: Bearer {openai}'"
)]
pub(crate) struct NewArgs {
    /// Its id; a random one when left out
    #[arg(long, value_parser = parse::word::<SessionId>)]
    id: Option<SessionId>,
    #[command(flatten)]
    options: SandboxOptions,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn execute(args: NewArgs, client: &Client) -> Outcome {
    let session = client.create_session(args.options.into_spec(args.id)).await?;
    if args.json {
        output::json(&SessionView::from(&session))?;
    } else {
        output::line(&session.id)?;
    }
    Ok(ExitCode::SUCCESS)
}
