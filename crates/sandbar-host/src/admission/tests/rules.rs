//! The rules of the admission lock, one by one.

use std::{sync::Arc, thread::JoinHandle, time::Duration};

use sandbar_core::{ErrorCode, Result};

use super::{FOREVER, SOON, code, new_lock};
use crate::admission::{AdmissionLock, ExclusiveWork, SharedEntry};

#[test]
fn shared_entries_are_admitted_side_by_side() {
    let lock = new_lock();
    let _first = lock.enter_shared().unwrap();
    let _second = lock.enter_shared().unwrap();
}

#[test]
fn exclusive_entry_refuses_others_with_its_reason() {
    let lock = new_lock();
    let alone = lock
        .enter_exclusive(ExclusiveWork::RollingBack, SOON)
        .unwrap();
    assert_eq!(code(lock.enter_shared()), ErrorCode::RollbackInProgress);
    assert_eq!(
        code(lock.enter_exclusive(ExclusiveWork::RollingBack, SOON)),
        ErrorCode::RollbackInProgress
    );
    drop(alone);
    lock.enter_shared().unwrap();
}

#[test]
fn drain_past_its_timeout_reopens_the_lock() {
    let lock = new_lock();
    let inside = lock.enter_shared().unwrap();
    assert_eq!(
        code(lock.enter_exclusive(ExclusiveWork::RollingBack, SOON)),
        ErrorCode::ToolsInFlight
    );
    lock.enter_shared().unwrap();
    drop(inside);
    lock.enter_exclusive(ExclusiveWork::RollingBack, SOON)
        .unwrap();
}

#[test]
fn exclusive_entry_waits_for_shared_entries() {
    let lock = new_lock();
    let inside = lock.enter_shared().unwrap();
    let waiting = {
        let lock = Arc::clone(&lock);
        std::thread::spawn(move || {
            lock.enter_exclusive(ExclusiveWork::Destroying, Duration::from_mins(1))
                .map(drop)
        })
    };
    sandbar_testing::eventually("newcomers are refused", || lock.enter_shared().is_err());
    drop(inside);
    waiting.join().unwrap().unwrap();
    lock.enter_shared().unwrap();
}

#[test]
fn gone_session_refuses_every_entry() {
    let lock = new_lock();
    lock.enter_exclusive(ExclusiveWork::Destroying, SOON)
        .unwrap()
        .leave_for_good();
    assert_eq!(code(lock.enter_shared()), ErrorCode::SessionNotFound);
    assert_eq!(
        code(lock.enter_exclusive(ExclusiveWork::Destroying, SOON)),
        ErrorCode::SessionNotFound
    );
}

#[test]
fn each_exclusive_work_refuses_with_its_own_error() {
    let refusals = [
        (ExclusiveWork::Pausing, ErrorCode::SessionPaused),
        (ExclusiveWork::Hibernating, ErrorCode::SessionPaused),
        (ExclusiveWork::RollingBack, ErrorCode::RollbackInProgress),
        (ExclusiveWork::ChangingNetwork, ErrorCode::SessionPaused),
        (ExclusiveWork::Destroying, ErrorCode::SessionDestroying),
    ];
    for (why, refusal) in refusals {
        let lock = new_lock();
        let alone = lock.enter_exclusive(why, SOON).unwrap();
        assert_eq!(code(lock.enter_shared()), refusal);
        for other in [
            ExclusiveWork::Pausing,
            ExclusiveWork::Hibernating,
            ExclusiveWork::RollingBack,
        ] {
            assert_eq!(code(lock.enter_exclusive(other, SOON)), refusal);
        }
        drop(alone);
        lock.enter_shared().unwrap();
    }
}

#[test]
fn drain_past_its_timeout_counts_the_entries_left() {
    let lock = new_lock();
    let _inside = [lock.enter_shared().unwrap(), lock.enter_shared().unwrap()];
    let error = lock
        .enter_exclusive(ExclusiveWork::Pausing, SOON)
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::ToolsInFlight);
    assert!(error.to_string().contains("2 operations"), "{error}");
}

#[test]
fn zero_timeout_suffices_for_an_empty_session() {
    new_lock()
        .enter_exclusive(ExclusiveWork::Pausing, Duration::ZERO)
        .unwrap();
}

#[test]
fn lock_stays_closed_between_attempts_of_a_destroyer() {
    let lock = new_lock();
    let mut inside = Some(lock.enter_shared().unwrap());
    let mut attempts = 0;
    let entered = lock.enter_to_destroy(SOON, || {
        assert_eq!(code(lock.enter_shared()), ErrorCode::SessionDestroying);
        attempts += 1;
        if attempts == 3 {
            inside = None;
        }
        true
    });
    entered.unwrap();
    assert_eq!(attempts, 3);
}

#[test]
fn destroyer_that_cancels_nothing_reopens_the_lock() {
    let lock = new_lock();
    let inside = lock.enter_shared().unwrap();
    assert_eq!(
        code(lock.enter_to_destroy(SOON, || false)),
        ErrorCode::ToolsInFlight
    );
    lock.enter_shared().unwrap();
    drop(inside);
}

#[test]
fn entry_that_leaves_before_cancel_admits_the_destroyer() {
    let lock = new_lock();
    let mut inside = Some(lock.enter_shared().unwrap());
    let entered = lock.enter_to_destroy(SOON, || {
        inside = None;
        false
    });
    entered.unwrap();
}

/// Calls `enter_shared_waiting` on another thread.
fn waiting(lock: &Arc<AdmissionLock>) -> JoinHandle<Result<SharedEntry>> {
    let lock = Arc::clone(lock);
    std::thread::spawn(move || lock.enter_shared_waiting())
}

#[test]
fn waiting_entry_outlasts_brief_work_only() {
    for brief in [ExclusiveWork::Pausing, ExclusiveWork::ChangingNetwork] {
        let lock = new_lock();
        let alone = lock.enter_exclusive(brief, SOON).unwrap();
        let waiting = waiting(&lock);
        sandbar_testing::eventually("it waits", || lock.state().waiting == 1);
        drop(alone);
        waiting.join().unwrap().unwrap();
        assert_eq!(lock.state().waiting, 0);
    }
    let lock = new_lock();
    let alone = lock
        .enter_exclusive(ExclusiveWork::RollingBack, SOON)
        .unwrap();
    assert_eq!(
        code(lock.enter_shared_waiting()),
        ErrorCode::RollbackInProgress
    );
    drop(alone);
    lock.enter_exclusive(ExclusiveWork::Destroying, SOON)
        .unwrap()
        .leave_for_good();
    assert_eq!(
        code(lock.enter_shared_waiting()),
        ErrorCode::SessionNotFound
    );
}

#[test]
fn yielding_drain_gives_up_for_a_waiting_caller() {
    let lock = new_lock();
    let inside = lock.enter_shared().unwrap();
    let pausing = {
        let lock = Arc::clone(&lock);
        std::thread::spawn(move || {
            lock.enter_exclusive_yielding(ExclusiveWork::Pausing, FOREVER)
                .map(drop)
        })
    };
    sandbar_testing::eventually("newcomers are refused", || lock.enter_shared().is_err());
    let entry = lock.enter_shared_waiting().unwrap();
    assert_eq!(code(pausing.join().unwrap()), ErrorCode::ToolsInFlight);
    drop((inside, entry));
    lock.enter_exclusive_yielding(ExclusiveWork::Pausing, SOON)
        .unwrap();
}
