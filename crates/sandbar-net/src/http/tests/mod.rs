//! The engine with real sockets: servers and clients on loopback, and a gate that knows where names lead.

mod opened_tls;
mod plain_http;
mod programs;
mod servers;
mod world;
