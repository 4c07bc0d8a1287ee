"""Collectors that are down, refuse, hang or die: calls go on, the log stays short, and the server stops in time."""

import threading
import time
from collections.abc import Iterator

import grpc
import pytest

from tests.e2e.admin_pages import value
from tests.e2e.fault_plans import once
from tools.calling import wait_until
from tools.collector import TraceService
from tools.raw_calls import SMALL, execute, open_channel
from tools.serving import Server, free_range

pytestmark = once

CALL = SMALL["tanh_backward"]
NOT_SENT, SENT_AGAIN = "traces are not sent, and calls go on: ", "traces are sent again; "
BRISK = {"OTEL_BSP_SCHEDULE_DELAY": "20", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}


@pytest.fixture
def port() -> int:
    return free_range(0)


@pytest.fixture
def server(port: int) -> Iterator[Server]:
    with Server("--tracing", OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}", **BRISK) as server:
        yield server


def lost(server: Server) -> float:
    return value(server.admin, "aclgrad_spans_total", outcome="lost") or 0


def test_no_collector_and_then_one_and_then_none(server: Server, port: int) -> None:
    with open_channel(server) as channel:
        execute(channel, CALL)
        wait_until(lambda: lost(server) == 6)
        execute(channel, CALL)
        wait_until(lambda: lost(server) == 12)
        with TraceService(port):
            # Until the exporter has connected again.
            wait_until(lambda: bool(execute(channel, CALL)) and SENT_AGAIN in server.log, look_s=0.02)
        for _ in range(3):
            before = lost(server)
            execute(channel, CALL)
            wait_until(lambda before=before: lost(server) > before)
    # What came within a minute after the first time is not told again.
    assert (server.log.count(NOT_SENT), server.log.count(SENT_AGAIN)) == (1, 1)
    assert "Traceback" not in server.log
    assert "opentelemetry" not in server.log


@pytest.mark.slow
def test_a_collector_that_refuses_is_told_of_once(server: Server, port: int) -> None:
    def refuse(context: grpc.ServicerContext) -> None:
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "no\nentry")

    with TraceService(port, refuse) as collector, open_channel(server) as channel:
        for number in range(1, 6):
            execute(channel, CALL)
            wait_until(lambda number=number: lost(server) == 6 * number)
        assert not collector.spans
    assert server.log.count(NOT_SENT) == 1
    assert "UNAUTHENTICATED" in server.log
    assert "no\\x0aentry" in server.log


def test_a_collector_that_hangs_holds_neither_calls_nor_the_stop(port: int) -> None:
    may_answer = threading.Event()
    slow = {"OTEL_BSP_SCHEDULE_DELAY": "20", "OTEL_EXPORTER_OTLP_TIMEOUT": "600"}
    endpoint = f"http://127.0.0.1:{port}"
    with (
        TraceService(port, lambda context: may_answer.wait(60)) as collector,
        Server("--tracing", OTEL_EXPORTER_OTLP_ENDPOINT=endpoint, **slow) as server,
    ):
        with open_channel(server) as channel:
            execute(channel, CALL)
            wait_until(lambda: collector.export_count == 1)
            for _ in range(20):
                execute(channel, CALL)
        begin = time.monotonic()
        server.ask_to_stop()
        assert server.exit_code() == 0
        # The collector has 1.5 s; a server that waited for it would take minutes.
        assert time.monotonic() - begin < 20
        assert "the collector took too long" in server.log
        may_answer.set()
