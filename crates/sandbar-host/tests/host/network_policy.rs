//! Network policies as a host keeps them: persisted, changed while a box runs, and audited. The
//! `network` suite tests their enforcement.

use std::{fs, pin::Pin};

use rusqlite::Connection;
use sandbar_core::{
    ErrorCode, ForkRequest, LaterSnapshots, NetworkPolicy, ProcessInfo, ProcessSpec, ProcessStatus,
    RuntimeKind, SecretName, SecretValue, SessionId, SessionSpec, WaitFor,
};

use crate::fixture::{HostFixture, snap, spec};

type Case<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// An unassigned address (TEST-NET) and an unused port.
const NOWHERE: &str = "203.0.113.7/81";

fn policy(text: &str) -> NetworkPolicy {
    text.parse().unwrap()
}

/// With a secret called `key` in requests to `api.example`.
fn with_secret(text: &str) -> NetworkPolicy {
    let rule = r#"{"host": "api.example", "header": "Authorization", "secret": "key", "format": "Bearer {}"}"#;
    NetworkPolicy {
        secrets: vec![serde_json::from_str(rule).unwrap()],
        ..policy(text)
    }
}

fn machine(id: &str, network: NetworkPolicy) -> SessionSpec {
    SessionSpec {
        base: "host".parse().unwrap(),
        network: Some(network),
        ..spec(id)
    }
}

impl HostFixture {
    async fn put_secret(&self, name: &str, value: &str) {
        let name = SecretName::new(name).unwrap();
        self.host
            .put_secret(&name, SecretValue::new(value).unwrap())
            .await
            .unwrap();
    }

    /// A policy every host takes, also one that cannot keep it.
    fn any_policy(&self) -> NetworkPolicy {
        if self.host.capabilities().network.is_yes()
            || self.host.capabilities().runtime == RuntimeKind::None
        {
            NetworkPolicy {
                required: false,
                ..policy("allow=example.com,udp://192.0.2.1:123")
            }
        } else {
            NetworkPolicy {
                deny_list: vec!["example.com".parse().unwrap()],
                ..NetworkPolicy::none()
            }
        }
    }

    async fn policy_of(&self, id: &SessionId) -> NetworkPolicy {
        let status = self.host.get_network(id).await.unwrap();
        assert_eq!(
            self.host.get_session(id).await.unwrap().network,
            Some(status.policy.clone())
        );
        status.policy
    }

    /// Launches a process that runs for as long as the test, and waits until it is running.
    async fn sleeper(&self, id: &SessionId) -> ProcessInfo {
        let spec = ProcessSpec::new(["sleep", "600"]);
        let process = self.host.launch_process(id, spec).await.unwrap();
        self.host
            .wait_process(id, &process.id, WaitFor::Ready)
            .await
            .unwrap()
    }

    /// Tries to reach an address that leads nowhere; what the shell says about it.
    async fn attempt(&self, id: &SessionId) -> String {
        let script = format!(
            "{{ exec 3<>/dev/tcp/{NOWHERE} && echo hello >&3 && cat <&3; }} 2>&1 | tr -d '\\n'"
        );
        self.shell(id, &format!("bash -c \"{script}\"")).await.0
    }

    /// Decisions about a session, oldest first.
    async fn decisions(&self, id: &SessionId) -> Vec<String> {
        let log = self
            .host
            .audit(id, sandbar_core::AuditQuery::default())
            .await
            .unwrap()
            .items;
        log.into_iter()
            .map(|entry| entry.what)
            .filter(|what| what.starts_with("network_"))
            .collect()
    }
}

pub(crate) fn policy_survives_restart_rollback_and_hibernation(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let chosen = fixture.any_policy();
        let id = fixture
            .make(SessionSpec {
                network: Some(chosen.clone()),
                ..spec("s")
            })
            .await
            .id;
        fixture.snapshot(&id, "one").await;
        fixture.restart().await;
        assert_eq!(fixture.policy_of(&id).await, chosen);
        let fork = fixture
            .host
            .fork_session(
                &id,
                ForkRequest {
                    count: 1,
                    ..ForkRequest::default()
                },
            )
            .await
            .unwrap();
        assert_eq!(fixture.policy_of(&fork[0].id).await, chosen);

        // A rollback does not restore an earlier policy.
        let changed = NetworkPolicy {
            private_ranges: vec!["10.0.0.0/8".parse().unwrap()],
            ..chosen.clone()
        };
        fixture
            .host
            .set_network(&id, changed.clone())
            .await
            .unwrap();
        fixture
            .host
            .rollback_session(&id, &snap("one"), LaterSnapshots::Drop)
            .await
            .unwrap();
        assert_eq!(fixture.policy_of(&id).await, changed);
        fixture.host.hibernate_session(&id).await.unwrap();
        assert_eq!(fixture.policy_of(&id).await, changed);
        fixture.host.set_network(&id, chosen.clone()).await.unwrap();
        fixture.host.wake_session(&id).await.unwrap();
        assert_eq!(fixture.policy_of(&id).await, chosen);
        fixture.restart().await;
        assert_eq!(fixture.policy_of(&id).await, chosen);
        // The copy has gone its own way.
        assert_eq!(fixture.policy_of(&fork[0].id).await, chosen);
    })
}

pub(crate) fn invalid_policy_is_refused_and_changes_nothing(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let chosen = fixture.any_policy();
        let id = fixture
            .make(SessionSpec {
                network: Some(chosen.clone()),
                ..spec("s")
            })
            .await
            .id;
        let unlimited = || NetworkPolicy {
            required: false,
            ..NetworkPolicy::full()
        };
        let mut zero = unlimited();
        zero.limits.connections = Some(0);
        let unreachable = NetworkPolicy {
            allow_list: vec!["other.example".parse().unwrap()],
            ..with_secret("none")
        };
        let mut cases = vec![
            (zero, "network.limits.connections"),
            (unreachable, "network.secrets"),
        ];
        let takes_open = fixture.host.capabilities().network.is_yes()
            || fixture.host.capabilities().runtime == RuntimeKind::None;
        if takes_open {
            let unknown = NetworkPolicy {
                required: false,
                ..with_secret("allow=api.example")
            };
            cases.push((unknown, "network.secrets.secret"));
        }
        for (bad, field) in cases {
            let set = fixture
                .host
                .set_network(&id, bad.clone())
                .await
                .unwrap_err();
            let made = fixture
                .host
                .create_session(SessionSpec {
                    network: Some(bad),
                    ..spec("bad")
                })
                .await
                .unwrap_err();
            for error in [set, made] {
                assert_eq!(
                    (error.code(), error.field()),
                    (ErrorCode::InvalidArgument, Some(field)),
                    "{error}"
                );
                assert!(error.hint().is_some(), "{error}");
            }
            assert_eq!(fixture.policy_of(&id).await, chosen);
        }
        let missing: SessionId = "missing".parse().unwrap();
        for error in [
            fixture.host.get_network(&missing).await.unwrap_err(),
            fixture
                .host
                .set_network(&missing, chosen)
                .await
                .unwrap_err(),
        ] {
            assert_eq!(error.code(), ErrorCode::SessionNotFound);
        }
        fixture.session("bad").await;
    })
}

pub(crate) fn runtime_none_reports_policies_as_not_enforced(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        for required in ["none", "allow=example.com", "deny=example.com"] {
            let spec = SessionSpec {
                network: Some(policy(required)),
                ..spec("s")
            };
            let error = fixture.host.create_session(spec).await.unwrap_err();
            assert_eq!(
                (error.code(), error.field()),
                (ErrorCode::InvalidArgument, Some("network")),
                "{required}"
            );
        }
        fixture.put_secret("key", "hunter2").await;
        let loose = NetworkPolicy {
            required: false,
            ..with_secret("allow=api.example")
        };
        let id = fixture.make(machine("s", loose)).await.id;
        let status = fixture.host.get_network(&id).await.unwrap();
        assert!(
            status.enforced.reason().unwrap().contains("none"),
            "{status:?}"
        );
        assert!(fixture.host.capabilities().network.reason().is_some());
        // Without egress there are no variables for a proxy or a CA.
        let (env, _) = fixture
            .shell(&id, "echo ${http_proxy-none} ${SSL_CERT_FILE-none}")
            .await;
        assert_eq!(env, "none none\n");
    })
}

pub(crate) fn host_without_egress_refuses_sessions_with_a_policy(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let id = fixture
            .make(machine("s", policy("allow=example.com")))
            .await
            .id;
        let mut config = fixture.config.clone();
        config.container_runtime = sandbar_host::RuntimeChoice::Named(RuntimeKind::None);
        fixture.restart_with(config).await;
        let spec = sandbar_core::ExecSpec::new(["true"]);
        let error = fixture.host.exec(&id, spec).await.unwrap_err();
        assert_eq!(error.field(), Some("network"), "{error}");
        assert!(
            !fixture
                .host
                .get_network(&id)
                .await
                .unwrap()
                .enforced
                .is_yes()
        );
        fixture.restart().await;
        assert_eq!(fixture.shell(&id, "echo inside").await.0, "inside\n");
    })
}

pub(crate) fn secret_values_are_stored_in_the_database_only(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        const VALUE: &str = "hunter2-and-then-some";
        fixture.put_secret("key", VALUE).await;
        let id = fixture
            .make(machine("s", with_secret("allow=api.example")))
            .await
            .id;
        let (env, _) = fixture
            .shell(&id, "env; cat /dev/sandbar/authority.crt")
            .await;
        fixture
            .host
            .set_network(&id, with_secret("allow=api.example:443"))
            .await
            .unwrap();
        let log = fixture
            .host
            .audit(&id, sandbar_core::AuditQuery::default())
            .await
            .unwrap();
        let shown = [
            env,
            format!("{:?}", fixture.host),
            format!("{log:?}"),
            format!("{:?}", fixture.host.get_session(&id).await.unwrap()),
            format!("{:?}", fixture.host.list_secrets().await.unwrap()),
            fixture.host.metrics_text().await,
        ];
        for text in shown {
            assert!(!text.contains("hunter2"), "{text}");
        }
        // It survives a restart, and a deletion leaves nothing of it on disk.
        fixture.restart().await;
        let names: Vec<String> = fixture
            .host
            .list_secrets()
            .await
            .unwrap()
            .into_iter()
            .map(|secret| secret.name.to_string())
            .collect();
        assert_eq!(names, ["key"]);
        let key = SecretName::new("key").unwrap();
        fixture.host.delete_secret(&key).await.unwrap();
        assert_eq!(
            fixture.host.delete_secret(&key).await.unwrap_err().code(),
            ErrorCode::SecretNotFound
        );
        assert_eq!(fixture.policy_of(&id).await.secrets.len(), 1);
        fixture.host.shutdown().await.unwrap();
        let path = fixture.config.data_dir.join("state.db");
        Connection::open(&path)
            .unwrap()
            .execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)")
            .unwrap();
        assert!(!String::from_utf8_lossy(&fs::read(&path).unwrap()).contains("hunter2"));
        fixture.restart().await;
    })
}

pub(crate) fn policy_of_a_running_box_is_opened_and_closed(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        assert!(fixture.attempt(&id).await.contains("unreachable"));
        let process = fixture.sleeper(&id).await;
        assert!(
            fixture
                .host
                .get_network(&id)
                .await
                .unwrap()
                .enforced
                .is_yes()
        );

        let status = fixture
            .host
            .set_network(&id, policy("allow=example.com"))
            .await
            .unwrap();
        assert!(
            status.enforced.is_yes() && status.policy == policy("allow=example.com"),
            "{status:?}"
        );
        let said = fixture.attempt(&id).await;
        assert!(!said.contains("unreachable"), "{said}");
        assert_eq!(fixture.decisions(&id).await, ["network_deny"]);
        let (env, _) = fixture
            .shell(&id, "echo $https_proxy $no_proxy ${SSL_CERT_FILE-none}")
            .await;
        assert_eq!(
            env,
            "http://192.0.0.1:3128 localhost,127.0.0.1,::1,0.0.0.0,::,s none\n"
        );

        // Other ports, and back: the listeners stay.
        for other in [
            "allow=example.com,udp://192.0.2.1:123",
            "allow=udp://192.0.2.1:123,udp://192.0.2.1:124",
            "full",
        ] {
            fixture.host.set_network(&id, policy(other)).await.unwrap();
        }
        fixture
            .host
            .set_network(&id, NetworkPolicy::none())
            .await
            .unwrap();
        fixture.attempt(&id).await;
        let denied = fixture.host.get_network(&id).await.unwrap().traffic.denied;
        assert!(denied >= 2, "{denied}");
        let running = fixture
            .host
            .get_process_status(&id, &process.id)
            .await
            .unwrap();
        assert_eq!(
            (running.status, running.pid),
            (ProcessStatus::Running, process.pid)
        );

        // A new box is closed from the start.
        fixture.host.hibernate_session(&id).await.unwrap();
        fixture.host.wake_session(&id).await.unwrap();
        assert!(fixture.attempt(&id).await.contains("unreachable"));
        assert_eq!(
            fixture.host.get_network(&id).await.unwrap().traffic.denied,
            denied
        );
    })
}

pub(crate) fn closed_box_is_replaced_when_nothing_runs(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let process = fixture.sleeper(&id).await;
        let error = fixture
            .host
            .set_network(&id, policy("allow=example.com"))
            .await
            .unwrap_err();
        assert_eq!(
            (error.code(), error.field()),
            (ErrorCode::InvalidState, Some("network")),
            "{error}"
        );
        assert_eq!(fixture.host.get_session(&id).await.unwrap().network, None);
        fixture
            .host
            .kill_process(&id, &process.id, 9)
            .await
            .unwrap();
        fixture
            .host
            .wait_process(&id, &process.id, WaitFor::Exited)
            .await
            .unwrap();
        fixture
            .eventually("the box is empty", async || {
                fixture
                    .host
                    .set_network(&id, policy("allow=example.com"))
                    .await
                    .ok()
            })
            .await;
        assert!(!fixture.attempt(&id).await.contains("unreachable"));
        assert_eq!(fixture.decisions(&id).await, ["network_deny"]);
        // Existing listeners stay, and close as usual.
        let process = fixture.sleeper(&id).await;
        for other in ["full", "allow=udp://192.0.2.1:123", "none"] {
            fixture.host.set_network(&id, policy(other)).await.unwrap();
        }
        let running = fixture
            .host
            .get_process_status(&id, &process.id)
            .await
            .unwrap();
        assert_eq!(
            (running.status, running.pid),
            (ProcessStatus::Running, process.pid)
        );
    })
}

pub(crate) fn policy_set_while_paused_applies_after_resume(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        fixture.shell(&id, "true").await;
        fixture.host.pause_session(&id).await.unwrap();
        fixture
            .host
            .set_network(&id, policy("allow=example.com"))
            .await
            .unwrap();
        fixture
            .host
            .set_network(&id, policy("allow=udp://192.0.2.1:123"))
            .await
            .unwrap();
        fixture.put_secret("key", "hunter2").await;
        let error = fixture
            .host
            .set_network(&id, with_secret("allow=api.example"))
            .await
            .unwrap_err();
        assert_eq!(
            (error.code(), error.field()),
            (ErrorCode::InvalidState, Some("network")),
            "{error}"
        );
        fixture.host.resume_session(&id).await.unwrap();
        assert!(!fixture.attempt(&id).await.contains("unreachable"));
        assert_eq!(fixture.decisions(&id).await, ["network_deny"]);
    })
}

pub(crate) fn change_that_needs_a_new_box_is_refused_while_in_use(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        fixture.put_secret("key", "hunter2").await;
        let id = fixture
            .make(machine("s", policy("allow=api.example")))
            .await
            .id;
        let process = fixture.sleeper(&id).await;
        let refused = async || {
            let error = fixture
                .host
                .set_network(&id, with_secret("allow=api.example"))
                .await
                .unwrap_err();
            assert_eq!(
                (error.code(), error.field()),
                (ErrorCode::InvalidState, Some("network")),
                "{error}"
            );
            assert!(error.hint().is_some());
            assert_eq!(fixture.policy_of(&id).await, policy("allow=api.example"));
        };
        refused().await;
        fixture
            .host
            .kill_process(&id, &process.id, 9)
            .await
            .unwrap();
        fixture
            .host
            .wait_process(&id, &process.id, WaitFor::Exited)
            .await
            .unwrap();
        // Daemons of a finished command count as well.
        fixture
            .shell(&id, "sleep 600 >/dev/null 2>&1 & echo $! > job")
            .await;
        refused().await;
        fixture.shell(&id, "kill -9 $(cat job)").await;
        fixture
            .eventually("the box is empty", async || {
                fixture
                    .host
                    .set_network(&id, with_secret("allow=api.example"))
                    .await
                    .ok()
            })
            .await;
        let (trusted, _) = fixture
            .shell(
                &id,
                "grep -c BEGIN $NODE_EXTRA_CA_CERTS; test -s $SSL_CERT_FILE && echo yes",
            )
            .await;
        assert_eq!(trusted, "1\nyes\n");
        // Trust that is there is no reason to make another box.
        let process = fixture.sleeper(&id).await;
        fixture
            .host
            .set_network(&id, policy("allow=api.example"))
            .await
            .unwrap();
        fixture
            .host
            .set_network(&id, with_secret("allow=*.example"))
            .await
            .unwrap();
        let running = fixture
            .host
            .get_process_status(&id, &process.id)
            .await
            .unwrap();
        assert_eq!(
            (running.status, running.pid),
            (ProcessStatus::Running, process.pid)
        );
    })
}

pub(crate) fn network_variables_have_the_lowest_precedence(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let mut spec = machine(
            "s",
            NetworkPolicy {
                inspect_tls: true,
                ..NetworkPolicy::full()
            },
        );
        spec.env.insert("http_proxy".into(), "http://mine:1".into());
        let id = fixture.make(spec).await.id;
        let script = "echo $http_proxy $HTTP_PROXY $CURL_CA_BUNDLE $DENO_CERT";
        let mut command = sandbar_core::ExecSpec::new(["/bin/sh", "-c", script]);
        command.env.insert("DENO_CERT".into(), "own".into());
        let mut running = fixture.host.exec(&id, command).await.unwrap();
        let mut output = Vec::new();
        while let Some(event) = running.next_event().await {
            if let sandbar_core::ExecEvent::Stdout(bytes) = event {
                output.extend_from_slice(&bytes);
            }
        }
        let expected = "http://mine:1 http://192.0.0.1:3128 /dev/sandbar/ca-certificates.crt own\n";
        assert_eq!(String::from_utf8(output).unwrap(), expected);
    })
}

pub(crate) fn egress_decisions_are_audited_and_counted(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture
            .make(machine("s", policy("allow=example.com")))
            .await
            .id;
        for _ in 0..3 {
            fixture.attempt(&id).await;
        }
        let traffic = fixture.host.get_network(&id).await.unwrap().traffic;
        assert_eq!((traffic.denied, traffic.connections), (3, 0));
        fixture.host.destroy_session(&id).await.unwrap();
        let log = fixture
            .host
            .audit(&id, sandbar_core::AuditQuery::default())
            .await
            .unwrap()
            .items;
        assert_eq!(log.last().unwrap().what, "destroy_session");
        let denials: Vec<_> = log
            .iter()
            .filter(|entry| entry.what == "network_deny")
            .collect();
        let counted: u64 = denials
            .iter()
            .map(|entry| entry.detail.get("count").map_or(1, |n| n.as_u64().unwrap()))
            .sum();
        assert_eq!(counted, 3, "{denials:?}");
        assert!(
            denials.iter().all(|entry| entry.who.as_str() == "host"),
            "{denials:?}"
        );
        let metrics = fixture.host.metrics_text().await;
        let sample = metrics
            .lines()
            .find(|line| line.starts_with("sandbar_network_decisions_total{verdict=\"deny\""));
        assert!(sample.is_some_and(|line| line.ends_with(" 3")), "{metrics}");
        for part in [
            "sandbar_network_bytes_total{direction=\"sent\"} ",
            "sandbar_network_connections 0",
        ] {
            assert!(metrics.contains(part), "{part} is not in {metrics}");
        }
    })
}
