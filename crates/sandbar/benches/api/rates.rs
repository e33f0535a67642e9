//! Calls of `read_file` a second, against a server without work. Callers and servers share the
//! machine.

use sandbar_testing::{TestServer, TestServerOptions, measure::Report, measure::middle};

use crate::{
    bare,
    load::{Shape, Target},
};

const SHAPES: [Shape; 5] = [
    Shape {
        callers: 1,
        connections: 1,
    },
    Shape {
        callers: 8,
        connections: 1,
    },
    Shape {
        callers: 8,
        connections: 8,
    },
    Shape {
        callers: 64,
        connections: 1,
    },
    Shape {
        callers: 64,
        connections: 64,
    },
];
const ROUNDS: usize = 3;

/// Starts a host with `sandbar up`.
pub(crate) fn start_server() -> TestServer {
    let binary =
        std::env::var("SANDBAR_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_sandbar").into());
    let options = TestServerOptions::new(binary);
    TestServer::start(
        &options
            .argument("--storage")
            .argument("btrfs")
            .argument("--runtime")
            .argument("native"),
    )
}

pub(crate) fn measure(report: &mut Report) {
    let server = start_server();
    let token = std::fs::read_to_string(server.data_dir().join("token"))
        .unwrap()
        .trim()
        .to_owned();
    let made = server.client(["new", "--id", "read"]).output().unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let written = server
        .client(["exec", "read", "--", "sh", "-c", "seq 60 > file"])
        .output()
        .unwrap();
    assert!(
        written.status.success(),
        "{}",
        String::from_utf8_lossy(&written.stderr)
    );
    let address = server.url().trim_start_matches("http://").parse().unwrap();
    let host = Target {
        address,
        token,
        session: "read".into(),
    };
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    tokio.block_on(async {
        let answer = host.call(&mut host.connect().await, "first").await;
        let bare = bare::start(&answer);
        let idle = Target {
            address: bare.address,
            ..host.clone()
        };
        for shape in SHAPES {
            let Shape {
                callers,
                connections,
            } = shape;
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for round in 0..ROUNDS {
                theirs.push(idle.rate(shape, "").await);
                ours.push(
                    host.rate(shape, &format!("{callers}-{connections}-{round}"))
                        .await,
                );
            }
            let what = format!("{callers} callers on {connections} connections");
            report.figure(
                format!("read_file over HTTP/2, {what}"),
                middle(&ours),
                "/s",
                None,
            );
            report.figure(
                format!("  a server that only answers, {what}"),
                middle(&theirs),
                "/s",
                None,
            );
        }
    });
}
