//! Admission: what a runtime accepts and rejects.

use sandbar_core::{ByteCount, ErrorCode, NetworkPolicy, Resources, RuntimeKind};

use crate::world::World;

pub(crate) fn unsupported_request_is_rejected_by_field(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let runtime = world.runtime();
        assert_eq!(runtime.kind(), kind);
        assert!(
            runtime.isolation().starts_with(kind.as_str()),
            "{}",
            runtime.isolation()
        );
        let plain = Resources::default();
        runtime.admit(&plain, None).unwrap();
        runtime
            .admit(
                &Resources {
                    open_files: Some(10),
                    ..plain.clone()
                },
                None,
            )
            .unwrap();
        for policy in [NetworkPolicy::none(), NetworkPolicy::full()] {
            let answer = runtime.admit(&plain, Some(&policy));
            if kind == RuntimeKind::None && !policy.is_unrestricted() {
                // It cannot keep anything off the network.
                let error = answer.unwrap_err();
                assert_eq!(
                    (error.code(), error.field()),
                    (ErrorCode::InvalidArgument, Some("network"))
                );
                assert!(error.hint().is_some());
            } else {
                answer.unwrap();
            }
        }
    });
}

pub(crate) fn limits_are_admitted_if_enforceable(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let runtime = world.runtime();
        let plain = Resources::default();
        let wishes = [
            (
                "resources.cpus",
                Resources {
                    cpus: Some(0.5),
                    ..plain.clone()
                },
            ),
            (
                "resources.memory",
                Resources {
                    memory: Some(ByteCount::mib(64)),
                    ..plain.clone()
                },
            ),
            (
                "resources.pids",
                Resources {
                    pids: Some(10),
                    ..plain
                },
            ),
        ];
        for (field, wish) in wishes {
            match (runtime.facts().limits.reason(), runtime.admit(&wish, None)) {
                (None, answer) => answer.unwrap(),
                (Some(reason), answer) => {
                    let error = answer.unwrap_err();
                    assert_eq!(
                        (error.code(), error.field()),
                        (ErrorCode::InvalidArgument, Some(field))
                    );
                    assert!(error.to_string().contains(reason), "{error}");
                }
            }
        }
    });
}
