//! What must hold whoever comes when: tools, pauses, rollbacks.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use sandbar_core::ErrorCode;
use sandbar_interleave::thread;

use super::{
    FOREVER, SOON,
    scene::{Scene, under_every_schedule, under_many_schedules, unwinding},
};
use crate::gate::Closing;

fn tool(scene: &Scene) {
    match scene.gate.enter_shared() {
        Ok(_entry) => scene.work_beside_others(),
        Err(refusal) => scene.expect_refusal(&refusal),
    }
}

fn pause(scene: &Scene) {
    scene.try_alone(Closing::Pausing, SOON);
}

fn roll_back(scene: &Scene) {
    scene.try_alone(Closing::RollingBack, SOON);
}

fn hibernate(scene: &Scene) {
    scene.try_alone(Closing::Hibernating, SOON);
}

fn destroy_in_vain(scene: &Scene) {
    scene.try_alone(Closing::Destroying, SOON);
}

#[test]
fn exclusive_work_overlaps_with_nothing_and_leaves_the_gate_open() {
    under_every_schedule(&[tool, pause], Scene::assert_open);
    under_every_schedule(&[pause, roll_back], Scene::assert_open);
    under_every_schedule(&[tool, pause, roll_back], Scene::assert_open);
    under_every_schedule(&[tool, tool, hibernate], Scene::assert_open);
    under_every_schedule(&[tool, roll_back, destroy_in_vain], Scene::assert_open);
    under_many_schedules(&[tool, tool, pause, roll_back, hibernate, destroy_in_vain], Scene::assert_open);
}

/// Pauses as the host does: what says so is written while nobody else is inside.
fn pause_and_acknowledge(scene: &Scene) {
    if let Ok(entry) = scene.gate.enter_exclusive(Closing::Pausing, SOON) {
        thread::step();
        scene.paused.store(true, SeqCst);
        drop(entry);
        scene.acknowledged.store(true, SeqCst);
    }
}

fn tool_that_looks_whether_it_may(scene: &Scene) {
    let Ok(_entry) = scene.gate.enter_shared() else { return };
    thread::step();
    if !scene.paused.load(SeqCst) {
        thread::step();
        assert!(!scene.acknowledged.load(SeqCst), "a tool works in a session that was paused");
        scene.work_beside_others();
        assert!(!scene.acknowledged.load(SeqCst), "a pause was acknowledged while a tool works");
    }
}

#[test]
fn no_tool_works_once_a_pause_was_acknowledged() {
    let (pauses, tool) = (pause_and_acknowledge, tool_that_looks_whether_it_may);
    under_every_schedule(&[tool, pauses], Scene::assert_open);
    under_every_schedule(&[tool, tool, pauses], Scene::assert_open);
    under_many_schedules(&[tool, tool, tool, pauses, roll_back], Scene::assert_open);
}

fn roll_back_however_long_it_takes(scene: &Scene) {
    let _entry = scene.gate.enter_exclusive(Closing::RollingBack, FOREVER).expect("there is nobody else to refuse it");
    scene.work_alone();
    scene.rolled_back.store(true, SeqCst);
}

/// Comes again and again. Whoever is refused once is let in when the rollback is done, and not before.
fn newcomer(scene: &Scene) {
    for _ in 0..3 {
        let refused = scene.refused.load(SeqCst);
        match scene.gate.enter_shared() {
            Ok(_entry) => {
                assert!(!refused || scene.rolled_back.load(SeqCst), "a newcomer overtakes a drain");
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
fn a_drain_ends_however_many_come_meanwhile() {
    let rolls_back = roll_back_however_long_it_takes;
    let rolled_back = |scene: &Scene| {
        assert!(scene.rolled_back.load(SeqCst));
        scene.assert_open();
    };
    under_every_schedule(&[newcomer, rolls_back], rolled_back);
    under_every_schedule(&[newcomer, newcomer, rolls_back], rolled_back);
    under_many_schedules(&[newcomer, newcomer, newcomer, newcomer, rolls_back], rolled_back);
}

/// Holds on until somebody has given up waiting for it.
fn tool_that_outlasts_a_pause(scene: &Scene) {
    let _entry = scene.gate.enter_shared().expect("nobody has shut the gate yet");
    let refusal = scene.gate.enter_exclusive(Closing::Pausing, SOON).unwrap_err();
    assert_eq!(refusal.code(), ErrorCode::ToolsInFlight);
    drop(scene.gate.enter_shared().expect("the gate opens again when the drain takes too long"));
}

#[test]
fn a_drain_that_takes_too_long_opens_the_gate_whoever_comes_meanwhile() {
    under_every_schedule(&[tool_that_outlasts_a_pause, tool], Scene::assert_open);
    under_every_schedule(&[tool_that_outlasts_a_pause, tool, tool], Scene::assert_open);
    under_many_schedules(&[tool_that_outlasts_a_pause, tool, tool, tool], Scene::assert_open);
}

fn tool_that_unwinds(scene: &Scene) {
    unwinding(|| tool(scene));
    unwinding(|| {
        let _entry = scene.gate.enter_shared();
        thread::step();
        std::panic::resume_unwind(Box::new("inside"));
    });
}

fn pause_that_unwinds(scene: &Scene) {
    unwinding(|| {
        let _entry = scene.gate.enter_exclusive(Closing::Pausing, SOON);
        thread::step();
        std::panic::resume_unwind(Box::new("inside"));
    });
}

fn destroyer_that_unwinds(scene: &Scene) {
    unwinding(|| {
        let _entry = scene.gate.enter_to_destroy(SOON, || std::panic::resume_unwind(Box::new("while it cancels")));
        thread::step();
        std::panic::resume_unwind(Box::new("inside"));
    });
}

#[test]
fn whoever_unwinds_leaves_the_gate_open() {
    let (tool, pause, destroyer) = (tool_that_unwinds, pause_that_unwinds, destroyer_that_unwinds);
    under_every_schedule(&[tool, pause], Scene::assert_open);
    under_every_schedule(&[tool, destroyer], Scene::assert_open);
    under_every_schedule(&[tool, pause, destroyer], Scene::assert_open);
    under_many_schedules(&[tool, tool, pause, destroyer, destroyer, roll_back], Scene::assert_open);
}

#[test]
fn no_patience_at_all_is_no_reason_to_leave_the_gate_shut() {
    fn pause_at_once(scene: &Scene) {
        scene.try_alone(Closing::Pausing, Duration::ZERO);
    }
    under_every_schedule(&[tool, pause_at_once], Scene::assert_open);
    under_every_schedule(&[tool, pause_at_once, destroy_in_vain], Scene::assert_open);
}

/// Gives a session more time, as the host does.
fn extend(scene: &Scene) {
    match scene.gate.enter_shared_soon() {
        Ok(_entry) => scene.work_beside_others(),
        Err(refusal) => assert_ne!(refusal.code(), ErrorCode::SessionPaused, "told to come again in a moment"),
    }
}

fn pause_that_gives_way(scene: &Scene) {
    match scene.gate.enter_giving_way(Closing::Pausing, FOREVER) {
        Ok(_entry) => scene.work_alone(),
        Err(refusal) => scene.expect_refusal(&refusal),
    }
}

#[test]
fn whoever_waits_for_a_pause_is_let_in_when_it_is_over_or_gives_way() {
    under_every_schedule(&[extend, pause], Scene::assert_open);
    under_every_schedule(&[extend, pause_that_gives_way], Scene::assert_open);
    under_every_schedule(&[tool, extend, pause_that_gives_way], Scene::assert_open);
    under_every_schedule(&[extend, extend, pause_that_gives_way], Scene::assert_open);
    under_every_schedule(&[extend, pause, roll_back], Scene::assert_open);
    under_every_schedule(&[extend, pause_that_gives_way, destroy_in_vain], Scene::assert_open);
    let all = [tool, tool, extend, extend, pause, pause_that_gives_way, destroy_in_vain];
    under_many_schedules(&all, Scene::assert_open);
}
