//! Classic concurrency bugs: both explorers find them, a replay reproduces them, and the corrected
//! code passes.

#![expect(
    clippy::unwrap_used,
    reason = "a failed precondition should end the test at that line"
)]

use std::sync::Arc;

use sandbar_interleave::{
    Exhaustive, Random, replay,
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

/// Finds the bug, which most runs do not show, and finds it again where the reports say it is.
fn is_found(body: fn(), expected: &str) {
    replay("", body).unwrap();
    for failure in [
        Exhaustive::default().explore(body).unwrap_err(),
        Random::new(1, 1000).explore(body).unwrap_err(),
    ] {
        assert!(failure.what().contains(expected), "{failure}");
        let again = replay(&failure.schedule(), body).unwrap_err();
        assert_eq!(again.what(), failure.what());
        assert_eq!(again.schedule(), failure.schedule());
    }
}

fn is_fine(body: fn()) {
    let schedules = Exhaustive::default().check(body);
    assert!(schedules > 1, "there was nothing to decide");
    Random::new(1, 200).check(body);
}

#[test]
fn a_read_modify_write_in_two_steps_loses_an_update() {
    is_found(
        || count_to_two(|counter| counter.store(counter.load(SeqCst) + 1, SeqCst)),
        "an update is lost",
    );
}

#[test]
fn a_read_modify_write_in_one_step_loses_nothing() {
    is_fine(|| count_to_two(|counter| _ = counter.fetch_add(1, SeqCst)));
}

fn count_to_two(increment: fn(&AtomicUsize)) {
    let counter = Arc::new(AtomicUsize::new(0));
    let threads = [(); 2].map(|()| {
        let counter = Arc::clone(&counter);
        thread::spawn(move || increment(&counter))
    });
    threads.into_iter().for_each(thread::JoinHandle::join);
    assert_eq!(counter.load(SeqCst), 2, "an update is lost");
}

#[test]
fn locks_taken_in_opposite_orders_are_a_deadlock() {
    is_found(
        || take_two_locks([0, 1], [1, 0]),
        "waits for a lock that thread",
    );
}

#[test]
fn locks_taken_in_the_same_order_are_fine() {
    is_fine(|| take_two_locks([0, 1], [0, 1]));
}

fn take_two_locks(one: [usize; 2], other: [usize; 2]) {
    let locks = Arc::new([Mutex::new(()), Mutex::new(())]);
    let threads = [one, other].map(|order| {
        let locks = Arc::clone(&locks);
        thread::spawn(move || {
            let _first = locks[order[0]].lock().unwrap();
            let _second = locks[order[1]].lock().unwrap();
        })
    });
    threads.into_iter().for_each(thread::JoinHandle::join);
}

#[test]
fn a_notification_without_the_lock_is_lost() {
    is_found(
        || {
            wake_up(|ready, _, condition| {
                ready.store(true, SeqCst);
                condition.notify_one();
            });
        },
        "waits for a notification",
    );
}

#[test]
fn a_notification_after_a_change_under_the_lock_arrives() {
    is_fine(|| {
        wake_up(|ready, lock, condition| {
            let guard = lock.lock().unwrap();
            ready.store(true, SeqCst);
            drop(guard);
            condition.notify_one();
        });
    });
}

fn wake_up(wake: fn(&AtomicBool, &Mutex<()>, &Condvar)) {
    let shared = Arc::new((AtomicBool::new(false), Mutex::new(()), Condvar::new()));
    let sleeper = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || {
            let (ready, lock, condition) = &*shared;
            let mut guard = lock.lock().unwrap();
            while !ready.load(SeqCst) {
                guard = condition.wait(guard).unwrap();
            }
        })
    };
    wake(&shared.0, &shared.1, &shared.2);
    sleeper.join();
}

#[test]
fn one_notification_for_two_waits_may_reach_the_wrong_one() {
    is_found(
        || two_waits(Condvar::notify_one),
        "waits for a notification",
    );
}

#[test]
fn notifying_all_reaches_the_right_one() {
    is_fine(|| two_waits(Condvar::notify_all));
}

/// Two threads wait on one condition variable, one for 1 and the other for 2.
fn two_waits(notify: fn(&Condvar)) {
    let shared = Arc::new((Mutex::new(0), Condvar::new()));
    let threads = [1, 2].map(|wanted| {
        let shared = Arc::clone(&shared);
        thread::spawn(move || {
            let mut value = shared.0.lock().unwrap();
            while *value < wanted {
                value = shared.1.wait(value).unwrap();
            }
        })
    });
    for _ in 0..2 {
        *shared.0.lock().unwrap() += 1;
        notify(&shared.1);
    }
    threads.into_iter().for_each(thread::JoinHandle::join);
}

#[test]
fn check_then_act_with_the_lock_given_up_between_is_a_race() {
    is_found(
        || {
            take_the_last(|items| {
                let some_left = *items.lock().unwrap() > 0;
                if some_left {
                    let mut items = items.lock().unwrap();
                    *items = items.saturating_sub(1);
                }
                some_left
            });
        },
        "taken by 2",
    );
}

#[test]
fn check_and_act_under_one_lock_is_fine() {
    is_fine(|| {
        take_the_last(|items| {
            let mut items = items.lock().unwrap();
            let some_left = *items > 0;
            *items = items.saturating_sub(1);
            some_left
        });
    });
}

/// Two threads want the only item there is; one must get it.
fn take_the_last(take: fn(&Mutex<usize>) -> bool) {
    let items = Arc::new(Mutex::new(1));
    let threads = [(); 2].map(|()| {
        let items = Arc::clone(&items);
        thread::spawn(move || take(&items))
    });
    let takers = threads
        .map(thread::JoinHandle::join)
        .into_iter()
        .filter(|took| *took)
        .count();
    assert_eq!(takers, 1, "taken by {takers}");
}
