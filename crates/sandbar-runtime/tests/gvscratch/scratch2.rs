use crate::world::{Ended, World};
use sandbar_core::RuntimeKind;
use sandbar_runtime::ExecSpec;
use std::time::Instant;
#[test]
fn scratch_exec() {
    World::run(RuntimeKind::Gvisor, async |world| {
        for _ in 0..3 {
            let mut all = vec![];
            let mut starts = vec![];
            let mut ends = vec![];
            for _ in 0..150 {
                let t = Instant::now();
                let c = world.start(ExecSpec::new(["/workspace/p", "true"])).await.unwrap();
                let s = t.elapsed();
                Ended::of(c).await;
                all.push(t.elapsed());
                starts.push(s);
                ends.push(t.elapsed() - s);
            }
            all.sort();
            starts.sort();
            ends.sort();
            let e = world.finish(ExecSpec::new(["/workspace/p", "bench", "100", "/workspace/p"])).await;
            eprintln!(
                "exec min {:?} p25 {:?} p50 {:?} start {:?} {:?} end {:?} {:?} inside {}",
                all[0], all[35], all[75], starts[0], starts[35], ends[0], ends[35], e.stdout
            );
        }
    });
}
