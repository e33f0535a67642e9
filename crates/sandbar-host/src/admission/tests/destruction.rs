//! Destruction under every schedule, against tools, rollbacks and other destroyers.

use std::sync::atomic::Ordering::SeqCst;

use sandbar_core::{Error, ErrorCode};
use sandbar_interleave::thread;

use super::{
    FOREVER, SOON, code,
    scene::{Scene, under_every_schedule, under_many_schedules},
};
use crate::admission::ExclusiveWork;

fn destroy(scene: &Scene) {
    destroy_with(scene, || true);
}

fn destroy_with(scene: &Scene, cancel: impl FnMut() -> bool) {
    match scene.lock.enter_to_destroy(SOON, cancel) {
        Ok(entry) => {
            scene.work_alone();
            scene.destroyed.fetch_add(1, SeqCst);
            entry.leave_for_good();
        }
        Err(refusal) => {
            assert_eq!(
                refusal.code(),
                ErrorCode::SessionNotFound,
                "a destroyer gave up"
            );
            assert_eq!(
                scene.destroyed.load(SeqCst),
                1,
                "refused as gone before it was destroyed"
            );
        }
    }
}

/// Enters to destroy and fails, as when the storage cannot delete the volume.
fn fail_to_destroy(scene: &Scene) {
    match scene.lock.enter_to_destroy(SOON, || true) {
        Ok(_entry) => scene.work_alone(),
        Err(refusal) => scene.expect_refusal(&refusal),
    }
}

/// Whether a destroyer was announced. In a scene whose destroyers never fail, that is final.
fn is_doomed(scene: &Scene) -> bool {
    let state = scene.lock.state();
    state.destroyers > 0 || state.gone
}

fn expect_doom(refusal: &Error) {
    assert!(
        matches!(
            refusal.code(),
            ErrorCode::SessionDestroying | ErrorCode::SessionNotFound
        ),
        "{refusal}"
    );
}

fn newcomer(scene: &Scene) {
    let doomed = is_doomed(scene);
    match scene.lock.enter_shared() {
        Ok(_entry) => {
            assert!(
                !doomed,
                "a tool was admitted while a destroyer is announced"
            );
            scene.work_beside_others();
        }
        Err(refusal) if doomed => expect_doom(&refusal),
        Err(refusal) => scene.expect_refusal(&refusal),
    }
}

/// Holds a shared entry while it asks for another one.
fn tool(scene: &Scene) {
    let _entry = scene.lock.enter_shared();
    newcomer(scene);
}

fn roll_back(scene: &Scene) {
    let doomed = is_doomed(scene);
    match scene.lock.enter_exclusive(ExclusiveWork::RollingBack, SOON) {
        Ok(_entry) => {
            assert!(
                !doomed,
                "a rollback was admitted while a destroyer is announced"
            );
            scene.work_alone();
        }
        Err(refusal) if doomed => expect_doom(&refusal),
        Err(refusal) => scene.expect_refusal(&refusal),
    }
}

#[test]
fn announced_destroyer_refuses_every_other_entry() {
    under_every_schedule(&[destroy, tool], Scene::assert_gone);
    under_every_schedule(&[destroy, roll_back], Scene::assert_gone);
    under_every_schedule(&[destroy, roll_back, newcomer], Scene::assert_gone);
    under_every_schedule(&[destroy, roll_back, tool], Scene::assert_gone);
    under_many_schedules(
        &[destroy, roll_back, roll_back, tool, tool, tool],
        Scene::assert_gone,
    );
}

/// Holds the exclusive entry until a destroyer is announced.
fn rollback_that_makes_a_destroyer_wait(scene: &Scene) {
    let Ok(entry) = scene.lock.enter_exclusive(ExclusiveWork::RollingBack, SOON) else {
        return;
    };
    while code(scene.lock.enter_shared()) != ErrorCode::SessionDestroying {
        thread::yield_now();
    }
    assert_eq!(
        code(scene.lock.enter_exclusive(ExclusiveWork::Pausing, SOON)),
        ErrorCode::SessionDestroying
    );
    drop(entry);
    expect_doom(&scene.lock.enter_shared().unwrap_err());
    expect_doom(
        &scene
            .lock
            .enter_exclusive(ExclusiveWork::Pausing, SOON)
            .unwrap_err(),
    );
}

#[test]
fn destroyer_waiting_for_a_rollback_is_next() {
    under_every_schedule(
        &[destroy, rollback_that_makes_a_destroyer_wait],
        Scene::assert_gone,
    );
    under_every_schedule(
        &[destroy, rollback_that_makes_a_destroyer_wait, newcomer],
        Scene::assert_gone,
    );
}

#[test]
fn concurrent_destroyers_both_end_and_one_destroys() {
    under_every_schedule(&[destroy, destroy], Scene::assert_gone);
    under_every_schedule(&[destroy, destroy, roll_back], Scene::assert_gone);
    under_every_schedule(&[destroy, destroy, tool], Scene::assert_gone);
    under_many_schedules(
        &[destroy, destroy, destroy, roll_back, tool, tool],
        Scene::assert_gone,
    );
}

#[test]
fn failed_destroyer_leaves_the_session_to_the_next() {
    under_every_schedule(&[fail_to_destroy, destroy], Scene::assert_gone);
    under_every_schedule(&[fail_to_destroy, fail_to_destroy], Scene::assert_open);
    under_every_schedule(
        &[fail_to_destroy, destroy, patient_rollback],
        Scene::assert_gone,
    );
    under_many_schedules(
        &[
            fail_to_destroy,
            fail_to_destroy,
            fail_to_destroy,
            patient_rollback,
        ],
        Scene::assert_open,
    );
}

fn patient_rollback(scene: &Scene) {
    scene.try_alone(ExclusiveWork::RollingBack, FOREVER);
}

#[test]
fn leaving_wakes_every_waiter() {
    under_every_schedule(&[tool, patient_rollback, destroy], Scene::assert_gone);
    under_many_schedules(
        &[
            tool,
            tool,
            patient_rollback,
            patient_rollback,
            destroy,
            destroy,
        ],
        Scene::assert_gone,
    );
}

fn endless_tool(scene: &Scene) {
    if let Ok(_entry) = scene.lock.enter_shared() {
        scene.work_until_cancelled();
    }
}

fn cancel_and_destroy(scene: &Scene) {
    destroy_with(scene, || scene.cancel());
}

#[test]
fn destroyer_cancels_tools_that_never_end() {
    under_every_schedule(&[endless_tool, cancel_and_destroy], Scene::assert_gone);
    under_every_schedule(
        &[endless_tool, cancel_and_destroy, cancel_and_destroy],
        Scene::assert_gone,
    );
    under_every_schedule(
        &[endless_tool, roll_back, cancel_and_destroy],
        Scene::assert_gone,
    );
    under_many_schedules(
        &[
            endless_tool,
            endless_tool,
            endless_tool,
            roll_back,
            cancel_and_destroy,
            cancel_and_destroy,
        ],
        Scene::assert_gone,
    );
}
