//! Tests of the engine with real sockets: clients and servers on the loopback.

mod intercepted_tls;
mod plain_http;
mod programs;
mod servers;
mod world;
