"""Probes a host: `grpc.health.v1` with grpcio-health-checking, /metrics with prometheus_client.

Usage: URL=http://127.0.0.1:9100 TOKEN=... probes.py
"""

import os
import urllib.request

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from prometheus_client.openmetrics.parser import text_string_to_metric_families

URL = os.environ["URL"]
SERVING = health_pb2.HealthCheckResponse.SERVING


def check_health():
    """Checks the health service without a token, as probes have none."""
    with grpc.insecure_channel(URL.removeprefix("http://")) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for service in ["", "sandbar.v1.SandboxService"]:
            assert health.Check(health_pb2.HealthCheckRequest(service=service), timeout=30).status == SERVING
        watch = health.Watch(health_pb2.HealthCheckRequest())
        assert next(watch).status == SERVING
        watch.cancel()
        try:
            health.Check(health_pb2.HealthCheckRequest(service="unknown"), timeout=30)
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.NOT_FOUND, error
        else:
            raise AssertionError("a service that is not there is healthy")
    print("health: serving")


def check_metrics():
    request = urllib.request.Request(f"{URL}/metrics", headers={"authorization": f"Bearer {os.environ['TOKEN']}"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as response:
        assert response.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
        families = {family.name: family for family in text_string_to_metric_families(response.read().decode())}
    kinds = {name: family.type for name, family in families.items()}
    for name, kind in {
        "sandbar_operations": "counter",
        "sandbar_operation_seconds": "histogram",
        "sandbar_sessions": "gauge",
        "sandbar_storage_total_bytes": "gauge",
        "sandbar_network_bytes": "counter",
        "sandbar_build": "info",
        "sandbar_uptime_seconds": "gauge",
    }.items():
        assert kinds.get(name) == kind, (name, kinds)
    samples = {sample.name for family in families.values() for sample in family.samples}
    for name in ["sandbar_operations_total", "sandbar_operation_seconds_bucket", "sandbar_build_info"]:
        assert name in samples, samples
    assert all(family.documentation.endswith(".") for family in families.values())
    print("metrics:", len(families), "families")


check_health()
check_metrics()
