//! Clients in Python.

use std::process::Command;

use sandbar_testing::Registry;

use crate::{
    host::{drive, probe},
    programs::{file, python_with},
};

/// Nothing is compiled: service and messages are learnt from the server.
const GRPC: &str = "
import grpc
try:
    import google.protobuf.message_factory
except ImportError:
    import os, sys
    sys.path.append(os.environ['GOOGLE_SDK_LIBRARIES'])
    import cloudsdk.google.protobuf.message_factory
";

fn run(test: &str, imports: &str, program: &str, arguments: &[&str]) {
    match python_with(imports) {
        Some(python) => drive(with(python, program, arguments)),
        None => Registry::PyPi.report_out_of_reach(test),
    }
}

fn with(mut python: Command, program: &str, arguments: &[&str]) -> Command {
    python.arg(file(program)).args(arguments);
    python
}

#[test]
fn grpcio_drives_a_host_with_what_reflection_tells_it() {
    run("grpcio", GRPC, "reflection.py", &["v1"]);
}

#[test]
fn grpcio_drives_a_host_with_what_the_older_reflection_tells_it() {
    run("grpcio (v1alpha)", GRPC, "reflection.py", &["v1alpha"]);
}

#[test]
fn the_health_client_and_the_metrics_parser_read_a_host() {
    let imports = "import grpc_health.v1.health_pb2_grpc, prometheus_client.openmetrics.parser";
    match python_with(imports) {
        Some(python) => probe(with(python, "probes.py", &[]), &["health", "metrics"]),
        None => Registry::PyPi.report_out_of_reach("grpcio-health-checking, prometheus_client"),
    }
}

#[test]
fn requests_drives_a_host() {
    run("requests", "import requests", "plain_http.py", &[]);
}
