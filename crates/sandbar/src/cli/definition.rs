//! Definition of the command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::{
    command::{
        attach, audit, base, bench, completion, cp, diff, doctor, env, events, exec, fork,
        hibernate, inspect, kill, launch, logs, ls, man, mcp, network, new, pause, ps, resume, rm,
        rollback, run, secret, shell, snapshot, snapshots, token, tool, top, ttl, turn, up, wake,
        watch,
    },
    env_vars,
};

const ABOUT: &str = "A machine of its own for every agent: made in milliseconds, snapshotted, rolled back, forked, diffed";

const LONG_ABOUT: &str = "\
A machine of its own for every agent: made in milliseconds, snapshotted, rolled back, forked, diffed.

`sandbar up` starts a host on this machine. Every other verb talks to a host: the one given by --url or SANDBAR_URL, else
the one on this machine.";

const EXAMPLES: &str = "\
Examples:
  sandbar up                               start a host here
  sandbar run -- sh -c 'echo hello'        make a sandbox, run a command, remove it
  id=$(sandbar new)                        make one that is kept
  sandbar exec $id -- touch /workspace/a
  sandbar shell $id                        look around in it
  sandbar snapshot $id before && sandbar exec $id -- rm /workspace/a
  sandbar diff $id before && sandbar rollback $id before
  sandbar launch $id --port 8000 --ready tcp --wait -- python3 -m http.server 8000
  sandbar network $id set allow=github.com,api.github.com    open its network by name
  sandbar top                              watch sandboxes and what they use
  source <(sandbar completion bash)        complete verbs, options and names with the tab key

Exit codes:
  0 success, 1 error, 2 wrong usage. `exec`, `run` and `shell` exit with the command's exit code, 128+n after signal n,
  124 after its timeout, 126 if it cannot be executed and 127 if it was not found.

Environment:
  SANDBAR_URL       address of the host
  SANDBAR_TOKEN     access token; that of a host on this machine is found without it
  SANDBAR_CA_FILE   authorities to trust for https://, PEM; that of a host on this machine is found without it
  SANDBAR_CLIENT_CERT, SANDBAR_CLIENT_KEY
                    certificate and key for a host that asks for them, PEM
  SANDBAR_DATA_DIR  data directory of the host on this machine
  SANDBAR_CONFIG    configuration file of `sandbar up`
  SANDBAR_LOG       log filter of `sandbar up`: warn, info, debug, sandbar_storage=debug
  SANDBAR_LOG_FORMAT
                    text, or json for one JSON object a line
  SANDBAR_<KEY>     overrides a key of the configuration: SANDBAR_MAX_SESSIONS=50
  NO_COLOR          no colours, also on a terminal";

// The whole command line. Not a doc comment, and the same below: clap would take it for a help
// text.
#[derive(Debug, Parser)]
#[command(
    version,
    propagate_version = true,
    about = ABOUT,
    long_about = LONG_ABOUT,
    after_help = EXAMPLES,
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    /// Address of the host, for example http://127.0.0.1:9100
    #[arg(long, global = true, env = env_vars::URL, help_heading = "Global options")]
    pub(crate) url: Option<String>,
    /// Authorities to trust for https://, PEM, instead of those of this machine
    #[arg(long, value_name = "FILE", global = true, env = env_vars::CA_FILE, help_heading = "Global options")]
    pub(crate) ca_file: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

// The verbs, in the order in which the help lists them; each has its texts in its own file.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Up(up::UpArgs),
    Doctor(doctor::DoctorArgs),
    New(new::NewArgs),
    Run(run::RunArgs),
    Exec(exec::ExecArgs),
    Shell(shell::ShellArgs),
    Cp(cp::CpArgs),
    Ls(ls::LsArgs),
    Inspect(inspect::InspectArgs),
    Rm(rm::RmArgs),
    Pause(pause::PauseArgs),
    Resume(resume::ResumeArgs),
    Hibernate(hibernate::HibernateArgs),
    Wake(wake::WakeArgs),
    Ttl(ttl::TtlArgs),
    Snapshot(snapshot::SnapshotArgs),
    Snapshots(snapshots::SnapshotsArgs),
    Rollback(rollback::RollbackArgs),
    Fork(fork::ForkArgs),
    Diff(diff::DiffArgs),
    Turn(turn::TurnArgs),
    Launch(launch::LaunchArgs),
    Ps(ps::PsArgs),
    Kill(kill::KillArgs),
    Logs(logs::LogsArgs),
    Tool(tool::ToolArgs),
    Network(network::NetworkArgs),
    #[command(subcommand)]
    Secret(secret::SecretCommand),
    #[command(subcommand)]
    Token(token::TokenCommand),
    #[command(subcommand)]
    Base(base::BaseCommand),
    Audit(audit::AuditArgs),
    Attach(attach::AttachArgs),
    Events(events::EventsArgs),
    Watch(watch::WatchArgs),
    Mcp(mcp::McpArgs),
    Top(top::TopArgs),
    Bench(bench::BenchArgs),
    Env(env::EnvArgs),
    Completion(completion::CompletionArgs),
    Man(man::ManArgs),
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory as _};

    use super::*;

    #[test]
    fn definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_verb_has_a_description_and_examples() {
        fn check(command: &Command) {
            let name = command.get_name();
            assert!(command.get_about().is_some(), "{name} has no description");
            if command.has_subcommands() {
                command.get_subcommands().for_each(check);
            } else {
                let help = command
                    .get_after_help()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                assert!(help.contains("Examples:"), "{name} has no examples");
            }
        }
        Cli::command().get_subcommands().for_each(check);
    }

    #[test]
    fn every_argument_has_a_help_text() {
        fn check(command: &Command) {
            for argument in command.get_arguments() {
                assert!(
                    argument.get_help().is_some(),
                    "{} of {} is not explained",
                    argument.get_id(),
                    command.get_name()
                );
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }
}
