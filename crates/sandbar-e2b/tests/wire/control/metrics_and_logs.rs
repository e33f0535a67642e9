//! Metrics and logs of sandboxes.

use serde_json::json;

use super::{assert_refused, moment};
use crate::world::World;

#[test]
fn new_sandbox_has_metrics_at_once() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        world
            .shell(&sandbox, "head -c 1000000 /dev/zero > /zeroes; sync")
            .await;
        let metrics = world
            .get(&format!("/sandboxes/{}/metrics", sandbox.id))
            .await
            .json();
        let metric = &metrics[0];
        for field in [
            "timestampUnix",
            "cpuCount",
            "memUsed",
            "memTotal",
            "memCache",
            "diskUsed",
            "diskTotal",
        ] {
            assert!(metric[field].is_u64(), "{field}: {metric}");
        }
        assert!(
            metric["cpuUsedPct"]
                .as_f64()
                .is_some_and(|share| (0.0..=100.0).contains(&share))
        );
        assert_eq!(
            moment(&metric["timestamp"]).as_second(),
            metric["timestampUnix"].as_i64().unwrap()
        );
        assert!(metric["memTotal"].as_u64() > metric["memUsed"].as_u64());
    });
}

#[test]
fn metrics_are_filtered_by_time() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let path = format!("/sandboxes/{}/metrics", sandbox.id);
        let now = jiff::Timestamp::now().as_second();
        assert_eq!(world.get(&path).await.json().as_array().unwrap().len(), 1);
        let count = async |query: String| {
            world
                .get(&format!("{path}?{query}"))
                .await
                .json()
                .as_array()
                .unwrap()
                .len()
        };
        assert_eq!(
            count(format!("start={}&end={}", now - 60, now + 60)).await,
            1
        );
        assert_eq!(count(format!("start={}", now + 3600)).await, 0);
        assert_eq!(count(format!("end={}", now - 3600)).await, 0);
        for query in ["start=x", "end=-1", "start=20&end=10"] {
            assert_refused(&world.get(&format!("{path}?{query}")).await, 400, &[]);
        }
        assert_refused(&world.get("/sandboxes/nonesuch/metrics").await, 404, &[]);
    });
}

#[test]
fn metrics_of_several_sandboxes_are_in_one_response() {
    World::run(async |world| {
        let (one, other) = (world.sandbox().await, world.sandbox().await);
        let path = format!(
            "/sandboxes/metrics?sandbox_ids={},{},nonesuch",
            one.id, other.id
        );
        let answer = world.get(&path).await.json();
        let sandboxes = answer["sandboxes"].as_object().unwrap();
        assert_eq!(sandboxes.len(), 2);
        assert!(
            sandboxes[&one.id]["memTotal"].is_u64() && sandboxes[&other.id]["cpuCount"].is_u64()
        );
        assert_refused(
            &world.get("/sandboxes/metrics").await,
            400,
            &["sandbox_ids"],
        );
    });
}

#[test]
fn log_lists_calls_in_order() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        world.pause(&sandbox).await;
        world.connect(&sandbox).await;
        let (first, second) = (
            format!("/sandboxes/{}/logs", sandbox.id),
            format!("/v2/sandboxes/{}/logs", sandbox.id),
        );
        let log = world.get(&second).await.json();
        let entries = log["logs"].as_array().unwrap();
        for entry in entries {
            assert!(
                entry["message"].is_string()
                    && entry["fields"].is_object()
                    && entry["level"].is_string(),
                "{entry}"
            );
            assert!(
                entry["fields"]
                    .as_object()
                    .unwrap()
                    .values()
                    .all(serde_json::Value::is_string),
                "{entry}"
            );
        }
        let times: Vec<_> = entries
            .iter()
            .map(|entry| moment(&entry["timestamp"]))
            .collect();
        assert!(times.is_sorted() && times.len() >= 3);
        let back = world
            .get(&format!("{second}?direction=backward&limit=1"))
            .await
            .json();
        assert_eq!(
            back["logs"][0]["timestamp"],
            entries.last().unwrap()["timestamp"]
        );
        let old = world.get(&first).await.json();
        assert_eq!(
            old["logs"].as_array().unwrap().len(),
            old["logEntries"].as_array().unwrap().len()
        );
        assert!(old["logs"][0]["line"].is_string());
        let late = world.get(&format!("{second}?cursor=99999999999999")).await;
        assert!(
            late.json()["logs"].as_array().is_some_and(Vec::is_empty),
            "{}",
            late.text()
        );
    });
}

#[test]
fn log_is_searchable_and_invalid_queries_are_refused() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let path = format!("/v2/sandboxes/{}/logs", sandbox.id);
        assert!(
            world.get(&format!("{path}?search=nonesuch")).await.json()["logs"]
                .as_array()
                .unwrap()
                .is_empty()
        );
        assert!(
            !world.get(&format!("{path}?search=create")).await.json()["logs"]
                .as_array()
                .unwrap()
                .is_empty()
        );
        assert!(
            world.get(&format!("{path}?level=error")).await.json()["logs"]
                .as_array()
                .unwrap()
                .is_empty()
        );
        for query in ["limit=1001", "level=loud", "direction=up", "cursor=x"] {
            assert_refused(
                &world.get(&format!("{path}?{query}")).await,
                400,
                &[query.split('=').next().unwrap()],
            );
        }
        assert_refused(&world.get("/v2/sandboxes/nonesuch/logs").await, 404, &[]);
        assert_eq!(
            world
                .post("/v2/sandboxes", json!({ "templateID": "base" }))
                .await
                .status,
            201
        );
    });
}
