use std::pin::Pin;

use sandbar_core::{BaseName, ByteCount, ErrorCode, ExecSpec, LaterSnapshots, RuntimeKind};
use sandbar_host::RuntimeChoice;

use crate::fixture::{HostFixture, snap, spec};

type Case<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

pub(crate) fn command_sees_the_volume_as_its_root(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let (output, code) = fixture
            .shell(
                &id,
                "pwd; echo hi > file; cat /workspace/file; cat /etc/hostname",
            )
            .await;
        assert_eq!(
            (output.as_str(), code),
            ("/workspace\nhi\nsandbar\n", Some(0))
        );
        let (output, _) = fixture
            .shell(
                &id,
                "cd /home; echo *; cd /root; echo *; test -e /work && echo leaked",
            )
            .await;
        assert_eq!(output, "user\n*\n");
        assert_eq!(fixture.shell(&id, "exit 7").await.1, Some(7));
    })
}

pub(crate) fn command_environment_merges_base_session_and_call(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let mut wanted = spec("s");
        wanted.base = "host".parse().unwrap();
        wanted.env = [
            ("FROM".to_owned(), "session".to_owned()),
            ("KEPT".to_owned(), "yes".to_owned()),
        ]
        .into();
        let id = fixture.make(wanted).await.id;
        let mut command = ExecSpec::new(["/usr/bin/env"]);
        command.env.insert("FROM".into(), "call".into());
        let mut running = fixture.host.exec(&id, command).await.unwrap();
        let mut output = String::new();
        while let Some(event) = running.next_event().await {
            if let sandbar_core::ExecEvent::Stdout(bytes) = event {
                output.push_str(std::str::from_utf8(&bytes).unwrap());
            }
        }
        let mut names: Vec<&str> = output
            .lines()
            .filter_map(|line| line.split('=').next())
            .collect();
        names.sort_unstable();
        assert!(
            output.contains("FROM=call\n") && output.contains("KEPT=yes\n"),
            "{output}"
        );
        assert!(
            names.iter().all(
                |name| ["FROM", "HOME", "KEPT", "PATH", "PWD", "USER", "LOGNAME"].contains(name)
            ),
            "{names:?}"
        );
    })
}

pub(crate) fn background_jobs_end_with_the_session(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        // A duration that no other test sleeps for, to find the process in the process list.
        let number = format!("1000.{}", std::process::id());
        fixture
            .shell(&id, &format!("setsid sleep {number} >/dev/null 2>&1 &"))
            .await;
        if fixture.config.container_runtime == RuntimeChoice::Named(RuntimeKind::Gvisor) {
            // Another kernel's processes: only those inside can see them, and they end with it.
            let (lines, _) = fixture.shell(&id, "cat /proc/[0-9]*/cmdline").await;
            assert!(
                lines.contains(&number),
                "the job ended with the command that started it"
            );
            fixture.host.destroy_session(&id).await.unwrap();
            return;
        }
        let alive = || {
            let processes = std::fs::read_dir("/proc").unwrap().flatten();
            let mut lines =
                processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
            lines.any(|line| line == format!("sleep\0{number}\0").as_bytes())
        };
        sandbar_testing::eventually("the job to start", alive);
        fixture.host.destroy_session(&id).await.unwrap();
        sandbar_testing::eventually("the job to end", || !alive());
    })
}

pub(crate) fn command_runs_after_rollback(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        fixture.shell(&id, "echo before > file").await;
        fixture.snapshot(&id, "s").await;
        fixture
            .shell(
                &id,
                "echo after > file; setsid sleep 1000 >/dev/null 2>&1 &",
            )
            .await;
        fixture
            .host
            .rollback_session(&id, &snap("s"), LaterSnapshots::Drop)
            .await
            .unwrap();
        assert_eq!(fixture.shell(&id, "cat file").await.0, "before\n");
    })
}

pub(crate) fn quota_stops_a_disk_filler_and_spares_other_sessions(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let mut filler = spec("filler");
        filler.base = BaseName::new("host").unwrap();
        filler.quota = Some(ByteCount::mib(48));
        if !fixture.host.capabilities().quota.is_yes() {
            // An unsupported quota is refused with the reason.
            let error = fixture.host.create_session(filler).await.unwrap_err();
            assert_eq!(
                (error.code(), error.field()),
                (ErrorCode::InvalidArgument, Some("quota"))
            );
            return;
        }
        let filler = fixture.make(filler).await.id;
        let neighbour = fixture.machine("neighbour").await;
        let (said, code) = fixture
            .shell(
                &filler,
                "head -c 200M /dev/zero > full 2> /tmp/why; echo $?",
            )
            .await;
        assert_eq!((said.as_str(), code), ("1\n", Some(0)));
        let (told, _) = fixture
            .shell(&filler, "grep -ciE 'no space|quota' /tmp/why; true")
            .await;
        assert!(
            told == "1\n"
                || told == "0\n" && fixture.read(&filler, "/tmp/why").await.as_deref() == Some(""),
            "{told}"
        );
        assert_eq!(
            fixture
                .shell(&neighbour, "head -c 1M /dev/zero > fine; wc -c < fine")
                .await
                .0,
            "1048576\n"
        );
        // Operations that free space still work.
        assert_eq!(
            fixture.shell(&filler, "rm full; echo free").await.0,
            "free\n"
        );
    })
}
