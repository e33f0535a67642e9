//! Tests of the API and of ingress over real sockets, with a real host.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on fails"
)]

mod access;
mod attach;
mod audit;
mod call_limits;
mod connections;
mod errors;
mod every_call;
mod exec;
mod files;
mod grpc_health;
mod hostile_http;
mod ingress;
mod ingress_access;
mod ingress_failures;
mod ingress_world;
mod invalid_requests;
mod lifecycle;
mod malformed;
mod malformed_bytes;
mod malformed_requests;
mod mcp;
mod monitoring;
mod network;
mod openapi;
mod processes;
mod raw;
mod reflection;
mod shutdown;
mod streams;
mod tls;
mod tls_client;
mod tls_files;
mod tokens;
mod tools;
mod watches;
mod wire_forms;
mod world;
