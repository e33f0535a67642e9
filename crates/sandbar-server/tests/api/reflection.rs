//! gRPC reflection.

use serde_json::json;

use crate::world::World;

#[test]
fn reflection_lists_the_service_and_its_calls() {
    World::run(async |world| {
        for version in ["v1", "v1alpha"] {
            let method = format!("grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
            let answers = world
                .stream(
                    &method,
                    &[
                        json!({"listServices": ""}),
                        json!({"fileContainingSymbol": "sandbar.v1.SandboxService"}),
                    ],
                )
                .await;
            let services = answers[0]["listServicesResponse"]["service"]
                .as_array()
                .unwrap();
            assert!(
                services.contains(&json!({"name": "sandbar.v1.SandboxService"})),
                "{services:?}"
            );
            assert!(
                !answers[1]["fileDescriptorResponse"]["fileDescriptorProto"]
                    .as_array()
                    .unwrap()
                    .is_empty()
            );
        }
    });
}
