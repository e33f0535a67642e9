//! What must hold when a session is destroyed, whoever else comes.

use std::sync::{Arc, atomic::Ordering::SeqCst};

use sandbar_core::ErrorCode;
use sandbar_interleave::{
    sync::{Condvar, Mutex},
    thread,
};

use super::{
    FOREVER, SOON,
    scene::{Scene, under_every_schedule, under_many_schedules},
};
use crate::gate::Closing;

fn destroy(scene: &Scene) {
    match scene.gate.enter_to_destroy(SOON, || true) {
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

fn tool(scene: &Scene) {
    for _ in 0..2 {
        let doomed = scene.doomed.load(SeqCst);
        match scene.gate.enter_shared() {
            Ok(_entry) => {
                assert!(!doomed, "a tool was let in while somebody destroys the session");
                scene.work_beside_others();
            }
            Err(refusal) => scene.note(&refusal),
        }
    }
}

fn roll_back(scene: &Scene) {
    let doomed = scene.doomed.load(SeqCst);
    match scene.gate.enter_exclusive(Closing::RollingBack, SOON) {
        Ok(_entry) => {
            assert!(!doomed, "a rollback was let in while somebody destroys the session");
            scene.work_alone();
        }
        Err(refusal) => scene.note(&refusal),
    }
}

impl Scene {
    /// In a scene where the destroyer never fails, there is no way back from being destroyed.
    fn note(&self, refusal: &sandbar_core::Error) {
        self.expect_refusal(refusal);
        if refusal.code() == ErrorCode::SessionDestroying {
            self.doomed.store(true, SeqCst);
        }
    }
}

#[test]
fn nobody_is_let_in_from_the_first_refusal_to_the_end_of_the_session() {
    under_every_schedule(&[destroy, tool], Scene::assert_gone);
    under_every_schedule(&[destroy, roll_back], Scene::assert_gone);
    under_every_schedule(&[destroy, roll_back, tool], Scene::assert_gone);
    under_many_schedules(&[destroy, roll_back, roll_back, tool, tool, tool], Scene::assert_gone);
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
    under_every_schedule(&[fail_to_destroy, destroy, roll_back_unless_refused], Scene::assert_gone);
    under_many_schedules(
        &[fail_to_destroy, fail_to_destroy, fail_to_destroy, roll_back_unless_refused],
        Scene::assert_open,
    );
}

fn roll_back_unless_refused(scene: &Scene) {
    scene.try_alone(Closing::RollingBack, FOREVER);
}

#[test]
fn tools_that_end_only_when_they_are_cancelled_do_not_keep_a_destroyer_waiting() {
    let (tools, destroyers) = (Explored { tools: 1, destroyers: 1 }, Explored { tools: 1, destroyers: 2 });
    for explored in [tools, destroyers] {
        sandbar_interleave::Exhaustive::default().preemptions(3).check(|| explored.play());
    }
    sandbar_interleave::Random::new(11, 2000).check(|| Explored { tools: 4, destroyers: 2 }.play());
}

/// A session full of tools that wait to be cancelled.
struct Explored {
    tools: usize,
    destroyers: usize,
}

impl Explored {
    fn play(&self) {
        let gate = super::gate();
        let cancelled = Arc::new((Mutex::new(false), Condvar::new()));
        let tools = (0..self.tools).map(|_| {
            let (gate, cancelled) = (Arc::clone(&gate), Arc::clone(&cancelled));
            thread::spawn(move || {
                let Ok(_entry) = gate.enter_shared() else { return };
                let mut is_cancelled = cancelled.0.lock().unwrap();
                while !*is_cancelled {
                    is_cancelled = cancelled.1.wait(is_cancelled).unwrap();
                }
            })
        });
        let destroyers = (0..self.destroyers).map(|_| {
            let (gate, cancelled) = (Arc::clone(&gate), Arc::clone(&cancelled));
            thread::spawn(move || {
                let cancel = || {
                    *cancelled.0.lock().unwrap() = true;
                    cancelled.1.notify_all();
                    true
                };
                match gate.enter_to_destroy(SOON, cancel) {
                    Ok(entry) => entry.leave_for_good(),
                    Err(refusal) => assert_eq!(refusal.code(), ErrorCode::SessionNotFound),
                }
            })
        });
        let threads: Vec<_> = tools.chain(destroyers).collect();
        threads.into_iter().for_each(thread::JoinHandle::join);
        assert_eq!(super::code(gate.enter_shared()), ErrorCode::SessionNotFound);
    }
}
