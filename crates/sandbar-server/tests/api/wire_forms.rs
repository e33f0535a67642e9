//! One call in each wire form, encoded and decoded without the RPC library.

use base64::{Engine as _, engine::general_purpose};
use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sandbar_proto::v1;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::{
    raw::{self, send},
    world::World,
};

/// Wire forms of a call. In Connect only streams have envelopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    ConnectJson,
    ConnectBinary,
    Grpc,
    GrpcWeb,
}

impl Form {
    pub(crate) const ALL: [Self; 4] = [
        Self::ConnectJson,
        Self::ConnectBinary,
        Self::Grpc,
        Self::GrpcWeb,
    ];

    const fn content_type(self, is_stream: bool) -> &'static str {
        match (self, is_stream) {
            (Self::ConnectJson, false) => "application/json",
            (Self::ConnectJson, true) => "application/connect+json",
            (Self::ConnectBinary, false) => "application/proto",
            (Self::ConnectBinary, true) => "application/connect+proto",
            (Self::Grpc, _) => "application/grpc+proto",
            (Self::GrpcWeb, _) => "application/grpc-web+proto",
        }
    }
}

/// Error as on the wire.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) status: StatusCode,
    /// Code in Connect's spelling.
    pub(crate) rpc_code: String,
    pub(crate) message: String,
    /// Fields `code`, `field`, `hint` and `sessionId`, if set.
    pub(crate) detail: Value,
}

/// gRPC codes by number, in Connect's spelling.
const CODES: [&str; 17] = [
    "ok",
    "canceled",
    "unknown",
    "invalid_argument",
    "deadline_exceeded",
    "not_found",
    "already_exists",
    "permission_denied",
    "resource_exhausted",
    "failed_precondition",
    "aborted",
    "out_of_range",
    "unimplemented",
    "internal",
    "unavailable",
    "data_loss",
    "unauthenticated",
];

/// Call that is expected to fail.
#[derive(Clone, Debug)]
pub(crate) struct BadCall {
    pub(crate) method: &'static str,
    pub(crate) is_stream: bool,
    pub(crate) body: Value,
    /// Headers to replace or add.
    pub(crate) header: Option<(&'static str, &'static str)>,
}

impl World {
    /// Makes the call and returns its error.
    pub(crate) async fn told(&self, call: &BadCall, form: Form) -> Told {
        let message = match form {
            Form::ConnectJson => call.body.to_string().into(),
            _ => binary(call.method, &call.body),
        };
        let is_bare = matches!(form, Form::ConnectJson | Form::ConnectBinary) && !call.is_stream;
        let body = if is_bare { message } else { envelope(&message) };
        let mut request = self.request(call.method, form.content_type(call.is_stream), body);
        if let Some((name, value)) = call.header {
            request
                .headers_mut()
                .insert(name, HeaderValue::from_static(value));
        }
        match form {
            Form::ConnectJson | Form::ConnectBinary => {
                let answer = send(self.address, request).await;
                let error = if call.is_stream {
                    let frames = split(&answer.body);
                    let (flags, end) = frames
                        .last()
                        .unwrap_or_else(|| panic!("{call:?}: an empty stream"));
                    assert_eq!(*flags, 2, "{call:?}: the end of a stream is marked");
                    serde_json::from_slice::<Value>(end).unwrap()["error"].clone()
                } else {
                    answer.json()
                };
                assert!(error["code"].is_string(), "{call:?} did not fail: {error}");
                connect_error(answer.status, &error)
            }
            Form::Grpc => self.grpc(request).await,
            Form::GrpcWeb => {
                let answer = send(self.address, request).await;
                // Trailers are the last frame of the body, or headers where there is no body.
                let trailers = split(&answer.body)
                    .into_iter()
                    .find(|(flags, _)| *flags == 0x80);
                let trailers = trailers.map_or(answer.headers, |(_, text)| parse_trailers(&text));
                grpc_error(answer.status, &trailers)
            }
        }
    }

    async fn grpc(&self, mut request: Request<Full<Bytes>>) -> Told {
        *request.uri_mut() = format!("{}{}", self.url(), request.uri().path())
            .parse()
            .unwrap();
        request.headers_mut().remove("host");
        request
            .headers_mut()
            .insert("te", HeaderValue::from_static("trailers"));
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
        let connection = tokio::spawn(connection);
        let response = sender.send_request(request).await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.into_body().collect().await.unwrap();
        let trailers = body.trailers().cloned().unwrap_or(headers);
        connection.abort();
        grpc_error(status, &trailers)
    }
}

fn connect_error(status: StatusCode, error: &Value) -> Told {
    let detail = &error["details"][0];
    assert_eq!(detail["type"], "sandbar.v1.ErrorDetail", "{error}");
    let value = general_purpose::STANDARD_NO_PAD
        .decode(detail["value"].as_str().unwrap().trim_end_matches('='));
    let encoded = detail_json(&value.unwrap());
    assert_eq!(
        encoded, detail["debug"],
        "what people see is what programs read"
    );
    Told {
        status,
        rpc_code: error["code"].as_str().unwrap().to_owned(),
        message: error["message"].as_str().unwrap().to_owned(),
        detail: encoded,
    }
}

fn grpc_error(status: StatusCode, trailers: &HeaderMap) -> Told {
    let text = |name: &str| {
        trailers
            .get(name)
            .unwrap_or_else(|| panic!("no {name}: {trailers:?}"))
            .to_str()
            .unwrap()
    };
    let code: usize = text("grpc-status").parse().unwrap();
    let details = general_purpose::STANDARD_NO_PAD
        .decode(text("grpc-status-details-bin").trim_end_matches('='));
    let status_message = fields(&details.unwrap());
    // google.rpc.Status: code, message, details; google.protobuf.Any: type_url, value.
    let whole = |number: u64| {
        status_message
            .iter()
            .find(|(field, _)| *field == number)
            .map(|(_, value)| value.clone())
    };
    let any = fields(&whole(3).expect("a detail"));
    assert_eq!(
        any[0],
        (1, b"type.googleapis.com/sandbar.v1.ErrorDetail".to_vec())
    );
    let message = String::from_utf8(whole(2).expect("a message")).unwrap();
    Told {
        status,
        rpc_code: CODES[code].to_owned(),
        message,
        detail: detail_json(&any[1].1),
    }
}

/// Decodes the detail to JSON: `code`, `field`, `hint`, `session_id`.
fn detail_json(bytes: &[u8]) -> Value {
    let names = ["", "code", "field", "hint", "sessionId"];
    let pairs = fields(bytes).into_iter().map(|(field, value)| {
        (
            names[usize::try_from(field).unwrap()].to_owned(),
            json!(String::from_utf8(value).unwrap()),
        )
    });
    Value::Object(pairs.collect())
}

/// Returns the length-delimited fields of a message; varints are skipped.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let number = varint(&mut bytes);
        match key & 7 {
            0 => {}
            2 => {
                let (value, rest) = bytes.split_at(usize::try_from(number).unwrap());
                found.push((key >> 3, value.to_vec()));
                bytes = rest;
            }
            other => panic!("wire type {other}"),
        }
    }
    found
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().expect("a whole number");
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            break;
        }
    }
    number
}

fn envelope(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap());
    frame.put_slice(message);
    frame.freeze()
}

fn split(mut body: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = body.split_first_chunk::<5>() {
        let (frame, rest) =
            rest.split_at(u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize);
        frames.push((head[0], frame.to_vec()));
        body = rest;
    }
    frames
}

fn parse_trailers(text: &[u8]) -> HeaderMap {
    let lines = std::str::from_utf8(text).unwrap().lines();
    lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (raw::header_name(name), value.trim().parse().unwrap()))
        .collect()
}

/// Converts a request from JSON to binary form.
fn binary(method: &str, body: &Value) -> Bytes {
    fn encode<M: buffa::Message + serde::de::DeserializeOwned>(body: &Value) -> Bytes {
        serde_json::from_value::<M>(body.clone())
            .unwrap()
            .encode_to_vec()
            .into()
    }
    macro_rules! by_name {
        ($($name:literal => $message:ident),* $(,)?) => {
            match method {
                $($name => encode::<v1::$message>(body),)*
                other => panic!("{other} is not in the table"),
            }
        };
    }
    by_name! {
        "CreateSession" => CreateSessionRequest,
        "CreateToken" => CreateTokenRequest,
        "RevokeToken" => RevokeTokenRequest,
        "GetSession" => GetSessionRequest,
        "LaunchProcess" => LaunchProcessRequest,
        "SendProcessInput" => SendProcessInputRequest,
        "HibernateSession" => HibernateSessionRequest,
        "ForkSession" => ForkSessionRequest,
        "CreateSnapshot" => CreateSnapshotRequest,
        "RollbackSession" => RollbackSessionRequest,
        "DeleteSecret" => DeleteSecretRequest,
        "DeleteBase" => DeleteBaseRequest,
        "ListBases" => ListBasesRequest,
        "Stat" => StatRequest,
        "GetProcessStatus" => GetProcessStatusRequest,
        "WaitProcess" => WaitProcessRequest,
        "ExecuteTool" => ExecuteToolRequest,
        "ExecuteToolStream" => ExecuteToolRequest,
        "Diff" => DiffRequest,
        "ImportBase" => ImportBaseRequest,
        "ReadFile" => ReadFileRequest,
        "ProcessLogs" => ProcessLogsRequest,
        "Exec" => ExecRequest,
    }
}
