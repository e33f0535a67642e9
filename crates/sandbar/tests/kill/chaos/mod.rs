//! A mixed load on many sessions of a host that is killed repeatedly.
//!
//! `SANDBAR_CHAOS_ROUNDS` sets the number of kills, `SANDBAR_CHAOS_SEED` repeats the choices of a
//! run (the exact moment of a kill depends on the machine).

mod book;
mod leaks;
mod moment;
mod packs;
mod ports;
mod steps;
mod verb;

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sandbar_client::Client;
use sandbar_core::{Capability, RuntimeKind, SessionId};
use sandbar_testing::{Backend, TestServer, scaled};
use tokio::{
    sync::{Mutex, MutexGuard},
    task::JoinSet,
};

use self::{
    book::{Book, Slot, observed},
    leaks::{Footprint, Remains, assert_only_data_is_left},
    moment::Moment,
    packs::wait_for_packs,
    verb::Verb,
};
use crate::{
    dice::{Dice, seed},
    world::World,
};

/// Number of concurrent clients, each with its own sessions.
const CLIENTS: usize = 20;
/// Rounds between checks of all sessions; the other rounds check those that were used.
const FULL_CHECK_INTERVAL: usize = 10;
/// Sessions hibernated before the load begins: under load few hibernations complete.
const HIBERNATED_FIRST: usize = 4;
/// Time for answers that were sent before the kill to arrive.
const LAST_ANSWERS_TIMEOUT: Duration = Duration::from_millis(200);

type Slots = Vec<Arc<Mutex<Slot>>>;

/// Kills a host under load, `rounds` times at full length unless the environment says otherwise.
pub(crate) fn chaos(backend: Backend, runtime: RuntimeKind, rounds: usize) {
    let rounds = std::env::var("SANDBAR_CHAOS_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or_else(|| usize::try_from(scaled(rounds as u64, 2)).unwrap());
    let seed = seed("SANDBAR_CHAOS_SEED");
    report(&format!(
        "SANDBAR_CHAOS_SEED={seed}: {rounds} rounds on {backend:?} and {runtime}"
    ));
    let world = World::with_runtime(backend, runtime);
    let executor = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(2)
        .build()
        .unwrap();
    executor.block_on(async {
        let slots: Slots = (0..CLIENTS).map(|_| Arc::default()).collect();
        let mut dice = Dice::new(seed, u64::MAX);
        let mut server = world.start();
        let usual = Footprint::of(&world, &server);
        fill(&world, &server, &slots, seed).await;
        let (mut open, mut frozen, mut opened) = (0, 0, 0);
        for round in 0..rounds {
            hibernate_some(&world.client(&server).await, &slots, &mut dice).await;
            let moment = Moment::choose(&mut dice, round);
            under_load(&world, server, &slots, seed, round, moment).await;
            let remains = Remains::of(&world, take_ports(&slots).await);
            (frozen, opened) = (frozen + remains.frozen(), opened + remains.ports.len());
            server = world.start();
            remains.assert_gone(&world);
            usual.wait_for(&world, &server);
            let client = world.client(&server).await;
            open += settle(&client, &slots).await;
            check(&world, &client, &slots, false).await;
            if round % FULL_CHECK_INTERVAL == FULL_CHECK_INTERVAL - 1 || round + 1 == rounds {
                drop(client);
                server = check_without_a_host(&world, server, &slots).await;
                let client = world.client(&server).await;
                bring_back(&client, &slots).await;
                check(&world, &client, &slots, true).await;
                let (kills, acknowledged) = (round + 1, acknowledged(&slots).await);
                report(&format!(
                    "{kills} kills, {acknowledged} acknowledged, {open} unacknowledged, {frozen} frozen processes ended, \
                     {opened} ports closed"
                ));
            }
        }
        finish(&world, server, &slots).await;
    });
}

/// Returns the number of acknowledged operations.
async fn acknowledged(slots: &Slots) -> u64 {
    let mut sum = 0;
    for slot in slots {
        sum += slot.lock().await.acknowledged;
    }
    sum
}

/// Returns the ports that were opened since the last call.
async fn take_ports(slots: &Slots) -> BTreeSet<ports::ListeningSocket> {
    let mut all = BTreeSet::new();
    for slot in slots {
        all.append(&mut slot.lock().await.ports);
    }
    all
}

/// Prints a line of progress.
#[expect(clippy::print_stdout, reason = "the test's own output")]
fn report(line: &str) {
    println!("{line}");
}

/// Creates the first session of every client.
async fn fill(world: &World, server: &TestServer, slots: &Slots, seed: u64) {
    let client = world.client(server).await;
    let can_pause = client.capabilities().await.unwrap().pause == Capability::Yes;
    for (who, slot) in slots.iter().enumerate() {
        let mut slot = slot.lock().await;
        slot.can_pause = can_pause;
        let verb = Verb::choose(&mut Dice::new(seed, 0), &mut slot, who);
        verb.perform(&client, &mut slot.ports).await.unwrap();
        verb.record(&mut slot);
    }
}

/// Hibernates some sessions before the load.
async fn hibernate_some(client: &Client, slots: &Slots, dice: &mut Dice) {
    for _ in 0..HIBERNATED_FIRST {
        let mut slot = dice.pick(slots).lock().await;
        if let Some(verb) = Verb::hibernate_one(&slot) {
            verb.perform(client, &mut slot.ports).await.unwrap();
            verb.record(&mut slot);
            slot.acknowledged += 1;
        }
    }
}

/// Runs all clients until the host is killed.
async fn under_load(
    world: &World,
    server: TestServer,
    slots: &Slots,
    seed: u64,
    round: usize,
    moment: Moment,
) {
    let killed = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for (who, slot) in slots.iter().enumerate() {
        let client = world.client(&server).await;
        let dice = Dice::new(seed, (round * CLIENTS + who + 1).try_into().unwrap());
        clients.spawn(work(
            client,
            Arc::clone(slot),
            dice,
            who,
            moment.is_after_pack(),
            Arc::clone(&killed),
        ));
    }
    moment.wait(world).await;
    killed.store(true, Ordering::SeqCst);
    tokio::task::spawn_blocking(move || server.stop_with(rustix::process::Signal::KILL))
        .await
        .unwrap();
    // Answers that were sent before the kill still count; later ones never arrive.
    let ended = async {
        while let Some(ended) = clients.join_next().await {
            ended.unwrap();
        }
    };
    if tokio::time::timeout(LAST_ANSWERS_TIMEOUT, ended)
        .await
        .is_err()
    {
        clients.shutdown().await;
    }
}

/// Runs one client: sequential operations until the host does not answer. It may begin with a
/// hibernation.
async fn work(
    client: Client,
    slot: Arc<Mutex<Slot>>,
    mut dice: Dice,
    who: usize,
    hibernates: bool,
    killed: Arc<AtomicBool>,
) {
    let mut slot = slot.lock().await;
    let mut first = if hibernates {
        Verb::hibernate_one(&slot)
    } else {
        None
    };
    loop {
        let verb = first
            .take()
            .unwrap_or_else(|| Verb::choose(&mut dice, &mut slot, who));
        slot.pending = Some(verb.clone());
        match verb.perform(&client, &mut slot.ports).await {
            Ok(()) => {
                slot.pending = None;
                slot.acknowledged += 1;
                verb.record(&mut slot);
            }
            Err(error) => {
                assert!(
                    killed.load(Ordering::SeqCst),
                    "{verb:?} failed on a healthy host: {}",
                    error.chain()
                );
                return;
            }
        }
    }
}

/// Determines the outcome of unacknowledged operations; returns their number.
async fn settle(client: &Client, slots: &Slots) -> usize {
    let mut open = 0;
    for slot in slots {
        let mut slot = slot.lock().await;
        let cut_off = slot.pending.clone();
        slot.settle(client).await;
        // A session with an unacknowledged operation is used at once.
        if let Some(verb) = cut_off {
            open += 1;
            if slot.sessions.contains_key(verb.id()) {
                slot.bring_back(client, verb.id()).await;
            }
        }
    }
    open
}

/// Makes every session active and runs a command in it.
async fn bring_back(client: &Client, slots: &Slots) {
    for slot in slots {
        let mut slot = slot.lock().await;
        let ids: Vec<SessionId> = slot.sessions.keys().cloned().collect();
        for id in ids {
            slot.bring_back(client, &id).await;
        }
    }
}

/// Checks that everything acknowledged exists, and nothing else.
async fn check(world: &World, client: &Client, slots: &Slots, all: bool) {
    let observed = observed(client).await;
    let mut books = locked(slots).await;
    for slot in &mut books {
        slot.check(client, &observed, all).await;
    }
    let book = whole(&books);
    assert_eq!(
        observed.len(),
        book.len(),
        "sessions came from nowhere: {:?}",
        observed.keys()
    );
    wait_for_packs(world, &book);
}

async fn locked(slots: &Slots) -> Vec<MutexGuard<'_, Slot>> {
    let mut books = Vec::new();
    for slot in slots {
        books.push(slot.lock().await);
    }
    books
}

/// Returns the sessions of all clients.
fn whole<'a>(books: &'a [MutexGuard<'_, Slot>]) -> Book<'a> {
    books.iter().flat_map(|slot| &slot.sessions).collect()
}

/// Stops the host, checks what it left, and starts it again.
async fn check_without_a_host(world: &World, server: TestServer, slots: &Slots) -> TestServer {
    let stopped =
        tokio::task::spawn_blocking(move || server.stop_with(rustix::process::Signal::TERM))
            .await
            .unwrap();
    assert!(stopped.status.success(), "{}", stopped.said);
    assert_only_data_is_left(world, &whole(&locked(slots).await));
    world.start()
}

/// Destroys all sessions and checks that nothing is left.
async fn finish(world: &World, server: TestServer, slots: &Slots) {
    let client = world.client(&server).await;
    for slot in slots {
        let mut slot = slot.lock().await;
        for (id, _) in std::mem::take(&mut slot.sessions) {
            client.destroy_session(&id).await.unwrap();
        }
    }
    drop(client);
    drop(check_without_a_host(world, server, slots).await);
}
