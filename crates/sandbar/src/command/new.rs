//! `sandbar new`.

use std::{process::ExitCode, time::Duration};

use clap::{Arg, ArgMatches, Command};
use sandbar_client::Client;
use sandbar_core::{
    BaseName, ByteCount, HeaderRule, NetworkPolicy, OnExpiry, Resources, Result, RootRights, SessionId, SessionSpec,
};

use crate::{
    arguments::{inject, json, many, option, optional, pairs, required},
    failure::Outcome,
    output, parse,
    view::SessionView,
};

/// What a sandbox is made from; `new` and `run` share it.
#[derive(Debug)]
pub(crate) struct SandboxOptions {
    base: BaseName,
    labels: Vec<(String, String)>,
    env: Vec<(String, String)>,
    quota: Option<ByteCount>,
    cpus: Option<f64>,
    memory: Option<ByteCount>,
    network: Option<NetworkPolicy>,
    secrets: Vec<HeaderRule>,
    ttl: Option<Duration>,
    on_expiry: OnExpiry,
    idle: Option<Duration>,
    root_rights: RootRights,
}

impl SandboxOptions {
    pub(crate) fn define() -> [Arg; 12] {
        [
            option("base", "NAME", "The base to start from; `sandbar base ls` lists them")
                .default_value("host")
                .value_parser(parse::word::<BaseName>),
            pairs("label", "Tag the sandbox; may be given several times"),
            pairs("env", "Set a variable for everything that runs in it; may be given several times").short('e'),
            option("quota", "SIZE", "Bound what the sandbox may hold beyond its base: 512M, 2G")
                .value_parser(parse::size),
            option("cpus", "N", "CPUs it may use: 0.5, 2").value_parser(parse::cpus).allow_negative_numbers(true),
            option("memory", "SIZE", "Memory it may use: 512M").value_parser(parse::size),
            option(
                "network",
                "POLICY",
                "What it may reach: none, full, allow=DESTINATION,…, deny=DESTINATION,… or @FILE with a policy in JSON",
            )
            .value_parser(parse::network),
            inject().requires("network"),
            option("ttl", "TIME", "How long it has: 30m, 1h; `sandbar ttl` changes that").value_parser(parse::duration),
            option("on-expiry", "WHAT", "What becomes of it after that time: destroy, pause or pause-files")
                .default_value("destroy")
                .value_parser(parse::word::<OnExpiry>),
            option("idle", "TIME", "Pause it by itself when nobody used it for this time")
                .value_parser(parse::duration),
            option(
                "root-rights",
                "RIGHTS",
                "What root may do in it: bare, like everybody; own, with sudo, su and chown",
            )
            .default_value("bare")
            .value_parser(parse::word::<RootRights>),
        ]
    }

    pub(crate) fn read(matches: &mut ArgMatches) -> Result<Self> {
        Ok(Self {
            base: required(matches, "base")?,
            labels: many(matches, "label"),
            env: many(matches, "env"),
            quota: optional(matches, "quota"),
            cpus: optional(matches, "cpus"),
            memory: optional(matches, "memory"),
            network: optional(matches, "network"),
            secrets: many(matches, "inject"),
            ttl: optional(matches, "ttl"),
            on_expiry: required(matches, "on-expiry")?,
            idle: optional(matches, "idle"),
            root_rights: required(matches, "root-rights")?,
        })
    }

    pub(crate) fn into_spec(self, id: Option<SessionId>) -> SessionSpec {
        let secrets = self.secrets;
        let network = self.network.map(|mut policy| {
            policy.secrets.extend(secrets);
            policy
        });
        SessionSpec {
            base: self.base,
            id,
            quota: self.quota,
            labels: self.labels.into_iter().collect(),
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

#[derive(Debug)]
pub(crate) struct NewArgs {
    id: Option<SessionId>,
    options: SandboxOptions,
    json: bool,
}

pub(crate) fn define() -> Command {
    Command::new("new")
        .about("Make a sandbox and print its id")
        .after_help(
            "\
Examples:
  sandbar new
  sandbar new --id build-42 --label team=red --quota 2G --ttl 1h
  id=$(sandbar new --base debian)
  sandbar new --json | jq -r .session_id
  sandbar new --network allow=github.com,api.github.com
  sandbar new --network allow=api.openai.com --inject 'api.openai.com Authorization: Bearer {openai}'",
        )
        .arg(option("id", "ID", "Its id; a random one when left out").value_parser(parse::word::<SessionId>))
        .args(SandboxOptions::define())
        .arg(json())
}

impl NewArgs {
    pub(crate) fn read(matches: &mut ArgMatches) -> Result<Self> {
        Ok(Self {
            id: optional(matches, "id"),
            options: SandboxOptions::read(matches)?,
            json: matches.get_flag("json"),
        })
    }
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
