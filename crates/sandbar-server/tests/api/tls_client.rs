//! The Rust client over TLS.

use bytes::Bytes;
use sandbar_client::{Client, ConnectOptions, TlsOptions, WireProtocol};
use sandbar_core::{ErrorCode, ExecEvent, ExecSpec, Result, StdinMode};
use sandbar_server::TlsConfig;

use crate::{
    tls_files::{Authority, Pair},
    world::{Ended, PROTOCOLS, World, shell},
};

async fn connect(
    world: &World,
    protocol: WireProtocol,
    trusted: &Authority,
    own: Option<&Pair>,
) -> Result<Client> {
    let tls = TlsOptions {
        ca_file: Some(trusted.certificate()),
        cert_file: own.map(|pair| pair.certificate.clone()),
        key_file: own.map(|pair| pair.key.clone()),
    };
    let url = format!("https://localhost:{}", world.address.port());
    Client::open(ConnectOptions {
        url,
        token: Some(world.token.clone()),
        protocol,
        tls,
    })
    .await
}

#[test]
fn calls_and_streams_work_over_tls_in_every_protocol() {
    let authority = Authority::new();
    World::run_tls(authority.server("server").tls(), async |world| {
        for protocol in PROTOCOLS {
            let client = connect(world, protocol, &authority, None).await.unwrap();
            let session = world.session(&client).await;
            let ended = Ended::of(
                client
                    .exec(&session.id, shell("echo said; exit 3"))
                    .await
                    .unwrap(),
            )
            .await;
            assert_eq!(
                (ended.text(), ended.status.code),
                ("said\n", Some(3)),
                "{protocol:?}"
            );
            let spec = ExecSpec {
                stdin: StdinMode::Piped,
                ..ExecSpec::new(["/bin/cat"])
            };
            let mut command = client.exec(&session.id, spec).await.unwrap();
            let stdin = command.stdin().unwrap();
            // Each chunk is echoed before the next is sent: both directions are open at once.
            for piece in ["one", "two"] {
                stdin
                    .write(Bytes::from_static(piece.as_bytes()))
                    .await
                    .unwrap();
                let heard = command.next_event().await.unwrap();
                assert!(
                    matches!(&heard, Some(ExecEvent::Stdout(bytes)) if bytes == piece),
                    "{heard:?}"
                );
            }
            stdin.close().await.unwrap();
            assert_eq!(Ended::of(command).await.status.code, Some(0));
            client.destroy_session(&session.id).await.unwrap();
        }
    });
}

#[test]
fn client_rejects_a_host_with_an_untrusted_certificate() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    World::run_tls(authority.server("server").tls(), async |world| {
        let error = connect(world, WireProtocol::Connect, &stranger, None)
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::Unavailable, "{error:?}");
        assert!(error.chain().contains("certificate"), "{}", error.chain());
    });
}

#[test]
fn client_sends_its_certificate_on_request() {
    let (servers, clients, strangers) = (Authority::new(), Authority::new(), Authority::new());
    let tls = TlsConfig {
        client_ca: Some(clients.certificate()),
        ..servers.server("server").tls()
    };
    World::run_tls(tls, async |world| {
        let ask = async |own: Option<&Pair>| {
            let client = connect(world, WireProtocol::Connect, &servers, own).await?;
            client.capabilities().await.map(drop)
        };
        ask(Some(&clients.client("known"))).await.unwrap();
        for own in [None, Some(&strangers.client("foreign"))] {
            let error = ask(own).await.unwrap_err();
            assert_eq!(error.code(), ErrorCode::Unavailable, "{error:?}");
        }
    });
}
