//! Guarantees of the explorers: no schedule is left out silently, every failure is reported, and no
//! thread is leaked.

#![expect(
    clippy::unwrap_used,
    reason = "a failed precondition should end the test at that line"
)]

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{Arc, Mutex as StdMutex, PoisonError},
    time::Duration,
};

use sandbar_interleave::{
    Exhaustive, Random, replay,
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread, time,
};

/// Two threads that take two steps each; the order of the four is what is seen.
fn four_steps(seen: &Arc<StdMutex<BTreeSet<String>>>) {
    let order = Arc::new(StdMutex::new(String::new()));
    let threads = ["a", "b"].map(|name| {
        let order = Arc::clone(&order);
        thread::spawn(move || {
            for _ in 0..2 {
                thread::step();
                order.lock().unwrap().push_str(name);
            }
        })
    });
    threads.into_iter().for_each(thread::JoinHandle::join);
    seen.lock().unwrap().insert(order.lock().unwrap().clone());
}

#[test]
fn every_order_is_seen_and_none_twice() {
    let seen = Arc::default();
    let schedules = Exhaustive::default().check(|| four_steps(&seen));
    assert_eq!(
        seen.lock().unwrap().len(),
        6,
        "there are six ways to mix aa and bb"
    );
    assert_eq!(schedules, 6);
}

#[test]
fn orders_with_more_preemptions_than_asked_for_are_left_out() {
    let seen = Arc::default();
    Exhaustive::default()
        .preemptions(0)
        .check(|| four_steps(&seen));
    let seen: Vec<String> = seen.lock().unwrap().iter().cloned().collect();
    assert_eq!(seen, ["aabb", "bbaa"]);
}

#[test]
fn random_schedules_see_every_order_too() {
    let seen = Arc::default();
    Random::new(7, 500).check(|| four_steps(&seen));
    assert_eq!(seen.lock().unwrap().len(), 6);
}

#[test]
fn more_schedules_than_allowed_are_a_failure() {
    let failure = Exhaustive::default()
        .at_most(5)
        .explore(|| four_steps(&Arc::default()))
        .unwrap_err();
    assert!(
        failure.what().contains("more than 5 schedules"),
        "{failure}"
    );
}

#[test]
fn a_deadlock_reports_what_each_thread_waits_for() {
    let failure = Exhaustive::default()
        .explore(|| {
            let shared = Arc::new((Mutex::new(()), Condvar::new()));
            let waits = Arc::clone(&shared);
            let sleeper =
                thread::spawn(move || drop(waits.1.wait(waits.0.lock().unwrap()).unwrap()));
            sleeper.join();
        })
        .unwrap_err();
    assert!(
        failure
            .what()
            .contains("thread 0 waits for the end of thread 1"),
        "{failure}"
    );
    assert!(
        failure
            .what()
            .contains("thread 1 waits for a notification, at "),
        "{failure}"
    );
    assert!(failure.what().contains("explorers.rs"), "{failure}");
}

#[test]
fn code_that_goes_round_in_circles_is_a_failure() {
    let failure = Exhaustive::default()
        .explore(|| {
            loop {
                thread::yield_now();
            }
        })
        .unwrap_err();
    assert!(failure.what().contains("did not end"), "{failure}");
}

#[test]
fn a_loop_that_lets_others_go_first_ends() {
    Exhaustive::default().check(|| {
        let ready = Arc::new(AtomicBool::new(false));
        let threads = [(); 2].map(|()| {
            let ready = Arc::clone(&ready);
            thread::spawn(move || {
                while !ready.load(SeqCst) {
                    thread::yield_now();
                }
            })
        });
        ready.store(true, SeqCst);
        threads.into_iter().for_each(thread::JoinHandle::join);
    });
}

#[test]
fn a_loop_that_lets_others_go_first_lets_time_pass_too() {
    Exhaustive::default().check(|| {
        let given_up = Arc::new(AtomicBool::new(false));
        let waits = Arc::clone(&given_up);
        let sleeper = thread::spawn(move || {
            let (lock, condition) = (Mutex::new(()), Condvar::new());
            drop(
                condition
                    .wait_timeout(lock.lock().unwrap(), Duration::from_secs(1))
                    .unwrap(),
            );
            waits.store(true, SeqCst);
        });
        while !given_up.load(SeqCst) {
            thread::yield_now();
        }
        sleeper.join();
    });
}

#[test]
fn code_that_is_not_the_same_each_time_is_a_failure() {
    let runs = StdMutex::new(0);
    let failure = Exhaustive::default()
        .explore(|| {
            let run = {
                let mut runs = runs.lock().unwrap();
                *runs += 1;
                *runs
            };
            let threads: Vec<_> = (0..if run == 1 { 2 } else { 3 })
                .map(|_| thread::spawn(thread::step))
                .collect();
            threads.into_iter().for_each(thread::JoinHandle::join);
        })
        .unwrap_err();
    assert!(
        failure.what().contains("not the same each time"),
        "{failure}"
    );
}

#[test]
fn a_schedule_that_does_not_fit_is_a_failure() {
    let failure = replay("5", || four_steps(&Arc::default())).unwrap_err();
    assert!(failure.what().contains("does not fit"), "{failure}");
}

#[test]
fn a_limit_of_time_is_reached_before_and_after_a_notification() {
    let seen = Arc::new(StdMutex::new(BTreeSet::new()));
    Exhaustive::default().check(|| {
        let shared = Arc::new((Mutex::new(false), Condvar::new()));
        let waits = Arc::clone(&shared);
        let sleeper = thread::spawn(move || {
            let begun = time::now();
            let guard = waits.0.lock().unwrap();
            if *guard {
                return None;
            }
            let (ready, result) = waits.1.wait_timeout(guard, Duration::from_secs(5)).unwrap();
            let waited = time::now().duration_since(begun);
            assert_eq!(
                waited,
                if result.timed_out() {
                    Duration::from_secs(5)
                } else {
                    Duration::ZERO
                }
            );
            Some((*ready, result.timed_out()))
        });
        *shared.0.lock().unwrap() = true;
        shared.1.notify_all();
        seen.lock().unwrap().insert(sleeper.join());
    });
    // Not waited at all; timed out before, and after the change; notified in time.
    let expected = [
        None,
        Some((false, true)),
        Some((true, true)),
        Some((true, false)),
    ];
    assert_eq!(*seen.lock().unwrap(), BTreeSet::from(expected));
}

#[test]
fn a_wait_with_a_timeout_of_a_century_never_times_out() {
    let failure = Exhaustive::default()
        .explore(|| {
            let (lock, condition) = (Mutex::new(()), Condvar::new());
            drop(
                condition
                    .wait_timeout(lock.lock().unwrap(), Duration::MAX)
                    .unwrap(),
            );
        })
        .unwrap_err();
    assert!(
        failure.what().contains("waits for a notification"),
        "{failure}"
    );
}

/// Takes a lock and counts when it is dropped, as guards do.
struct Counted(Arc<(Mutex<usize>, Condvar)>);

impl Drop for Counted {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.1.notify_all();
    }
}

#[test]
fn a_panic_unwinds_every_thread_and_leaves_none_behind() {
    let alive = Arc::new(());
    let failure = Random::new(3, 1)
        .explore(|| {
            let shared = Arc::new((Mutex::new(0), Condvar::new()));
            for number in 0..4 {
                let (shared, alive) = (Arc::clone(&shared), Arc::clone(&alive));
                thread::spawn(move || {
                    let _held = (Counted(Arc::clone(&shared)), alive);
                    let mut value = shared.0.lock().unwrap();
                    assert!(number != 3, "number three");
                    while *value < 9 {
                        value = shared.1.wait(value).unwrap();
                    }
                });
            }
        })
        .unwrap_err();
    assert!(failure.what().contains("number three"), "{failure}");
    assert_eq!(Arc::strong_count(&alive), 1, "a thread was left behind");
}

#[test]
fn a_thread_that_catches_its_own_panic_does_not_fail_the_run() {
    Exhaustive::default().check(|| {
        let shared = Arc::new((Mutex::new(0), Condvar::new()));
        let threads = [(); 2].map(|()| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let broken = catch_unwind(AssertUnwindSafe(|| {
                    let _counted = Counted(Arc::clone(&shared));
                    resume_unwind(Box::new("on purpose"));
                }));
                assert!(broken.is_err());
            })
        });
        threads.into_iter().for_each(thread::JoinHandle::join);
        assert_eq!(*shared.0.lock().unwrap(), 2);
    });
}

#[test]
fn types_outside_of_a_run_behave_like_the_standard_library() {
    let shared = Arc::new((Mutex::new(0), Condvar::new(), AtomicUsize::new(0)));
    let other = Arc::clone(&shared);
    let thread = std::thread::spawn(move || {
        *other.0.lock().unwrap() = 1;
        other.2.fetch_add(1, SeqCst);
        other.1.notify_all();
    });
    let mut value = shared.0.lock().unwrap();
    while *value == 0 {
        value = shared
            .1
            .wait_timeout(value, Duration::from_mins(1))
            .unwrap()
            .0;
    }
    drop(value);
    thread.join().unwrap();
    assert_eq!(shared.2.load(SeqCst), 1);
}
