//! Access control for ports of sessions.

use http::{Request, StatusCode, request::Builder};
use http_body_util::Full;
use sandbar_core::{NetworkPolicy, SessionState};
use sandbar_server::{ServerConfig, serve};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    ingress_world::{PORT, Ports},
    raw::send,
    world::World,
};

#[test]
fn private_port_accepts_traffic_and_host_tokens_only() {
    World::run_isolated(async |world| {
        let (private, _) = world.web_session("private", Ports::Private).await;
        let (public, _) = world.web_session("public", Ports::Public).await;
        let token = async |id| {
            world
                .host
                .port_access(id)
                .await
                .unwrap()
                .token
                .reveal()
                .to_owned()
        };
        let (own, other) = (token(&private).await, token(&public).await);
        let get = |id| world.to(id, "GET", "/");
        for (name, value, status) in [
            ("x-sandbar-traffic-token", &own, StatusCode::OK),
            ("x-sandbar-token", &world.token, StatusCode::OK),
            ("x-sandbar-traffic-token", &other, StatusCode::UNAUTHORIZED),
            (
                "x-sandbar-traffic-token",
                &world.token,
                StatusCode::UNAUTHORIZED,
            ),
            ("x-sandbar-token", &own, StatusCode::UNAUTHORIZED),
            ("x-sandbar-token", &String::new(), StatusCode::UNAUTHORIZED),
            (
                "authorization",
                &format!("Bearer {}", world.token),
                StatusCode::UNAUTHORIZED,
            ),
            ("x-other", &own, StatusCode::UNAUTHORIZED),
        ] {
            let answer = world.ask(get(&private).header(name, value)).await;
            assert_eq!(answer.status, status, "{name}: {value}");
            if status == StatusCode::UNAUTHORIZED {
                assert!(
                    answer
                        .text()
                        .contains("hint: send `x-sandbar-traffic-token`"),
                    "{}",
                    answer.text()
                );
                assert!(answer.headers.contains_key("www-authenticate"));
            }
            // The port is public.
            assert_eq!(
                world.ask(get(&public).header(name, value)).await.status,
                StatusCode::OK
            );
        }
        // A traffic token gives no access to the API.
        let mut call = world.request("ListBases", "application/json", "{}");
        call.headers_mut()
            .insert("authorization", format!("Bearer {own}").parse().unwrap());
        assert_eq!(
            send(world.address, call).await.status,
            StatusCode::UNAUTHORIZED
        );
    });
}

#[test]
fn caller_without_a_token_learns_no_session_id() {
    World::run_isolated(async |world| {
        let (private, _) = world.web_session("private", Ports::Private).await;
        let paused = world.isolated_session("stopped", Ports::Private).await;
        world.host.pause_session(&paused).await.unwrap();
        let other = world.isolated_session("other", Ports::Private).await;
        let narrow = world.token("narrow", &[&format!("session:{other}")]).await;
        let reader = world.token("reader", &["read"]).await;
        let by_name = |id: &str| Request::get("/").header("host", format!("{PORT}-{id}.localhost"));
        let by_headers = |id: &str| {
            Request::get("/")
                .header("host", "localhost")
                .header("x-sandbar-session", id)
                .header("x-sandbar-port", PORT)
        };
        let e2b = |id: &str, port: u16| {
            Request::get("/")
                .header("host", "localhost")
                .header("e2b-sandbox-id", id)
                .header("e2b-sandbox-port", port)
        };
        for (name, value) in [
            ("x-none", ""),
            ("x-sandbar-token", "wrong"),
            ("x-sandbar-token", &narrow),
            ("x-sandbar-token", &reader),
            ("x-sandbar-traffic-token", "wrong"),
            ("cookie", "sandbar_traffic_token=wrong"),
            ("x-access-token", "wrong"),
            ("user-agent", "Mozilla/5.0"),
        ] {
            let answers = async |id: &str| {
                let mut answers = Vec::new();
                for request in [by_name(id), by_headers(id), e2b(id, PORT), e2b(id, 49_983)] {
                    let mut answer = world.ask(request.header(name, value)).await;
                    answer.headers.remove("date");
                    let headers = format!("{:?}", answer.headers).replace(id, "ID");
                    let text = answer.text().replace(id, "ID");
                    answers.push((answer.status, headers, text));
                }
                answers
            };
            let missing = answers("nowhere").await;
            assert_eq!(missing[0].0, StatusCode::UNAUTHORIZED);
            for id in [&private, &paused] {
                assert_eq!(answers(id.as_str()).await, missing, "{name}: {value}");
            }
        }
        assert_eq!(
            world.host.get_session(&paused).await.unwrap().state,
            SessionState::Paused
        );
    });
}

#[test]
fn browser_exchanges_the_token_for_a_cookie() {
    World::run_isolated(async |world| {
        let (private, _) = world.web_session("private", Ports::Private).await;
        let token = world.host.port_access(&private).await.unwrap().token;
        let visit = async |token: &str| {
            world
                .ask(world.to(
                    &private,
                    "GET",
                    &format!("/a?b=c&sandbar_traffic_token={token}"),
                ))
                .await
        };
        assert_eq!(visit("wrong").await.status, StatusCode::UNAUTHORIZED);
        assert_eq!(visit(&world.token).await.status, StatusCode::UNAUTHORIZED);
        let answer = visit(token.reveal()).await;
        assert_eq!(
            (answer.status, &answer.headers["location"]),
            (StatusCode::SEE_OTHER, &"/a?b=c".parse().unwrap())
        );
        let cookie = answer.headers["set-cookie"]
            .to_str()
            .unwrap()
            .split(';')
            .next()
            .unwrap()
            .to_owned();
        let again = async |cookie: &str| {
            world
                .ask(world.to(&private, "GET", "/a?b=c").header("cookie", cookie))
                .await
        };
        assert_eq!(again(&cookie).await.text(), "private got GET /a?b=c");
        assert_eq!(
            again(&format!("{cookie}0")).await.status,
            StatusCode::UNAUTHORIZED
        );
    });
}

#[test]
fn foreign_host_name_reaches_no_session() {
    World::run_isolated(async |world| {
        let (public, _) = world.web_session("public", Ports::Public).await;
        // Requests of a web page that pointed its name at this machine (DNS rebinding).
        for host in [
            format!("{PORT}-public.evil.test"),
            format!("{PORT}-public.localhost.evil.test"),
            format!("{PORT}-public.notlocalhost"),
        ] {
            let answer = world.ask(Request::get("/").header("host", &host)).await;
            assert_eq!(
                (answer.status, &answer.json()["code"]),
                (StatusCode::UNAUTHORIZED, &json!("unauthenticated"))
            );
        }
        let by_headers = |host: &str| {
            let request = Request::get("/").header("host", host);
            request
                .header("x-sandbar-session", "public")
                .header("x-sandbar-port", PORT)
        };
        let status = async |request: Builder| world.ask(request).await.status;
        assert_eq!(
            status(by_headers("evil.test")).await,
            StatusCode::UNAUTHORIZED
        );
        assert_eq!(status(by_headers("127.0.0.1")).await, StatusCode::OK);
        // A proxy may use any name if it has a token.
        assert_eq!(
            status(by_headers("evil.test").header("x-sandbar-token", &world.token)).await,
            StatusCode::OK
        );
        // Headers do not override the host name, so a page of one session cannot reach another.
        let (private, _) = world.web_session("private", Ports::Private).await;
        let page = world
            .to(&public, "GET", "/")
            .header("x-sandbar-session", private.as_str());
        assert_eq!(
            world.ask(page.header("x-sandbar-port", PORT)).await.text(),
            "public got GET /"
        );
    });
}

#[test]
fn api_is_not_served_on_session_host_names() {
    World::run_isolated(async |world| {
        let (public, _) = world.web_session("public", Ports::Public).await;
        for path in [
            "/healthz",
            "/metrics",
            "/sandbar.v1.SandboxService/ListBases",
        ] {
            let answer = world.ask(world.to(&public, "POST", path)).await;
            assert_eq!(answer.text(), format!("public got POST {path}"));
        }
        let mut call = world.request("ListBases", "application/json", "{}");
        call.headers_mut().insert(
            "host",
            world.name_of(&"gone".parse().unwrap()).parse().unwrap(),
        );
        assert_eq!(
            send(world.address, call).await.status,
            StatusCode::UNAUTHORIZED
        );
        for host in ["localhost", "api.localhost", "127.0.0.1"] {
            let mut call = world.request("ListBases", "application/json", "{}");
            call.headers_mut().insert("host", host.parse().unwrap());
            assert!(
                send(world.address, call).await.json()["bases"].is_array(),
                "{host}"
            );
        }
    });
}

#[test]
fn server_without_a_token_opens_all_ports() {
    World::run_isolated(async |world| {
        let (private, _) = world.web_session("private", Ports::Private).await;
        let stop = CancellationToken::new();
        let config = ServerConfig::new("127.0.0.1:0".parse().unwrap(), None);
        let server = serve(world.host.clone(), config, stop.clone())
            .await
            .unwrap();
        let get = |host: &str| {
            let request = Request::get("/")
                .header("host", host)
                .header("x-sandbar-session", private.as_str());
            send(
                server.address(),
                request
                    .header("x-sandbar-port", PORT)
                    .body(Full::default())
                    .unwrap(),
            )
        };
        assert_eq!(
            get(&world.name_of(&private)).await.text(),
            "private got GET /"
        );
        assert_eq!(get("evil.test").await.status, StatusCode::UNAUTHORIZED);
        stop.cancel();
        server.finished().await.unwrap();
    });
}

#[test]
fn runtime_none_serves_exposed_ports_only() {
    World::run(async |world| {
        let mut spec = sandbar_core::SessionSpec::new("small".parse().unwrap());
        spec.network = Some(NetworkPolicy {
            allow_public_ingress: true,
            ..NetworkPolicy::full()
        });
        let id = world.host.create_session(spec).await.unwrap().id;
        // Without isolation the API's port is a port of the session as well.
        let host = format!("{}-{id}.localhost", world.address.port());
        let answer = world
            .ask(Request::get("/healthz").header("host", host))
            .await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN);
        assert!(answer.text().contains("exposes"), "{}", answer.text());
    });
}
