//! Sandboxes and their life.

use crate::world::World;

#[test]
fn a_sandbox_is_made_found_and_killed() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        assert_eq!(sandbox.http("GET", "/health", "").await.status, 204);
        let found = world.control("GET", &format!("/sandboxes/{}", sandbox.id), None).await;
        assert_eq!((found.status.as_u16(), found.json()["state"].as_str()), (200, Some("running")));
        assert_eq!(world.control("DELETE", &format!("/sandboxes/{}", sandbox.id), None).await.status, 204);
        assert_eq!(world.control("DELETE", &format!("/sandboxes/{}", sandbox.id), None).await.status, 404);
        let gone = sandbox.http("GET", "/health", "").await;
        assert_eq!((gone.status.as_u16(), gone.json()["message"].as_str()), (502, Some("The sandbox was not found")));
    });
}

#[test]
fn a_call_without_a_key_or_with_a_wrong_one_is_refused() {
    World::run(async |world| {
        for headers in [&[][..], &[("x-api-key", "e2b_00")]] {
            let answer = world.control_with("GET", "/sandboxes/s1", headers, None).await;
            assert_eq!((answer.status.as_u16(), answer.json()["code"].as_u64()), (401, Some(401)));
        }
    });
}
