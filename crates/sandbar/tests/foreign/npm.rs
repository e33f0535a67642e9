//! Clients from npm.

use sandbar_testing::require_node_modules;

use crate::{host::drive, programs::script};

/// With types generated from our .proto files.
fn connect_node(protocol: &str) {
    let modules = require_node_modules("node/connect-node");
    let mut run = script("connect-node/run.sh");
    run.arg(modules).arg(protocol);
    drive(run);
}

#[test]
fn connect_node_drives_a_host_in_json() {
    connect_node("connect-json");
}

#[test]
fn connect_node_drives_a_host_in_connect() {
    connect_node("connect");
}

#[test]
fn connect_node_drives_a_host_in_grpc() {
    connect_node("grpc");
}

#[test]
fn connect_node_drives_a_host_in_grpc_web() {
    connect_node("grpc-web");
}
