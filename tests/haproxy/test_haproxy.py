"""What passes through HAProxy as deployed, and what becomes of calls when a worker ends, hangs or drains."""

import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad.wire.messages import encode_request
from tests.e2e.admin_pages import value
from tests.e2e.workers.hosts import CALL, GRAD, Host, calling
from tools.authority import Authority, write_identities
from tools.calling import wait_until
from tools.raw_calls import SERVICE, TIMEOUT_S

CONFIGURATION = Path(__file__).parents[2] / "deploy/haproxy/haproxy.cfg"
BOTH = "UP", "UP"
TOKEN = "a token"


class HAProxy:
    """HAProxy with the configuration that is deployed, before these workers; TLS ends there, given a file."""

    def __init__(self, folder: Path, workers: Sequence[str], certificate: Path | None = None) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.statistics, self.file = folder / "stats", folder / "haproxy.cfg"
        text = CONFIGURATION.read_text()
        bind = "proto h2" if certificate is None else f"ssl crt {certificate} alpn h2"
        changes = {"127.0.0.1:50060 proto h2": f"{self.address} {bind}"}
        changes |= {f"worker{index} 127.0.0.1:{50052 + index}": f"worker{index} {workers[index]}" for index in (0, 1)}
        changes["global\n"] = f"global\n    stats socket {self.statistics}\n"
        for old, new in changes.items():
            assert old in text
            text = text.replace(old, new, 1)
        self.file.write_text(text)

    def states(self) -> tuple[str, ...]:
        """Returns what it thinks of each worker: UP or DOWN, and how far it is on the way to the other."""
        with socket.socket(socket.AF_UNIX) as stats:
            stats.connect(str(self.statistics))
            stats.sendall(b"show stat -1 4 -1\n")
            with stats.makefile() as reply:
                head, *rows = (line.split(",") for line in reply.read().splitlines() if line)
        return tuple(row[head.index("status")] for row in rows if row[0] == "workers")

    def wait_for(self, *states: str) -> None:
        wait_until(lambda: self.states() == states)


@contextmanager
def running(folder: Path, workers: Sequence[str], certificate: Path | None = None) -> Iterator[HAProxy]:
    proxy = HAProxy(folder, workers, certificate)
    with subprocess.Popen(["haproxy", "-db", "-f", str(proxy.file)]) as process:
        try:
            wait_until(lambda: proxy.statistics.exists() or process.poll() is not None)
            proxy.wait_for(*BOTH)
            yield proxy
        finally:
            process.kill()


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with Host() as host:
        yield host


@pytest.fixture(scope="module")
def proxy(host: Host, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HAProxy]:
    with running(tmp_path_factory.mktemp("haproxy"), host.worker_addresses) as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def whole(host: Host, proxy: HAProxy) -> None:
    host.wait_until_whole()
    proxy.wait_for(*BOTH)


@pytest.fixture
def client(proxy: HAProxy) -> Iterator[aclgrad.Client]:
    """Sees every failure."""
    with aclgrad.Client(proxy.address, retries=0) as client:
        yield client


def calls_of(host: Host) -> list[float]:
    found = [value(host.admin, "aclgrad_calls_total", worker=worker, method="ExecuteOperator") for worker in "01"]
    return [each or 0 for each in found]


def test_what_is_deployed_is_valid() -> None:
    done = subprocess.run(
        ["haproxy", "-c", "-f", CONFIGURATION], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_calls_of_one_connection_go_to_both_workers(host: Host, proxy: HAProxy) -> None:
    before = calls_of(host)
    with grpc.insecure_channel(proxy.address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        for _ in range(100):
            channel.unary_unary(SERVICE + "ExecuteOperator")(encode_request(CALL), timeout=TIMEOUT_S)
    made = [after - each for after, each in zip(calls_of(host), before, strict=True)]
    assert sum(made) == 100
    assert max(made) <= 55


def test_calls_of_every_kind_are_answered(client: aclgrad.Client) -> None:
    """A batch, about the largest message, and chunks; an error has its field and its request id."""
    batch = client.batch()
    for number in range(500):
        batch.adaptive_avg_pool2d_backward(GRAD * number, (1, 2, 2))
    assert [each[0, 0, 0] for each in batch.run()] == [0.25 * number for number in range(500)]
    for pixels in (2000, 5000):
        gradient = np.arange(pixels**2 / 4, dtype=np.float32).reshape(1, pixels // 2, pixels // 2)
        computed = client.adaptive_avg_pool2d_backward(gradient, (1, pixels, pixels))
        np.testing.assert_array_equal(computed, gradient.repeat(2, axis=1).repeat(2, axis=2) / 4)
    assert computed.nbytes == 100_000_000
    with pytest.raises(aclgrad.InvalidFieldError) as caught:
        client.adaptive_avg_pool2d_backward(GRAD, (2, 2, 2))
    assert caught.value.field
    assert caught.value.request_id


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["kill", "drain"])
def test_worker_that_ends_costs_no_call(host: Host, proxy: HAProxy, number: signal.Signals) -> None:
    """Calls that no worker has begun go to the other one; our client makes the others again."""
    before = host.worker(1).pid
    with (
        aclgrad.Client(proxy.address) as client,
        calling(lambda: client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2)), threads=3) as failures,
    ):
        host.send_to_worker(1, number)
        wait_until(lambda: host.workers[1] != "worker 1: ready")
        host.wait_until_whole()
        proxy.wait_for(*BOTH)
        had = calls_of(host)[1]
        wait_until(lambda: calls_of(host)[1] > had + 50)
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
        Host("--identities", identities) as host,
        running(tmp_path, host.worker_addresses, pair) as proxy,
    ):
        for token, expected in ((TOKEN, None), ("another", aclgrad.NotAuthenticatedError)):
            credentials = aclgrad.Credentials(ca=authority.ca, token=token)
            with aclgrad.Client(proxy.address, credentials=credentials) as client:
                if expected is None:
                    assert client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2)).tolist() == [[[0.25] * 2] * 2]
                else:
                    with pytest.raises(expected):
                        client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2))
