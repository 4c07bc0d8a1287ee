"""A server that has lost a background task says so to everybody who asks whether it lives, and in its log."""

import sys

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import aclgrad
from tests.e2e.admin_pages import ask
from tools.calling import wait_until
from tools.serving import Server

pytestmark = pytest.mark.once

TASK = "check of device 0"
PREPARED = """
import sys
from aclgrad_server import liveness
from aclgrad_server.devices.device import Device
liveness.FAILURES_LIMIT_S = 0.3
def fail(*_):
    raise OSError("no file is free")
Device.check = fail
from aclgrad_server.__main__ import main
main()
"""
"""Takes a part of the task away."""


class Prepared(Server):
    """A server whose code is changed before it starts."""

    def __init__(self) -> None:
        super().__init__()
        self._command = [sys.executable, "-c", PREPARED, *self._command[3:]]


def test_a_server_without_a_background_task_is_not_alive() -> None:
    with Prepared() as server, server.channel() as channel:
        assert server.admin is not None
        admin = server.admin
        wait_until(lambda: ask(admin, "/livez")[0] == 503)
        why = f"the background task '{TASK}' has ended; see the log"
        assert ask(admin, "/livez") == (503, f"not alive: {why}\n")
        assert ask(admin, "/readyz") == (503, f"not ready: {why}\n")
        for service in ("liveness", "readiness", ""):
            health = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=service))
            assert health.status == health_pb2.HealthCheckResponse.NOT_SERVING
        with aclgrad.Client(server.address) as client:
            assert client.server_status().not_ready_reason == why
        assert f"the background task '{TASK}' has ended; restart the process" in server.log
        assert "OSError: no file is free" in server.log
