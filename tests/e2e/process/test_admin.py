"""What a server tells those who run it, in each state: probes, metrics, the status page, health and systemd."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import aclgrad
from aclgrad.wire.chunks import decode_chunk
from tests.e2e.admin_pages import ask, fetch, hanging_kernel, scrape, starting, value
from tests.e2e.fault_plans import once
from tests.service_manager import managing
from tools.calling import calls_in, wait_until
from tools.raw_calls import SMALL, chunked_messages, execute, open_chunked
from tools.serving import Server, announced

STATUS = health_pb2.HealthCheckResponse
GRAD = np.ones((1, 1, 1), np.float32)
CALLS, SIZE = 4, 2048
STALLED = SMALL["adaptive_avg_pool2d_backward"]
LARGE = np.full((1, 1, 1), float(SIZE * SIZE), np.float32)


def test_server_that_serves(server: Server) -> None:
    with aclgrad.Client(server.address) as client:
        client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2))
        with pytest.raises(aclgrad.InvalidFieldError):
            client.adaptive_avg_pool2d_backward(GRAD, (2, 2, 2))
    assert ask(server.admin, "/livez") == (200, "alive\n")
    assert ask(server.admin, "/readyz") == (200, "ready\n")
    reply, page = fetch(server.admin, "/")
    assert (reply.status, reply.getheader("content-type")) == (200, "text/html; charset=utf-8")
    assert reply.getheader("cache-control") == "no-store"
    assert "default-src 'none'" in (reply.getheader("content-security-policy") or "")
    assert "not ready" not in page
    for part in ("Ascend910B1", "adaptive_avg_pool2d_backward", "INVALID_FIELD", "libacl_"):
        assert part in page
    reply, body = fetch(server.admin, "/", "HEAD")
    assert (reply.status, body) == (200, "")
    for method, path, status in (("POST", "/", 405), ("DELETE", "/", 405), ("GET", "/status", 404)):
        assert fetch(server.admin, path, method)[0].status == status


@once
def test_from_its_start_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first kernel of the self-test takes its time, and so does the client of a call as the server stops."""
    may_end = threading.Event()

    def stalled() -> Iterator[bytes]:
        header, *chunks = chunked_messages(STALLED, [each.name for each in STALLED.inputs], 64)
        yield header
        may_end.wait(60)
        yield from chunks

    def calls_under_way() -> int:
        status = client.server_status()
        return calls_in(status.queue) + status.queue.replying_count

    with managing(tmp_path) as manager:
        monkeypatch.setenv("NOTIFY_SOCKET", manager.address)
        monkeypatch.setenv("WATCHDOG_USEC", "300000")
        config = hanging_kernel(tmp_path, faults_after_launches=0)
        with starting(tmp_path / "log", "--acl-config", config, "--drain-timeout-s", "600") as (process, admin):
            assert ask(admin, "/livez") == (200, "alive\n")
            assert ask(admin, "/readyz") == (503, "not ready: starting\n")
            assert "not ready: starting" in ask(admin, "/")[1]
            found = scrape(admin)
            assert found["aclgrad_ready", frozenset()] == 0
            assert ("aclgrad_start_time_seconds", frozenset()) not in found
            address = announced(process.stdout)["ready"]
            assert ask(admin, "/readyz") == (200, "ready\n")
            assert value(admin, "aclgrad_ready") == 1
            wait_until(lambda: manager.signs_of_life >= 3)
            with (
                aclgrad.Client(address) as client,
                grpc.insecure_channel(address, [("grpc.max_receive_message_length", -1)]) as channel,
                ThreadPoolExecutor(CALLS) as threads,
            ):
                watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service="readiness"))
                assert next(watch).status == STATUS.SERVING
                expected = execute(channel, STALLED)
                replies = open_chunked(channel, stalled())
                assert replies.initial_metadata() is not None
                calls = [
                    threads.submit(client.adaptive_avg_pool2d_backward, LARGE, (1, SIZE, SIZE)) for _ in range(CALLS)
                ]
                # What is done is counted first, so that no call counts twice.
                wait_until(lambda: sum(call.done() for call in calls) + calls_under_way() >= CALLS)
                process.terminate()
                # The watch goes on, which does not hold up the stop.
                assert next(watch).status == STATUS.NOT_SERVING
                wait_until(lambda: ask(admin, "/readyz") == (503, "not ready: draining\n"))
                assert ask(admin, "/livez") == (200, "alive\n")
                assert "not ready: draining" in ask(admin, "/")[1]
                assert value(admin, "aclgrad_ready") == 0
                assert (value(admin, "aclgrad_active_rpcs") or 0) >= 1
                for call in calls:
                    np.testing.assert_array_equal(call.result(60), np.ones((1, SIZE, SIZE), np.float32))
                may_end.set()
                assert b"".join(decode_chunk(each).data for each in list(replies)[1:]) == expected
            assert process.wait(60) == 0
            with pytest.raises(ConnectionRefusedError):
                ask(admin, "/livez")
        assert manager.told == ["READY=1", f"STATUS=serving {address}", "STOPPING=1", "STATUS=draining"]
    assert "stopped" in (tmp_path / "log").read_text()
