//! Rounds: start an operation, kill the host, restart it, check.

use std::time::{Duration, Instant};

use sandbar_client::Client;
use sandbar_core::{
    BaseName, ForkRequest, LaterSnapshots, Quiesce, Result, SessionId, SessionSpec, SnapshotName,
};
use sandbar_testing::{Backend, scaled};

use crate::{
    dice::{Dice, seed},
    oracle::{Expected, Oracle, observed, read, write},
    world::World,
};

/// Operation to interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Snapshot,
    Rollback,
    Fork,
    Destroy,
}

impl Operation {
    pub(crate) fn create() -> Self {
        Self::Create
    }

    pub(crate) fn snapshot() -> Self {
        Self::Snapshot
    }

    pub(crate) fn rollback() -> Self {
        Self::Rollback
    }

    pub(crate) fn fork() -> Self {
        Self::Fork
    }

    pub(crate) fn destroy() -> Self {
        Self::Destroy
    }
}

const FORKS: usize = 3;

pub(crate) fn run(backend: Backend, operation: Operation) {
    let rounds = u32::try_from(scaled(50, 3)).unwrap();
    let seed = seed("SANDBAR_KILL_SEED");
    report(&format!(
        "SANDBAR_KILL_SEED={seed}: {rounds} kills during {operation:?} on {backend:?}"
    ));
    let mut dice = Dice::new(seed, 0);
    let world = World::new(backend);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(2)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut oracle = Oracle::default();
        // Kills fall within 1.5 times the undisturbed duration of the operation.
        let usual = undisturbed(&world, &mut oracle, operation).await;
        let mut acknowledged = 0;
        for round in 0..rounds {
            let server = world.start();
            let client = world.client(&server).await;
            oracle.check(&client, &[]).await;
            let subject = prepare(&client, &mut oracle, operation, round).await;
            let attempt = act(&client, operation, &subject, round);
            let delay = usual * u32::try_from(dice.below(151)).unwrap() / 100;
            let (outcome, ()) = tokio::join!(attempt, world.kill_after(server, delay));
            acknowledged += u32::from(outcome.is_ok());
            let server = world.start();
            let client = world.client(&server).await;
            settle(
                &client,
                &mut oracle,
                operation,
                &subject,
                round,
                outcome.is_ok(),
            )
            .await;
            oracle.check(&client, &[]).await;
            drop(server);
        }
        report(&format!(
            "{operation:?} on {backend:?}: {rounds} kills, {acknowledged} came after the answer"
        ));
        let ids: Vec<SessionId> = oracle.sessions.into_keys().collect();
        assert_nothing_else(&world, &ids);
    });
}

/// Prints where the kills fell.
#[expect(clippy::print_stdout, reason = "the test's own output")]
fn report(line: &str) {
    println!("{line}");
}

/// Returns the median duration of three undisturbed operations.
async fn undisturbed(world: &World, oracle: &mut Oracle, operation: Operation) -> Duration {
    let server = world.start();
    let client = world.client(&server).await;
    let mut times = Vec::new();
    for trial in [1_000_001, 1_000_002, 1_000_003] {
        let subject = prepare(&client, oracle, operation, trial).await;
        let started = Instant::now();
        act(&client, operation, &subject, trial).await.unwrap();
        times.push(started.elapsed());
        settle(&client, oracle, operation, &subject, trial, true).await;
    }
    times.sort();
    times[1]
}

fn snapshot(name: &str) -> SnapshotName {
    name.parse().unwrap()
}

/// Creates the session for the operation, with acknowledged snapshots.
async fn prepare(
    client: &Client,
    oracle: &mut Oracle,
    operation: Operation,
    round: u32,
) -> SessionId {
    let id: SessionId = format!("round-{round}").parse().unwrap();
    if operation == Operation::Create {
        return id;
    }
    client.create_session(spec(&id)).await.unwrap();
    let mut expected = Expected::default();
    for step in ["one", "two"] {
        write(client, &id, step).await;
        client
            .create_snapshot(&id, Some(&snapshot(step)), Quiesce::WhereNeeded)
            .await
            .unwrap();
        expected.snapshots.push((step.into(), step.into()));
    }
    write(client, &id, "now").await;
    expected.content = "now".into();
    oracle.sessions.insert(id.clone(), expected);
    id
}

fn spec(id: &SessionId) -> SessionSpec {
    let mut spec = SessionSpec::new(BaseName::new("small").unwrap());
    spec.id = Some(id.clone());
    spec
}

fn fork_ids(round: u32) -> Vec<SessionId> {
    (0..FORKS)
        .map(|number| format!("fork-{round}-{number}").parse().unwrap())
        .collect()
}

async fn act(client: &Client, operation: Operation, id: &SessionId, round: u32) -> Result<()> {
    match operation {
        Operation::Create => client.create_session(spec(id)).await.map(drop),
        Operation::Snapshot => client
            .create_snapshot(id, Some(&snapshot("three")), Quiesce::WhereNeeded)
            .await
            .map(drop),
        Operation::Rollback => client
            .rollback_session(id, &snapshot("one"), LaterSnapshots::Drop)
            .await
            .map(drop),
        Operation::Fork => {
            let request = ForkRequest {
                count: FORKS,
                ids: fork_ids(round),
                ..ForkRequest::default()
            };
            client.fork_session(id, request).await.map(drop)
        }
        Operation::Destroy => client.destroy_session(id).await,
    }
}

/// Updates the oracle: with the acknowledged outcome, or else with the one of two complete states
/// that is found. Then cleans up, so that later rounds are as fast as earlier ones.
async fn settle(
    client: &Client,
    oracle: &mut Oracle,
    operation: Operation,
    id: &SessionId,
    round: u32,
    acknowledged: bool,
) {
    let observed = observed(client).await;
    match operation {
        Operation::Create => {
            let there = observed.contains_key(id);
            assert!(there || !acknowledged, "{id} was acknowledged and is gone");
            if there {
                oracle.sessions.insert(id.clone(), Expected::default());
                write(client, id, "usable").await;
                assert_eq!(read(client, id).await, "usable");
            } else {
                client.create_session(spec(id)).await.unwrap();
                oracle.sessions.insert(id.clone(), Expected::default());
            }
        }
        Operation::Snapshot => {
            let there = observed[id].iter().any(|name| name == "three");
            assert!(
                there || !acknowledged,
                "the snapshot was acknowledged and is gone"
            );
            if there {
                oracle
                    .sessions
                    .get_mut(id)
                    .unwrap()
                    .snapshots
                    .push(("three".into(), "now".into()));
                oracle.check(client, &[]).await;
                write(client, id, "later").await;
                client
                    .rollback_session(id, &snapshot("three"), LaterSnapshots::Drop)
                    .await
                    .unwrap();
            } else {
                client
                    .create_snapshot(id, Some(&snapshot("three")), Quiesce::WhereNeeded)
                    .await
                    .unwrap();
            }
            assert_eq!(read(client, id).await, "now");
        }
        Operation::Rollback => {
            let content = read(client, id).await;
            let back = Expected {
                content: "one".into(),
                snapshots: vec![("one".into(), "one".into())],
            };
            if acknowledged || content == "one" {
                oracle.sessions.insert(id.clone(), back);
            }
            oracle.check(client, &[]).await;
        }
        Operation::Fork => {
            let there: Vec<SessionId> = fork_ids(round)
                .into_iter()
                .filter(|fork| observed.contains_key(fork))
                .collect();
            assert!(
                there.is_empty() || there.len() == FORKS,
                "{} of {FORKS} forks are there",
                there.len()
            );
            assert!(
                !there.is_empty() || !acknowledged,
                "the forks were acknowledged and are gone"
            );
            for fork in there {
                assert_eq!(read(client, &fork).await, "now");
                client.destroy_session(&fork).await.unwrap();
            }
        }
        Operation::Destroy => {
            let there = observed.contains_key(id);
            assert!(!there || !acknowledged, "{id} came back");
            if there {
                oracle.check(client, &[]).await;
            }
            oracle.sessions.remove(id);
            if there {
                client.destroy_session(id).await.unwrap();
            }
        }
    }
    if oracle.sessions.remove(id).is_some() {
        client.destroy_session(id).await.unwrap();
    }
}

/// Checks that the storage holds the volumes of the sessions and nothing else.
fn assert_nothing_else(world: &World, ids: &[SessionId]) {
    let storage = sandbar_storage::open(&world.storage.config)
        .unwrap()
        .storage;
    assert_eq!(storage.volumes().unwrap(), ids);
    storage.settle().unwrap();
    // No volume uses the base any more, not even a hidden one.
    storage.delete_base(&world.storage.base).unwrap();
    storage.close().unwrap();
}
