"""A device lost at any stage: whoever calls may try again, health says no, and a restart brings service back."""

from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import aclgrad
from tests.e2e.admin_pages import watching
from tests.e2e.fault_plans import (
    LIBRARY_TEXT,
    FaultyServer,
    assert_tells_nothing,
    call_together,
    errors_among,
    once,
)

pytestmark = once

LOST = {
    "copy_in": ({"kind": "copy_error", "at": 1, "code": 507054}, False),
    "kernel": ({"kind": "launch_error", "at": 1, "code": 507015}, False),
    "kernel_on_host_memory": ({"kind": "launch_error", "at": 1, "code": 507015}, True),
    "copy_out": ({"kind": "copy_error", "at": 3, "code": 507054}, False),
}


@pytest.mark.parametrize(
    ("fault", "host_pointers"),
    [pytest.param(*row, id=name, marks=() if name == "kernel" else pytest.mark.slow) for name, row in LOST.items()],
)
def test_a_loss_is_told_to_whoever_calls_and_ends_the_server(
    tmp_path: Path, fault: dict[str, Any], host_pointers: bool
) -> None:
    with (
        FaultyServer(tmp_path, fault, host_pointers=host_pointers) as server,
        watching(server.admin, "/readyz", "/") as answers,
        server.channel() as channel,
    ):
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=60)
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        errors = errors_among(call_together(server.address))
        assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
        watch.cancel()
        assert server.exit_code() == 4
        for error in errors:
            assert error.code is grpc.StatusCode.UNAVAILABLE
            assert error.retry_after_s
            assert_tells_nothing(error)
        lost = [error for error in errors if isinstance(error, aclgrad.DeviceLostError)]
        assert lost
        for error in lost:
            assert error.metadata == {"acl_error": str(fault["code"])}
        # The thread that meets the fault takes the library's text with it, unless another one has seen the loss before.
        assert sum(LIBRARY_TEXT in server.record_of(error) for error in errors) <= 1
        assert LIBRARY_TEXT in server.log
        assert "exit code 4" in server.log
        assert server.misuse == ""
    assert answers["/readyz"] - {(200, "ready\n")} <= {(503, "not ready: device lost\n")}
    lost_pages = [page for _, page in answers["/"] if "not ready: device lost" in page]
    assert all("device 0 (CPU as Ascend910B1) is down" in page for page in lost_pages)
    assert lost_pages or len(answers["/readyz"]) == 2
