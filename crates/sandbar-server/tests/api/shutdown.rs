//! Server shutdown.

use std::io::ErrorKind;

use sandbar_client::{Client, WireProtocol};
use sandbar_core::{ErrorCode, ExecEvent, ExecSpec, LogQuery, ProcessSpec, StdinMode, WaitFor};
use sandbar_server::{ServerConfig, serve};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::world::{World, shell};

#[test]
fn shutdown_drains_running_calls_and_accepts_no_new_ones() {
    World::run(async |world| {
        let client = world.client(WireProtocol::Grpc).await;
        let session = world.session(&client).await;
        let stop = CancellationToken::new();
        let config = ServerConfig::new("127.0.0.1:0".parse().unwrap(), None);
        let server = serve(world.host.clone(), config, stop.clone())
            .await
            .unwrap();
        let address = server.address();
        let other = Client::connect(&format!("http://{address}"), None)
            .await
            .unwrap();
        let spec = ExecSpec {
            stdin: StdinMode::Piped,
            ..shell("echo ready; cat")
        };
        let mut command = other.exec(&session.id, spec).await.unwrap();
        assert_eq!(
            command.next_event().await.unwrap(),
            Some(ExecEvent::Stdout("ready\n".into()))
        );
        stop.cancel();
        // The port closes at once, and the call continues.
        loop {
            match TcpStream::connect(address).await {
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => break,
                _ => tokio::task::yield_now().await,
            }
        }
        let stdin = command.stdin().unwrap();
        stdin.write("last words".into()).await.unwrap();
        stdin.close().await.unwrap();
        assert_eq!(
            command.next_event().await.unwrap(),
            Some(ExecEvent::Stdout("last words".into()))
        );
        assert!(
            matches!(command.next_event().await.unwrap(), Some(ExecEvent::Exited(status)) if status.code == Some(0))
        );
        assert_eq!(command.next_event().await.unwrap(), None);
        drop((command, stdin, other));
        server.finished().await.unwrap();
        assert_eq!(
            client.get_session(&session.id).await.unwrap().id,
            session.id
        );
    });
}

#[test]
fn wait_process_ends_at_server_shutdown() {
    World::run(async |world| {
        let client = world.client(WireProtocol::Grpc).await;
        let id = &world.session(&client).await.id;
        let process = &client
            .launch_process(id, ProcessSpec::new(["/bin/sleep", "600"]))
            .await
            .unwrap()
            .id;
        let stop = CancellationToken::new();
        let config = ServerConfig::new("127.0.0.1:0".parse().unwrap(), None);
        let server = serve(world.host.clone(), config, stop.clone())
            .await
            .unwrap();
        let other = Client::connect(&format!("http://{}", server.address()), None)
            .await
            .unwrap();
        let follow = LogQuery {
            follow: true,
            ..LogQuery::default()
        };
        let mut logs = other.process_logs(id, process, follow).await.unwrap();
        let (following, waiting) = tokio::join!(async { logs.next().await }, async {
            let wait = other.wait_process(id, process, WaitFor::Exited);
            stop.cancel();
            wait.await
        });
        assert_eq!(following.unwrap_err().code(), ErrorCode::Unavailable);
        assert_eq!(waiting.unwrap_err().code(), ErrorCode::Unavailable);
        drop((logs, other));
        server.finished().await.unwrap();
        // The process is not affected by the end of the wait.
        assert!(
            client
                .get_process_status(id, process)
                .await
                .unwrap()
                .exit
                .is_none()
        );
    });
}
