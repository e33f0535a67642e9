//! Clients in Python.

use std::process::Command;

use crate::{
    host::{drive, probe},
    programs::{file, python_with},
};

/// Without generated code: service and messages come from server reflection.
const GRPC: &str = "
import grpc
try:
    import google.protobuf.message_factory
except ImportError:
    import os, sys
    sys.path.append(os.environ['GOOGLE_SDK_LIBRARIES'])
    import cloudsdk.google.protobuf.message_factory
";

fn run(imports: &str, program: &str, arguments: &[&str]) {
    drive(with(python_with(imports), program, arguments));
}

fn with(mut python: Command, program: &str, arguments: &[&str]) -> Command {
    python.arg(file(program)).args(arguments);
    python
}

#[test]
fn grpcio_drives_a_host_by_reflection() {
    run(GRPC, "reflection.py", &["v1"]);
}

#[test]
fn grpcio_drives_a_host_by_v1alpha_reflection() {
    run(GRPC, "reflection.py", &["v1alpha"]);
}

#[test]
fn the_health_client_and_the_metrics_parser_read_a_host() {
    let imports = "import grpc_health.v1.health_pb2_grpc, prometheus_client.openmetrics.parser";
    probe(
        with(python_with(imports), "probes.py", &[]),
        &["health", "metrics"],
    );
}

#[test]
fn requests_drives_a_host() {
    run("import requests", "plain_http.py", &[]);
}
