//! Every call of the compiled API descriptor, with every kind of token.

use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, Request, Version, header::HeaderValue};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, MethodDescriptor, Value as Field,
    prost::Message as _, prost_types::method_options::IdempotencyLevel,
};
use sandbar_core::{BaseName, SessionSpec};
use sandbar_proto::FILE_DESCRIPTOR_SET;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::{
    raw::{Answer, frames, send, unframe},
    world::World,
};

/// Calls that need scope `admin`.
const ADMIN: [&str; 13] = [
    "CreateSession",
    "ForkSession",
    "ImportBase",
    "SaveBase",
    "DeleteBase",
    "SetExpiry",
    "SetNetwork",
    "PutSecret",
    "ListSecrets",
    "DeleteSecret",
    "CreateToken",
    "ListTokens",
    "RevokeToken",
];

/// Calls that any token permits.
const ANY_TOKEN: [&str; 5] = [
    "HealthCheck",
    "Capabilities",
    "ListTools",
    "ListBases",
    "ListSessions",
];

/// Calls with read access that are not marked as such, because they stream or wait.
const LOOKS: [&str; 8] = [
    "Diff",
    "ProcessLogs",
    "WaitProcess",
    "ReadFile",
    "ListDir",
    "ExportTree",
    "WatchEvents",
    "WatchDir",
];

/// Expected access rule of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    AnyToken,
    Looking,
    Using,
    Admin,
}

/// Call whose request is harmless, or rejected by its handler and not before.
struct Call(MethodDescriptor);

impl Call {
    fn all() -> Vec<Self> {
        let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap();
        let service = pool
            .get_service_by_name("sandbar.v1.SandboxService")
            .unwrap();
        let calls: Vec<Self> = service.methods().map(Self).collect();
        assert!(calls.len() >= 48, "only {} calls were found", calls.len());
        calls
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    /// Returns the expected rule. A call that is not listed above is about one session, and needs
    /// write access unless it is marked as free of side effects: a new call is held to that until
    /// it is listed.
    fn takes(&self) -> Takes {
        if ADMIN.contains(&self.name()) {
            return Takes::Admin;
        }
        if ANY_TOKEN.contains(&self.name()) {
            return Takes::AnyToken;
        }
        let options = self
            .0
            .method_descriptor_proto()
            .options
            .clone()
            .unwrap_or_default();
        let only_looks = options.idempotency_level() == IdempotencyLevel::NoSideEffects
            || LOOKS.contains(&self.name());
        if only_looks {
            Takes::Looking
        } else {
            Takes::Using
        }
    }

    fn is_stream(&self) -> bool {
        self.0.is_client_streaming() || self.0.is_server_streaming()
    }

    /// Returns the name of the start part of a request stream.
    fn first_part(&self) -> Option<FieldDescriptor> {
        ["start", "attach"]
            .iter()
            .find_map(|name| self.0.input().get_field_by_name(name))
    }

    /// Returns fields that make a call end, where a session id alone would start it.
    fn refused_by_its_handler(&self) -> Option<(&'static str, Value, Field)> {
        Some(match self.name() {
            "WatchEvents" => (
                "kinds",
                json!([99]),
                Field::List(vec![Field::EnumNumber(99)]),
            ),
            "WatchDir" => (
                "path",
                json!("/not/there"),
                Field::String("/not/there".into()),
            ),
            _ => return None,
        })
    }

    /// Returns the first message, with a session id only.
    fn request(&self, session: &str) -> Value {
        let mut named = json!({"sessionId": session});
        if let Some((field, value, _)) = self.refused_by_its_handler() {
            named[field] = value;
        }
        match (
            self.0.input().get_field_by_name("session_id"),
            self.first_part(),
        ) {
            (Some(_), _) => named,
            (None, Some(first)) => json!({ first.json_name(): named }),
            (None, None) => {
                assert!(
                    matches!(self.takes(), Takes::Admin | Takes::AnyToken),
                    "{} names no session",
                    self.name()
                );
                json!({})
            }
        }
    }

    /// Returns the first message in binary form, in a frame.
    fn frame(&self, session: &str) -> Bytes {
        let mut message = DynamicMessage::new(self.0.input());
        if let Some(first) = self.first_part() {
            let mut part = DynamicMessage::new(first.kind().as_message().unwrap().clone());
            part.set_field_by_name("session_id", Field::String(session.into()));
            message.set_field(&first, Field::Message(part));
        } else if self.0.input().get_field_by_name("session_id").is_some() {
            message.set_field_by_name("session_id", Field::String(session.into()));
        }
        if let Some((field, _, value)) = self.refused_by_its_handler() {
            message.set_field_by_name(field, value);
        }
        let message = message.encode_to_vec();
        let mut frame = BytesMut::new();
        frame.put_u8(0);
        frame.put_u32(u32::try_from(message.len()).unwrap());
        frame.put_slice(&message);
        frame.freeze()
    }

    /// Makes the call over Connect, and returns its error, if any.
    async fn connect(&self, world: &World, token: Option<&str>, session: &str) -> Option<Value> {
        let request = self.request(session);
        let mut http = if self.is_stream() {
            world.request(self.name(), "application/connect+json", frames(&[request]))
        } else {
            world.request(self.name(), "application/json", request.to_string())
        };
        authorize(http.headers_mut(), token);
        let answer = send(world.address, http).await;
        if !answer.status.is_success() {
            return Some(answer.json());
        }
        let last = if self.is_stream() {
            unframe(&answer.body).pop().unwrap()
        } else {
            json!({})
        };
        last.get("error").cloned()
    }

    /// Makes the call over gRPC or gRPC-Web on a shared connection, and returns its status.
    async fn grpc(
        &self,
        connection: &Connection,
        kind: &str,
        token: Option<&str>,
        session: &str,
    ) -> u32 {
        let path = format!(
            "{}/sandbar.v1.SandboxService/{}",
            connection.url,
            self.name()
        );
        let mut request = Request::post(path)
            .version(Version::HTTP_2)
            .header("content-type", kind)
            .header("te", "trailers")
            .body(Full::new(self.frame(session)))
            .unwrap();
        authorize(request.headers_mut(), token);
        let answer = connection
            .sender
            .clone()
            .send_request(request)
            .await
            .unwrap();
        let head = answer.headers().clone();
        let body = answer.into_body().collect().await.unwrap();
        let trailers = body.trailers().cloned().unwrap_or_default();
        let web = String::from_utf8_lossy(&body.to_bytes()).into_owned();
        let in_web = web
            .split("grpc-status:")
            .nth(1)
            .map(|rest| rest.split_whitespace().next().unwrap().to_owned());
        let status = head
            .get("grpc-status")
            .or(trailers.get("grpc-status"))
            .map(|status| status.to_str().unwrap());
        let status = status.map(ToOwned::to_owned).or(in_web);
        status
            .unwrap_or_else(|| panic!("{} ended without a status: {web:?}", self.name()))
            .parse()
            .unwrap()
    }
}

fn authorize(headers: &mut HeaderMap, token: Option<&str>) {
    headers.remove("authorization");
    if let Some(token) = token {
        headers.insert(
            "authorization",
            HeaderValue::from_str(&format!("Bearer {token}")).unwrap(),
        );
    }
}

/// HTTP/2 connection.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    url: String,
}

impl Connection {
    async fn open(world: &World) -> Self {
        let stream = TcpStream::connect(world.address).await.unwrap();
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        Self {
            sender,
            url: world.url(),
        }
    }
}

async fn session(world: &World, name: &str) {
    let spec = SessionSpec {
        id: name.parse().ok(),
        ..SessionSpec::new(BaseName::new("small").unwrap())
    };
    world.host.create_session(spec).await.unwrap();
}

/// Invalid tokens.
struct Shut(Vec<(&'static str, Option<String>)>);

impl Shut {
    async fn new(world: &World) -> Self {
        let expired = world.expired_token().await;
        let revoked = world.token("revoked", &["admin"]).await;
        world
            .host
            .revoke_token(&"revoked".parse().unwrap())
            .await
            .unwrap();
        let wrong = format!("{}0", world.token);
        Self(vec![
            ("none", None),
            ("wrong", Some(wrong)),
            ("expired", Some(expired)),
            ("revoked", Some(revoked)),
        ])
    }
}

#[test]
fn every_call_is_open_to_sufficient_scopes_only() {
    World::run(async |world| {
        session(world, "other").await;
        let shut = Shut::new(world).await;
        let (admin, reader) = (
            world.token("admin", &["admin"]).await,
            world.token("reader", &["read"]).await,
        );
        let other = world.token("other", &["session:other"]).await;
        for (number, call) in Call::all().iter().enumerate() {
            // A session for each call: some calls destroy their session, and its token with it.
            let name = format!("own-{number}");
            session(world, &name).await;
            let own = world.token(&name, &[&format!("session:{name}")]).await;
            for (kind, token) in &shut.0 {
                let error = call.connect(world, token.as_deref(), &name).await.unwrap();
                assert_refused(call, kind, &error, "unauthenticated", "Unauthenticated");
            }
            let takes = call.takes();
            for (kind, token, is_enough) in [
                ("session:other", &other, takes == Takes::AnyToken),
                (
                    "read",
                    &reader,
                    matches!(takes, Takes::AnyToken | Takes::Looking),
                ),
                ("session", &own, takes != Takes::Admin),
                ("admin", &admin, true),
                // The session may be destroyed by now, which does not affect authorisation.
                ("local", &world.token, true),
            ] {
                let error = call.connect(world, Some(token), &name).await;
                if is_enough {
                    let code = error.as_ref().map(|error| error["code"].as_str().unwrap());
                    let refused = [
                        "unauthenticated",
                        "permission_denied",
                        "internal",
                        "unimplemented",
                    ];
                    assert!(
                        code.is_none_or(|code| !refused.contains(&code)),
                        "{} as {kind}: {error:?}",
                        call.name()
                    );
                } else {
                    assert_refused(
                        call,
                        kind,
                        &error.unwrap(),
                        "permission_denied",
                        "PermissionDenied",
                    );
                }
            }
        }
    });
}

/// Checks codes, message and hint of a denial.
#[track_caller]
fn assert_refused(call: &Call, kind: &str, error: &Value, code: &str, detail: &str) {
    let told = &error["details"][0]["debug"];
    assert_eq!(
        (&error["code"], &told["code"]),
        (&json!(code), &json!(detail)),
        "{} as {kind}: {error}",
        call.name()
    );
    assert!(
        told["hint"].as_str().is_some_and(|hint| !hint.is_empty()),
        "{} as {kind}: {error}",
        call.name()
    );
    if code == "permission_denied" {
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains("`admin`") && told["hint"].as_str().unwrap().contains("`admin`"),
            "{message}"
        );
    }
}

#[test]
fn denials_are_the_same_over_grpc_and_grpc_web() {
    const UNAUTHENTICATED: u32 = 16;
    const PERMISSION_DENIED: u32 = 7;
    World::run(async |world| {
        session(world, "own").await;
        session(world, "other").await;
        let shut = Shut::new(world).await;
        let (reader, other) = (
            world.token("reader", &["read"]).await,
            world.token("other", &["session:other"]).await,
        );
        let connection = Connection::open(world).await;
        for kind in ["application/grpc+proto", "application/grpc-web+proto"] {
            for call in Call::all() {
                for (why, token) in &shut.0 {
                    let status = call.grpc(&connection, kind, token.as_deref(), "own").await;
                    assert_eq!(status, UNAUTHENTICATED, "{kind} {} {why}", call.name());
                }
                let takes = call.takes();
                for (token, is_enough) in [
                    (&reader, matches!(takes, Takes::AnyToken | Takes::Looking)),
                    (&other, takes == Takes::AnyToken),
                ] {
                    let status = call.grpc(&connection, kind, Some(token), "own").await;
                    assert_eq!(
                        status == PERMISSION_DENIED,
                        !is_enough,
                        "{kind} {} {status}",
                        call.name()
                    );
                    assert_ne!(status, UNAUTHENTICATED, "{kind} {}", call.name());
                }
            }
        }
    });
}

#[test]
fn foreign_session_looks_like_a_missing_one() {
    World::run(async |world| {
        session(world, "own").await;
        session(world, "other").await;
        let own = world.token("own", &["session:own"]).await;
        for call in Call::all()
            .iter()
            .filter(|call| matches!(call.takes(), Takes::Looking | Takes::Using))
        {
            let mut said = Vec::new();
            for name in ["other", "nowhere"] {
                let error = call.connect(world, Some(&own), name).await.unwrap();
                said.push(error["message"].as_str().unwrap().replace(name, "X"));
                assert_eq!(error["code"], "permission_denied", "{}", call.name());
            }
            assert_eq!(said[0], said[1], "{}", call.name());
            // An invalid session id is denied as well.
            let error = call.connect(world, Some(&own), "").await.unwrap();
            assert_eq!(error["code"], "permission_denied", "{}", call.name());
        }
    });
}

#[test]
fn get_request_is_authorized_like_any_other() {
    World::run(async |world| {
        session(world, "own").await;
        session(world, "other").await;
        let own = world.token("own", &["session:own"]).await;
        let get = async |id: &str| -> Answer {
            let query =
                format!("connect=v1&encoding=json&message=%7B%22sessionId%22%3A%22{id}%22%7D");
            let request = Request::get(format!("/sandbar.v1.SandboxService/GetSession?{query}"))
                .header("host", "localhost")
                .header("authorization", format!("Bearer {own}"));
            send(world.address, request.body(Full::default()).unwrap()).await
        };
        assert_eq!(get("own").await.json()["session"]["sessionId"], "own");
        assert_eq!(get("other").await.json()["code"], "permission_denied");
    });
}

#[test]
fn duplicate_session_field_is_authorized_as_handled() {
    World::run(async |world| {
        session(world, "own").await;
        session(world, "other").await;
        let own = world.token("own", &["session:own"]).await;
        let connection = Connection::open(world).await;
        // Of a repeated scalar field the last value counts; repeated message parts are merged.
        let field = |id: &str| [&[0x0a, u8::try_from(id.len()).unwrap()], id.as_bytes()].concat();
        let unary = |ids: [&str; 2]| ids.map(field).concat();
        let start = |ids: [&str; 2]| {
            ids.map(|id| [vec![0x0a, u8::try_from(id.len() + 2).unwrap()], field(id)].concat())
                .concat()
        };
        for ids in [["own", "other"], ["other", "own"]] {
            for (call, message) in [
                ("GetSession", unary(ids)),
                ("TurnComplete", unary(ids)),
                ("Exec", start(ids)),
            ] {
                let mut frame = vec![0, 0, 0, 0, u8::try_from(message.len()).unwrap()];
                frame.extend_from_slice(&message);
                let request = Request::post(format!(
                    "{}/sandbar.v1.SandboxService/{call}",
                    connection.url
                ))
                .version(Version::HTTP_2)
                .header("content-type", "application/grpc+proto")
                .header("authorization", format!("Bearer {own}"));
                let request = request.body(Full::new(Bytes::from(frame))).unwrap();
                let answer = connection
                    .sender
                    .clone()
                    .send_request(request)
                    .await
                    .unwrap();
                let in_head = answer.headers().get("grpc-status").cloned();
                let body = answer.into_body().collect().await.unwrap();
                let in_trailers = body
                    .trailers()
                    .and_then(|trailers| trailers.get("grpc-status").cloned());
                let status = in_head.or(in_trailers).unwrap();
                let is_refused = status == "7";
                assert_eq!(is_refused, ids[1] == "other", "{call} {ids:?}: {status:?}");
            }
        }
        // Only the token's own session has completed a turn.
        for (id, turns) in [("own", 1), ("other", 0)] {
            assert_eq!(
                world
                    .host
                    .get_session(&id.parse().unwrap())
                    .await
                    .unwrap()
                    .turn_count,
                turns,
                "{id}"
            );
        }
    });
}
