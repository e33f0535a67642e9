//! The rules, one after another.

use std::{sync::Arc, thread::JoinHandle, time::Duration};

use sandbar_core::{ErrorCode, Result};

use super::{FOREVER, SOON, code, gate};
use crate::gate::{Closing, Gate, SharedEntry};

#[test]
fn shared_entries_do_not_exclude_each_other() {
    let gate = gate();
    let _first = gate.enter_shared().unwrap();
    let _second = gate.enter_shared().unwrap();
}

#[test]
fn exclusive_entry_keeps_newcomers_out_and_says_why() {
    let gate = gate();
    let alone = gate.enter_exclusive(Closing::RollingBack, SOON).unwrap();
    assert_eq!(code(gate.enter_shared()), ErrorCode::RollbackInProgress);
    assert_eq!(code(gate.enter_exclusive(Closing::RollingBack, SOON)), ErrorCode::RollbackInProgress);
    drop(alone);
    gate.enter_shared().unwrap();
}

#[test]
fn a_drain_that_takes_too_long_opens_the_gate_again() {
    let gate = gate();
    let inside = gate.enter_shared().unwrap();
    assert_eq!(code(gate.enter_exclusive(Closing::RollingBack, SOON)), ErrorCode::ToolsInFlight);
    gate.enter_shared().unwrap();
    drop(inside);
    gate.enter_exclusive(Closing::RollingBack, SOON).unwrap();
}

#[test]
fn exclusive_entry_waits_for_those_inside() {
    let gate = gate();
    let inside = gate.enter_shared().unwrap();
    let waiting = {
        let gate = Arc::clone(&gate);
        std::thread::spawn(move || gate.enter_exclusive(Closing::Destroying, Duration::from_mins(1)).map(drop))
    };
    sandbar_testing::eventually("newcomers are refused", || gate.enter_shared().is_err());
    drop(inside);
    waiting.join().unwrap().unwrap();
    gate.enter_shared().unwrap();
}

#[test]
fn nobody_enters_a_session_that_is_gone() {
    let gate = gate();
    gate.enter_exclusive(Closing::Destroying, SOON).unwrap().leave_for_good();
    assert_eq!(code(gate.enter_shared()), ErrorCode::SessionNotFound);
    assert_eq!(code(gate.enter_exclusive(Closing::Destroying, SOON)), ErrorCode::SessionNotFound);
}

#[test]
fn each_kind_of_exclusive_work_refuses_with_an_error_of_its_own() {
    let refusals = [
        (Closing::Pausing, ErrorCode::SessionPaused),
        (Closing::Hibernating, ErrorCode::SessionPaused),
        (Closing::RollingBack, ErrorCode::RollbackInProgress),
        (Closing::ChangingNetwork, ErrorCode::SessionPaused),
        (Closing::Destroying, ErrorCode::SessionDestroying),
    ];
    for (why, refusal) in refusals {
        let gate = gate();
        let alone = gate.enter_exclusive(why, SOON).unwrap();
        assert_eq!(code(gate.enter_shared()), refusal);
        for other in [Closing::Pausing, Closing::Hibernating, Closing::RollingBack] {
            assert_eq!(code(gate.enter_exclusive(other, SOON)), refusal);
        }
        drop(alone);
        gate.enter_shared().unwrap();
    }
}

#[test]
fn a_drain_that_takes_too_long_says_how_many_are_inside() {
    let gate = gate();
    let _inside = [gate.enter_shared().unwrap(), gate.enter_shared().unwrap()];
    let error = gate.enter_exclusive(Closing::Pausing, SOON).unwrap_err();
    assert_eq!(error.code(), ErrorCode::ToolsInFlight);
    assert!(error.to_string().contains("2 operations"), "{error}");
}

#[test]
fn no_patience_is_enough_when_nobody_is_inside() {
    gate().enter_exclusive(Closing::Pausing, Duration::ZERO).unwrap();
}

#[test]
fn the_gate_stays_shut_between_the_attempts_of_a_destroyer() {
    let gate = gate();
    let mut inside = Some(gate.enter_shared().unwrap());
    let mut attempts = 0;
    let entered = gate.enter_to_destroy(SOON, || {
        assert_eq!(code(gate.enter_shared()), ErrorCode::SessionDestroying);
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
fn a_destroyer_that_can_cancel_nothing_gives_up_and_opens_the_gate() {
    let gate = gate();
    let inside = gate.enter_shared().unwrap();
    assert_eq!(code(gate.enter_to_destroy(SOON, || false)), ErrorCode::ToolsInFlight);
    gate.enter_shared().unwrap();
    drop(inside);
}

#[test]
fn what_leaves_by_itself_just_before_it_is_cancelled_does_not_stop_a_destroyer() {
    let gate = gate();
    let mut inside = Some(gate.enter_shared().unwrap());
    let entered = gate.enter_to_destroy(SOON, || {
        inside = None;
        false
    });
    entered.unwrap();
}

/// Waits on a thread of its own until brief work is over.
fn waiting(gate: &Arc<Gate>) -> JoinHandle<Result<SharedEntry>> {
    let gate = Arc::clone(gate);
    std::thread::spawn(move || gate.enter_shared_soon())
}

#[test]
fn who_waits_for_brief_work_comes_in_when_it_is_over_and_is_refused_by_other_work() {
    for brief in [Closing::Pausing, Closing::ChangingNetwork] {
        let gate = gate();
        let alone = gate.enter_exclusive(brief, SOON).unwrap();
        let waiting = waiting(&gate);
        sandbar_testing::eventually("it waits", || gate.lock().waiting == 1);
        drop(alone);
        waiting.join().unwrap().unwrap();
        assert_eq!(gate.lock().waiting, 0);
    }
    let gate = gate();
    let alone = gate.enter_exclusive(Closing::RollingBack, SOON).unwrap();
    assert_eq!(code(gate.enter_shared_soon()), ErrorCode::RollbackInProgress);
    drop(alone);
    gate.enter_exclusive(Closing::Destroying, SOON).unwrap().leave_for_good();
    assert_eq!(code(gate.enter_shared_soon()), ErrorCode::SessionNotFound);
}

#[test]
fn work_that_can_wait_gives_way_while_others_are_inside() {
    let gate = gate();
    let inside = gate.enter_shared().unwrap();
    let pausing = {
        let gate = Arc::clone(&gate);
        std::thread::spawn(move || gate.enter_giving_way(Closing::Pausing, FOREVER).map(drop))
    };
    sandbar_testing::eventually("newcomers are refused", || gate.enter_shared().is_err());
    let entry = gate.enter_shared_soon().unwrap();
    assert_eq!(code(pausing.join().unwrap()), ErrorCode::ToolsInFlight);
    drop((inside, entry));
    gate.enter_giving_way(Closing::Pausing, SOON).unwrap();
}
