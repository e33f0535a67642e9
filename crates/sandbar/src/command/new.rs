//! `sandbar new`.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use sandbar_client::Client;
use sandbar_core::{
    BaseName, ByteCount, HeaderRule, NetworkPolicy, OnExpiry, Resources, RootRights, SessionId,
    SessionSpec,
};

use crate::{
    cli::{
        arguments::{INJECT_HELP, INJECT_LONG_HELP},
        parse,
    },
    failure::Outcome,
    terminal::output,
    view::SessionView,
};

// Options of a new sandbox that `new` and `run` share. Not a doc comment: clap would take it for
// the description of the verb.
#[derive(Args, Debug)]
pub(crate) struct SandboxOptions {
    /// Base to start from; `sandbar base ls` lists them
    #[arg(long, value_name = "NAME", default_value = "host", value_parser = parse::word::<BaseName>)]
    base: BaseName,
    /// Tag the sandbox; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse::key_value)]
    label: Vec<(String, String)>,
    /// Set a variable for all its processes; may be given several times
    #[arg(short, long, value_name = "KEY=VALUE", value_parser = parse::key_value)]
    env: Vec<(String, String)>,
    /// Limit the disk space beyond the base: 512M, 2G
    #[arg(long, value_name = "SIZE", value_parser = parse::size)]
    quota: Option<ByteCount>,
    /// CPU limit: 0.5, 2
    #[arg(long, value_name = "N", value_parser = parse::cpus, allow_negative_numbers = true)]
    cpus: Option<f64>,
    /// Memory limit: 512M
    #[arg(long, value_name = "SIZE", value_parser = parse::size)]
    memory: Option<ByteCount>,
    /// Network policy: none, full, allow=DESTINATION,…, deny=DESTINATION,… or @FILE with a policy
    /// in JSON
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
    /// Time to live: 30m, 1h; `sandbar ttl` changes it
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    ttl: Option<Duration>,
    /// Action after that time: destroy, pause or pause-files
    #[arg(long, value_name = "ACTION", default_value = "destroy", value_parser = parse::word::<OnExpiry>)]
    on_expiry: OnExpiry,
    /// Pause it after this time without activity
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    idle: Option<Duration>,
    /// Privileges of root in it: bare, like any user; own, with sudo, su and chown
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
            resources: Resources {
                cpus: self.cpus,
                memory: self.memory,
                ..Resources::default()
            },
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
    /// Id of the sandbox; a random one when left out
    #[arg(long, value_parser = parse::word::<SessionId>)]
    id: Option<SessionId>,
    #[command(flatten)]
    options: SandboxOptions,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn execute(args: NewArgs, client: &Client) -> Outcome {
    let session = client
        .create_session(args.options.into_spec(args.id))
        .await?;
    if args.json {
        output::json(&SessionView::from(&session))?;
    } else {
        output::line(&session.id)?;
    }
    Ok(ExitCode::SUCCESS)
}
