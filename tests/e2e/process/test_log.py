"""The log of a server whose standard error is not read, or not there."""

import fcntl
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
import numpy as np
import pytest

import aclgrad
from tools.serving import announced, clean_environment, command, run_to_end

pytestmark = pytest.mark.once

METHOD = "/aclgrad.v1.OperatorService/ExecuteOperator"
BAD_REQUEST = b"\x0a\x04nope"
"""An operator that nobody knows; each such call is a line of the log."""
CALLS = 10_000
THREADS = 8
QUICK_S = 5.0
"""For one call among others on a busy machine; a handler that waits for its log line never ends."""


@contextmanager
def serving(*shell: str, stderr: int | None = None) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Yields a server behind a shell's redirections, and its address."""
    flags = command("--backend", "host", "--listen", "127.0.0.1:0")
    # CANN's dump at a signal would wait for whoever reads standard error; deployments turn it off like this.
    environment = clean_environment(ASCEND_COREDUMP_SIGNAL="none")
    with subprocess.Popen([*shell, *flags], env=environment, stdout=subprocess.PIPE, stderr=stderr) as process:
        try:
            assert process.stdout is not None
            yield process, announced(line.decode() for line in process.stdout)["ready"]
        finally:
            process.kill()


def fail_often(address: str, calls: int) -> float:
    """Makes calls that fail and returns the longest time that one took, in seconds."""
    with grpc.insecure_channel(address) as channel:
        method = channel.unary_unary(METHOD)

        def fail(_: int) -> float:
            start = time.monotonic()
            with pytest.raises(grpc.RpcError) as caught:
                method(BAD_REQUEST, timeout=60)
            assert caught.value.code() is grpc.StatusCode.NOT_FOUND
            return time.monotonic() - start

        with ThreadPoolExecutor(THREADS) as threads:
            return max(threads.map(fail, range(calls)))


def assert_stops(process: subprocess.Popen[bytes]) -> None:
    start = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert time.monotonic() - start < 10


def test_calls_do_not_wait_for_who_reads_the_log() -> None:
    with serving(stderr=subprocess.PIPE) as (process, address):
        assert fail_often(address, CALLS) < QUICK_S
        # Now somebody reads: every line is there or counted.
        with ThreadPoolExecutor(1) as thread:
            read = thread.submit(process.stderr.read)
            assert_stops(process)
            lines = read.result(60).decode().splitlines()
    failed = sum("NOT_FOUND" in line for line in lines)
    (dropped,) = (int(found[1]) for line in lines if (found := re.search(r": (\d+) log lines were dropped", line)))
    assert 0 < dropped < CALLS
    # Lines of other events are few, but they may be among those dropped.
    assert CALLS <= failed + dropped < CALLS + 20
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ [A-Z]+ \S+: ", line) for line in lines)


def test_server_stops_although_nobody_reads_its_log() -> None:
    with serving(stderr=subprocess.PIPE) as (process, address):
        fail_often(address, 2000)
        assert_stops(process)


def test_start_that_fails_ends_although_nobody_reads_why() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"x" * fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ))
    try:
        flags = command("--backend", "host", "--listen", "127.0.0.1:0", "--device", "9")
        done = subprocess.run(flags, env=clean_environment(), stderr=writer, timeout=60, check=False)
        assert done.returncode == 1
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("closed", ["2>&-", "0<&- 2>&-"])
def test_standard_error_that_is_closed(closed: str) -> None:
    """No socket takes its number and gets log lines: every call is answered as it should be."""
    with serving("bash", "-c", f'exec "$@" {closed}', "server") as (process, address):
        fail_often(address, 200)
        for number in (0, 2):
            assert not os.readlink(f"/proc/{process.pid}/fd/{number}").startswith(("socket", "anon_inode"))
        with aclgrad.Client(address) as client:
            assert client.adaptive_avg_pool2d_backward(np.ones((1, 1, 1), np.float32), (1, 2, 2)).shape == (1, 2, 2)
        assert_stops(process)


def test_reader_that_ends() -> None:
    with serving(stderr=subprocess.PIPE) as (process, address):
        process.stderr.close()
        fail_often(address, 200)
        assert_stops(process)


def test_crash_leaves_the_stacks_of_all_threads() -> None:
    with serving(stderr=subprocess.PIPE) as (process, _):
        process.send_signal(signal.SIGABRT)
        assert process.wait(60) == -signal.SIGABRT
        assert b"Fatal Python error: Aborted" in process.stderr.read()


@pytest.mark.parametrize(("variables", "told"), [({}, False), ({"GRPC_VERBOSITY": "ERROR"}, True)])
def test_core_of_grpc_writes_nothing_unless_asked(variables: dict[str, str], told: bool) -> None:
    """It would write to standard error by itself, and wait for whoever reads that."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run_to_end("--backend", "host", "--listen", f"127.0.0.1:{taken.getsockname()[1]}", **variables)
    assert done.returncode == 1
    assert ("add_port" in done.stderr) == told
    ours = re.compile(r"\d{4}-\d\d-\d\dT|aclgrad-server: ")
    assert all(ours.match(line) for line in done.stderr.splitlines()) != told
