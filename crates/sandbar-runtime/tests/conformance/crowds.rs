//! Many concurrent commands and boxes.

use bytes::Bytes;
use sandbar_core::{Resources, RuntimeKind};
use sandbar_runtime::{ExecEvent, ExecSpec, RunningCommand, StdinMode};

use crate::{
    test_box::{Ended, TestBox},
    world::World,
};

/// Number of concurrent boxes that a small test machine can run.
fn many_boxes(kind: RuntimeKind) -> usize {
    match kind {
        RuntimeKind::Gvisor => 8,
        RuntimeKind::Native | RuntimeKind::None => 200,
    }
}

/// Starts `cat` and talks to it once.
async fn conversation(test_box: &TestBox, number: usize) -> RunningCommand {
    let spec = ExecSpec {
        stdin: StdinMode::Piped,
        ..ExecSpec::new(["cat"])
    };
    let mut command = test_box.start(spec).await.unwrap();
    let word = Bytes::from(format!("word {number}\n"));
    command.stdin().unwrap().write(word.clone()).await.unwrap();
    assert_eq!(command.next_event().await, Some(ExecEvent::Stdout(word)));
    command
}

async fn farewell(command: RunningCommand) {
    command.stdin().unwrap().close();
    let ended = Ended::of(command).await;
    assert_eq!((ended.status.code, ended.stdout.as_str()), (Some(0), ""));
}

pub(crate) fn two_hundred_commands_in_one_box_run_concurrently(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let starting: Vec<_> = (0..200)
            .map(|number| {
                let test_box = TestBox::clone(world);
                tokio::spawn(async move { conversation(&test_box, number).await })
            })
            .collect();
        let mut running = Vec::new();
        for command in starting {
            running.push(command.await.unwrap());
        }
        assert_eq!(world.count("cat\0").await, 200);
        for command in running {
            farewell(command).await;
        }
        assert_eq!(
            world.finish(ExecSpec::new(["true"])).await.status.code,
            Some(0)
        );
    });
}

pub(crate) fn two_hundred_boxes_run_concurrently(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let mut boxes = Vec::new();
        for number in 0..many_boxes(kind) {
            let one = world.open_box(&format!("crowd-{number}"), &Resources::default());
            let command = conversation(&one, number).await;
            std::fs::write(one.path_inside("workspace/mine"), number.to_string()).unwrap();
            boxes.push((one, command));
        }
        for (number, (one, command)) in boxes.into_iter().enumerate() {
            assert!(one.is_alive());
            assert_eq!(
                one.finish(ExecSpec::new(["cat", "mine"])).await.stdout,
                number.to_string()
            );
            farewell(command).await;
            one.stop().await;
            assert!(one.on_host().is_empty());
        }
    });
}

pub(crate) fn concurrent_commands_keep_their_output_apart(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let callers: Vec<_> = (0..8)
            .map(|caller| {
                let test_box = TestBox::clone(world);
                tokio::spawn(async move {
                    for round in 0..10 {
                        let word = format!("caller {caller} round {round}");
                        assert_eq!(
                            test_box
                                .finish(ExecSpec::new(["printf", "%s", &word]))
                                .await
                                .stdout,
                            word
                        );
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.await.unwrap();
        }
    });
}
