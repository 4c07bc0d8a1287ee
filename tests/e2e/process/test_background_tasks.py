"""A server that has lost a background task says so to everybody who asks whether it lives, and in its log."""

import sys

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import aclgrad
from tests.e2e.process.test_admin import ask
from tools.calling import wait_until
from tools.serving import Server

pytestmark = pytest.mark.once

PREPARED = """
import sys
from aclgrad_server import liveness
{changes}
from aclgrad_server.__main__ import main
main()
"""
FAILING = {
    "memory watch": """
from aclgrad_server.edge.memory import MemoryWatch
MemoryWatch.look = fail
""",
    "beat": """
from aclgrad_server.statistics.recent import RecentCalls
RecentCalls.sweep = fail
""",
    "check of device 0": """
from aclgrad_server.devices.device import Device
Device.check = fail
""",
}
"""By the name of the task: what takes a part of it away some time after the start."""
AFTER = """
import time
liveness.FAILURES_LIMIT_S = 0.3
start = time.monotonic()
def fail(*_):
    raise OSError("no file is free")
"""


class Changed(Server):
    """A server whose code is changed before it starts."""

    def __init__(self, changes: str) -> None:
        super().__init__()
        self._command = [sys.executable, "-c", PREPARED.format(changes=changes), *self._command[3:]]


@pytest.mark.parametrize("name", FAILING)
def test_a_server_without_a_background_task_is_not_alive(name: str) -> None:
    with Changed(AFTER + FAILING[name]) as server, server.channel() as channel:
        assert server.admin is not None
        admin = server.admin
        wait_until(lambda: ask(admin, "/livez")[0] == 503)
        why = f"the background task '{name}' has ended; see the log"
        assert ask(admin, "/livez") == (503, f"not alive: {why}\n")
        assert ask(admin, "/readyz") == (503, f"not ready: {why}\n")
        for service in ("liveness", "readiness", ""):
            health = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=service))
            assert health.status == health_pb2.HealthCheckResponse.NOT_SERVING
        with aclgrad.Client(server.address) as client:
            assert client.server_status().not_ready_reason == why
        assert f"the background task '{name}' has ended; restart the process" in server.log
        assert "OSError: no file is free" in server.log
