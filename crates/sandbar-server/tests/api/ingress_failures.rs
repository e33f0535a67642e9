//! Errors of requests to ports of sessions.

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

use crate::{
    ingress_world::{PORT, Ports},
    raw::{exchange, send},
    world::World,
};

#[test]
fn ingress_errors_name_the_problem() {
    World::run_isolated(async |world| {
        let (one, process) = world.web_session("one", Ports::Public).await;
        let bare = world.isolated_session("bare", Ports::Public).await;
        let expect = async |request: http::request::Builder, status: StatusCode, words: &[&str]| {
            let answer = world.ask(request).await;
            assert_eq!(answer.status, status, "{}", answer.text());
            assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
            for words in words.iter().chain(&["sandbar: ", "\nhint: "]) {
                assert!(answer.text().contains(words), "{words}: {}", answer.text());
            }
        };
        let named = |host: &str| Request::get("/").header("host", host);
        expect(
            world
                .to(&"gone".parse().unwrap(), "GET", "/")
                .header("x-sandbar-token", &world.token),
            StatusCode::NOT_FOUND,
            &["`gone` does not exist"],
        )
        .await;
        expect(
            named("80-a.b.localhost"),
            StatusCode::NOT_FOUND,
            &["x-sandbar-session"],
        )
        .await;
        expect(
            named("99999-one.localhost"),
            StatusCode::BAD_REQUEST,
            &["port `99999` is not valid"],
        )
        .await;
        expect(
            Request::get("/")
                .header("host", "localhost")
                .header("x-sandbar-session", "one"),
            StatusCode::BAD_REQUEST,
            &["x-sandbar-port: PORT"],
        )
        .await;
        let nothing =
            |port: u16, name: &str| format!("nothing listens on port {port} of session `{name}`");
        expect(
            world.to(&bare, "GET", "/"),
            StatusCode::BAD_GATEWAY,
            &[&nothing(PORT, "bare")],
        )
        .await;
        expect(
            named("9-one.localhost"),
            StatusCode::BAD_GATEWAY,
            &[&nothing(9, "one")],
        )
        .await;
        for path in ["/garbage", "/unasked"] {
            expect(
                world.to(&one, "GET", path),
                StatusCode::BAD_GATEWAY,
                &["sent no valid HTTP response"],
            )
            .await;
        }
        // A client that sends its body before it reads gets the response as well.
        let large = world
            .to(&bare, "POST", "/")
            .body(Full::new(Bytes::from(vec![0; 8 << 20])))
            .unwrap();
        assert_eq!(
            send(world.address, large).await.status,
            StatusCode::BAD_GATEWAY
        );

        world.host.pause_session(&one).await.unwrap();
        expect(
            world.to(&one, "GET", "/"),
            StatusCode::CONFLICT,
            &["is paused", "sandbar resume one"],
        )
        .await;
        world.host.resume_session(&one).await.unwrap();
        assert_eq!(
            world.ask(world.to(&one, "GET", "/")).await.text(),
            "one got GET /"
        );
        world.host.kill_process(&one, &process, 9).await.unwrap();
        world
            .host
            .wait_process(&one, &process, sandbar_core::WaitFor::Exited)
            .await
            .unwrap();
        expect(
            world.to(&one, "GET", "/"),
            StatusCode::BAD_GATEWAY,
            &[&nothing(PORT, "one")],
        )
        .await;
        world.host.destroy_session(&one).await.unwrap();
        expect(
            world
                .to(&one, "GET", "/")
                .header("x-sandbar-token", &world.token),
            StatusCode::NOT_FOUND,
            &["`one` does not exist"],
        )
        .await;
    });
}

#[test]
fn truncated_response_is_truncated_for_the_client() {
    World::run_isolated(async |world| {
        let (one, _) = world.web_session("one", Ports::Public).await;
        let get = |path: &str| {
            exchange(
                world.address,
                world.to(&one, "GET", path).body(Full::default()).unwrap(),
            )
        };
        let mut broken = get("/broken").await;
        assert_eq!(broken.response.status(), StatusCode::OK);
        assert!(broken.response.body_mut().collect().await.is_err());

        let mut endless = get("/endless").await;
        let first = endless.response.body_mut().frame().await.unwrap().unwrap();
        assert_eq!(first.into_data().unwrap(), "first");
        world.host.destroy_session(&one).await.unwrap();
        assert!(endless.response.body_mut().collect().await.is_err());
    });
}

#[test]
fn client_disconnect_closes_the_session_connection() {
    World::run_isolated(async |world| {
        let (one, _) = world.web_session("one", Ports::Public).await;
        let exists = async |file: &str| {
            world
                .host
                .stat(&one, format!("/workspace/{file}").as_ref())
                .await
                .is_ok()
        };
        let eventually = async |file: &str| {
            while !exists(file).await {
                tokio::task::yield_now().await;
            }
        };
        let mut client = TcpStream::connect(world.address).await.unwrap();
        let request = format!(
            "GET /silent HTTP/1.1\r\nHost: {}\r\n\r\n",
            world.name_of(&one)
        );
        client.write_all(request.as_bytes()).await.unwrap();
        eventually("asked").await;
        assert!(!exists("gone").await);
        drop(client);
        eventually("gone").await;
    });
}
