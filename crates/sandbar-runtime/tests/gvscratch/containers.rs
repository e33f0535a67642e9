//! What only gVisor's containers do.

use std::time::Duration;

use sandbar_core::{ByteCount, Resources, RuntimeKind};
use sandbar_runtime::{ExecEvent, ExecSpec, StdinMode};

use crate::world::{Ended, World, shell};

#[test]
fn a_checkpoint_leaves_commands_running_and_a_sandbox_starts_from_it() {
    World::run(RuntimeKind::Gvisor, async |world| {
        world.finish(shell("i=0; while :; do i=$((i+1)); echo $i > /workspace/count.new; mv /workspace/count.new /workspace/count; done &")).await;
        let mut spec = ExecSpec::new(["cat"]);
        spec.stdin = StdinMode::Piped;
        let mut command = world.start(spec).await.unwrap();
        let stdin = command.stdin().unwrap();
        stdin.write("before\n".into()).await.unwrap();
        assert_eq!(command.next_event().await, Some(ExecEvent::Stdout("before\n".into())));
        let image = world.image();
        let count = || {
            std::fs::read_to_string(world.root().join("workspace/count"))
                .ok()
                .and_then(|text| text.trim().parse::<u64>().ok())
                .unwrap_or(0)
        };
        World::wait_for("the counter", || count() > 10).await;
        let t = std::time::Instant::now();
        world.checkpoint(&image).await.unwrap();
        eprintln!("checkpoint {:?}", t.elapsed());
        let then = count();
        World::wait_for("the counter to go on", || count() > then + 10).await;
        stdin.write("after\n".into()).await.unwrap();
        assert_eq!(command.next_event().await, Some(ExecEvent::Stdout("after\n".into())));
        stdin.close();
        assert_eq!(Ended::of(command).await.status.code, Some(0));
        assert_eq!(world.finish(shell("echo new")).await.stdout, "new\n");
        world.stop().await;
        let then = count();
        let t = std::time::Instant::now();
        let restored = world.restore(&image).await;
        eprintln!("restore {:?}", t.elapsed());
        World::wait_for("the counter to go on", || count() != then).await;
        let ended = world.finish_in(&restored, shell("echo in restored; cat")).await;
        assert_eq!(ended.stdout, "in restored\n");
        let s = std::sync::Arc::clone(&restored);
        tokio::task::spawn_blocking(move || s.stop()).await.unwrap().unwrap();
        for f in ["checkpoint.img", "sandbox.json"] {
            std::fs::remove_file(image.join(f)).unwrap();
        }
        std::fs::remove_dir(&image).unwrap();
    });
}
