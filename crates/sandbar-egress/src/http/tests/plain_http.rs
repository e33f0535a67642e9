//! Plain HTTP, to the proxy and to servers.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]

use std::sync::{Arc, atomic::Ordering};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{
    super::{Origin, serve_http},
    servers::{self, MEBIBYTE},
    world::{World, ask, policy, say, with_secret},
};
use crate::egress_context::EgressContext;

fn allowing(entries: &str) -> World {
    World::new(format!("allow={entries}").parse().unwrap())
}

#[tokio::test]
async fn request_goes_to_its_host_and_is_recorded_once() {
    let world = allowing("a.example");
    let server = servers::plain(&world).await;
    world.leads("a.example", server.address);
    let mut stream = TcpStream::connect(world.transparent().await).await.unwrap();
    for _ in 0..3 {
        let heard = ask(
            &mut stream,
            "GET /x?y HTTP/1.1\r\nHost: A.example\r\nConnection: X-Mine\r\nX-Mine: 1\r\nProxy-Authorization: x\r\n\r\n",
        )
        .await;
        assert!(heard.starts_with("HTTP/1.1 200 OK\r\n"), "{heard}");
        assert!(
            heard.ends_with("\r\n\r\nGET /x?y HTTP/1.1\nhost: a.example\n"),
            "{heard}"
        );
        assert!(
            !heard.contains("x-private") && !heard.contains("via"),
            "{heard}"
        );
    }
    assert_eq!(
        server.connections.load(Ordering::SeqCst),
        1,
        "the connection is used again"
    );
    assert_eq!(world.decided(), ["allow http a.example:80"]);
}

#[tokio::test]
async fn every_request_is_judged_by_its_own_host() {
    let world = allowing("a.example,b.example");
    let (first, second) = (servers::plain(&world).await, servers::plain(&world).await);
    world.leads("a.example", first.address);
    world.leads("b.example", second.address);
    world.leads("c.example", first.address);
    let mut stream = TcpStream::connect(world.transparent().await).await.unwrap();
    for host in [
        "a.example",
        "b.example",
        "c.example",
        "a.example",
        "c.example",
    ] {
        let heard = ask(
            &mut stream,
            &format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"),
        )
        .await;
        if host == "c.example" {
            assert!(heard.starts_with("HTTP/1.1 403 "), "{heard}");
            assert!(heard.contains("x-sandbar-denied: 1\r\n"), "{heard}");
            let reason = "sandbar: c.example:80 may not be reached: not in the allow list\n";
            assert!(heard.ends_with(reason), "{heard}");
        } else {
            assert!(heard.contains(&format!("host: {host}\n")), "{heard}");
        }
    }
    assert_eq!(first.connections.load(Ordering::SeqCst), 1);
    assert_eq!(second.connections.load(Ordering::SeqCst), 1);
    let decided = [
        "allow http a.example:80",
        "allow http b.example:80",
        "deny http c.example:80",
    ];
    assert_eq!(world.decided(), decided);
}

#[tokio::test]
async fn connection_is_not_reused_after_a_policy_change() {
    let world = allowing("a.example");
    let server = servers::plain(&world).await;
    world.leads("a.example", server.address);
    let mut stream = TcpStream::connect(world.transparent().await).await.unwrap();
    let request = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
    assert!(ask(&mut stream, request).await.starts_with("HTTP/1.1 200 "));
    world.set_policy(policy(r#"{"allow_list": ["b.example"]}"#));
    assert!(ask(&mut stream, request).await.starts_with("HTTP/1.1 403 "));
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn request_is_retried_when_the_idle_server_closed() {
    let world = allowing("a.example");
    let server = servers::one_answer_each(&world).await;
    world.leads("a.example", server.address);
    let mut stream = TcpStream::connect(world.transparent().await).await.unwrap();
    for number in 1..5 {
        let heard = ask(&mut stream, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
        assert!(heard.starts_with("HTTP/1.1 200 "), "{heard}");
        assert_eq!(server.connections.load(Ordering::SeqCst), number);
    }
}

#[tokio::test]
async fn dropped_engine_ends_its_connections() {
    let world = allowing("a.example");
    let server = servers::plain(&world).await;
    world.leads("a.example", server.address);
    for request in [
        "GET /endless HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "GET /socket HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    ] {
        let (mut client, io) = tokio::io::duplex(1024);
        let origin = Origin::Transparent {
            to: "203.0.113.7:80".parse().unwrap(),
        };
        let serving = tokio::spawn(serve_http(
            io,
            origin,
            Arc::clone(&world.context) as Arc<dyn EgressContext>,
        ));
        client.write_all(request.as_bytes()).await.unwrap();
        assert_ne!(client.read(&mut [0; 512]).await.unwrap(), 0);
        serving.abort();
        assert!(serving.await.unwrap_err().is_cancelled());
        let mut rest = Vec::new();
        let _ = client.read_to_end(&mut rest).await;
        let _ = server
            .ended
            .clone()
            .wait_for(|ended| *ended == server.connections.load(Ordering::SeqCst))
            .await;
    }
}

#[tokio::test]
async fn client_with_large_body_receives_the_refusal() {
    let world = allowing("a.example");
    let mut stream = TcpStream::connect(world.transparent().await).await.unwrap();
    let length = 8 * MEBIBYTE;
    for _ in 0..2 {
        let head =
            format!("POST / HTTP/1.1\r\nHost: b.example\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&vec![0; length]).await.unwrap();
        assert!(ask(&mut stream, "").await.starts_with("HTTP/1.1 403 "));
    }
}

#[tokio::test]
async fn ambiguous_request_is_refused() {
    let world = allowing("a.example,b.example");
    let (server, recorded) = servers::recorder(&world, servers::OK).await;
    world.leads("a.example", server);
    world.leads("b.example", server);
    let address = world.transparent().await;
    for bad in [
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.example\r\nHost: a.example\r\n\r\n",
        "GET http://b.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: user@a.example\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.example:81\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.example\r\nX-A: 1\r\n folded: 2\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.example\r\nX-A : 1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a.example\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: +1\r\n\r\nx",
        "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.0\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ] {
        let heard = say(
            address,
            &bad.replacen("\r\n", "\r\nConnection: close\r\n", 1),
        )
        .await;
        assert!(
            heard.starts_with("HTTP/1.1 400 ") || heard.starts_with("HTTP/1.0 400 "),
            "{bad:?}: {heard:?}"
        );
    }
    assert_eq!(say(address, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await, "");
    assert_eq!(String::from_utf8_lossy(&recorded.lock().unwrap()), "");
    let connect =
        "CONNECT a.example:80 HTTP/1.1\r\nHost: a.example:80\r\nConnection: close\r\n\r\n";
    assert!(say(address, connect).await.starts_with("HTTP/1.1 405 "));
    let long = format!(
        "GET / HTTP/1.1\r\nHost: a.example\r\nX-Long: {}\r\n\r\n",
        "x".repeat(70_000)
    );
    assert!(say(address, &long).await.starts_with("HTTP/1.1 431 "));
}

#[tokio::test]
async fn body_with_two_lengths_is_forwarded_with_one() {
    let world = allowing("a.example");
    let (server, recorded) = servers::recorder(&world, servers::OK).await;
    world.leads("a.example", server);
    let smuggled = "POST / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nContent-Length: 4\r\n\
                    Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let heard = say(world.transparent().await, smuggled).await;
    assert!(heard.ends_with("ok"), "{heard}");
    let recorded = String::from_utf8(recorded.lock().unwrap().clone())
        .unwrap()
        .to_lowercase();
    assert!(
        recorded.contains("transfer-encoding: chunked\r\n") && !recorded.contains("content-length"),
        "{recorded}"
    );
    assert!(recorded.ends_with("5\r\nhello\r\n0\r\n\r\n"), "{recorded}");
}

#[tokio::test]
async fn header_case_and_body_of_a_get_are_kept() {
    let world = allowing("a.example");
    let (server, recorded) = servers::recorder(&world, servers::OK).await;
    world.leads("a.example", server);
    let odd = "GET / HTTP/1.1\r\nHost: a.example\r\nX-MiXed: 1\r\nConnection: close\r\n\
               Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
    assert!(say(world.transparent().await, odd).await.ends_with("ok"));
    let recorded = String::from_utf8(recorded.lock().unwrap().clone()).unwrap();
    assert!(
        recorded.contains("X-MiXed: 1\r\n") && recorded.ends_with("2\r\nhi\r\n0\r\n\r\n"),
        "{recorded}"
    );
}

#[tokio::test]
async fn plain_http_gets_no_secret() {
    let world = World::new(with_secret("api.example"));
    let server = servers::plain(&world).await;
    world.leads("api.example", server.address);
    let mut stream = TcpStream::connect(world.transparent().await).await.unwrap();
    let heard = ask(&mut stream, "GET / HTTP/1.1\r\nHost: api.example\r\n\r\n").await;
    assert!(
        heard.starts_with("HTTP/1.1 200 ") && !heard.contains("authorization"),
        "{heard}"
    );
    assert_eq!(world.decided(), ["allow http api.example:80"]);
}

#[tokio::test]
async fn proxy_request_needs_an_absolute_uri() {
    let world = allowing("a.example");
    let server = servers::plain(&world).await;
    world.leads("a.example", server.address);
    let address = world.listen(Origin::Explicit).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let heard = ask(
        &mut stream,
        "GET http://a.example/x HTTP/1.1\r\nHost: other.example\r\n\r\n",
    )
    .await;
    assert!(
        heard.ends_with("GET /x HTTP/1.1\nhost: a.example\n"),
        "{heard}"
    );
    let heard = ask(
        &mut stream,
        "GET http://b.example:8080/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
    )
    .await;
    assert!(
        heard.starts_with("HTTP/1.1 403 ") && heard.contains("b.example:8080"),
        "{heard}"
    );
    let heard = ask(&mut stream, "GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
    assert!(heard.starts_with("HTTP/1.1 400 "), "{heard}");
    assert_eq!(
        world.decided(),
        ["allow proxy a.example:80", "deny proxy b.example:8080"]
    );
}

#[tokio::test]
async fn unreachable_server_is_reported() {
    let world = allowing("a.example,b.example");
    let free = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    world.leads("a.example", free);
    let mut stream = TcpStream::connect(world.transparent().await).await.unwrap();
    for host in ["a.example", "b.example"] {
        let heard = ask(
            &mut stream,
            &format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"),
        )
        .await;
        assert!(heard.starts_with("HTTP/1.1 502 "), "{heard}");
        assert!(
            heard.contains(&format!("sandbar: {host}:80 cannot be reached: ")),
            "{heard}"
        );
    }
}

#[tokio::test]
async fn expect_continue_is_answered() {
    let world = allowing("a.example");
    let server = servers::plain(&world).await;
    world.leads("a.example", server.address);
    let mut stream = TcpStream::connect(world.transparent().await).await.unwrap();
    let request = "POST /same HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    assert_eq!(
        ask(&mut stream, request).await,
        "HTTP/1.1 100 Continue\r\n\r\n"
    );
    let heard = ask(&mut stream, "hello").await;
    assert!(
        heard.starts_with("HTTP/1.1 200 ") && heard.ends_with("\r\n\r\nhello"),
        "{heard}"
    );
    let denied = request.replace("a.example", "b.example");
    assert!(
        ask(&mut stream, &denied).await.starts_with("HTTP/1.1 403 "),
        "before anything is sent"
    );
}

#[tokio::test]
async fn trailers_and_empty_responses_are_forwarded() {
    let world = allowing("a.example");
    let server = servers::plain(&world).await;
    world.leads("a.example", server.address);
    let address = world.transparent().await;
    let request = "GET /trailers HTTP/1.1\r\nHost: a.example\r\nTE: trailers\r\nConnection: TE, close\r\n\r\n";
    let heard = say(address, request).await;
    assert!(heard.contains("x-sum: 42\r\n"), "{heard}");
    let heard = say(
        address,
        "HEAD / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n",
    )
    .await;
    assert!(
        heard.contains("content-length: ") && heard.ends_with("\r\n\r\n"),
        "{heard}"
    );
    let heard = say(address, "GET /trailers HTTP/1.0\r\nHost: a.example\r\n\r\n").await;
    assert!(heard.ends_with("\r\n\r\nbody"), "{heard}");
}

#[tokio::test]
async fn web_socket_is_relayed_both_ways() {
    let world = allowing("a.example");
    let server = servers::plain(&world).await;
    world.leads("a.example", server.address);
    let mut stream = TcpStream::connect(world.transparent().await).await.unwrap();
    let request = "GET /socket HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let heard = ask(&mut stream, request).await;
    assert!(
        heard.starts_with("HTTP/1.1 101 ") && heard.contains("upgrade: websocket\r\n"),
        "{heard}"
    );
    for words in ["one", "two"] {
        stream.write_all(words.as_bytes()).await.unwrap();
        let mut heard = [0; 3];
        stream.read_exact(&mut heard).await.unwrap();
        assert_eq!(heard, words.as_bytes());
    }
    stream.shutdown().await.unwrap();
    assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 0);
}

#[tokio::test]
async fn upgrade_to_http_is_ignored() {
    let world = allowing("a.example");
    let server = servers::plain(&world).await;
    world.leads("a.example", server.address);
    let mut stream = TcpStream::connect(world.transparent().await).await.unwrap();
    let request = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade, HTTP2-Settings\r\n\
                   Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n";
    let heard = ask(&mut stream, request).await;
    assert!(
        heard.starts_with("HTTP/1.1 200 ") && !heard.contains("h2c"),
        "{heard}"
    );
    let switch =
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    let (server, _) = servers::recorder(&world, switch).await;
    world.leads("a.example", server);
    let heard = say(
        world.transparent().await,
        "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n",
    )
    .await;
    assert!(
        heard.starts_with("HTTP/1.1 502 ") && heard.contains("switched protocols"),
        "{heard}"
    );
}

fn peak_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim()
        .trim_end_matches(" kB")
        .parse::<usize>()
        .unwrap()
        * 1024
}

#[tokio::test]
async fn large_bodies_are_streamed() {
    let world = allowing("a.example");
    let server = servers::plain(&world).await;
    world.leads("a.example", server.address);
    let address = world.transparent().await;
    let before = peak_memory();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream
        .write_all(b"GET /big HTTP/1.0\r\nHost: a.example\r\n\r\n")
        .await
        .unwrap();
    let (mut buffer, mut received) = (vec![0; 64 * 1024], 0);
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        received += count;
    }
    assert!(received > 64 * MEBIBYTE, "{received}");
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = 64 * MEBIBYTE;
    let head =
        format!("POST /count HTTP/1.1\r\nHost: a.example\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..length / buffer.len() {
        stream.write_all(&buffer).await.unwrap();
    }
    assert!(
        ask(&mut stream, "")
            .await
            .ends_with(&format!("\r\n\r\n{length}"))
    );
    let grown = peak_memory() - before;
    assert!(grown < 24 * MEBIBYTE, "{grown} bytes more memory");
}

#[tokio::test]
async fn unlisted_host_at_an_open_address_is_reached() {
    let world = World::new(policy(
        r#"{"allow_list": ["127.0.0.1"], "deny_list": ["denied.example"]}"#,
    ));
    let server = servers::plain(&world).await;
    let address = world
        .listen(Origin::Transparent { to: server.address })
        .await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let heard = ask(
        &mut stream,
        "GET / HTTP/1.1\r\nHost: intern.example\r\n\r\n",
    )
    .await;
    assert!(heard.contains("host: intern.example\n"), "{heard}");
    let heard = ask(
        &mut stream,
        "GET / HTTP/1.1\r\nHost: denied.example\r\n\r\n",
    )
    .await;
    assert!(heard.starts_with("HTTP/1.1 403 "), "{heard}");
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
}
