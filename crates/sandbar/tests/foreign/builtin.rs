//! Clients of the system: curl, Node, the JDK.

use std::process::Command;

use sandbar_testing::report_skip;

use crate::{
    host::drive,
    programs::{file, java, script},
};

fn curl(version: &str) {
    let mut curl = script("curl.sh");
    curl.arg(version);
    drive(curl);
}

#[test]
fn curl_drives_a_host_over_http_1() {
    curl("--http1.1");
}

#[test]
fn curl_drives_a_host_over_http_2() {
    curl("--http2-prior-knowledge");
}

fn node(transport: &str) {
    let mut node = Command::new("node");
    node.arg(file("node/drive.mjs")).arg(transport);
    drive(node);
}

#[test]
fn the_fetch_of_node_drives_a_host_in_connect() {
    node("connect-fetch");
}

#[test]
fn the_fetch_of_node_drives_a_host_in_grpc_web() {
    node("grpc-web-fetch");
}

#[test]
fn the_http2_of_node_drives_a_host_in_connect() {
    node("connect-http2");
}

#[test]
fn the_http2_of_node_drives_a_host_in_grpc() {
    node("grpc-http2");
}

fn jdk(version: &str) {
    let Some(mut java) = java() else {
        return report_skip(
            &format!("the JDK's client, {version}"),
            "no JDK is installed",
        );
    };
    java.arg(file("Drive.java")).arg(version);
    drive(java);
}

#[test]
fn the_client_of_the_jdk_drives_a_host() {
    jdk("HTTP_1_1");
}

#[test]
fn jdk_client_drives_a_host_without_http_2_upgrade() {
    jdk("HTTP_2");
}
