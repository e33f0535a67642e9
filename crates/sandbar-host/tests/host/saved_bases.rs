//! Bases made from sessions.

use std::{collections::BTreeMap, pin::Pin};

use sandbar_core::{
    BaseInfo, BaseName, ByteCount, ErrorCode, ForkRequest, LaterSnapshots, PageRequest, SaveBase,
    SessionFilter, SessionId, SessionSpec,
};
use sandbar_host::HostConfig;
use sandbar_storage::ForkPoint;

use crate::{
    fixture::{HostFixture, snap, spec},
    recovery::{intend, meanwhile},
};

type Case<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

fn base(name: &str) -> BaseName {
    name.parse().unwrap()
}

fn from_base(id: &str, name: &str) -> SessionSpec {
    SessionSpec {
        base: base(name),
        ..spec(id)
    }
}

impl HostFixture {
    async fn save(&self, id: &SessionId, name: &str) -> BaseInfo {
        self.host
            .save_base(id, None, &base(name), None)
            .await
            .unwrap()
    }

    async fn base_names(&self) -> Vec<String> {
        self.host
            .list_bases()
            .await
            .unwrap()
            .into_iter()
            .map(|base| base.name.to_string())
            .collect()
    }

    async fn session_ids(&self) -> Vec<String> {
        let listed = self
            .host
            .list_sessions(&SessionFilter::default(), &PageRequest::default())
            .await
            .unwrap();
        listed
            .items
            .into_iter()
            .map(|session| session.id.to_string())
            .collect()
    }
}

pub(crate) fn saved_base_outlives_its_session_and_is_not_listed(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        fixture
            .restart_with(HostConfig {
                max_sessions: 2,
                ..fixture.config.clone()
            })
            .await;
        let source = fixture.session("source").await;
        fixture.write(&source, "f", "saved").await;
        let note = Some("{\"by\": \"test\"}".to_owned());
        let saved = fixture
            .host
            .save_base(&source, None, &base("warm"), note.clone())
            .await
            .unwrap();
        assert_eq!(
            (saved.name.as_str(), saved.source.as_str()),
            ("warm", "session")
        );
        fixture.write(&source, "f", "later").await;
        fixture.host.destroy_session(&source).await.unwrap();
        for _ in 0..2 {
            assert_eq!(fixture.base_names().await, ["small", "warm"]);
            assert_eq!(fixture.host.base_note(&base("warm")).await.unwrap(), note);
            assert_eq!(
                fixture.host.saved_bases().await.unwrap(),
                [(saved.clone(), note.clone())]
            );
            // It takes none of the two places, and each session made from it has a life of its own.
            for (id, other) in [("a", "b"), ("b", "a")] {
                let made = fixture.make(from_base(id, "warm")).await;
                assert_eq!((made.base.as_str(), made.parent), ("warm", None));
                assert_eq!(fixture.read(&made.id, "f").await.as_deref(), Some("saved"));
                assert_eq!(fixture.read(&made.id, other).await, None);
                fixture.write(&made.id, id, "own").await;
                fixture.write(&made.id, "f", id).await;
            }
            assert_eq!(fixture.session_ids().await, ["a", "b"]);
            for id in ["a", "b"] {
                fixture
                    .host
                    .destroy_session(&id.parse().unwrap())
                    .await
                    .unwrap();
            }
            fixture.restart().await;
        }
        fixture
            .host
            .set_base_note(&base("warm"), None)
            .await
            .unwrap();
        assert_eq!(fixture.host.base_note(&base("warm")).await.unwrap(), None);
        fixture.host.delete_base(&base("warm")).await.unwrap();
        assert_eq!(fixture.base_names().await, ["small"]);
        meanwhile(fixture, |storage, _| {
            assert_eq!(storage.volumes().unwrap(), []);
        })
        .await;
        fixture.host.delete_base(&base("small")).await.unwrap();
    })
}

pub(crate) fn base_is_saved_from_a_snapshot_and_from_its_own_session(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let source = fixture.session("source").await;
        fixture.write(&source, "f", "then").await;
        fixture.snapshot(&source, "s").await;
        fixture.write(&source, "f", "now").await;
        fixture
            .host
            .save_base(&source, Some(&snap("s")), &base("then"), None)
            .await
            .unwrap();
        fixture.save(&source, "now").await;
        let (then, now) = (
            fixture.make(from_base("t", "then")).await.id,
            fixture.make(from_base("n", "now")).await.id,
        );
        assert_eq!(fixture.read(&then, "f").await.as_deref(), Some("then"));
        assert_eq!(fixture.read(&now, "f").await.as_deref(), Some("now"));
        fixture.write(&then, "g", "more").await;
        fixture.save(&then, "more").await;
        for id in ["source", "t", "n"] {
            fixture
                .host
                .destroy_session(&id.parse().unwrap())
                .await
                .unwrap();
        }
        fixture.host.delete_base(&base("then")).await.unwrap();
        fixture.restart().await;
        let more = fixture.make(from_base("m", "more")).await.id;
        assert_eq!(fixture.read(&more, "f").await.as_deref(), Some("then"));
        assert_eq!(fixture.read(&more, "g").await.as_deref(), Some("more"));
    })
}

pub(crate) fn sessions_survive_the_deletion_of_their_saved_base(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let source = fixture.session("source").await;
        fixture.write(&source, "f", "saved").await;
        fixture.save(&source, "warm").await;
        let ids = [
            fixture.make(from_base("a", "warm")).await.id,
            fixture.make(from_base("b", "warm")).await.id,
        ];
        let error = fixture.host.delete_base(&base("small")).await.unwrap_err();
        assert_eq!(
            (error.code(), error.field()),
            (ErrorCode::InvalidState, Some("name"))
        );
        fixture.host.delete_base(&base("warm")).await.unwrap();
        fixture.host.destroy_session(&source).await.unwrap();
        let error = fixture
            .host
            .create_session(from_base("c", "warm"))
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::BaseNotFound);
        fixture.restart().await;
        for id in &ids {
            assert_eq!(fixture.read(id, "f").await.as_deref(), Some("saved"));
            fixture.snapshot(id, "s").await;
            fixture.write(id, "f", "changed").await;
            let fork = fixture
                .host
                .fork_session(id, ForkRequest::default())
                .await
                .unwrap()
                .remove(0);
            assert_eq!(
                (
                    fixture.read(&fork.id, "f").await.as_deref(),
                    fork.base.as_str()
                ),
                (Some("changed"), "warm")
            );
            fixture.host.destroy_session(&fork.id).await.unwrap();
            fixture
                .host
                .rollback_session(id, &snap("s"), LaterSnapshots::Drop)
                .await
                .unwrap();
            assert_eq!(fixture.read(id, "f").await.as_deref(), Some("saved"));
            fixture.host.hibernate_session(id).await.unwrap();
        }
        // Their imported base is needed as long as they can be woken.
        let error = fixture.host.delete_base(&base("small")).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidState);
        for id in &ids {
            fixture.host.wake_session(id).await.unwrap();
            assert_eq!(fixture.read(id, "f").await.as_deref(), Some("saved"));
            fixture.host.destroy_session(id).await.unwrap();
        }
        fixture.host.delete_base(&base("small")).await.unwrap();
    })
}

pub(crate) fn sessions_of_a_saved_base_have_its_environment(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let machine = fixture.machine("source").await;
        fixture
            .shell(
                &machine,
                "echo '#!/bin/sh' > /workspace/tool; chmod +x /workspace/tool",
            )
            .await;
        let env = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect()
        };
        let request = SaveBase {
            env: env(&[("ONE", "1"), ("TWO", "1")]),
            ..SaveBase::new(base("one"))
        };
        fixture.host.save_base_as(&machine, request).await.unwrap();
        let one = fixture
            .make(SessionSpec {
                env: env(&[("OWN", "x")]),
                ..from_base("one", "one")
            })
            .await
            .id;
        let request = SaveBase {
            env: env(&[("TWO", "2")]),
            ..SaveBase::new(base("two"))
        };
        let two = fixture.host.save_base_as(&one, request).await.unwrap();
        assert_eq!(
            (
                two.env["ONE"].as_str(),
                two.env["TWO"].as_str(),
                two.env.get("OWN")
            ),
            ("1", "2", None)
        );
        fixture.host.delete_base(&base("one")).await.unwrap();
        let two = fixture
            .make(SessionSpec {
                env: env(&[("ONE", "mine")]),
                ..from_base("two", "two")
            })
            .await
            .id;
        fixture.restart().await;
        let script = "/workspace/tool && echo $ONE,$TWO,$OWN";
        assert_eq!(fixture.shell(&one, script).await.0, "1,1,x\n");
        assert_eq!(fixture.shell(&two, script).await.0, "mine,2,\n");
    })
}

pub(crate) fn invalid_save_base_is_refused(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.session("s").await;
        fixture.save(&id, "taken").await;
        let host = &fixture.host;
        for name in ["taken", "small", "host"] {
            let error = host
                .save_base(&id, None, &base(name), None)
                .await
                .unwrap_err();
            assert_eq!(
                (error.code(), error.field()),
                (ErrorCode::BaseExists, Some("name")),
                "{name}"
            );
        }
        let error = host
            .save_base(&id, Some(&snap("none")), &base("x"), None)
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::SnapshotNotFound);
        let error = host
            .save_base(&id, None, &base("x"), Some("x".repeat((64 << 10) + 1)))
            .await
            .unwrap_err();
        assert_eq!(error.field(), Some("note"));
        let mut request = SaveBase::new(base("x"));
        request.env.insert("A=B".into(), String::new());
        assert_eq!(
            host.save_base_as(&id, request).await.unwrap_err().field(),
            Some("env")
        );
        let source = fixture.storage.scratch().join("tree");
        std::fs::create_dir(&source).unwrap();
        let source = sandbar_host::ImportSource::Directory(source);
        let error = host
            .import_base(&base("taken"), &source, |_| {})
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::BaseExists);
        let error = host
            .set_base_note(&base("small"), Some("x"))
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidState);
        assert_eq!(host.base_note(&base("small")).await.unwrap(), None);
        for outcome in [
            host.base_note(&base("none")).await.err(),
            host.set_base_note(&base("none"), None).await.err(),
            host.delete_base(&base("none")).await.err(),
            host.create_session(from_base("n", "none")).await.err(),
        ] {
            let error = outcome.unwrap();
            assert_eq!(error.code(), ErrorCode::BaseNotFound);
            assert!(error.hint().unwrap().contains("taken"), "{error}");
        }
        host.hibernate_session(&id).await.unwrap();
        let error = host
            .save_base(&id, None, &base("x"), None)
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::SessionPaused);
        assert_eq!(fixture.base_names().await, ["small", "taken"]);
        // The volume of a saved base is not a session, even for a caller that knows its id.
        let mut volume = None;
        meanwhile(fixture, |storage, _| {
            volume = storage.volumes().unwrap().pop();
        })
        .await;
        let volume = volume.unwrap();
        assert_eq!(
            fixture.host.get_session(&volume).await.unwrap_err().code(),
            ErrorCode::SessionNotFound
        );
        let error = fixture
            .host
            .create_session(spec(volume.as_str()))
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::SessionExists);
        let bounded = SessionSpec {
            quota: Some(ByteCount::mib(64)),
            ..from_base("bounded", "taken")
        };
        match fixture.host.create_session(bounded).await {
            Ok(made) => assert_eq!(made.quota, Some(ByteCount::mib(64))),
            Err(error) => assert_eq!(error.field(), Some("quota"), "{}", error.chain()),
        }
    })
}

pub(crate) fn unfinished_save_or_deletion_of_a_base_is_settled(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let source = fixture.session("source").await;
        fixture.write(&source, "f", "saved").await;
        for name in ["kept", "half"] {
            fixture.save(&source, name).await;
        }
        let made = fixture.make(from_base("made", "half")).await.id;
        let mut before = Vec::new();
        meanwhile(fixture, |storage, database| {
            before = storage.volumes().unwrap();
            let (source, half) = ("source".parse().unwrap(), "base-half".parse().unwrap());
            storage.fork(&source, &ForkPoint::Now, &half, None).unwrap();
            intend(database, r#"{"do": "save-base", "volume": "base-half"}"#);
            intend(
                database,
                r#"{"do": "save-base", "volume": "base-not-begun"}"#,
            );
            let volume = "SELECT volume FROM saved_base WHERE name = 'half'";
            let volume = database
                .query_one(volume, [], |row| row.get::<_, String>(0))
                .unwrap();
            database
                .execute("DELETE FROM saved_base WHERE name = 'half'", [])
                .unwrap();
            let what = format!(r#"{{"do": "drop-base", "volume": "{volume}"}}"#);
            database
                .execute("INSERT INTO intent (what, made) VALUES (?1, 0)", [what])
                .unwrap();
            intend(database, r#"{"do": "drop-base", "volume": "long-gone"}"#);
        })
        .await;
        assert_eq!(fixture.base_names().await, ["kept", "small"]);
        assert_eq!(fixture.read(&made, "f").await.as_deref(), Some("saved"));
        let again = fixture.make(from_base("again", "kept")).await.id;
        assert_eq!(fixture.read(&again, "f").await.as_deref(), Some("saved"));
        fixture.host.destroy_session(&again).await.unwrap();
        let mut after = Vec::new();
        meanwhile(fixture, |storage, database| {
            after = storage.volumes().unwrap();
            assert_eq!(
                database.query_one("SELECT group_concat(what) FROM intent", [], |row| row
                    .get(0)),
                Ok(None::<String>)
            );
        })
        .await;
        assert_eq!((before.len(), after.len()), (4, 3), "{before:?} {after:?}");
        // A missing volume is an error, and the base can be deleted as any other.
        meanwhile(fixture, |storage, _| {
            let kept = storage
                .volumes()
                .unwrap()
                .into_iter()
                .find(|volume| volume.as_str().starts_with("base-"));
            storage.delete(&kept.unwrap()).unwrap();
        })
        .await;
        let error = fixture
            .host
            .create_session(from_base("b", "kept"))
            .await
            .unwrap_err();
        assert_eq!(
            (error.code(), error.field()),
            (ErrorCode::InvalidState, Some("base_snapshot"))
        );
        fixture.host.delete_base(&base("kept")).await.unwrap();
        fixture.session("b").await;
    })
}
