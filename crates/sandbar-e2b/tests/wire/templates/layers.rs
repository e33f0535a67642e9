//! The layer cache of builds.

use serde_json::{Value, json};

use super::support::{Wanted, built, content, lines, step};
use crate::world::World;

/// Returns a step with a different result each time it runs.
const RANDOM: &str = "head -c 16 /dev/urandom | od -An -tx1 > ~/random";

async fn random_of(world: &World, name: &str) -> String {
    let sandbox = world.sandbox_with(json!({ "templateID": name })).await;
    content(world, &sandbox.id, "/home/user/random").await
}

fn plan(last: &str, force: bool) -> Value {
    let steps = json!([
        step("ENV", &["A", "1"]),
        step("RUN", &[RANDOM]),
        step("ENV", &["B", "2"]),
        step("RUN", &[last])
    ]);
    json!({ "fromTemplate": "base", "steps": steps, "force": force })
}

#[test]
fn same_first_steps_are_taken_from_the_cache() {
    World::run(async |world| {
        assert_eq!(
            built(world, &Wanted::new("one"), plan("echo $A$B > ~/ab", false)).await["status"],
            "ready"
        );
        let again = built(world, &Wanted::new("two"), plan("echo $A$B > ~/ab", false)).await;
        assert_eq!(
            lines(&again).matches("CACHED [builder").count(),
            4,
            "{}",
            lines(&again)
        );
        let other = built(
            world,
            &Wanted::new("three"),
            plan("echo other $A$B > ~/ab", false),
        )
        .await;
        assert_eq!(
            lines(&other).matches("CACHED [builder").count(),
            2,
            "{}",
            lines(&other)
        );
        let one = random_of(world, "one").await;
        assert_eq!(
            (
                random_of(world, "two").await,
                random_of(world, "three").await
            ),
            (one.clone(), one.clone())
        );
        let sandbox = world.sandbox_with(json!({ "templateID": "three" })).await;
        assert_eq!(
            content(world, &sandbox.id, "/home/user/ab").await,
            "other 12\n"
        );

        let forced = built(world, &Wanted::new("four"), plan("echo $A$B > ~/ab", true)).await;
        assert_eq!(
            lines(&forced).matches("CACHED").count(),
            0,
            "{}",
            lines(&forced)
        );
        assert_ne!(random_of(world, "four").await, one);
    });
}

#[test]
fn forced_step_and_later_steps_run_again() {
    World::run(async |world| {
        let steps = |force: bool| {
            let random = json!({ "type": "RUN", "args": [RANDOM], "force": force });
            json!({ "fromTemplate": "base", "steps": [step("RUN", &["true"]), random, step("RUN", &["echo end"])] })
        };
        assert_eq!(
            built(world, &Wanted::new("one"), steps(false)).await["status"],
            "ready"
        );
        let forced = built(world, &Wanted::new("two"), steps(true)).await;
        assert_eq!(
            lines(&forced).matches("CACHED").count(),
            1,
            "{}",
            lines(&forced)
        );
        assert_ne!(random_of(world, "one").await, random_of(world, "two").await);
    });
}

#[test]
fn rebuilt_template_releases_its_old_base() {
    World::run(async |world| {
        for number in 0..3 {
            let plan = json!({ "fromTemplate": "base", "steps": [step("RUN", &[&format!("echo {number} > ~/random")])] });
            assert_eq!(
                built(world, &Wanted::new("same"), plan).await["status"],
                "ready"
            );
        }
        assert_eq!(random_of(world, "same").await, "2\n");
        let bases = world.host.list_bases().await.unwrap();
        let kept = |prefix: &str| {
            bases
                .iter()
                .filter(|base| base.name.as_str().starts_with(prefix))
                .count()
        };
        assert_eq!(
            (kept("e2b-build-"), kept("e2b-layer-")),
            (1, 3),
            "{bases:?}"
        );
    });
}
