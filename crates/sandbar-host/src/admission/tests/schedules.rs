//! Tools, pauses and rollbacks under every schedule.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use sandbar_core::ErrorCode;
use sandbar_interleave::thread;

use super::{
    FOREVER, SOON,
    scene::{Scene, under_every_schedule, under_many_schedules, unwinding},
};
use crate::admission::ExclusiveWork;

fn tool(scene: &Scene) {
    match scene.lock.enter_shared() {
        Ok(_entry) => scene.work_beside_others(),
        Err(refusal) => scene.expect_refusal(&refusal),
    }
}

fn pause(scene: &Scene) {
    scene.try_alone(ExclusiveWork::Pausing, SOON);
}

fn roll_back(scene: &Scene) {
    scene.try_alone(ExclusiveWork::RollingBack, SOON);
}

fn hibernate(scene: &Scene) {
    scene.try_alone(ExclusiveWork::Hibernating, SOON);
}

fn failed_destroy(scene: &Scene) {
    scene.try_alone(ExclusiveWork::Destroying, SOON);
}

#[test]
fn exclusive_work_overlaps_nothing_and_reopens_the_lock() {
    under_every_schedule(&[tool, pause], Scene::assert_open);
    under_every_schedule(&[pause, roll_back], Scene::assert_open);
    under_every_schedule(&[tool, pause, roll_back], Scene::assert_open);
    under_every_schedule(&[tool, tool, hibernate], Scene::assert_open);
    under_every_schedule(&[tool, roll_back, failed_destroy], Scene::assert_open);
    under_many_schedules(
        &[tool, tool, pause, roll_back, hibernate, failed_destroy],
        Scene::assert_open,
    );
}

/// Pauses as the host does: records the pause while it holds the exclusive entry.
fn pause_and_acknowledge(scene: &Scene) {
    if let Ok(entry) = scene.lock.enter_exclusive(ExclusiveWork::Pausing, SOON) {
        thread::step();
        scene.paused.store(true, SeqCst);
        drop(entry);
        scene.acknowledged.store(true, SeqCst);
    }
}

fn tool_that_checks_the_record(scene: &Scene) {
    let Ok(_entry) = scene.lock.enter_shared() else {
        return;
    };
    thread::step();
    if !scene.paused.load(SeqCst) {
        thread::step();
        assert!(
            !scene.acknowledged.load(SeqCst),
            "a tool works in a session that was paused"
        );
        scene.work_beside_others();
        assert!(
            !scene.acknowledged.load(SeqCst),
            "a pause was acknowledged while a tool works"
        );
    }
}

#[test]
fn no_tool_runs_after_a_pause_is_acknowledged() {
    let (pauses, tool) = (pause_and_acknowledge, tool_that_checks_the_record);
    under_every_schedule(&[tool, pauses], Scene::assert_open);
    under_every_schedule(&[tool, tool, pauses], Scene::assert_open);
    under_many_schedules(&[tool, tool, tool, pauses, roll_back], Scene::assert_open);
}

fn roll_back_without_timeout(scene: &Scene) {
    let _entry = scene
        .lock
        .enter_exclusive(ExclusiveWork::RollingBack, FOREVER)
        .expect("no other exclusive operation in this scene");
    scene.work_alone();
    scene.rolled_back.store(true, SeqCst);
}

/// Asks for entry repeatedly. Once refused, it must not be admitted before the rollback is done.
fn newcomer(scene: &Scene) {
    for _ in 0..3 {
        let refused = scene.refused.load(SeqCst);
        match scene.lock.enter_shared() {
            Ok(_entry) => {
                assert!(
                    !refused || scene.rolled_back.load(SeqCst),
                    "a newcomer overtakes a drain"
                );
                scene.work_beside_others();
            }
            Err(refusal) => {
                assert_eq!(refusal.code(), ErrorCode::RollbackInProgress);
                scene.refused.store(true, SeqCst);
            }
        }
    }
}

#[test]
fn drain_ends_despite_any_number_of_new_callers() {
    let rolls_back = roll_back_without_timeout;
    let rolled_back = |scene: &Scene| {
        assert!(scene.rolled_back.load(SeqCst));
        scene.assert_open();
    };
    under_every_schedule(&[newcomer, rolls_back], rolled_back);
    under_every_schedule(&[newcomer, newcomer, rolls_back], rolled_back);
    under_many_schedules(
        &[newcomer, newcomer, newcomer, newcomer, rolls_back],
        rolled_back,
    );
}

/// Holds a shared entry until a drain has timed out.
fn tool_that_outlasts_a_pause(scene: &Scene) {
    let _entry = scene
        .lock
        .enter_shared()
        .expect("the lock is open at first");
    let refusal = scene
        .lock
        .enter_exclusive(ExclusiveWork::Pausing, SOON)
        .unwrap_err();
    assert_eq!(refusal.code(), ErrorCode::ToolsInFlight);
    drop(
        scene
            .lock
            .enter_shared()
            .expect("the lock reopens after the drain times out"),
    );
}

#[test]
fn drain_past_its_timeout_reopens_with_others_arriving() {
    under_every_schedule(&[tool_that_outlasts_a_pause, tool], Scene::assert_open);
    under_every_schedule(
        &[tool_that_outlasts_a_pause, tool, tool],
        Scene::assert_open,
    );
    under_many_schedules(
        &[tool_that_outlasts_a_pause, tool, tool, tool],
        Scene::assert_open,
    );
}

fn tool_that_unwinds(scene: &Scene) {
    unwinding(|| tool(scene));
    unwinding(|| {
        let _entry = scene.lock.enter_shared();
        thread::step();
        std::panic::resume_unwind(Box::new("inside"));
    });
}

fn pause_that_unwinds(scene: &Scene) {
    unwinding(|| {
        let _entry = scene.lock.enter_exclusive(ExclusiveWork::Pausing, SOON);
        thread::step();
        std::panic::resume_unwind(Box::new("inside"));
    });
}

fn destroyer_that_unwinds(scene: &Scene) {
    unwinding(|| {
        let _entry = scene.lock.enter_to_destroy(SOON, || {
            std::panic::resume_unwind(Box::new("while it cancels"))
        });
        thread::step();
        std::panic::resume_unwind(Box::new("inside"));
    });
}

#[test]
fn unwinding_caller_leaves_the_lock_open() {
    let (tool, pause, destroyer) = (
        tool_that_unwinds,
        pause_that_unwinds,
        destroyer_that_unwinds,
    );
    under_every_schedule(&[tool, pause], Scene::assert_open);
    under_every_schedule(&[tool, destroyer], Scene::assert_open);
    under_every_schedule(&[tool, pause, destroyer], Scene::assert_open);
    under_many_schedules(
        &[tool, tool, pause, destroyer, destroyer, roll_back],
        Scene::assert_open,
    );
}

#[test]
fn zero_timeout_leaves_the_lock_open() {
    fn pause_at_once(scene: &Scene) {
        scene.try_alone(ExclusiveWork::Pausing, Duration::ZERO);
    }
    under_every_schedule(&[tool, pause_at_once], Scene::assert_open);
    under_every_schedule(&[tool, pause_at_once, failed_destroy], Scene::assert_open);
}

/// Extends the expiry of a session, as the host does.
fn extend(scene: &Scene) {
    match scene.lock.enter_shared_waiting() {
        Ok(_entry) => scene.work_beside_others(),
        Err(refusal) => assert_ne!(
            refusal.code(),
            ErrorCode::SessionPaused,
            "refused by a pause it should have waited for"
        ),
    }
}

fn pause_that_gives_way(scene: &Scene) {
    match scene
        .lock
        .enter_exclusive_yielding(ExclusiveWork::Pausing, FOREVER)
    {
        Ok(_entry) => scene.work_alone(),
        Err(refusal) => scene.expect_refusal(&refusal),
    }
}

#[test]
fn waiting_entry_follows_a_pause_or_makes_it_yield() {
    under_every_schedule(&[extend, pause], Scene::assert_open);
    under_every_schedule(&[extend, pause_that_gives_way], Scene::assert_open);
    under_every_schedule(&[tool, extend, pause_that_gives_way], Scene::assert_open);
    under_every_schedule(&[extend, extend, pause_that_gives_way], Scene::assert_open);
    under_every_schedule(&[extend, pause, roll_back], Scene::assert_open);
    under_every_schedule(
        &[extend, pause_that_gives_way, failed_destroy],
        Scene::assert_open,
    );
    let all = [
        tool,
        tool,
        extend,
        extend,
        pause,
        pause_that_gives_way,
        failed_destroy,
    ];
    under_many_schedules(&all, Scene::assert_open);
}
