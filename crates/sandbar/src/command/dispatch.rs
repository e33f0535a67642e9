//! Dispatch of a parsed command line to its verb.

use std::future::Future;

use sandbar_core::Error;

use super::{
    attach, audit, base, bench, completion, cp, diff, doctor, env, events, exec, fork, hibernate,
    inspect, kill, launch, logs, ls, man, mcp, network, new, pause, ps, resume, rm, rollback, run,
    secret, shell, snapshot, snapshots, token, tool, top, ttl, turn, up, wake, watch,
};
use crate::{
    cli::{Cli, Verb},
    client::connection::ConnectionOptions,
    failure::Outcome,
};

/// Connects and carries out a verb.
macro_rules! with_client {
    ($connection:expr, $execute:path, $arguments:expr) => {
        block_on(async { $execute($arguments, &$connection.connect().await?).await })
    };
}

/// Carries out one command line. `up`, `doctor` and `base login` need no host; verbs that are given
/// the connection options check something on this machine before they connect.
pub(crate) fn dispatch(cli: Cli) -> Outcome {
    let connection = &ConnectionOptions::new(cli.url, cli.ca_file);
    match cli.verb {
        Verb::Up(args) => up::execute(&args),
        Verb::Doctor(args) => doctor::execute(&args, connection),
        Verb::New(args) => with_client!(connection, new::execute, args),
        Verb::Run(args) => block_on(run::execute(args, connection)),
        Verb::Exec(args) => block_on(exec::execute(args, connection)),
        Verb::Shell(args) => block_on(shell::execute(args, connection)),
        Verb::Cp(args) => with_client!(connection, cp::execute, args),
        Verb::Ls(args) => with_client!(connection, ls::execute, args),
        Verb::Inspect(args) => with_client!(connection, inspect::execute, args),
        Verb::Rm(args) => with_client!(connection, rm::execute, args),
        Verb::Pause(args) => with_client!(connection, pause::execute, args),
        Verb::Resume(args) => with_client!(connection, resume::execute, args),
        Verb::Hibernate(args) => with_client!(connection, hibernate::execute, args),
        Verb::Wake(args) => with_client!(connection, wake::execute, args),
        Verb::Ttl(args) => with_client!(connection, ttl::execute, args),
        Verb::Snapshot(args) => with_client!(connection, snapshot::execute, args),
        Verb::Snapshots(args) => with_client!(connection, snapshots::execute, args),
        Verb::Rollback(args) => with_client!(connection, rollback::execute, args),
        Verb::Fork(args) => with_client!(connection, fork::execute, args),
        Verb::Diff(args) => with_client!(connection, diff::execute, args),
        Verb::Turn(args) => with_client!(connection, turn::execute, args),
        Verb::Launch(args) => block_on(launch::execute(args, connection)),
        Verb::Ps(args) => with_client!(connection, ps::execute, args),
        Verb::Kill(args) => with_client!(connection, kill::execute, args),
        Verb::Logs(args) => with_client!(connection, logs::execute, args),
        Verb::Tool(args) => block_on(tool::execute(args, connection)),
        Verb::Network(args) => with_client!(connection, network::execute, args),
        Verb::Secret(command) => with_client!(connection, secret::execute, command),
        Verb::Token(command) => with_client!(connection, token::execute, command),
        Verb::Base(base::BaseCommand::Login(args)) => block_on(base::log_in(args)),
        Verb::Base(command) => with_client!(connection, base::execute, command),
        Verb::Audit(args) => with_client!(connection, audit::execute, args),
        Verb::Attach(args) => block_on(attach::execute(args, connection)),
        Verb::Events(args) => with_client!(connection, events::execute, args),
        Verb::Watch(args) => with_client!(connection, watch::execute, args),
        Verb::Mcp(args) => block_on(mcp::execute(args, connection)),
        Verb::Top(args) => block_on(top::execute(args, connection)),
        Verb::Bench(args) => with_client!(connection, bench::execute, args),
        Verb::Env(args) => env::execute(&args, connection),
        Verb::Completion(args) => completion::execute(&args),
        Verb::Man(args) => man::execute(&args),
    }
}

/// Runs a client on one thread: it only waits for the host.
fn block_on(work: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::io("could not start the async runtime", error))?;
    let outcome = runtime.block_on(work);
    // Does not wait for a thread that is blocked in a read of the terminal.
    runtime.shutdown_background();
    outcome
}
