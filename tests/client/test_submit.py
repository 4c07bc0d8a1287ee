"""`Client.submit`: futures of calls that threads of the client make."""

import gc
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, wait
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad._client.sync import submissions
from aclgrad._client.sync.submissions import MAX_THREADS
from aclgrad.testing import TestServer
from tools.calling import wait_until

from .scripted_service import GRADIENT, REPLY, ScriptedService, failing
from .scripted_streams import HEADER, ScriptedStreams

ONES = np.ones((1, 1, 1), np.float32)
BUSY = aclgrad.ServerBusyError("full", retry_after_s=0.001)
TIMEOUT_S = 60


@contextmanager
def held(service: ScriptedService) -> Iterator[list[grpc.ServicerContext]]:
    """Holds all calls until the end of the block, or until they are cancelled; yields those that have ended."""
    released, ended = threading.Event(), []

    def answer(context: grpc.ServicerContext) -> bytes:
        gone = threading.Event()
        if not context.add_callback(gone.set):
            gone.set()
        wait_until(lambda: gone.is_set() or released.is_set(), TIMEOUT_S)
        ended.append(context)
        return REPLY

    service.answer = answer
    try:
        yield ended
    finally:
        released.set()


def threads() -> int:
    return sum(thread.name == "aclgrad-submit" for thread in threading.enumerate())


def submit(client: aclgrad.Client, count: int, **options: float) -> list[Future[np.ndarray]]:
    return [client.submit("pool", {"a": ONES}, **options) for _ in range(count)]


def test_gradients_come_as_futures(server: TestServer) -> None:
    before = threads()
    with aclgrad.Client(server.target) as client:
        grads = [np.full((1, 2, 2), number, np.float32) for number in range(100)]
        outs = [np.empty((1, 2, 2), np.float32) for _ in grads]
        futures = [
            client.submit("adaptive_avg_pool2d_backward", {"grad_output": grad, "self": (1, 2, 2)}, out=out)
            for grad, out in zip(grads, outs, strict=True)
        ]
        for grad, out, future in zip(grads, outs, futures, strict=True):
            assert future.result(TIMEOUT_S) is out
            np.testing.assert_array_equal(out, grad)
        assert threads() - before <= MAX_THREADS
        # Their gradients come in chunks.
        inputs = {"grad_output": ONES, "self": (1, 1700, 1700)}
        futures = [client.submit("adaptive_avg_pool2d_backward", inputs) for _ in range(2)]
        assert all(future.result(TIMEOUT_S).shape == inputs["self"] for future in futures)


@pytest.mark.parametrize("end", ["forget", "close"])
def test_threads_end_with_the_client(server: TestServer, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    monkeypatch.setattr(submissions, "_LINGER_S", 10.0 * TIMEOUT_S)
    before = set(threading.enumerate())
    client = aclgrad.Client(server.target)
    inputs = {"grad_output": ONES, "self": (1, 2, 2)}
    futures = [client.submit("adaptive_avg_pool2d_backward", inputs) for _ in range(2 * MAX_THREADS)]
    wait(futures, TIMEOUT_S)
    made = [each for each in set(threading.enumerate()) - before if each.name == "aclgrad-submit"]
    assert made
    if end == "close":
        client.close()
    del client, futures
    gc.collect()
    wait_until(lambda: not any(each.is_alive() for each in made))


def test_errors_are_those_of_a_call(service: ScriptedService) -> None:
    errors = [BUSY, BUSY, aclgrad.DeviceMemoryError("no memory")]

    service.answer = lambda context: failing(errors.pop(0))(context) if errors else REPLY
    with aclgrad.Client(service.address) as client:
        future = client.submit("pool", {"a": ONES})
        assert isinstance(future.exception(TIMEOUT_S), aclgrad.DeviceMemoryError)
        assert client.submit("pool", {"a": ONES}).result(TIMEOUT_S).tolist() == GRADIENT.tolist()
        assert len(service.requests) == 4
        with pytest.raises(aclgrad.InvalidFieldError, match=r"^inputs\[a\]"):
            client.submit("pool", {"a": b"text"})
        with pytest.raises(aclgrad.InvalidSettingError, match=r"^timeout_s"):
            client.submit("pool", {"a": ONES}, timeout_s="1")  # type: ignore[arg-type]
    with pytest.raises(aclgrad.CallCancelledError):
        client.submit("pool", {"a": ONES})


def test_cancel_ends_calls_that_wait_and_calls_under_way(service: ScriptedService) -> None:
    with held(service) as ended, aclgrad.Client(service.address) as client:
        futures = submit(client, 3 * MAX_THREADS)
        wait_until(lambda: len(service.requests) == 4)  # as many as the service has threads
        assert all(future.cancel() for future in reversed(futures))
        wait(futures, TIMEOUT_S)
        wait_until(lambda: len(ended) >= 4)
        for future in futures:
            with pytest.raises(CancelledError):
                future.result(0)
        service.answer = lambda context: REPLY
        assert all(future.result(TIMEOUT_S).size for future in submit(client, 4))


def test_a_cancelled_call_is_not_sent_again(
    service: ScriptedService, streams: ScriptedStreams, caplog: pytest.LogCaptureFixture
) -> None:
    """Also one that goes as a stream: in chunks, or because its message is large."""

    def stand(messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        streams.receive(messages, context, 0)
        wait_until(lambda: not context.is_active())
        yield HEADER

    streams.script = stand
    large = {"a": np.ones(2**19, np.float32)}
    reports: list[aclgrad.CallReport] = []
    for address, received, limit in (
        (service.address, service.requests, 2**24),
        (streams.address, streams.attempts, 9999),
    ):
        with held(service), aclgrad.Client(address, on_call=reports.append, max_message_bytes=limit) as client:
            future = client.submit("pool", large)
            wait_until(lambda: len(received) == 1)  # noqa: B023 - called at once
            assert future.cancel()
            wait_until(lambda: client._submissions._idle == 1)  # noqa: SLF001
        assert (len(received), reports, caplog.messages) == (1, [], [])


def test_close_ends_all(service: ScriptedService) -> None:
    with held(service):
        client = aclgrad.Client(service.address)
        futures = submit(client, 3 * MAX_THREADS)
        wait_until(lambda: len(service.requests) == 4)
        client.close()
        assert all(isinstance(future.exception(TIMEOUT_S), aclgrad.CallCancelledError) for future in futures)


def test_the_time_limit_includes_the_wait_for_a_thread(service: ScriptedService) -> None:
    with held(service), aclgrad.Client(service.address) as client:
        for future in submit(client, 2 * MAX_THREADS, timeout_s=0.2):
            assert isinstance(future.exception(TIMEOUT_S), aclgrad.DeadlinePassedError)


def test_the_wait_for_a_thread_is_no_wait_for_a_server(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A call that waited for longer than `connect_timeout_s` still looks for a server that restarts."""

    def clock() -> float:
        return 0.0 if threading.current_thread() is threading.main_thread() else 100.0

    with aclgrad.Client(f"unix:{tmp_path}/nobody", connect_timeout_s=5, timeout_s=None) as client:
        client._retry_policy = replace(client._retry_policy, clock=clock)  # noqa: SLF001
        future = client.submit("pool", {"a": ONES})
        wait_until(lambda: future.done() or "looks again for a server" in caplog.text)
    assert isinstance(future.exception(TIMEOUT_S), aclgrad.CallCancelledError)


def test_callbacks_may_call_and_fail(service: ScriptedService, monkeypatch: pytest.MonkeyPatch) -> None:
    gradients, told = [], []
    monkeypatch.setattr(threading, "excepthook", told.append)

    def call(_: Future[np.ndarray]) -> None:
        gradients.append(client.execute("pool", {"a": ONES}))

    def leave(_: Future[np.ndarray]) -> None:
        raise SystemExit

    with aclgrad.Client(service.address) as client:
        for callback in (call, leave):
            with held(service):
                futures = submit(client, 2 * MAX_THREADS)
                for future in futures:
                    future.add_done_callback(callback)
            wait(futures, TIMEOUT_S)
        wait_until(lambda: (len(gradients), len(told)) == (2 * MAX_THREADS, 2 * MAX_THREADS))
        assert client.submit("pool", {"a": ONES}).result(TIMEOUT_S).size
