//! Boxes whose root has `RootRights::Own`.

use std::{fs, os::unix::fs::MetadataExt};

use sandbar_core::{Resources, RootRights, RuntimeKind, UserAccount};
use sandbar_runtime::ExecSpec;

use crate::{
    test_box::{Ended, TestBox},
    world::{Owners, World, shell},
};

const RIGHTS: RootRights = RootRights::Own;

/// Runs a test on two boxes, one that was prepared and one that was not.
fn in_own_boxes(test: &impl AsyncFn(&World, &TestBox)) {
    World::run(RuntimeKind::Native, async |world| {
        for round in 0..4 {
            let own = world
                .open_box_with_rights(&format!("own-{round}"), Owners::Leased, RIGHTS)
                .unwrap();
            test(world, &own).await;
            own.stop().await;
        }
    });
}

async fn output(test_box: &TestBox, script: &str) -> String {
    let ended = test_box.finish(shell(script)).await;
    assert_eq!(ended.stderr, "", "{script}");
    ended.stdout
}

async fn as_user(test_box: &TestBox, script: &str) -> Ended {
    let user = UserAccount::find("1000", "", "").unwrap();
    Ended::of(test_box.start_as(shell(script), user).await.unwrap()).await
}

#[test]
fn own_root_has_rights_over_files_and_users_of_its_box() {
    in_own_boxes(&async |_, own| {
        output(
            own,
            "echo x > made; chown 1000:1001 made; chmod 600 made; chmod u+s made",
        )
        .await;
        let made = fs::metadata(own.path_inside("workspace/made")).unwrap();
        assert_eq!(
            (made.uid(), made.gid(), made.mode() & 0o7777),
            (1000, 1001, 0o4600)
        );
        assert_eq!(
            output(own, "cat made").await,
            "x\n",
            "although it is another's"
        );
        assert_eq!(
            output(
                own,
                "perl -e '$) = \"1001 1001\"; $> = 1000; print \"$>\\n\"'"
            )
            .await,
            "1000\n"
        );
        let other = own.start_as(
            ExecSpec::new(["sleep", "4848.1"]),
            UserAccount::find("1000", "", "").unwrap(),
        );
        let other = other.await.unwrap();
        output(own, &format!("kill -9 {}", other.pid)).await;
        assert_eq!(Ended::of(other).await.status.signal, Some(9));
    });
}

#[test]
fn set_user_id_program_makes_a_user_root_of_its_box() {
    in_own_boxes(&async |world, own| {
        output(
            own,
            "cp /usr/bin/id /usr/bin/cat /tmp; chmod 4755 /tmp/id; chmod 755 /tmp/cat",
        )
        .await;
        assert_eq!(
            as_user(own, "/tmp/id -u; /usr/bin/id -u").await.stdout,
            "0\n1000\n"
        );
        // Only in this box.
        let bare = world.open_box("bare", &Resources::default());
        output(&bare, "cp /usr/bin/id /tmp; chmod 4755 /tmp/id").await;
        assert_eq!(as_user(&bare, "/tmp/id -u").await.stdout, "1000\n");
        bare.stop().await;
    });
}

#[test]
fn own_root_stays_isolated_and_cannot_reach_init() {
    in_own_boxes(&async |_, own| {
        let status = output(
            own,
            "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status",
        )
        .await;
        let fields: Vec<&str> = status.split_whitespace().collect();
        let few = "00000000000000fb";
        let none = "0000000000000000";
        let expected = [
            "CapInh:", none, "CapPrm:", few, "CapEff:", few, "CapBnd:", few, "CapAmb:", none,
        ];
        assert_eq!(fields[..10], expected);
        assert_eq!(fields[10..], ["NoNewPrivs:", "0", "Seccomp:", "2"]);
        let user = as_user(own, "grep -E '^Cap(Prm|Eff)' /proc/self/status")
            .await
            .stdout;
        assert!(user.lines().all(|line| line.ends_with(none)), "{user}");
        for attempt in [
            "ls /proc/1/fd/",
            "cat /proc/1/environ",
            "cat /proc/1/maps",
            "mount -t tmpfs none /tmp",
            "umount /proc",
            "mknod /tmp/null c 1 3",
            "chroot / true",
            "chown 65536 /tmp/own",
            "echo 1 > /proc/sys/user/max_user_namespaces",
            "perl -e 'exit(syscall(101, 16, 1, 0, 0) == 0 ? 0 : 1)'",
            "perl -e 'use Socket; socket(my $s, PF_INET, SOCK_RAW, 1) or exit 1'",
            "unshare -U true",
            "nsenter -t 1 -n true",
            "hostname other",
        ] {
            let ended = own
                .finish(shell(&format!("touch /tmp/own; {attempt}")))
                .await;
            assert_ne!(ended.status.code, Some(0), "{attempt}: {}", ended.stdout);
        }
        own.finish(shell("kill -9 1; kill -9 -1")).await;
        assert!(own.is_alive());
    });
}

#[test]
fn unavailable_root_rights_are_rejected() {
    World::run(RuntimeKind::Native, async |world| {
        let error = world
            .open_box_with_rights("own", Owners::AsOnDisk, RIGHTS)
            .unwrap_err();
        assert_eq!(error.field(), Some("root_rights"), "{error}");
        assert!(world.runtime().facts().root_rights.is_yes());
    });
    for kind in [RuntimeKind::Gvisor, RuntimeKind::None] {
        World::run(kind, async |world| {
            let reason = world
                .runtime()
                .facts()
                .root_rights
                .reason()
                .unwrap()
                .to_owned();
            let error = world
                .open_box_with_rights("own", Owners::Leased, RIGHTS)
                .unwrap_err();
            assert!(
                error.field() == Some("root_rights") && error.message().contains(&reason),
                "{error}"
            );
        });
    }
}

const LISTEN: &str = "perl -e 'use Socket; socket(my $s, PF_INET, SOCK_STREAM, 0) or die; \
                      bind($s, sockaddr_in(80, INADDR_LOOPBACK)) or die $!; print \"bound\\n\"'";

#[test]
fn every_user_of_a_box_can_bind_low_ports() {
    World::run(RuntimeKind::Native, async |world| {
        let here = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap();
        assert_eq!(as_user(world, LISTEN).await.stdout, "bound\n");
        assert_eq!(output(world, LISTEN).await, "bound\n");
        assert_eq!(
            fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap(),
            here
        );
    });
}
