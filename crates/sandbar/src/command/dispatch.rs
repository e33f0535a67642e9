//! Hands a parsed command line to the verb that carries it out.

use std::future::Future;

use sandbar_core::Error;

use super::{
    attach, audit, base, bench, clock, completion, cp, diff, doctor, env, events, exec, fork, inspect, kill, launch,
    logs, ls, man, mcp, network, new, ps, rm, rollback, run, secret, shell, snapshot, snapshots, token, tool, top, ttl,
    turn, up, watch,
};
use crate::{
    cli::{Cli, Verb},
    connection::{connect, trust},
    failure::Outcome,
};

/// Connects and carries out a verb.
macro_rules! with_client {
    ($url:expr, $execute:path, $arguments:expr) => {
        block_on(async { $execute($arguments, &connect($url).await?).await })
    };
}

/// Carries out one command line. `up`, `doctor` and `base login` need no server; verbs that are given the URL check
/// something of this machine before they connect.
pub(crate) fn dispatch(cli: Cli) -> Outcome {
    let url = cli.url.as_deref();
    trust(cli.ca_file);
    match cli.verb {
        Verb::Up(args) => up::execute(args),
        Verb::Doctor(args) => doctor::execute(&args, url),
        Verb::New(args) => with_client!(url, new::execute, args),
        Verb::Run(args) => block_on(run::execute(args, url)),
        Verb::Exec(args) => block_on(exec::execute(args, url)),
        Verb::Shell(args) => block_on(shell::execute(args, url)),
        Verb::Cp(args) => with_client!(url, cp::execute, args),
        Verb::Ls(args) => with_client!(url, ls::execute, args),
        Verb::Inspect(args) => with_client!(url, inspect::execute, args),
        Verb::Rm(args) => with_client!(url, rm::execute, args),
        Verb::Clock(command) => with_client!(url, clock::execute, command),
        Verb::Ttl(args) => with_client!(url, ttl::execute, args),
        Verb::Snapshot(args) => with_client!(url, snapshot::execute, args),
        Verb::Snapshots(args) => with_client!(url, snapshots::execute, args),
        Verb::Rollback(args) => with_client!(url, rollback::execute, args),
        Verb::Fork(args) => with_client!(url, fork::execute, args),
        Verb::Diff(args) => with_client!(url, diff::execute, args),
        Verb::Turn(args) => with_client!(url, turn::execute, args),
        Verb::Launch(args) => block_on(launch::execute(args, url)),
        Verb::Ps(args) => with_client!(url, ps::execute, args),
        Verb::Kill(args) => with_client!(url, kill::execute, args),
        Verb::Logs(args) => with_client!(url, logs::execute, args),
        Verb::Tool(args) => block_on(tool::execute(args, url)),
        Verb::Network(args) => with_client!(url, network::execute, args),
        Verb::Secret(command) => with_client!(url, secret::execute, command),
        Verb::Token(command) => with_client!(url, token::execute, command),
        Verb::Base(base::BaseCommand::Login(args)) => block_on(base::log_in(args)),
        Verb::Base(command) => with_client!(url, base::execute, command),
        Verb::Audit(args) => with_client!(url, audit::execute, args),
        Verb::Attach(args) => block_on(attach::execute(args, url)),
        Verb::Events(args) => with_client!(url, events::execute, args),
        Verb::Watch(args) => with_client!(url, watch::execute, args),
        Verb::Mcp(args) => with_client!(url, mcp::execute, args),
        Verb::Top(args) => block_on(top::execute(args, cli.url)),
        Verb::Bench(args) => with_client!(url, bench::execute, args),
        Verb::Env(args) => env::execute(&args, url),
        Verb::Completion(args) => completion::execute(&args),
        Verb::Man(args) => man::execute(&args),
    }
}

/// A client needs one thread: what it waits for is elsewhere.
fn block_on(work: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::io("could not start the async runtime", error))?;
    let outcome = runtime.block_on(work);
    // A thread that still waits for the terminal's next line must not keep us here.
    runtime.shutdown_background();
    outcome
}
