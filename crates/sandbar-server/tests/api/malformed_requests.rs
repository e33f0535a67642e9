//! Generator of malformed requests: valid requests of every RPC with faults. Deterministic for a
//! seed.

use std::{fmt, io::Write as _};

use bytes::Bytes;
use fastrand::Rng;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::Full;
use serde_json::{Value, json};

const SERVICE: &str = include_str!("../../../../proto/sandbar/v1/service.proto");

/// Transport of a request.
pub(crate) enum Sent {
    /// Well-formed HTTP, over HTTP/1.1 or HTTP/2.
    Request {
        request: Box<Request<Full<Bytes>>>,
        by_http2: bool,
    },
    /// Raw bytes, after which the client shuts down its write side.
    Bytes(Vec<u8>),
}

impl fmt::Debug for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request { request, by_http2 } => {
                write!(f, "by HTTP/{}: {request:?}", if *by_http2 { 2 } else { 1 })
            }
            Self::Bytes(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
        }
    }
}

/// RPC of the API descriptor.
#[derive(Clone, Debug)]
struct Rpc {
    name: &'static str,
    is_stream: bool,
}

/// Generator of requests.
#[derive(Debug)]
pub(crate) struct Generator {
    pub(crate) random: Rng,
    pub(crate) token: String,
    pub(crate) authority: String,
    rpcs: Vec<Rpc>,
}

impl Generator {
    pub(crate) fn new(seed: u64, token: &str, authority: &str) -> Self {
        let lines = SERVICE
            .lines()
            .filter_map(|line| line.trim().strip_prefix("rpc "));
        let rpcs = lines.map(|line| Rpc {
            name: line.split('(').next().unwrap(),
            is_stream: line.contains("stream "),
        });
        Self {
            random: Rng::with_seed(seed),
            token: token.into(),
            authority: authority.into(),
            rpcs: rpcs.collect(),
        }
    }

    pub(crate) fn next(&mut self) -> Sent {
        match self.random.u32(..20) {
            0..=2 => Sent::Bytes(self.http1()),
            3 => Sent::Bytes(self.http2()),
            _ => {
                let request = Box::new(self.request());
                Sent::Request {
                    request,
                    by_http2: self.random.u8(..3) == 0,
                }
            }
        }
    }

    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.random.usize(..choices.len())]
    }

    pub(crate) fn garbage(&mut self, most: usize) -> Vec<u8> {
        (0..self.random.usize(..=most))
            .map(|_| self.random.u8(..))
            .collect()
    }

    /// Returns a request with one or two faults.
    fn request(&mut self) -> Request<Full<Bytes>> {
        let which = self.random.usize(..self.rpcs.len());
        let rpc = self.rpcs[which].clone();
        let is_json = self.random.bool();
        let mut message = if is_json {
            self.json(rpc.name)
        } else {
            self.protobuf()
        };
        let family = self.random.u8(..3);
        let content_type = match (family, is_json, rpc.is_stream) {
            (0, true, false) => "application/json",
            (0, true, true) => "application/connect+json",
            (0, false, false) => "application/proto",
            (0, false, true) => "application/connect+proto",
            (1, true, _) => "application/grpc+json",
            (1, false, _) => "application/grpc",
            (_, true, _) => "application/grpc-web+json",
            (_, false, _) => "application/grpc-web",
        };
        if family > 0 || rpc.is_stream {
            message = self.envelopes(&message);
        }
        let mut request = Request::new(Full::new(message.into()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = format!(
            "http://{}/sandbar.v1.SandboxService/{}",
            self.authority, rpc.name
        )
        .parse()
        .unwrap();
        set(&mut request, "content-type", content_type);
        let token = format!("Bearer {}", self.token);
        set(&mut request, "authorization", &token);
        if family == 1 {
            set(&mut request, "te", "trailers");
        }
        match self.random.u8(..8) {
            0 => self.odd_type(&mut request),
            1 | 2 => self.odd_header(&mut request),
            3 => self.odd_target(&mut request),
            4 => self.odd_compression(&mut request),
            _ => {}
        }
        request
    }

    /// Returns malformed JSON of a call.
    fn json(&mut self, method: &str) -> Vec<u8> {
        let valid = valid(method).to_string();
        let mut text = valid.clone().into_bytes();
        let at = self.random.usize(..text.len());
        match self.random.u32(..16) {
            0 => text.truncate(at),
            1 => text[at] ^= 1 << self.random.u32(..8),
            2 => text.insert(at, self.random.u8(0x80..)),
            3 => return self.with_values(&valid, wrong_value),
            4 => {
                let depth = self.one_of(&[10, 64, 127, 129, 1000, 20_000]);
                let (open, close) =
                    self.one_of(&[("[", "]"), ("{\"a\":", "}"), ("{\"params\":{\"a\":", "}}")]);
                return format!("{}1{}", open.repeat(depth), close.repeat(depth)).into_bytes();
            }
            5 => {
                let depth = self.one_of(&[60, 70, 5000]);
                let deep = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
                return self.with_values(&valid, |_| deep.clone());
            }
            6 => {
                let number = self.one_of(&[
                    "1e400",
                    "-1e400",
                    "99999999999999999999999",
                    "NaN",
                    "Infinity",
                    "-0",
                    "0x10",
                    "1.",
                    "01",
                ]);
                return self.with_values(&valid, |_| number.to_owned());
            }
            7 => {
                text = format!(
                    "{}{}",
                    &valid[..valid.len() - 1],
                    ",\"sessionId\":\"a\",\"sessionId\":\"b\"}"
                )
                .into_bytes();
            }
            8 => {
                text = format!(
                    "{}{}",
                    &valid[..valid.len() - 1],
                    ",\"nonsense\":{\"a\":[null]}}"
                )
                .into_bytes();
            }
            9 => text = [b"\xef\xbb\xbf", valid.as_bytes()].concat(),
            10 => text = format!("{valid}{valid}").into_bytes(),
            11 => return self.with_values(&valid, |_| "\"\\ud800\\u0000\"".to_owned()),
            12 => {
                text = self
                    .one_of(&[
                        "", "null", "[]", "\"\"", "1", "true", "{", "}", "/*x*/{}", "{'a':1}", "\0",
                    ])
                    .into();
            }
            13 => return self.garbage(64),
            14 => {
                return self.with_values(&valid, |random| {
                    format!("\"{}\"", "x".repeat(random.usize(..100_000)))
                });
            }
            _ => {}
        }
        text
    }

    /// Returns the JSON with one value replaced.
    fn with_values(&mut self, text: &str, value: impl Fn(&mut Rng) -> String) -> Vec<u8> {
        let Ok(Value::Object(object)) = serde_json::from_str(text) else {
            return text.into();
        };
        let chosen = self.random.usize(..object.len().max(1));
        let pairs = object.iter().enumerate().map(|(number, (key, old))| {
            let new = if number == chosen {
                value(&mut self.random)
            } else {
                old.to_string()
            };
            format!("{}:{new}", json!(key))
        });
        let pairs: Vec<String> = pairs.collect();
        format!("{{{}}}", pairs.join(",")).into_bytes()
    }

    /// Returns malformed protobuf fields.
    fn protobuf(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..self.random.usize(..6) {
            let field = self.random.u64(..20);
            match self.random.u32(..12) {
                0..=3 => {
                    let text =
                        self.one_of(&["box", "small", "", "/", "\u{1f980}", "a\0b", "read_file"]);
                    put_varint(&mut bytes, field << 3 | 2);
                    put_varint(&mut bytes, text.len() as u64);
                    bytes.extend_from_slice(text.as_bytes());
                }
                4 => {
                    put_varint(&mut bytes, field << 3);
                    put_varint(&mut bytes, self.random.u64(..));
                }
                // A varint without end, or too long.
                5 => bytes.extend_from_slice(&[0xff; 12][..self.random.usize(1..12)]),
                // A length beyond the end.
                6 => {
                    put_varint(&mut bytes, field << 3 | 2);
                    let length = self.one_of(&[5, 1 << 20, 1 << 31, u64::MAX >> 1, u64::MAX]);
                    put_varint(&mut bytes, length);
                }
                // Groups, unknown wire types, and field number 0.
                7 => put_varint(&mut bytes, self.random.u64(..256)),
                8 => {
                    let depth = self.one_of(&[50, 99, 101, 5000]);
                    bytes.extend(nested(field.max(1), depth));
                }
                // Invalid UTF-8.
                9 => {
                    bytes.extend_from_slice(&[
                        u8::try_from(field).unwrap() << 3 | 2,
                        2,
                        0xff,
                        0xfe,
                    ]);
                }
                10 => bytes.extend(std::iter::repeat_n(0x0b, self.random.usize(..5000))),
                _ => bytes.extend(self.garbage(32)),
            }
        }
        bytes
    }

    /// Returns a message in envelopes, valid or malformed.
    fn envelopes(&mut self, message: &[u8]) -> Vec<u8> {
        let flags = if self.random.u8(..4) == 0 {
            self.one_of(&[1, 2, 3, 0x7f, 0x80, 0xff])
        } else {
            0
        };
        let length = u32::try_from(message.len()).unwrap();
        let length = match self.random.u8(..10) {
            0 => length + 1,
            1 => length.saturating_sub(1),
            2 => u32::MAX,
            3 => 17 << 20,
            _ => length,
        };
        let mut frame = [&[flags][..], &length.to_be_bytes(), message].concat();
        match self.random.u8(..10) {
            0 => frame.truncate(self.random.usize(..=frame.len().min(6))),
            1 => frame = frame.repeat(3),
            2 => frame.extend([0; 5].repeat(100)),
            3 => frame.extend_from_slice(b"\x02\0\0\0\x02{}"),
            _ => {}
        }
        frame
    }

    fn odd_type(&mut self, request: &mut Request<Full<Bytes>>) {
        let value = self.one_of(&[
            "",
            "text/plain",
            "application/json; charset=utf-16",
            "application/JSON",
            "application/grpc+nonsense",
            "application/grpc-web-text",
            "application/connect+",
            "application/connect+xml",
            "application/",
            "multipart/form-data",
            "application/json, application/proto",
        ]);
        set(request, "content-type", value);
        if self.random.u8(..4) == 0 {
            request.headers_mut().remove("content-type");
        }
    }

    fn odd_header(&mut self, request: &mut Request<Full<Bytes>>) {
        let long = "x".repeat(self.random.usize(..6000));
        let (name, values): (&str, &[&str]) = match self.random.u8(..12) {
            0 => (
                "connect-protocol-version",
                &["0", "2", "x", "", "1.0", "-1"],
            ),
            1 => (
                "grpc-timeout",
                &[
                    "",
                    "1",
                    "1X",
                    "99999999999S",
                    "-1m",
                    "1n",
                    "S",
                    "00000001H",
                    "99999999H",
                ],
            ),
            2 => (
                "connect-timeout-ms",
                &[
                    "",
                    "-1",
                    "abc",
                    "99999999999",
                    "99999999999999999999",
                    "0",
                    "1",
                    "1.5",
                ],
            ),
            3 => ("te", &["", "gzip", "trailers, deflate"]),
            4 => (
                "accept-encoding",
                &["", "*;q=0", "gzip;q=x", "identity;q=0"],
            ),
            5 => (
                "x-api-version",
                &["", "v", "v0", "-1", "99999999999", "v1 v2"],
            ),
            6 => (
                "authorization",
                &["", "Bearer", "Bearer ", "Basic eDp5", "bearer\tx"],
            ),
            7 => ("grpc-accept-encoding", &["nonsense", ",,,", "gzip,"]),
            8 => ("x-sandbar-session", &["", "a/b", "box"]),
            9 => ("x-http-method-override", &["DELETE"]),
            10 => ("expect", &["100-continue", "nonsense"]),
            _ => {
                for number in 0..60 {
                    set(request, &format!("x-header-{number}"), "x");
                }
                return set(request, "x-long", &long);
            }
        };
        let value = self.one_of(values);
        set(request, name, value);
    }

    fn odd_target(&mut self, request: &mut Request<Full<Bytes>>) {
        let service = "/sandbar.v1.SandboxService";
        let long = format!("{service}/{}", "x".repeat(4000));
        let path = match self.random.u8(..14) {
            0 => "/",
            1 => "//",
            2 => "/..",
            3 => "/%00",
            4 => "/sandbar.v1.SandboxService/",
            5 => "/sandbar.v1.SandboxService/GetSession/more",
            6 => "/sandbar.v1.SandboxService/getsession",
            7 => "/sandbar.v2.SandboxService/GetSession",
            8 => "/sandbar.v1.SandboxService/GetSession?connect=v1&encoding=json&message=%7B",
            9 => {
                "/sandbar.v1.SandboxService/GetSession?connect=v1&encoding=proto&base64=1&message=%%%"
            }
            10 => {
                "/sandbar.v1.SandboxService/ListBases?connect=v9&encoding=xml&compression=br&message=x"
            }
            11 => "/metrics/../x",
            12 => "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            _ => &long,
        };
        if let Ok(uri) = format!("http://{}{path}", self.authority).parse::<Uri>() {
            *request.uri_mut() = uri;
        }
        let method = self.one_of(&[
            "GET", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "HEAD", "PATCH", "BREW",
        ]);
        *request.method_mut() = method.parse().unwrap();
    }

    fn odd_compression(&mut self, request: &mut Request<Full<Bytes>>) {
        let header = self.one_of(&[
            "content-encoding",
            "connect-content-encoding",
            "grpc-encoding",
        ]);
        let value = self.one_of(&[
            "gzip",
            "zstd",
            "br",
            "nonsense",
            "identity",
            "gzip, gzip",
            "",
        ]);
        set(request, header, value);
        let body = match self.random.u8(..6) {
            0 => gzip(b"{}"),
            1 => {
                let mut torn = gzip(b"{\"sessionId\": \"box\"}");
                torn.truncate(self.random.usize(..torn.len()));
                torn
            }
            // A compressed message that exceeds the limit when decompressed.
            2 if self.random.u8(..8) == 0 => gzip(&vec![b' '; 40 << 20]),
            3 => [
                &[1, 0, 0, 0][..],
                &[u8::try_from(gzip(b"{}").len()).unwrap()],
                &gzip(b"{}"),
            ]
            .concat(),
            _ => self.garbage(64),
        };
        *request.body_mut() = Full::new(body.into());
    }
}

/// Returns a valid request. No mutation of it can run a program.
fn valid(method: &str) -> Value {
    match method {
        "CreateSession" => json!({
            "baseSnapshot": "small", "env": {"A": "b"}, "labels": {"a": "b"}, "quota": "1000000", "timeout": "60s",
            "resources": {"cpus": 1.5, "memory": "100000000"}, "network": {"allowList": ["a.example:443"]},
        }),
        "ListSessions" => {
            json!({"pageSize": 10, "pageToken": "", "labels": {"a": "b"}, "state": "SESSION_STATE_ACTIVE"})
        }
        "ForkSession" => json!({"sessionId": "missing", "count": 1, "snapshot": "s"}),
        "SetNetwork" => {
            json!({"sessionId": "missing", "network": {"allowOutbound": true, "denyList": ["10.0.0.0/8"]}})
        }
        "PutSecret" => json!({"name": "key", "value": "secret"}),
        "CreateSnapshot" | "DeleteSnapshot" => {
            json!({"sessionId": "missing", "name": "s", "quiesce": true})
        }
        "RollbackSession" => json!({"sessionId": "missing", "snapshot": "s", "keepLater": true}),
        "Diff" => json!({"sessionId": "box", "from": "s", "to": "t"}),
        "ImportBase" => json!({"name": "new", "source": "/none"}),
        "DeleteBase" | "DeleteSecret" => json!({"name": "none"}),
        "Exec" => {
            json!({"start": {"sessionId": "missing", "argv": ["/none"], "terminal": {"rows": 2, "columns": 3}}})
        }
        "LaunchProcess" => {
            json!({"sessionId": "missing", "argv": ["/none"], "ready": {"tcp": {"port": 80}}})
        }
        "KillProcess" => json!({"sessionId": "box", "processId": "p", "signal": 15}),
        "WaitProcess" => {
            json!({"sessionId": "box", "processId": "p", "waitFor": "WAIT_FOR_EXITED"})
        }
        "ProcessLogs" => {
            json!({"sessionId": "box", "processId": "p", "follow": true, "tailLines": 5})
        }
        "SendProcessInput" => json!({"sessionId": "box", "processId": "p", "data": "YQ=="}),
        "Audit" => json!({"sessionId": "box", "pageSize": 3, "order": "AUDIT_ORDER_NEWEST_FIRST"}),
        "ExecuteTool" | "ExecuteToolStream" => {
            json!({"sessionId": "box", "toolName": "list_dir", "toolCallId": "c", "params": {"path": "/"}})
        }
        "WriteFile" => json!({"start": {"sessionId": "box", "path": "f", "mode": 420}}),
        "ImportTree" => json!({"start": {"sessionId": "box", "path": "/tmp"}}),
        "MakeDir" | "RemovePath" => {
            json!({"sessionId": "missing", "path": "/tmp/d", "owner": {"uid": 1, "gid": 2}})
        }
        "MovePath" => {
            json!({"sessionId": "missing", "path": "/tmp/d", "newPath": "/tmp/e", "createDirs": true})
        }
        "ReadFile" | "Stat" | "ListDir" | "ExportTree" => {
            json!({"sessionId": "box", "path": "/tmp"})
        }
        "GetSession" | "ListProcesses" | "ListSnapshots" | "GetNetwork" | "VerifyAudit" => {
            json!({"sessionId": "box"})
        }
        _ => json!({"sessionId": "missing"}),
    }
}

fn wrong_value(random: &mut Rng) -> String {
    let values = [
        "null",
        "true",
        "5",
        "-5",
        "1.5",
        "\"\"",
        "\"x\"",
        "[]",
        "[1]",
        "{}",
        "{\"a\":1}",
        "[[[]]]",
        "\"9999999999999s\"",
    ];
    values[random.usize(..values.len())].to_owned()
}

fn put_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

/// Returns deeply nested messages.
fn nested(field: u64, depth: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..depth {
        let mut outer = Vec::new();
        put_varint(&mut outer, field << 3 | 2);
        put_varint(&mut outer, bytes.len() as u64);
        outer.extend_from_slice(&bytes);
        bytes = outer;
    }
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn set(request: &mut Request<Full<Bytes>>, name: &str, value: &str) {
    if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), value.parse::<HeaderValue>()) {
        request.headers_mut().insert(name, value);
    }
}
