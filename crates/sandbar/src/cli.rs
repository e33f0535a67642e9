//! What can be typed.

use std::path::PathBuf;

use clap::{Arg, Command};

use crate::{
    command::{
        attach, audit, base, bench, clock, completion, cp, diff, doctor, env, events, exec, fork, inspect, kill,
        launch, logs, ls, man, mcp, network, new, ps, rm, rollback, run, secret, shell, snapshot, snapshots, token,
        tool, top, ttl, turn, up, watch,
    },
    env_vars,
};

const ABOUT: &str =
    "A machine of its own for every agent: made in milliseconds, snapshotted, rolled back, forked, diffed";

const LONG_ABOUT: &str = "\
A machine of its own for every agent: made in milliseconds, snapshotted, rolled back, forked, diffed.

`sandbar up` starts a host on this machine. Every other verb talks to a host: the one given by --url, by SANDBAR_URL, or
the one on this machine.";

const EXAMPLES: &str = "\
Examples:
  sandbar up                               start a host here
  sandbar run -- sh -c 'echo hello'        make a sandbox, run a command, remove it
  id=$(sandbar new)                        make one that stays
  sandbar exec $id -- touch /workspace/a
  sandbar shell $id                        look around in it
  sandbar snapshot $id before && sandbar exec $id -- rm /workspace/a
  sandbar diff $id before && sandbar rollback $id before
  sandbar launch $id --port 8000 --ready tcp --wait -- python3 -m http.server 8000
  sandbar network $id set allow=github.com,api.github.com    open its network by name
  sandbar top                              watch sandboxes and what they use
  source <(sandbar completion bash)        complete verbs, options and names with the tab key

Exit codes:
  0 done, 1 failed, 2 wrong usage. `exec`, `run` and `shell` end with the command's own code, 128+n when signal n
  ended it, 124 when its time was up, 126 when it could not be executed and 127 when it was not found.

Environment:
  SANDBAR_URL       address of the host
  SANDBAR_TOKEN     bearer token; the one of a host on this machine is found without it
  SANDBAR_CA_FILE   authorities to trust for https://, PEM; that of a host on this machine is found without it
  SANDBAR_CLIENT_CERT, SANDBAR_CLIENT_KEY
                    certificate and key for a host that asks for them, PEM
  SANDBAR_DATA_DIR  data directory of the host on this machine
  SANDBAR_CONFIG    configuration file of `sandbar up`
  SANDBAR_LOG       what `sandbar up` logs: warn, info, debug, sandbar_storage=debug
  SANDBAR_LOG_FORMAT
                    text, or json for one JSON object a line
  SANDBAR_<KEY>     overrides a key of the configuration: SANDBAR_MAX_SESSIONS=50
  NO_COLOR          no colours, also on a terminal";

/// The whole command line.
pub(crate) fn define() -> Command {
    Command::new("sandbar")
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .about(ABOUT)
        .long_about(LONG_ABOUT)
        .after_help(EXAMPLES)
        .disable_help_subcommand(true)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .arg(
            Arg::new("url")
                .long("url")
                .value_name("URL")
                .global(true)
                .env(env_vars::URL)
                .help_heading("Global options")
                .help("Address of the host, for example http://127.0.0.1:9100"),
        )
        .arg(
            Arg::new("ca-file")
                .long("ca-file")
                .value_name("FILE")
                .global(true)
                .env(env_vars::CA_FILE)
                .value_parser(clap::value_parser!(PathBuf))
                .help_heading("Global options")
                .help("Authorities to trust for https://, PEM, in place of those this machine trusts"),
        )
        .subcommands([
            up::define(),
            doctor::define(),
            new::define(),
            run::define(),
            exec::define(),
            shell::define(),
            cp::define(),
            ls::define(),
            inspect::define(),
            rm::define(),
        ])
        .subcommands(clock::define())
        .subcommands([
            ttl::define(),
            snapshot::define(),
            snapshots::define(),
            rollback::define(),
            fork::define(),
            diff::define(),
            turn::define(),
            launch::define(),
            ps::define(),
            kill::define(),
            logs::define(),
            tool::define(),
            network::define(),
            secret::define(),
            token::define(),
            base::define(),
            audit::define(),
        ])
        .subcommands([attach::define(), events::define(), watch::define()])
        .subcommands([
            mcp::define(),
            top::define(),
            bench::define(),
            env::define(),
            completion::define(),
            man::define(),
        ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_consistent() {
        define().debug_assert();
    }

    #[test]
    fn every_verb_has_a_one_line_description_and_examples() {
        fn check(command: &Command) {
            let name = command.get_name();
            assert!(command.get_about().is_some(), "{name} says nothing about itself");
            if command.has_subcommands() {
                command.get_subcommands().for_each(check);
            } else {
                let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(help.contains("Examples:"), "{name} has no examples");
            }
        }
        define().get_subcommands().for_each(check);
    }

    #[test]
    fn every_argument_explains_itself() {
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
        check(&define());
    }
}
