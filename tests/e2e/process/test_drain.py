"""What a stop does not wait for. What it does wait for: test_admin.py."""

import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import aclgrad
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1.operator_service_pb2_grpc import OperatorServiceStub
from aclgrad_server.exits import EXIT_UNDRAINED
from tests.e2e.fault_plans import once, write_config
from tools.serving import Server

pytestmark = [once, pytest.mark.slow]


@pytest.fixture
def unfinished() -> Iterator[threading.Event]:
    """While the event is not set, a request that `begin_call` begins stays without its message."""
    event = threading.Event()
    yield event
    event.set()


def begin_call(channel: grpc.Channel, unfinished: threading.Event) -> grpc.Future:
    """Begins a call whose message does not come, and returns when the server knows of it."""

    def messages() -> Iterator[bytes]:
        unfinished.wait(120)
        yield b""

    grpc.channel_ready_future(channel).result(60)
    call = channel.stream_unary("/aclgrad.v1.OperatorService/ExecuteOperator").future(messages())
    # A later call on the same connection is answered: the earlier one has arrived.
    OperatorServiceStub(channel).GetServerStatus(pb.GetServerStatusRequest(), timeout=60)
    return call


def test_call_that_never_ends_is_given_up_at_the_limit(unfinished: threading.Event) -> None:
    with Server("--drain-timeout-s", "0.1") as server, server.channel() as channel:
        call = begin_call(channel, unfinished)
        server.ask_to_stop()
        assert call.code() is not grpc.StatusCode.OK
        assert server.exit_code() == 0


def test_an_open_watch_does_not_hold_up_the_stop() -> None:
    with Server("--drain-timeout-s", "60") as server, server.channel() as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service="readiness"))
        next(watch)
        server.ask_to_stop()
        # STOP_TIMEOUT_S of the harness is no longer than the drain limit: waiting for the watch would fail here.
        assert server.exit_code() == 0


@pytest.mark.long
def test_a_driver_that_hangs_does_not_keep_the_process(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"kind": "hang_destroy_stream", "at": 1})
    with Server("--acl-config", config) as server, aclgrad.Client(server.address) as client:
        assert client.adaptive_avg_pool2d_backward(np.ones((1, 1, 1), np.float32), (1, 2, 2)).sum() == 1
        server.ask_to_stop()
        assert server.exit_code() == EXIT_UNDRAINED
        assert "the device did not close within" in server.log
