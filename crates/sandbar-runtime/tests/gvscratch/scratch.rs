use crate::world::{World, shell};
use sandbar_core::RuntimeKind;
use sandbar_runtime::ExecSpec;
use std::time::Instant;
#[test]
fn scratch_timing() {
    World::run(RuntimeKind::Gvisor, async |world| {
        for _ in 0..5 {
            let t = Instant::now();
            world.finish(ExecSpec::new(["/workspace/p", "true"])).await;
            eprintln!("exec p {:?}", t.elapsed());
        }
        for _ in 0..5 {
            let t = Instant::now();
            world.finish(ExecSpec::new(["true"])).await;
            eprintln!("exec true {:?}", t.elapsed());
        }
        let mut all = vec![];
        for _ in 0..50 {
            let t = Instant::now();
            world.finish(ExecSpec::new(["/workspace/p", "true"])).await;
            all.push(t.elapsed());
        }
        all.sort();
        eprintln!("p50 p {:?}", all[25]);
        let e = world.finish(ExecSpec::new(["/workspace/p", "bench", "50", "/workspace/p"])).await;
        eprintln!("inside: {}", e.stdout);
        let e = world.finish(shell("cat /proc/self/status; cat /proc/mounts; id; hostname; echo /proc/1/root/* /proc/1/cwd/*; cat /proc/self/cgroup; mount -t tmpfs none /tmp; ls /dev; tty")).await;
        eprintln!("{}{}", e.stdout, e.stderr);
        for i in 0..5 {
            let t = Instant::now();
            let s = world.open_another(&format!("s{i}")).await;
            let a = t.elapsed();
            world.finish_in(&s, ExecSpec::new(["true"])).await;
            let b = t.elapsed();
            let t = Instant::now();
            let s2 = s.clone();
            tokio::task::spawn_blocking(move || s2.stop()).await.unwrap().unwrap();
            eprintln!("open {a:?} first output {b:?} stop {:?}", t.elapsed());
            tokio::time::sleep(std::time::Duration::from_millis(400)).await;
        }
        let t = Instant::now();
        let f = world.runtime().facts().clone();
        eprintln!("facts {:?} {f:?}\n{}", t.elapsed(), world.runtime().isolation());
    });
}
