"""What passes through HAProxy as it is, and what becomes of calls when a worker ends, hangs or drains."""

import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad.wire.chunks import encode_header
from aclgrad.wire.messages import encode_request
from tests.e2e.admin_pages import hanging_kernel, value
from tests.e2e.workers.hosts import CALL, GRAD, Host
from tools.authority import Authority, write_identities
from tools.calling import wait_until
from tools.haproxy import CONFIGURATION, HAProxy
from tools.raw_calls import BAD, SERVICE, TIMEOUT_S, error_of, execute_batch, open_chunked
from tools.serving import Server

OWN = ("grpc.use_local_subchannel_pool", 1)
REQUEST_ID = "order-17"
TOKEN = "a token"


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with Host() as host:
        yield host


@pytest.fixture(scope="module")
def proxy(host: Host) -> Iterator[HAProxy]:
    with HAProxy(host.worker_addresses) as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def whole(host: Host, proxy: HAProxy) -> None:
    host.wait_until_whole()
    proxy.wait_for("UP", "UP")


@pytest.fixture
def client(proxy: HAProxy) -> Iterator[aclgrad.Client]:
    """Sees every failure."""
    with aclgrad.Client(proxy.address, retries=0) as client:
        yield client


def calls_of(host: Host) -> list[float]:
    found = [value(host.admin, "aclgrad_calls_total", worker=worker, method="ExecuteOperator") for worker in "01"]
    return [each or 0 for each in found]


def failure(channel: grpc.Channel, request: bytes) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(SERVICE + "ExecuteOperator")(
            request, timeout=TIMEOUT_S, metadata=(("x-request-id", REQUEST_ID),)
        )
    return caught.value


def test_what_is_deployed_is_valid() -> None:
    done = subprocess.run(
        ["haproxy", "-c", "-f", CONFIGURATION], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_calls_of_one_connection_go_to_both_workers(host: Host, proxy: HAProxy) -> None:
    before = calls_of(host)
    with grpc.insecure_channel(proxy.address, [OWN]) as channel:
        for _ in range(100):
            channel.unary_unary(SERVICE + "ExecuteOperator")(encode_request(CALL), timeout=TIMEOUT_S)
    made = [after - each for after, each in zip(calls_of(host), before, strict=True)]
    assert sum(made) == 100
    assert max(made) <= 55


def test_calls_of_every_kind_are_answered(client: aclgrad.Client) -> None:
    assert client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2)).tolist() == [[[0.25] * 2] * 2]
    batch = client.batch()
    for number in range(500):
        batch.adaptive_avg_pool2d_backward(GRAD * number, (1, 2, 2))
    assert [each[0, 0, 0] for each in batch.run()] == [0.25 * number for number in range(500)]
    # About the largest message, and in chunks.
    for pixels in (2000, 5000):
        gradient = np.arange(pixels**2 / 4, dtype=np.float32).reshape(1, pixels // 2, pixels // 2)
        computed = client.adaptive_avg_pool2d_backward(gradient, (1, pixels, pixels))
        np.testing.assert_array_equal(computed, gradient.repeat(2, axis=1).repeat(2, axis=2) / 4)
    assert computed.nbytes == 100_000_000
    assert len(client.list_operators()) > 0


def test_request_ids_and_errors_pass_as_they_are(host: Host, proxy: HAProxy) -> None:
    with (
        grpc.insecure_channel(proxy.address, [OWN]) as channel,
        grpc.insecure_channel(host.worker_addresses[0], [OWN]) as direct,
    ):
        passed, told = failure(channel, encode_request(BAD)), failure(direct, encode_request(BAD))
        assert isinstance(error_of(passed), aclgrad.InvalidFieldError)
        assert (passed.code(), passed.details()) == (told.code(), told.details())
        assert dict(passed.trailing_metadata()) == dict(told.trailing_metadata())
        assert dict(passed.trailing_metadata())["x-request-id"] == REQUEST_ID
        good, bad = execute_batch(channel, [CALL, BAD])
        assert isinstance(good, bytes)
        assert isinstance(bad, aclgrad.InvalidFieldError)


def test_call_that_is_refused_while_it_is_sent_keeps_its_details_and_may_lose_its_status(proxy: HAProxy) -> None:
    """HAProxy 2.6 resets a stream whose answer came before its end, and gRPC then goes by the reset."""
    with grpc.insecure_channel(proxy.address, [OWN]) as channel:
        header = encode_header(BAD, [], 2**20)
        with pytest.raises(grpc.RpcError) as caught:
            list(open_chunked(channel, [header, *[bytes(2**20)] * 20]))
        assert caught.value.code() in (grpc.StatusCode.CANCELLED, grpc.StatusCode.INVALID_ARGUMENT)
        assert isinstance(error_of(caught.value), aclgrad.InvalidFieldError)
        # Of gRPC's core, which gives no details.
        too_large = failure(channel, bytes(17 * 2**20))
        assert too_large.code() in (grpc.StatusCode.CANCELLED, grpc.StatusCode.RESOURCE_EXHAUSTED)


def test_deadlines_and_cancellation_reach_the_worker(tmp_path: Path) -> None:
    with (
        Host("--acl-config", hanging_kernel(tmp_path, 3000)) as host,
        HAProxy(host.worker_addresses) as proxy,
        grpc.insecure_channel(proxy.address, [OWN]) as channel,
    ):
        execute = channel.unary_unary(SERVICE + "ExecuteOperator")
        begin = time.monotonic()
        with pytest.raises(grpc.RpcError) as caught:
            execute(encode_request(CALL), timeout=0.5)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert time.monotonic() - begin < 2.5
        wait_until(lambda: "DEADLINE_PASSED" in host.log or "was cancelled" in host.log)
        for _ in range(2):  # one of them meets the worker whose kernel hangs still, or will
            call = execute.future(encode_request(CALL), timeout=TIMEOUT_S, metadata=(("x-request-id", REQUEST_ID),))
            time.sleep(0.2)
            call.cancel()
        wait_until(lambda: f"{REQUEST_ID} ExecuteOperator was cancelled" in host.log)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["kill", "drain"])
def test_worker_that_ends_costs_no_call(host: Host, proxy: HAProxy, number: signal.Signals) -> None:
    """Calls that no worker has begun go to the other one; our client makes the others again."""
    failures: list[BaseException] = []
    done = threading.Event()
    counts = [0, 0, 0]

    def call(thread: int) -> None:
        with aclgrad.Client(proxy.address) as client:
            while not done.is_set():
                try:
                    client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2))
                    counts[thread] += 1
                except BaseException as error:
                    failures.append(error)

    threads = [threading.Thread(target=call, args=(thread,)) for thread in range(len(counts))]
    for each in threads:
        each.start()
    try:
        wait_until(lambda: min(counts) > 50)
        before = host.worker(1).pid
        host.send_to_worker(1, number)
        wait_until(lambda: host.workers[1] != "worker 1: ready")
        wait_until(lambda: host.workers[1] == "worker 1: ready")
        proxy.wait_for("UP", "UP")
        had = calls_of(host)[1]
        wait_until(lambda: calls_of(host)[1] > had + 50)
    finally:
        done.set()
        for each in threads:
            each.join(TIMEOUT_S)
    assert failures == []
    assert host.worker(1).pid != before


def test_worker_that_says_nothing_gets_no_call(host: Host, proxy: HAProxy, client: aclgrad.Client) -> None:
    """The kernel accepts its connections meanwhile."""
    host.send_to_worker(1, signal.SIGSTOP)
    try:
        proxy.wait_for("UP", "DOWN")
        for _ in range(20):
            client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2), timeout_s=5)
    finally:
        host.send_to_worker(1, signal.SIGCONT)


def test_tls_ends_here_and_tokens_pass(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = tmp_path / "pair.pem"
    pair.write_text("".join(Path(file).read_text() for file in authority.pair("proxy")))
    identities = write_identities(tmp_path / "identities.toml", {"trainer": {"token": TOKEN}})
    with (
        Server("--identities", identities) as first,
        Server("--identities", identities) as second,
        HAProxy((first.address, second.address), pair) as proxy,
    ):
        for token, expected in ((TOKEN, None), ("another", aclgrad.NotAuthenticatedError)):
            credentials = aclgrad.Credentials(ca=authority.ca, token=token)
            with aclgrad.Client(proxy.address, credentials=credentials) as client:
                if expected is None:
                    assert client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2)).tolist() == [[[0.25] * 2] * 2]
                else:
                    with pytest.raises(expected):
                        client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2))
