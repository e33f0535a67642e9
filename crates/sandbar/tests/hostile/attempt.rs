//! Runs the attempts of a family, each with a session of its own, on one host.

use std::{
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::process::geteuid;
use sandbar_core::RuntimeKind;
use sandbar_testing::{TestServer, report_skip, scaled};
use tokio::time::timeout;

use crate::{
    attacker::Attacker,
    internet::Internet,
    measure::{self, Measured, print},
    probe::Sample,
    world::{World, options},
};

/// Time for one attempt, as long as several calls that reach their own bounds.
const ATTEMPT_TIMEOUT: Duration = Duration::from_mins(4);

/// An attempt that runs.
pub(crate) type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One attempt against the host.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) name: &'static str,
    pub(crate) run: fn(Arc<Attacker>) -> Running,
}

/// Lists the attempts of a module.
macro_rules! attempts {
    ($($name:ident),* $(,)?) => {
        pub(crate) const ATTEMPTS: &[crate::attempt::Attempt] = &[
            $(crate::attempt::Attempt {
                name: stringify!($name),
                run: |attacker| Box::pin($name(attacker)),
            }),*
        ];
    };
}
pub(crate) use attempts;

/// Runs all attempts of a family, and fails with everything that was wrong.
pub(crate) fn run(family: &str, runtime: RuntimeKind, attempts: &[Attempt]) {
    let name = format!("hostile-session: {family} on {runtime}");
    if !geteuid().is_root() {
        return report_skip(&name, "needs root");
    }
    if runtime == RuntimeKind::Gvisor && !has_runsc() {
        return report_skip(&name, "needs runsc");
    }
    let chosen = std::env::var("SANDBAR_HOSTILE_ATTEMPT").unwrap_or_default();
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        // The attacker's client would run on another machine.
        .on_thread_start(|| {
            let _ = rustix::process::nice(10);
        })
        .enable_all()
        .build()
        .unwrap();
    let (mut world, mut alone) = start(&tokio, family, runtime);
    let mut measured = Vec::new();
    let mut failures = Vec::new();
    for (number, attempt) in attempts.iter().enumerate() {
        if !attempt.name.contains(&chosen) {
            continue;
        }
        let (outcome, wrong) = tokio.block_on(one(&world, number, attempt));
        let mark = if wrong.is_empty() { "held" } else { "FELL" };
        print(&format!(
            "{family}::{} {mark} in {:.2} s, host at {:.0} MiB",
            attempt.name,
            outcome.took.as_secs_f64(),
            outcome.peak_mib
        ));
        measured.push(outcome);
        if !wrong.is_empty() {
            print(&wrong.join("\n"));
            failures.push(format!("{family}::{}: {}", attempt.name, wrong.join("; ")));
            // The next attempt needs a host that is well.
            drop(world);
            let (next, more) = start(&tokio, family, runtime);
            world = next;
            alone.extend(more);
        }
    }
    measure::write(family, runtime, &alone, &measured);
    drop(world);
    assert!(
        failures.is_empty(),
        "{} of {} attempts succeeded on {runtime}:\n{}",
        failures.len(),
        measured.len(),
        failures.join("\n")
    );
}

/// Returns whether `runsc` is in a directory of `PATH`.
fn has_runsc() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join("runsc").exists())
}

/// Starts a host and measures its probe alone.
fn start(
    tokio: &tokio::runtime::Runtime,
    family: &str,
    runtime: RuntimeKind,
) -> (World, Vec<Sample>) {
    let mut options = options(runtime);
    let internet = (family == "network").then(|| tokio.block_on(Internet::start()));
    if let Some(internet) = &internet {
        options = options.variable("SANDBAR_DNS_SERVERS", internet.dns_servers());
    }
    let server = TestServer::start(&options);
    let world = tokio.block_on(World::new(server, internet));
    let rounds = usize::try_from(scaled(200, 15)).unwrap();
    let alone = tokio.block_on(world.alone(rounds));
    (world, alone)
}

/// Makes one attempt; returns its measurements, and everything that was wrong.
async fn one(world: &World, number: usize, attempt: &Attempt) -> (Measured, Vec<String>) {
    world.probe.take_samples();
    let began = Instant::now();
    let (attacker, before) = world.attacker(number).await;
    let id = attacker.id.clone();
    let running = tokio::spawn((attempt.run)(Arc::new(attacker)));
    let abort = running.abort_handle();
    let mut wrong = Vec::new();
    match timeout(ATTEMPT_TIMEOUT, running).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => wrong.push(message(error)),
        Err(_) => {
            abort.abort();
            wrong.push(format!("it did not end in {ATTEMPT_TIMEOUT:?}"));
        }
    }
    wrong.extend(world.check(&id, &before).await);
    let measured = Measured {
        name: attempt.name.to_owned(),
        took: began.elapsed(),
        probe: world.probe.take_samples(),
        peak_mib: world.peak_mib(),
    };
    (measured, wrong)
}

/// Returns the message of a panic.
fn message(error: tokio::task::JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else {
        return "the attempt was cancelled".into();
    };
    let panic = AssertUnwindSafe(panic);
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_default()
}
