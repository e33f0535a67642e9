//! From what was typed to the verb that does it.

use std::{future::Future, path::PathBuf};

use clap::ArgMatches;
use sandbar_core::Error;

use super::{
    attach::{self, AttachArgs},
    audit::{self, AuditArgs},
    base::{self, BaseCommand},
    bench::{self, BenchArgs},
    clock::{self, Clock, ClockArgs},
    completion::{self, CompletionArgs},
    cp::{self, CpArgs},
    diff::{self, DiffArgs},
    doctor::{self, DoctorArgs},
    env::{self, EnvArgs},
    events::{self, EventsArgs},
    exec::{self, ExecArgs},
    fork::{self, ForkArgs},
    inspect::{self, InspectArgs},
    kill::{self, KillArgs},
    launch::{self, LaunchArgs},
    logs::{self, LogsArgs},
    ls::{self, LsArgs},
    man::{self, ManArgs},
    mcp::{self, McpArgs},
    network::{self, NetworkArgs},
    new::{self, NewArgs},
    ps::{self, PsArgs},
    rm::{self, RmArgs},
    rollback::{self, RollbackArgs},
    run::{self, RunArgs},
    secret::{self, SecretCommand},
    shell::{self, ShellArgs},
    snapshot::{self, SnapshotArgs},
    snapshots::{self, SnapshotsArgs},
    token::{self, TokenCommand},
    tool::{self, ToolArgs},
    top::{self, TopArgs},
    ttl::{self, TtlArgs},
    turn::{self, TurnArgs},
    up::{self, UpArgs},
    watch::{self, WatchArgs},
};
use crate::{
    arguments::optional,
    connection::{connect, trust},
    failure::Outcome,
};

/// Reads the arguments of a verb, connects, and carries it out.
macro_rules! with_client {
    ($url:expr, $execute:path, $arguments:expr) => {{
        let arguments = $arguments;
        block_on(async { $execute(arguments, &connect($url).await?).await })
    }};
}

/// Carries out one command line. `up`, `doctor` and `base login` need no server.
pub(crate) fn dispatch(mut matches: ArgMatches) -> Outcome {
    let Some((verb, mut given)) = matches.remove_subcommand() else {
        return Err(Error::internal("there is no verb").into());
    };
    let url: Option<String> = optional(&mut given, "url").or_else(|| optional(&mut matches, "url"));
    let url = url.as_deref();
    let ca_file: Option<PathBuf> = optional(&mut given, "ca-file").or_else(|| optional(&mut matches, "ca-file"));
    trust(ca_file);
    match verb.as_str() {
        "up" => up::execute(UpArgs::read(&mut given)),
        "doctor" => doctor::execute(&DoctorArgs::read(&mut given), url),
        "new" => with_client!(url, new::execute, NewArgs::read(&mut given)?),
        "run" => with_client!(url, run::execute, RunArgs::read(&mut given)?),
        "exec" => with_client!(url, exec::execute, ExecArgs::read(&mut given)?),
        "shell" => with_client!(url, shell::execute, ShellArgs::read(&mut given)?),
        "cp" => with_client!(url, cp::execute, CpArgs::read(&mut given)?),
        "ls" => with_client!(url, ls::execute, LsArgs::read(&mut given)),
        "inspect" => with_client!(url, inspect::execute, InspectArgs::read(&mut given)?),
        "rm" => with_client!(url, rm::execute, RmArgs::read(&mut given)),
        "pause" => with_client!(url, clock::execute, ClockArgs::read_pause(&mut given)),
        "resume" => with_client!(url, clock::execute, ClockArgs::read(Clock::Resume, &mut given)),
        "hibernate" => with_client!(url, clock::execute, ClockArgs::read(Clock::Hibernate, &mut given)),
        "wake" => with_client!(url, clock::execute, ClockArgs::read(Clock::Wake, &mut given)),
        "ttl" => with_client!(url, ttl::execute, TtlArgs::read(&mut given)?),
        "snapshot" => with_client!(url, snapshot::execute, SnapshotArgs::read(&mut given)?),
        "snapshots" => with_client!(url, snapshots::execute, SnapshotsArgs::read(&mut given)?),
        "rollback" => with_client!(url, rollback::execute, RollbackArgs::read(&mut given)?),
        "fork" => with_client!(url, fork::execute, ForkArgs::read(&mut given)?),
        "diff" => with_client!(url, diff::execute, DiffArgs::read(&mut given)?),
        "turn" => with_client!(url, turn::execute, TurnArgs::read(&mut given)?),
        "launch" => with_client!(url, launch::execute, LaunchArgs::read(&mut given)?),
        "ps" => with_client!(url, ps::execute, PsArgs::read(&mut given)?),
        "kill" => with_client!(url, kill::execute, KillArgs::read(&mut given)?),
        "logs" => with_client!(url, logs::execute, LogsArgs::read(&mut given)?),
        "tool" => with_client!(url, tool::execute, ToolArgs::read(&mut given)?),
        "network" => with_client!(url, network::execute, NetworkArgs::read(&mut given)?),
        "secret" => with_client!(url, secret::execute, SecretCommand::read(&mut given)?),
        "token" => with_client!(url, token::execute, TokenCommand::read(&mut given)?),
        "base" => match BaseCommand::read(&mut given)? {
            BaseCommand::Login(arguments) => block_on(base::log_in(arguments)),
            command => with_client!(url, base::execute, command),
        },
        "mcp" => with_client!(url, mcp::execute, McpArgs::read(&mut given)?),
        "audit" => with_client!(url, audit::execute, AuditArgs::read(&mut given)?),
        "top" => {
            let arguments = TopArgs::read(&mut given)?;
            block_on(top::execute(arguments, url.map(ToOwned::to_owned)))
        }
        "bench" => with_client!(url, bench::execute, BenchArgs::read(&mut given)?),
        "env" => env::execute(&EnvArgs::read(&mut given), url),
        "completion" => completion::execute(&CompletionArgs::read(&mut given)?),
        "man" => man::execute(&ManArgs::read(&mut given)?),
        "attach" => with_client!(url, attach::execute, AttachArgs::read(&mut given)?),
        "events" => with_client!(url, events::execute, EventsArgs::read(&mut given)),
        "watch" => with_client!(url, watch::execute, WatchArgs::read(&mut given)?),
        other => Err(Error::internal(format!("verb `{other}` is defined and not carried out")).into()),
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
