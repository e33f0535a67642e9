//! Ports of sandboxes.

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use sandbar_core::{ProcessSpec, Readiness, SessionId, WaitFor};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    client::{Answer, Sandbox, send},
    world::World,
};

/// Port of the servers in the sandboxes.
pub(crate) const PORT: u16 = 8000;

const WEB: &str = include_str!("../../../sandbar-server/tests/api/servers/web.pl");

/// A web server that speaks TLS on port 8443, and closes connections without `close_notify`.
const SECURE_WEB: &str = r#"
import http.server, ssl
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"secured")
server = http.server.ThreadingHTTPServer(("0.0.0.0", 8443), Page)
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain("cert.pem", "key.pem")
server.socket = tls.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"#;

/// Starts a web server on [`PORT`] of a sandbox.
pub(crate) async fn serve_in(world: &World, sandbox: &str) {
    let id: SessionId = sandbox.parse().unwrap();
    let ready = Readiness::Tcp { port: Some(PORT) };
    let argv = ["perl", "-e", WEB, "8000", "web"];
    let process = world
        .host
        .launch_process(
            &id,
            ProcessSpec {
                ready,
                ..ProcessSpec::new(argv)
            },
        )
        .await
        .unwrap()
        .id;
    world
        .host
        .wait_process(&id, &process, WaitFor::Ready)
        .await
        .unwrap();
}

/// A request to a port of a sandbox, by the headers of the SDKs.
fn to(world: &World, sandbox: &str, port: u16, path: &str) -> http::request::Builder {
    Request::get(path)
        .header("host", world.address.to_string())
        .header("e2b-sandbox-id", sandbox)
        .header("e2b-sandbox-port", port.to_string())
}

async fn ask(world: &World, request: http::request::Builder) -> Answer {
    send(world.address, request.body(Full::default()).unwrap()).await
}

/// A sandbox with a web server in it.
async fn web_sandbox(world: &World, more: Value) -> Sandbox {
    let mut body = json!({ "templateID": "base", "timeout": 300 });
    body.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let sandbox = world.sandbox_with(body).await;
    serve_in(world, &sandbox.id).await;
    sandbox
}

#[test]
fn server_is_reached_by_headers_and_by_name() {
    World::run(async |world| {
        let sandbox = web_sandbox(world, json!({})).await;
        let by_name =
            Request::get("/page").header("host", format!("{PORT}-{}.localhost", sandbox.id));
        for request in [to(world, &sandbox.id, PORT, "/page"), by_name] {
            let answer = ask(world, request).await;
            assert_eq!(
                (answer.status, answer.text()),
                (StatusCode::OK, "web got GET /page")
            );
        }
        // Credentials for the host were not forwarded.
        let head = ask(
            world,
            to(world, &sandbox.id, PORT, "/head")
                .header("x-access-token", sandbox.access_token.as_deref().unwrap())
                .header("x-api-key", &world.api_key)
                .header("e2b-traffic-access-token", "anything")
                .header("x-other", "kept"),
        )
        .await
        .text()
        .to_lowercase();
        assert!(head.contains("x-other: kept"), "{head}");
        for ours in ["e2b-", "x-access-token", "x-api-key"] {
            assert!(!head.contains(ours), "{ours} in {head}");
        }
        let of_the_application =
            to(world, &sandbox.id, PORT, "/head").header("x-api-key", "of the application");
        assert!(
            ask(world, of_the_application)
                .await
                .text()
                .contains("of the application")
        );
    });
}

#[test]
fn unreachable_port_is_reported_with_the_text_sdks_parse() {
    World::run(async |world| {
        let sandbox = web_sandbox(world, json!({})).await;
        let closed = json!({
            "sandboxId": sandbox.id, "message": "The sandbox is running but port is not open", "code": 502, "port": 3000
        });
        let name = format!("3000-{}.localhost", sandbox.id);
        for request in [
            to(world, &sandbox.id, 3000, "/"),
            Request::get("/").header("host", &name),
        ] {
            let answer = ask(world, request).await;
            assert_eq!(
                (answer.status.as_u16(), answer.json()),
                (502, closed.clone())
            );
            assert_eq!(
                answer.headers["content-type"],
                "application/json; charset=utf-8"
            );
        }
        let browser = Request::get("/")
            .header("host", &name)
            .header("user-agent", "Mozilla/5.0");
        let page = ask(world, browser).await;
        assert_eq!(
            (
                page.status.as_u16(),
                page.headers["content-type"].to_str().unwrap()
            ),
            (502, "text/html; charset=utf-8")
        );
        assert!(page.text().contains("port is not open"), "{}", page.text());

        let gone = |id: &str| json!({ "sandboxId": id, "message": "The sandbox was not found", "code": 502 });
        for unknown in ["isbx1", "no/id"] {
            for port in [PORT, 49_983] {
                let answer = ask(world, to(world, unknown, port, "/health")).await;
                assert_eq!(
                    (answer.status.as_u16(), answer.json()),
                    (502, gone(unknown)),
                    "{port}"
                );
            }
        }
        assert_eq!(
            ask(world, to(world, &sandbox.id, 49_983, "/health"))
                .await
                .status,
            204
        );
        let paused = world
            .control("POST", &format!("/sandboxes/{}/pause", sandbox.id), None)
            .await;
        assert_eq!(paused.status, 204, "{}", paused.text());
        // Health needs no token.
        assert_eq!(
            ask(world, to(world, &sandbox.id, 49_983, "/health"))
                .await
                .json(),
            gone(&sandbox.id)
        );
        for port in [PORT, 49_983] {
            let request = to(world, &sandbox.id, port, "/health");
            let request =
                request.header("x-access-token", sandbox.access_token.as_deref().unwrap());
            let answer = ask(world, request).await;
            assert_eq!(
                (answer.status.as_u16(), answer.json()),
                (502, gone(&sandbox.id)),
                "{port}"
            );
        }

        // A request with our own headers gets our own errors.
        let native = Request::get("/")
            .header("host", "localhost")
            .header("x-sandbar-session", &sandbox.id)
            .header("x-sandbar-port", "8000");
        let answer = ask(world, native).await;
        assert_eq!(
            (
                answer.status.as_u16(),
                answer.text().starts_with("sandbar: ")
            ),
            (409, true),
            "{}",
            answer.text()
        );
    });
}

#[test]
fn private_port_requires_the_traffic_token() {
    World::run(async |world| {
        let sandbox =
            web_sandbox(world, json!({ "network": { "allowPublicTraffic": false } })).await;
        let refused = async |request: http::request::Builder, words: &str| {
            let answer = ask(world, request).await;
            assert_eq!(
                (answer.status.as_u16(), answer.json()["code"].as_u64()),
                (403, Some(403))
            );
            assert!(
                answer.json()["message"].as_str().unwrap().ends_with(words),
                "{}",
                answer.text()
            );
        };
        let by_name =
            || Request::get("/").header("host", format!("{PORT}-{}.localhost", sandbox.id));
        refused(
            to(world, &sandbox.id, PORT, "/"),
            "header 'e2b-traffic-access-token' is missing",
        )
        .await;
        // By name and without a token the answer does not tell whether the sandbox exists.
        let unnamed = ask(world, by_name()).await;
        assert_eq!(unnamed.status.as_u16(), 401, "{}", unnamed.text());
        refused(
            to(world, &sandbox.id, PORT, "/").header("e2b-traffic-access-token", "wrong"),
            "'e2b-traffic-access-token' is invalid",
        )
        .await;
        let token = sandbox.traffic_token.as_deref().unwrap();
        for request in [to(world, &sandbox.id, PORT, "/head"), by_name()] {
            let answer = ask(world, request.header("e2b-traffic-access-token", token)).await;
            assert_eq!(answer.status, StatusCode::OK);
            assert!(!answer.text().contains(token), "{}", answer.text());
        }
        assert_eq!(
            sandbox.http("GET", "/health", "").await.status,
            204,
            "the agent has a token of its own"
        );
    });
}

#[test]
fn host_header_of_a_port_can_be_replaced() {
    World::run(async |world| {
        let network = json!({ "network": { "maskRequestHost": "localhost:${PORT}" } });
        let sandbox = web_sandbox(world, network).await;
        let head = ask(world, to(world, &sandbox.id, PORT, "/head"))
            .await
            .text()
            .to_owned();
        // Notation of E2B.
        assert!(head.contains("\r\nHost: localhost:8000\r\n"), "{head}");
        assert!(
            head.contains(&format!("X-Forwarded-Host: {}", world.address)),
            "{head}"
        );
    });
}

#[test]
fn https_port_is_reached_over_tls() {
    World::run(async |world| {
        let body =
            json!({ "templateID": "base", "timeout": 300, "network": { "httpsPorts": [8443] } });
        let sandbox = world.sandbox_with(body).await;
        let told = world
            .control("GET", &format!("/sandboxes/{}", sandbox.id), None)
            .await
            .json();
        assert_eq!(told["network"]["httpsPorts"], json!([8443]));
        let script = format!(
            r#"cd /tmp && printf "[req]\ndistinguished_name=n\n[n]\n" > req.cnf
            openssl req -config req.cnf -x509 -newkey rsa:2048 -keyout key.pem -out cert.pem -days 1 -nodes -subj /CN=other
            exec python3 -c '{SECURE_WEB}'"#
        );
        let id: SessionId = sandbox.id.parse().unwrap();
        let ready = Readiness::Tcp { port: Some(8443) };
        let spec = ProcessSpec {
            ready,
            ..ProcessSpec::new(["/bin/sh", "-c", &script])
        };
        let process = world.host.launch_process(&id, spec).await.unwrap().id;
        world
            .host
            .wait_process(&id, &process, WaitFor::Ready)
            .await
            .unwrap();
        for host in [
            world.address.to_string(),
            format!("8443-{}.localhost", sandbox.id),
        ] {
            let request = Request::get("/").header("host", host);
            let request = request
                .header("e2b-sandbox-id", &sandbox.id)
                .header("e2b-sandbox-port", "8443");
            let answer = ask(world, request).await;
            assert_eq!((answer.status, answer.text()), (StatusCode::OK, "secured"));
        }
    });
}

#[test]
fn request_to_a_port_wakes_an_auto_resume_sandbox() {
    World::run(async |world| {
        let sandbox = web_sandbox(
            world,
            json!({ "autoPause": true, "autoResume": { "enabled": true } }),
        )
        .await;
        let pause = async || {
            let paused = world
                .control("POST", &format!("/sandboxes/{}/pause", sandbox.id), None)
                .await;
            assert_eq!(paused.status, 204, "{}", paused.text());
        };
        for name in [
            world.address.to_string(),
            format!("{PORT}-{}.localhost", sandbox.id),
        ] {
            pause().await;
            let request = Request::get("/")
                .header("e2b-sandbox-id", &sandbox.id)
                .header("e2b-sandbox-port", "8000");
            let answer = ask(world, request.header("host", name)).await;
            assert_eq!(
                (answer.status, answer.text()),
                (StatusCode::OK, "web got GET /")
            );
        }
        pause().await;
        assert_eq!(sandbox.http("GET", "/health", "").await.status, 204);
    });
}

/// Upgrades a connection to the web server of a sandbox, and sends data over it.
pub(crate) async fn talk(mut socket: impl AsyncRead + AsyncWrite + Unpin, request: &str) {
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    while !answer.ends_with("\r\n\r\n") {
        answer.push(char::from(socket.read_u8().await.unwrap()));
    }
    assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
    socket.write_all(b"there").await.unwrap();
    let mut heard = vec![0; "hello THERE".len()];
    socket.read_exact(&mut heard).await.unwrap();
    assert_eq!(Bytes::from(heard), "hello THERE");
}

#[test]
fn websocket_is_routed_by_headers() {
    World::run(async |world| {
        let sandbox = web_sandbox(world, json!({})).await;
        let socket = TcpStream::connect(world.address).await.unwrap();
        let request = format!(
            "GET /socket HTTP/1.1\r\nHost: {}\r\nE2b-Sandbox-Id: {}\r\nE2b-Sandbox-Port: {PORT}\r\n\
             Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            world.address, sandbox.id
        );
        talk(socket, &request).await;
    });
}

/// DNS rebinding: the name of a web page resolves to this machine after the page was loaded.
#[test]
fn foreign_host_name_reaches_no_sandbox() {
    World::run(async |world| {
        let open = json!({ "templateID": "base", "timeout": 300, "secure": false });
        let answer = world.control("POST", "/sandboxes", Some(&open)).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        let sandbox = Sandbox::of(world.address, &answer.json());
        serve_in(world, &sandbox.id).await;
        let foreign = |port: u16, path: &str| {
            let request = Request::get(path).header("host", "evil.test");
            request
                .header("e2b-sandbox-id", &sandbox.id)
                .header("e2b-sandbox-port", port.to_string())
        };
        assert_eq!(
            ask(world, to(world, &sandbox.id, 49_983, "/health"))
                .await
                .status,
            204
        );
        assert_eq!(ask(world, foreign(49_983, "/health")).await.status, 401);
        assert_eq!(ask(world, foreign(PORT, "/")).await.status, 403);
        for name in [
            format!("49983-{}.evil.test", sandbox.id),
            format!("{PORT}-{}.notlocalhost", sandbox.id),
        ] {
            let answer = ask(world, Request::get("/").header("host", name)).await;
            assert_eq!(
                answer.status, 401,
                "it is the API's, and that asks for a token"
            );
        }
        // With the token of the sandbox, any host name is accepted.
        let access = world
            .host
            .port_access(&sandbox.id.parse().unwrap())
            .await
            .unwrap();
        let known = ask(
            world,
            foreign(PORT, "/").header("e2b-traffic-access-token", access.token.reveal()),
        )
        .await;
        assert_eq!(known.text(), "web got GET /");
    });
}

#[test]
fn connection_is_reusable_after_a_refusal() {
    World::run(async |world| {
        let stream = TcpStream::connect(world.address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let refusals = [
            Request::post("/sandboxes").header("x-api-key", "e2b_00"),
            Request::post("/process.Process/List").header("e2b-sandbox-id", "isbx1"),
            Request::post("/")
                .header("e2b-sandbox-id", "isbx1")
                .header("e2b-sandbox-port", "3000"),
        ];
        for request in refusals {
            let body = Full::new(Bytes::from(vec![b' '; 1 << 20]));
            let request = request
                .header("host", world.address.to_string())
                .body(body)
                .unwrap();
            let answer = sender.send_request(request).await.unwrap();
            assert!(
                answer.status().as_u16() >= 400 && !answer.headers().contains_key("connection"),
                "{answer:?}"
            );
            answer.into_body().collect().await.unwrap();
            sender.ready().await.unwrap();
        }
    });
}

#[test]
fn cross_origin_pages_may_use_the_sdk() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let asks = |request: http::request::Builder| {
            request
                .header("host", world.address.to_string())
                .header("origin", "https://page.example")
                .header("access-control-request-method", "POST")
                .header("access-control-request-headers", "x-api-key,authorization")
        };
        let agent = Request::options("/process.Process/List").header("e2b-sandbox-id", &sandbox.id);
        for request in [Request::options("/v2/sandboxes"), agent] {
            let answer = ask(world, asks(request)).await;
            assert_eq!(
                (
                    answer.status.as_u16(),
                    &answer.headers["access-control-allow-origin"]
                ),
                (204, &"*".parse().unwrap())
            );
            assert_eq!(
                answer.headers["access-control-allow-headers"],
                "x-api-key,authorization"
            );
        }
        let listed = world.control("GET", "/v2/sandboxes", None).await;
        assert_eq!(listed.headers["access-control-allow-origin"], "*");
        // The native API allows no cross-origin requests.
        let native = ask(
            world,
            asks(Request::options("/sandbar.v1.SandboxService/ListSessions")),
        )
        .await;
        assert!(
            !native.headers.contains_key("access-control-allow-origin"),
            "{native:?}"
        );
    });
}
