//! Streams of commands are aborted when their sandbox or the host ends.

use http_body_util::BodyExt as _;
use serde_json::json;

use crate::{
    client::{Frame, Http2, frame},
    command::{shell, typed_to},
    world::World,
};

#[test]
fn stream_is_aborted_when_its_sandbox_is_killed() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let mut command = sandbox.start(&shell("echo up; sleep 1000")).await;
        command.until("up\n").await;
        assert_eq!(
            world
                .control("DELETE", &format!("/sandboxes/{}", sandbox.id), None)
                .await
                .status,
            204
        );
        assert_eq!(command.events.next().await, Frame::Torn);
        assert_eq!(sandbox.http("GET", "/health", "").await.status, 502);
    });
}

#[test]
fn http_1_connection_of_a_killed_sandbox_is_reset_on_connectrpc() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    World::run(async |world| {
        for (agent, is_reset) in [
            ("connectrpc/0.11.1", true),
            ("e2b-python-sdk/2.30.0", false),
        ] {
            let sandbox = world.sandbox().await;
            let body = frame(0, &shell("echo up; sleep 1000").to_string());
            let head = format!(
                "POST /process.Process/Start HTTP/1.1\r\nuser-agent: {agent}\r\nhost: {}\r\ne2b-sandbox-id: {}\r\nx-access-token: {}\r\n\
             content-type: application/connect+json\r\nconnect-protocol-version: 1\r\ncontent-length: {}\r\n\r\n",
                world.address,
                sandbox.id,
                sandbox.access_token.as_ref().unwrap(),
                body.len()
            );
            let mut connection = tokio::net::TcpStream::connect(world.address).await.unwrap();
            connection
                .write_all(&[head.as_bytes(), &body].concat())
                .await
                .unwrap();
            let mut told = Vec::new();
            while !String::from_utf8_lossy(&told).contains("dXAK") {
                assert_ne!(
                    connection.read_buf(&mut told).await.unwrap(),
                    0,
                    "{}",
                    String::from_utf8_lossy(&told)
                );
            }
            assert_eq!(
                world
                    .control("DELETE", &format!("/sandboxes/{}", sandbox.id), None)
                    .await
                    .status,
                204
            );
            let end = connection
                .read_to_end(&mut told)
                .await
                .map_err(|error| error.kind());
            assert_eq!(
                end.is_err_and(|kind| kind == std::io::ErrorKind::ConnectionReset),
                is_reset,
                "{agent}"
            );
        }
    });
}

#[test]
fn stream_is_aborted_by_a_pause_without_memory() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let mut command = sandbox.start(&shell("echo up; sleep 1000")).await;
        command.until("up\n").await;
        let pause = format!("/sandboxes/{}/pause", sandbox.id);
        assert_eq!(
            world
                .control("POST", &pause, Some(&json!({ "memory": false })))
                .await
                .status,
            204
        );
        assert_eq!(command.events.next().await, Frame::Torn);
    });
}

#[test]
fn stream_is_aborted_when_the_host_stops() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let mut command = sandbox.start(&shell("echo up; sleep 1000")).await;
        command.until("up\n").await;
        world.stop.cancel();
        assert_eq!(command.events.next().await, Frame::Torn);
    });
}

#[test]
fn http_2_stream_is_reset_without_its_connection() {
    World::run(async |world| {
        let (killed, other) = (world.sandbox().await, world.sandbox().await);
        let mut connection = Http2::open(world.address).await;
        let torn = connection
            .stream(
                &killed,
                "process.Process/Start",
                &shell("echo up; sleep 1000"),
            )
            .await;
        let kept = connection
            .stream(
                &other,
                "process.Process/Start",
                &typed_to("read line; echo over"),
            )
            .await;
        assert_eq!(
            world
                .control("DELETE", &format!("/sandboxes/{}", killed.id), None)
                .await
                .status,
            204
        );
        assert!(torn.collect().await.is_err());
        let pid = other.commands().await[0]["pid"].as_u64().unwrap();
        assert_eq!(other.send(pid, "stdin", "go\n").await.status, 200);
        let told = kept.collect().await.unwrap().to_bytes();
        assert!(told.ends_with(&frame(2, "{}")), "{told:?}");
    });
}
