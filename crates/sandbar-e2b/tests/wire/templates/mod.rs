//! `Template.build`, call by call as the SDKs make them.

mod copies;
mod failures;
mod images;
mod layers;
mod names;
mod programs;
mod support;
mod uploads;

use serde_json::json;

use crate::world::World;
use support::{Wanted, built, content, run, step};

#[test]
fn sandbox_starts_with_the_settings_of_its_template() {
    World::run(async |world| {
        let steps = json!([
            step(
                "ENV",
                &[
                    "COLOUR",
                    "blue",
                    "SHADE",
                    "dark-$COLOUR",
                    "PATH",
                    "/opt/tool:$PATH"
                ]
            ),
            // Relative to the root without an earlier WORKDIR.
            step("WORKDIR", &["srv"]),
            step("WORKDIR", &["app"]),
            step("RUN", &["id -un > who; pwd > where; echo $COLOUR > colour"]),
            step("RUN", &["id -un > /etc/by-root", "root"]),
            step("USER", &["worker"]),
            step("RUN", &["id -un > ~/me"]),
        ]);
        let wanted = Wanted {
            cpu_count: 1,
            memory_mb: 256,
            ..Wanted::new("coloured")
        };
        let status = built(
            world,
            &wanted,
            json!({ "fromTemplate": "base", "steps": steps }),
        )
        .await;
        assert_eq!(status["status"], "ready", "{status}");
        let sandbox = world
            .sandbox_with(json!({ "templateID": "coloured", "timeout": 300 }))
            .await;
        let read = async |path: &str| content(world, &sandbox.id, path).await;
        assert_eq!(read("/srv/app/who").await, "user\n");
        assert_eq!(read("/srv/app/where").await, "/srv/app\n");
        assert_eq!(read("/srv/app/colour").await, "blue\n");
        assert_eq!(read("/etc/by-root").await, "root\n");
        assert_eq!(read("/home/worker/me").await, "worker\n");
        let said = run(
            world,
            &sandbox.id,
            "echo $COLOUR $SHADE; echo $PATH | cut -d: -f1",
        )
        .await;
        assert_eq!(said, "blue dark-\n/opt/tool\n");
        let detail = world
            .control("GET", &format!("/sandboxes/{}", sandbox.id), None)
            .await
            .json();
        assert_eq!(
            (&detail["cpuCount"], &detail["memoryMB"]),
            (&1.into(), &256.into())
        );
        assert_eq!(detail["alias"], "coloured");
    });
}

#[test]
fn template_inherits_the_settings_of_its_parent() {
    World::run(async |world| {
        let first = json!({ "fromImage": "e2bdev/base", "steps": [
            step("ENV", &["A", "1"]),
            step("WORKDIR", &["/srv"]),
            step("RUN", &["echo first > /home/user/first"]),
        ] });
        assert_eq!(
            built(world, &Wanted::new("first"), first).await["status"],
            "ready"
        );
        let second = json!({ "fromTemplate": "first", "steps": [
            step("ENV", &["B", "$A$A"]),
            step("RUN", &["cat first second > both; pwd >> both"]),
            step("RUN", &["true"]),
        ] });
        let status = built(world, &Wanted::new("second"), second).await;
        // The file does not exist in the WORKDIR of the parent.
        assert_eq!(
            (status["status"].as_str(), status["reason"]["step"].as_str()),
            (Some("error"), Some("2"))
        );
        let second = json!({ "fromTemplate": "first", "steps": [
            step("ENV", &["B", "$A$A"]),
            step("RUN", &["(cat ~/first; pwd; echo $B) > /home/user/both"]),
        ] });
        assert_eq!(
            built(world, &Wanted::new("second"), second).await["status"],
            "ready"
        );
        let sandbox = world.sandbox_with(json!({ "templateID": "second" })).await;
        assert_eq!(
            content(world, &sandbox.id, "/home/user/both").await,
            "first\n/srv\n11\n"
        );
    });
}
