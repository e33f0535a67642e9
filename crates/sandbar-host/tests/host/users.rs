//! Commands and processes of the users a session has.

use std::pin::Pin;

use sandbar_core::{
    BaseName, ErrorCode, ExecEvent, ExecSpec, LogQuery, PageRequest, ProcessSpec, RootRights,
    RuntimeKind, SessionFilter, SessionId, SessionSpec, StorageKind, WaitFor,
};
use sandbar_host::RuntimeChoice;

use crate::fixture::{HostFixture, snap, spec};

type Case<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Runs a script as this user; returns both streams.
async fn say(fixture: &HostFixture, id: &SessionId, user: &str, script: &str) -> String {
    let spec = ExecSpec {
        user: Some(user.into()),
        ..ExecSpec::new(["/bin/sh", "-c", script])
    };
    let mut command = fixture.host.exec(id, spec).await.unwrap();
    let mut output = Vec::new();
    while let Some(event) = command.next_event().await {
        if let ExecEvent::Stdout(bytes) | ExecEvent::Stderr(bytes) = event {
            output.extend_from_slice(&bytes);
        }
    }
    String::from_utf8(output).unwrap()
}

pub(crate) fn command_runs_as_a_user_of_the_session(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let script = "id -un; id -u; id -g; cd; pwd; echo $HOME $USER $LOGNAME; echo x > made; find . -maxdepth 1 \\( -name . -o -name made \\) -printf '%U:%G\\n'";
        let told = "user\n1000\n1000\n/home/user\n/home/user user user\n1000:1000\n1000:1000\n";
        assert_eq!(say(fixture, &id, "user", script).await, told);
        assert_eq!(say(fixture, &id, "1000", script).await, told);
        assert_eq!(
            say(fixture, &id, "root", "id -u; echo $HOME").await,
            "0\n/root\n"
        );
        let made = fixture
            .host
            .stat(&id, "/home/user/made".as_ref())
            .await
            .unwrap();
        assert_eq!((made.uid, made.gid), (1000, 1000));
        assert!(
            say(
                fixture,
                &id,
                "user",
                "echo x > /workspace/no; cat /etc/shadow"
            )
            .await
            .contains("ermission denied")
        );
    })
}

pub(crate) fn process_runs_as_a_user_over_restarts(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let script = "id -u; test -e ~/again && exit 0; touch ~/again; exit 1";
        let spec = ProcessSpec {
            user: Some("user".into()),
            restart: sandbar_core::RestartPolicy::OnFailure { at_most: 3 },
            ..ProcessSpec::new(["/bin/sh", "-c", script])
        };
        let process = fixture.host.launch_process(&id, spec).await.unwrap();
        let ended = fixture
            .host
            .wait_process(&id, &process.id, WaitFor::Exited)
            .await
            .unwrap();
        assert_eq!((ended.restarts, ended.exit.unwrap().code), (1, Some(0)));
        let mut logs = fixture
            .host
            .process_logs(&id, &process.id, LogQuery::default())
            .await
            .unwrap();
        let mut text = Vec::new();
        while let Some(chunk) = logs.next().await {
            text.extend_from_slice(&chunk.bytes);
        }
        assert_eq!(text, b"1000\n1000\n");

        // A process of another user receives its signals too.
        let spec = ProcessSpec {
            user: Some("user".into()),
            ..ProcessSpec::new(["/bin/sleep", "1000"])
        };
        let process = fixture.host.launch_process(&id, spec).await.unwrap();
        fixture
            .host
            .kill_process(&id, &process.id, 15)
            .await
            .unwrap();
        let ended = fixture
            .host
            .wait_process(&id, &process.id, WaitFor::Exited)
            .await
            .unwrap();
        assert_eq!(ended.exit.unwrap().signal, Some(15));
    })
}

pub(crate) fn users_are_looked_up_in_the_session(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let account = fixture.host.user_account(&id, "user").await.unwrap();
        assert_eq!(
            (account.uid, account.gid, account.home.as_str()),
            (1000, 1000, "/home/user")
        );
        assert_eq!(account.shell, "/bin/bash");
        fixture.snapshot(&id, "before").await;
        let add =
            "echo fresh:x:2000:2001::/tmp: >> /etc/passwd; echo team:x:2002:fresh >> /etc/group";
        assert_eq!(say(fixture, &id, "root", add).await, "");
        assert_eq!(
            say(fixture, &id, "fresh", "id -u; id -G; cd; pwd").await,
            "2000\n2001 2002\n/tmp\n"
        );
        let fresh = fixture.host.user_account(&id, "2000").await.unwrap();
        assert_eq!(
            (fresh.name.as_str(), fresh.groups),
            ("fresh", vec![2001, 2002])
        );
        fixture
            .host
            .rollback_session(&id, &snap("before"), sandbar_core::LaterSnapshots::Drop)
            .await
            .unwrap();
        let error = fixture.host.user_account(&id, "fresh").await.unwrap_err();
        assert_eq!(
            (error.code(), error.field()),
            (ErrorCode::UserNotFound, Some("user"))
        );
    })
}

pub(crate) fn unknown_user_is_refused_and_nothing_runs(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        for (user, code) in [
            ("unknown-user", ErrorCode::UserNotFound),
            ("70000", ErrorCode::InvalidArgument),
            ("", ErrorCode::InvalidArgument),
            ("a:b", ErrorCode::InvalidArgument),
        ] {
            let argv = ["/bin/touch", "/workspace/ran"];
            let command = ExecSpec {
                user: Some(user.into()),
                ..ExecSpec::new(argv)
            };
            let error = fixture.host.exec(&id, command).await.unwrap_err();
            assert_eq!(
                (error.code(), error.field()),
                (code, Some("user")),
                "{user}"
            );
            let process = ProcessSpec {
                user: Some(user.into()),
                ..ProcessSpec::new(argv)
            };
            let error = fixture.host.launch_process(&id, process).await.unwrap_err();
            assert_eq!(
                (error.code(), error.field()),
                (code, Some("user")),
                "{user}"
            );
        }
        assert_eq!(fixture.read(&id, "/workspace/ran").await, None);
        assert!(fixture.host.list_processes(&id).await.unwrap().is_empty());
        if fixture.config.container_runtime == RuntimeChoice::Named(RuntimeKind::Native) {
            // A tree that has neither file nor link to mislead by, and one that has.
            let small = fixture.make(SessionSpec {
                base: BaseName::new("host").unwrap(),
                ..spec("t")
            });
            let small = small.await.id;
            assert_eq!(
                say(fixture, &small, "root", "rm /etc/passwd /etc/group").await,
                ""
            );
            assert_eq!(say(fixture, &small, "0", "id -u").await, "0\n");
            assert_eq!(say(fixture, &small, "root", "mkfifo /etc/passwd").await, "");
            fixture.host.user_account(&small, "user").await.unwrap_err();
            assert_eq!(say_plain(fixture, &small).await, "0\n");
        }
    })
}

/// Root needs none of these files.
async fn say_plain(fixture: &HostFixture, id: &SessionId) -> String {
    fixture.shell(id, "id -u").await.0
}

/// A session over this machine's programs whose root has rights of its own; `None` where they are
/// refused, as they must be.
async fn own_machine(fixture: &HostFixture, id: &str) -> Option<SessionId> {
    let wanted = SessionSpec {
        base: BaseName::new("host").unwrap(),
        root_rights: RootRights::Own,
        ..spec(id)
    };
    let is_native = fixture.config.container_runtime == RuntimeChoice::Named(RuntimeKind::Native);
    let capability = fixture.host.capabilities().root_rights;
    assert_eq!(
        capability.is_yes(),
        is_native && fixture.host.capabilities().storage != StorageKind::Zfs
    );
    match fixture.host.create_session(wanted).await {
        Ok(made) => {
            assert!(capability.is_yes() && made.root_rights == RootRights::Own);
            Some(made.id)
        }
        Err(error) => {
            assert_eq!(
                (error.code(), error.field()),
                (ErrorCode::InvalidArgument, Some("root_rights"))
            );
            assert!(
                error.message().contains(capability.reason().unwrap()),
                "{error}"
            );
            let all = fixture
                .host
                .list_sessions(&SessionFilter::default(), &PageRequest::default())
                .await
                .unwrap();
            assert_eq!(all.items, []);
            None
        }
    }
}

pub(crate) fn own_root_rights_allow_chown_and_su(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let Some(id) = own_machine(fixture, "s").await else {
            return;
        };
        let script = "echo x > made && chown user:user made && chmod 600 made && cat made && su user -c 'id -u' && \
                      runuser -u user -- id -un && install -d -o 42 -g 43 /srv/kept && chown 65535 /srv";
        assert_eq!(say(fixture, &id, "root", script).await, "x\n1000\nuser\n");
        assert_eq!(
            say(
                fixture,
                &id,
                "user",
                "cat /workspace/made; su root -c id < /dev/null 2>&1 | grep -c uid=0"
            )
            .await,
            "x\n0\n"
        );
        let kept = fixture.host.stat(&id, "/srv/kept".as_ref()).await.unwrap();
        assert_eq!((kept.uid, kept.gid), (42, 43));
        if std::path::Path::new("/usr/bin/sudo").exists() {
            assert_eq!(say(fixture, &id, "user", "sudo id -u").await, "0\n");
        }
        let made = "cp /usr/bin/id /usr/local/bin/who; chmod 4755 /usr/local/bin/who";
        assert_eq!(say(fixture, &id, "root", made).await, "");
        assert_eq!(say(fixture, &id, "user", "who -u").await, "0\n");
        // A session beside it has none of it.
        let bare = fixture.machine("bare").await;
        assert_eq!(say(fixture, &bare, "root", made).await, "");
        assert_eq!(say(fixture, &bare, "user", "who -u").await, "1000\n");
    })
}

pub(crate) fn root_rights_survive_fork_rollback_and_hibernation(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let Some(id) = own_machine(fixture, "s").await else {
            return;
        };
        let change = "touch /tmp/file && chown 1000 /tmp/file && find /tmp/file -printf '%U\\n'";
        fixture.snapshot(&id, "before").await;
        assert_eq!(say(fixture, &id, "root", change).await, "1000\n");
        fixture
            .host
            .rollback_session(&id, &snap("before"), sandbar_core::LaterSnapshots::Drop)
            .await
            .unwrap();
        assert_eq!(say(fixture, &id, "root", change).await, "1000\n");
        let fork = sandbar_core::ForkRequest {
            count: 1,
            ..Default::default()
        };
        let copies = fixture.host.fork_session(&id, fork).await.unwrap();
        assert_eq!(copies[0].root_rights, RootRights::Own);
        assert_eq!(say(fixture, &copies[0].id, "root", change).await, "1000\n");
        fixture.restart().await;
        assert_eq!(
            fixture.host.get_session(&id).await.unwrap().root_rights,
            RootRights::Own
        );
        assert_eq!(say(fixture, &id, "root", change).await, "1000\n");
    })
}

pub(crate) fn session_mounts_on_the_host_are_nosuid(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let Some(id) = own_machine(fixture, "s").await else {
            return;
        };
        let made = "cp /usr/bin/id /workspace/who; chmod 4755 /workspace/who";
        assert_eq!(say(fixture, &id, "root", made).await, "");
        let mounts = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
        let own: Vec<&str> = mounts
            .lines()
            .filter(|line| line.contains(" - overlay sandbar "))
            .collect();
        assert!(
            own.len() > 1 && own.iter().all(|line| line.contains("nosuid")),
            "{own:#?}"
        );
        // The pool lies below them, in a directory that only root can enter.
        let place = std::fs::metadata(&fixture.config.data_dir).unwrap();
        assert_eq!(
            std::os::unix::fs::PermissionsExt::mode(&place.permissions()) & 0o077,
            0
        );
    })
}
