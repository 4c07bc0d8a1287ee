"""Servers in each state that an alert is for. A scene yields the admin address and what brings the state about."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.request import urlopen

import grpc
import numpy as np

import aclgrad
from tools.authority import Authority, write_identities
from tools.calling import wait_until
from tools.hostile.servers import Muted
from tools.serving import Server, clean_environment, command, worker_process, write_host_config

State = tuple[str, Callable[[], object]]
"""The admin address of a server, and what puts it into the state."""
GRAD: Final = np.ones((1, 1, 1), np.float32)
EXECUTE: Final = "/aclgrad.v1.OperatorService/ExecuteOperator"
MIB: Final = 2**20
LARGE_MESSAGE: Final = b"\x0f" + bytes(12 * MIB)
"""Not a message of ours, which shows when all of it has come."""
UNKNOWN_OPERATOR: Final = b"\x0a\x04nope"
LOSS: Final = {"kind": "launch_error", "at": 1, "code": 507015}
ALWAYS: Final = 10**6
BLOCK_S: Final = 8
BLOCKABLE: Final = f"""
import signal, time
from aclgrad_server.cli import main
# Python runs handlers of signals on the main thread, which is the event loop's.
signal.signal(signal.SIGUSR1, lambda *_: time.sleep({BLOCK_S}))
main()
"""


def call(address: str, **options: Any) -> None:
    """Makes one small call; how it ends does not matter."""
    with suppress(aclgrad.AclgradError), aclgrad.Client(address, retries=0, timeout_s=60, **options) as client:
        client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2))


@contextmanager
def repeated(work: Callable[[], object], threads: int = 1) -> Iterator[Callable[[], None]]:
    """Yields what starts threads that work again and again until the end of the block."""
    end = threading.Event()

    def run() -> None:
        while not end.is_set():
            work()

    with ThreadPoolExecutor(threads) as pool:
        try:
            yield lambda: [pool.submit(run) for _ in range(threads)] and None
        finally:
            end.set()


@contextmanager
def faulty(
    folder: Path, *faults: dict[str, Any], flags: tuple[str, ...] = (), changes: str = "", **host: Any
) -> Iterator[Server]:
    config = write_host_config(folder, faults=faults, **host)
    with Server("--acl-config", config, *flags, changes=changes) as server:
        yield server


@contextmanager
def lost_device(folder: Path) -> Iterator[State]:
    """The device is lost, the process ends, and its successor at the same address is sound."""
    with ExitStack() as stack:
        first = stack.enter_context(faulty(folder, LOSS))

        def lose() -> None:
            call(first.address)
            assert first.exit_code() == 4
            stack.enter_context(Server("--admin", str(first.admin)))

        yield str(first.admin), lose


@contextmanager
def broken_device(folder: Path) -> Iterator[State]:
    """The device is lost, and fails the self-test of the next process, which stays and is never ready."""
    with ExitStack() as stack:
        first = stack.enter_context(faulty(folder, LOSS))

        def lose() -> None:
            call(first.address)
            assert first.exit_code() == 4
            config = write_host_config(folder, faults=[LOSS | {"count": ALWAYS}], faults_after_launches=0)
            flags = "--backend", "host", "--listen", "127.0.0.1:0", "--admin", str(first.admin), "--acl-config", config
            output = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            second = subprocess.Popen(command(*flags), env=clean_environment(), **output)
            stack.callback(second.wait)
            stack.callback(second.kill)

        yield str(first.admin), lose


@contextmanager
def hanging_driver(folder: Path) -> Iterator[State]:
    """A copy does not return; the server waits for it as long as --hang-timeout-s says."""
    fault = {"kind": "hang_copy", "at": 1}
    with (
        ThreadPoolExecutor(1) as pool,
        faulty(folder, fault, flags=("--hang-timeout-s", "8"), host_pointers=False) as server,
    ):
        yield str(server.admin), lambda: pool.submit(call, server.address)


@contextmanager
def killed(folder: Path) -> Iterator[State]:
    """The process is gone, and nothing starts it again."""
    with Server() as server:
        yield str(server.admin), lambda: server.send(signal.SIGKILL)


@contextmanager
def stopped_worker(folder: Path) -> Iterator[State]:
    """One of two workers is stopped. Its supervisor kills it after a while, and starts a new one."""

    def stop() -> None:
        process = worker_process(server.process_id, 1)
        assert process is not None
        process.suspend()

    with Server("--workers", "2") as server:
        wait_until(lambda: b"worker 1: ready" in urlopen(f"http://{server.admin}/readyz", timeout=60).read())
        yield str(server.admin), stop


@contextmanager
def dying_worker(folder: Path) -> Iterator[State]:
    """One of two workers is killed again and again, soon after it was started."""

    def kill() -> None:
        if process := worker_process(server.process_id, 1):
            process.kill()
        time.sleep(0.5)

    with Server("--workers", "2") as server, repeated(kill) as start:
        yield str(server.admin), start


@contextmanager
def full_queue(folder: Path) -> Iterator[State]:
    """Twelve clients call at once, and the server has room for three; each call takes a while."""
    slow = {"kind": "hang", "at": 1, "count": ALWAYS, "duration_ms": 200}
    flags = "--streams", "1", "--max-waiting-calls", "2"
    with faulty(folder, slow, flags=flags) as server, repeated(lambda: call(server.address), 12) as start:
        yield str(server.admin), start


@contextmanager
def little_memory(folder: Path) -> Iterator[State]:
    """Many clients send large messages, which take more memory than there is."""

    def send() -> None:
        options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(server.address, options) as channel, suppress(grpc.RpcError):
            channel.unary_unary(EXECUTE)(LARGE_MESSAGE, timeout=60)

    with Server("--memory-limit-bytes", str(256 * MIB)) as server, repeated(send, 24) as start:
        yield str(server.admin), start


@contextmanager
def exhausted_pool(folder: Path) -> Iterator[State]:
    """Somebody else has taken the memory of the device."""
    fault = {"kind": "out_of_memory", "at": 1, "count": ALWAYS}
    with (
        faulty(folder, fault, changes="pool_pass_through", host_pointers=False) as server,
        repeated(lambda: call(server.address)) as start,
    ):
        yield str(server.admin), start


@contextmanager
def slow_clients(folder: Path) -> Iterator[State]:
    """Ten clients begin a call and send nothing."""
    end = threading.Event()
    calls: list[grpc.Future] = []  # gRPC cancels a call that nobody refers to

    def silence() -> Iterator[bytes]:
        end.wait()
        yield from ()

    with Server("--client-timeout-s", "1") as server, server.channel() as channel:
        call = channel.stream_unary(EXECUTE)
        try:
            yield str(server.admin), lambda: calls.extend(call.future(silence()) for _ in range(10))
        finally:
            end.set()


@contextmanager
def failing_kernels(folder: Path) -> Iterator[State]:
    """The library refuses what the server's own checks have let through."""
    fault = {"kind": "launch_error", "at": 1, "count": ALWAYS, "code": 161002}
    with faulty(folder, fault) as server, repeated(lambda: call(server.address)) as start:
        yield str(server.admin), start


class _Blockable(Server):
    def __enter__(self) -> "_Blockable":
        self._command = [sys.executable, "-c", BLOCKABLE, *self._command[len(command()) :]]
        super().__enter__()
        return self


@contextmanager
def blocked_loop(folder: Path) -> Iterator[State]:
    """Something holds the event loop for some seconds."""
    with _Blockable() as server:
        yield str(server.admin), lambda: server.send(signal.SIGUSR1)


@contextmanager
def old_certificate(folder: Path) -> Iterator[State]:
    """The certificate is replaced by one that is valid for three more days."""
    authority = Authority(folder)
    with Server(*authority.server_flags()) as server:
        yield str(server.admin), lambda: authority.pair("server", not_after=datetime.now(UTC) + timedelta(days=3))


@contextmanager
def strangers(folder: Path) -> Iterator[State]:
    """A client goes on and on with a token that nobody has."""
    file = write_identities(folder / "identities.toml", {"trainer": {"token": "the right one"}})
    wrong = aclgrad.Credentials(token="a wrong one", tls=False)
    with (
        Server("--identities", file) as server,
        repeated(lambda: call(server.address, credentials=wrong)) as start,
    ):
        yield str(server.admin), start


@contextmanager
def unread_log(folder: Path) -> Iterator[State]:
    """Nobody reads standard error, and every failed call is a line."""

    def fail() -> None:
        with suppress(grpc.RpcError):
            method(UNKNOWN_OPERATOR, timeout=60)

    with Muted() as server, server.channel() as channel, repeated(fail, 8) as start:
        method = channel.unary_unary(EXECUTE)
        yield str(server.admin), start


class Scene(NamedTuple):
    """A state, and the alerts that must fire in it."""

    state: Callable[[Path], Any]
    alerts: tuple[str, ...]


SCENES: Final[dict[str, Scene]] = {
    each.state.__name__: each
    for each in (
        Scene(lost_device, ("AclgradRestarted",)),
        Scene(broken_device, ("AclgradDeviceLost", "AclgradNotReady", "AclgradRestarted")),
        Scene(hanging_driver, ("AclgradDeviceHanging", "AclgradDown")),
        Scene(killed, ("AclgradDown",)),
        Scene(stopped_worker, ("AclgradWorkerDown", "AclgradRestarted")),
        # A process that lives for less than two scrapes does not change its time of start.
        Scene(dying_worker, ("AclgradWorkerRestarting",)),
        Scene(full_queue, ("AclgradQueueFull",)),
        Scene(little_memory, ("AclgradMemoryPressure",)),
        Scene(exhausted_pool, ("AclgradPoolExhausted",)),
        Scene(slow_clients, ("AclgradSlowClients",)),
        Scene(failing_kernels, ("AclgradErrorRate",)),
        Scene(blocked_loop, ("AclgradEventLoopBlocked",)),
        Scene(old_certificate, ("AclgradCertificateExpiring",)),
        Scene(strangers, ("AclgradIdentitiesRefused",)),
        Scene(unread_log, ("AclgradLogLinesDropped",)),
    )
}
