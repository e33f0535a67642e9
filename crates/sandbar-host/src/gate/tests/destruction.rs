//! What must hold when a session is destroyed, whoever else comes.

use std::sync::atomic::Ordering::SeqCst;

use sandbar_core::{Error, ErrorCode};
use sandbar_interleave::thread;

use super::{
    FOREVER, SOON, code,
    scene::{Scene, under_every_schedule, under_many_schedules},
};
use crate::gate::Closing;

fn destroy(scene: &Scene) {
    destroy_with(scene, || true);
}

fn destroy_with(scene: &Scene, cancel: impl FnMut() -> bool) {
    match scene.gate.enter_to_destroy(SOON, cancel) {
        Ok(entry) => {
            scene.work_alone();
            scene.destroyed.fetch_add(1, SeqCst);
            entry.leave_for_good();
        }
        Err(refusal) => {
            assert_eq!(refusal.code(), ErrorCode::SessionNotFound, "a destroyer gave up");
            assert_eq!(scene.destroyed.load(SeqCst), 1, "told that it is gone before it was");
        }
    }
}

/// The storage does not let go of the volume, so the gate opens again.
fn fail_to_destroy(scene: &Scene) {
    match scene.gate.enter_to_destroy(SOON, || true) {
        Ok(_entry) => scene.work_alone(),
        Err(refusal) => scene.expect_refusal(&refusal),
    }
}

/// In a scene where the destroyer never fails, there is no way back from its first announcement.
fn is_doomed(scene: &Scene) -> bool {
    let state = scene.gate.lock();
    state.destroyers > 0 || state.gone
}

fn expect_doom(refusal: &Error) {
    assert!(matches!(refusal.code(), ErrorCode::SessionDestroying | ErrorCode::SessionNotFound), "{refusal}");
}

fn newcomer(scene: &Scene) {
    let doomed = is_doomed(scene);
    match scene.gate.enter_shared() {
        Ok(_entry) => {
            assert!(!doomed, "a tool was let in while somebody destroys the session");
            scene.work_beside_others();
        }
        Err(refusal) if doomed => expect_doom(&refusal),
        Err(refusal) => scene.expect_refusal(&refusal),
    }
}

/// One that is inside while others come.
fn tool(scene: &Scene) {
    let _entry = scene.gate.enter_shared();
    newcomer(scene);
}

fn roll_back(scene: &Scene) {
    let doomed = is_doomed(scene);
    match scene.gate.enter_exclusive(Closing::RollingBack, SOON) {
        Ok(_entry) => {
            assert!(!doomed, "a rollback was let in while somebody destroys the session");
            scene.work_alone();
        }
        Err(refusal) if doomed => expect_doom(&refusal),
        Err(refusal) => scene.expect_refusal(&refusal),
    }
}

#[test]
fn nobody_is_let_in_once_a_destroyer_has_come_even_if_it_has_to_wait() {
    under_every_schedule(&[destroy, tool], Scene::assert_gone);
    under_every_schedule(&[destroy, roll_back], Scene::assert_gone);
    under_every_schedule(&[destroy, roll_back, newcomer], Scene::assert_gone);
    under_every_schedule(&[destroy, roll_back, tool], Scene::assert_gone);
    under_many_schedules(&[destroy, roll_back, roll_back, tool, tool, tool], Scene::assert_gone);
}

/// Stays inside until it is known that somebody wants to destroy the session.
fn rollback_that_makes_a_destroyer_wait(scene: &Scene) {
    let Ok(entry) = scene.gate.enter_exclusive(Closing::RollingBack, SOON) else { return };
    while code(scene.gate.enter_shared()) != ErrorCode::SessionDestroying {
        thread::yield_now();
    }
    assert_eq!(code(scene.gate.enter_exclusive(Closing::Pausing, SOON)), ErrorCode::SessionDestroying);
    drop(entry);
    expect_doom(&scene.gate.enter_shared().unwrap_err());
    expect_doom(&scene.gate.enter_exclusive(Closing::Pausing, SOON).unwrap_err());
}

#[test]
fn a_destroyer_that_waits_for_other_work_makes_itself_known_and_is_next() {
    under_every_schedule(&[destroy, rollback_that_makes_a_destroyer_wait], Scene::assert_gone);
    under_every_schedule(&[destroy, rollback_that_makes_a_destroyer_wait, newcomer], Scene::assert_gone);
}

#[test]
fn two_destroyers_both_end_and_one_of_them_does_it() {
    under_every_schedule(&[destroy, destroy], Scene::assert_gone);
    under_every_schedule(&[destroy, destroy, roll_back], Scene::assert_gone);
    under_every_schedule(&[destroy, destroy, tool], Scene::assert_gone);
    under_many_schedules(&[destroy, destroy, destroy, roll_back, tool, tool], Scene::assert_gone);
}

#[test]
fn a_destroyer_that_fails_leaves_it_to_the_next() {
    under_every_schedule(&[fail_to_destroy, destroy], Scene::assert_gone);
    under_every_schedule(&[fail_to_destroy, fail_to_destroy], Scene::assert_open);
    under_every_schedule(&[fail_to_destroy, destroy, patient_rollback], Scene::assert_gone);
    under_many_schedules(&[fail_to_destroy, fail_to_destroy, fail_to_destroy, patient_rollback], Scene::assert_open);
}

fn patient_rollback(scene: &Scene) {
    scene.try_alone(Closing::RollingBack, FOREVER);
}

#[test]
fn whoever_leaves_wakes_those_who_wait_for_that_and_not_only_others() {
    under_every_schedule(&[tool, patient_rollback, destroy], Scene::assert_gone);
    under_many_schedules(&[tool, tool, patient_rollback, patient_rollback, destroy, destroy], Scene::assert_gone);
}

fn endless_tool(scene: &Scene) {
    if let Ok(_entry) = scene.gate.enter_shared() {
        scene.work_until_cancelled();
    }
}

fn cancel_and_destroy(scene: &Scene) {
    destroy_with(scene, || scene.cancel());
}

#[test]
fn tools_that_end_only_when_they_are_cancelled_do_not_stop_a_destroyer() {
    under_every_schedule(&[endless_tool, cancel_and_destroy], Scene::assert_gone);
    under_every_schedule(&[endless_tool, cancel_and_destroy, cancel_and_destroy], Scene::assert_gone);
    under_every_schedule(&[endless_tool, roll_back, cancel_and_destroy], Scene::assert_gone);
    under_many_schedules(
        &[endless_tool, endless_tool, endless_tool, roll_back, cancel_and_destroy, cancel_and_destroy],
        Scene::assert_gone,
    );
}
