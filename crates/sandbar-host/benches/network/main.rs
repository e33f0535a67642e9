//! Overhead of the egress gateway per connection, and of an open network per session, as ratios.
//!
//! One client program does the same against one server, from outside directly and from inside a
//! session through its gateway. Both alternate, so that both see the same machine, and the median
//! of each is compared. Run it with `make bench`, as root.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that cannot run should stop"
)]

mod client;
mod server;

use std::{process::Command, time::Instant};

use sandbar_core::{
    BaseName, ExecEvent, ExecSpec, NetworkPolicy, RuntimeKind, SessionId, SessionSpec, WriteOptions,
};
use sandbar_host::{Host, HostConfig, RuntimeChoice};
use sandbar_testing::{
    Backend, StorageFixture,
    internet::private_loopback,
    measure::{Report, alternate, middle, milliseconds},
};
use tokio::runtime::Runtime;

/// An address of the machine, named by the policy of the session.
const ADDRESS: &str = "203.0.113.9";
const ROUNDS: usize = 15;
const SESSIONS: usize = 100;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments
        .get(1)
        .is_some_and(|argument| argument == client::ROLE)
    {
        return client::run(&arguments[2..]);
    }
    // `cargo test --benches` and nextest's listing call a bench, too; there is nothing to measure
    // then.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    private_loopback(&[ADDRESS]);
    let storage = StorageFixture::with_size(Backend::BtrfsImage, 6144);
    let config = HostConfig::on_storage(storage.data_dir(), storage.close(), RuntimeKind::Native);
    let port = server::start(ADDRESS);
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let mut report = Report::default();
    for runtime in [RuntimeKind::Native, RuntimeKind::Gvisor] {
        let config = HostConfig {
            container_runtime: RuntimeChoice::Named(runtime),
            ..config.clone()
        };
        let host = match tokio.block_on(Host::start(config)) {
            Ok(host) => host,
            Err(error) => {
                sandbar_testing::report_skip("network bench", &error.chain());
                continue;
            }
        };
        if let Some(reason) = host.capabilities().network.reason() {
            sandbar_testing::report_skip("network bench", &format!("{runtime}: {reason}"));
            continue;
        }
        connections(&tokio, &host, runtime, port, &mut report);
        set_up(&tokio, &host, runtime, &mut report);
        tokio.block_on(host.shutdown()).unwrap();
    }
    report.print();
}

fn machine(policy: NetworkPolicy) -> SessionSpec {
    let mut spec = SessionSpec::new(BaseName::new("host").unwrap());
    spec.network = Some(policy);
    spec
}

async fn run(host: &Host, id: &SessionId, argv: &[&str]) -> String {
    let mut command = host
        .exec(id, ExecSpec::new(argv.iter().copied()))
        .await
        .unwrap();
    let mut output = Vec::new();
    while let Some(event) = command.next_event().await {
        match event {
            ExecEvent::Stdout(bytes) => output.extend_from_slice(&bytes),
            ExecEvent::Stderr(bytes) => panic!("{argv:?}: {}", String::from_utf8_lossy(&bytes)),
            ExecEvent::Exited(status) => assert_eq!(status.code, Some(0)),
        }
    }
    String::from_utf8(output).unwrap()
}

/// Puts this program into a session, as its own client.
async fn with_client(host: &Host, policy: NetworkPolicy) -> SessionId {
    let id = host.create_session(machine(policy)).await.unwrap().id;
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let options = WriteOptions {
        mode: Some(0o755),
        ..WriteOptions::default()
    };
    let mut writer = host
        .write_file(&id, "client".as_ref(), options)
        .await
        .unwrap();
    for piece in program.chunks(1 << 20) {
        writer.write(piece.to_vec().into()).await.unwrap();
    }
    writer.commit().await.unwrap();
    id
}

/// Every call of a program in gVisor goes through gVisor, and its boxes take longer to make than a
/// few can be kept ready: that is not the gateway's.
fn aim(runtime: RuntimeKind, value: f64) -> Option<f64> {
    (runtime == RuntimeKind::Native).then_some(value)
}

fn connections(tokio: &Runtime, host: &Host, runtime: RuntimeKind, port: u16, report: &mut Report) {
    let place = format!("{ADDRESS}:{port}");
    let policies: [(&str, NetworkPolicy); 2] = [
        // Decided by the address alone.
        ("", NetworkPolicy::allowing([ADDRESS.parse().unwrap()])),
        // The first words are looked at, since a name might be denied.
        (", first words read", {
            let mut policy = NetworkPolicy::allowing([ADDRESS.parse().unwrap()]);
            policy.deny_list = vec!["denied.example".parse().unwrap()];
            policy
        }),
    ];
    for (how, policy) in policies {
        let id = tokio.block_on(with_client(host, policy));
        let compare = |what: &str| {
            let direct = |_| {
                let program = std::env::current_exe().unwrap();
                let output = Command::new(program)
                    .args([client::ROLE, what, &place])
                    .output()
                    .unwrap();
                String::from_utf8(output.stdout)
                    .unwrap()
                    .trim()
                    .parse()
                    .unwrap()
            };
            let gated = |_| {
                let said =
                    tokio.block_on(run(host, &id, &["./client", client::ROLE, what, &place]));
                said.trim().parse().unwrap()
            };
            let (direct, gated): (Vec<f64>, Vec<f64>) = alternate(ROUNDS, direct, gated);
            (middle(&gated), middle(&direct))
        };
        let (gated, direct) = compare(client::SEND);
        // 60 % of the throughput.
        report.ratio(
            format!("{runtime}: 256 MiB through the gate ÷ direct{how}"),
            gated,
            direct,
            aim(runtime, 1.67),
        );
        let (gated, direct) = compare(client::RECEIVE);
        report.ratio(
            format!("{runtime}: 256 MiB from outside ÷ direct{how}"),
            gated,
            direct,
            aim(runtime, 1.67),
        );
        let (gated, direct) = compare(client::ROUND_TRIP);
        report.ratio(
            format!("{runtime}: a round trip ÷ direct{how}"),
            gated,
            direct,
            None,
        );
        let added = (gated - direct) * 1000.0;
        report.figure(
            format!("{runtime}: a round trip, added{how}"),
            added,
            "µs",
            aim(runtime, 100.0),
        );
        let (gated, direct) = compare(client::CONNECT);
        report.ratio(
            format!("{runtime}: connect and one round trip ÷ direct{how}"),
            gated,
            direct,
            None,
        );
        tokio.block_on(host.destroy_session(&id)).unwrap();
    }
}

/// A session from nothing to its first command, with its network closed and open.
fn set_up(tokio: &Runtime, host: &Host, runtime: RuntimeKind, report: &mut Report) {
    let life = |policy: fn() -> NetworkPolicy| {
        move |_| {
            tokio.block_on(async {
                let started = Instant::now();
                let id = host.create_session(machine(policy())).await.unwrap().id;
                run(host, &id, &["/usr/bin/true"]).await;
                let took = milliseconds(started);
                host.destroy_session(&id).await.unwrap();
                took
            })
        }
    };
    let (closed, open) = alternate(
        SESSIONS,
        life(NetworkPolicy::none),
        life(NetworkPolicy::full),
    );
    let (closed, open) = (middle(&closed), middle(&open));
    report.ratio(
        format!("{runtime}: create → first command, open ÷ closed"),
        open,
        closed,
        None,
    );
    report.figure(
        format!("{runtime}: create → first command, added by an open network"),
        open - closed,
        "ms",
        aim(runtime, 1.0),
    );
    let id = tokio.block_on(async {
        let id = host
            .create_session(machine(NetworkPolicy::full()))
            .await
            .unwrap()
            .id;
        run(host, &id, &["/usr/bin/true"]).await;
        id
    });
    let changes: Vec<f64> = (0..SESSIONS)
        .map(|round| {
            let policy = if round % 2 == 0 {
                "allow=a.example"
            } else {
                "full"
            };
            tokio.block_on(async {
                let started = Instant::now();
                host.set_network(&id, policy.parse().unwrap())
                    .await
                    .unwrap();
                milliseconds(started)
            })
        })
        .collect();
    report.figure(
        format!("{runtime}: another policy for a session that runs"),
        middle(&changes),
        "ms",
        None,
    );
    tokio.block_on(host.destroy_session(&id)).unwrap();
}
