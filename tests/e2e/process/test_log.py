"""The log of a server whose standard error is not read."""

import fcntl
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
import pytest

from tools.serving import announced, clean_environment, command

pytestmark = [pytest.mark.once, pytest.mark.slow]

METHOD = "/aclgrad.v1.OperatorService/ExecuteOperator"
BAD_REQUEST = b"\x0a\x04nope"
"""An operator that nobody knows; each such call is a line of the log."""
CALLS = 5000
THREADS = 8


@contextmanager
def serving() -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Yields a server whose standard error nobody reads so far, and its address."""
    flags = command("--backend", "host", "--listen", "127.0.0.1:0")
    # CANN's dump at a signal would wait for whoever reads standard error; deployments turn it off like this.
    environment = clean_environment(ASCEND_COREDUMP_SIGNAL="none")
    with subprocess.Popen(flags, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield process, announced(line.decode() for line in process.stdout)["ready"]
        finally:
            process.kill()


def fail_often(address: str, calls: int) -> None:
    """Makes calls that fail; one that waited for its log line would never end."""
    with grpc.insecure_channel(address) as channel:
        method = channel.unary_unary(METHOD)

        def fail(_: int) -> None:
            with pytest.raises(grpc.RpcError) as caught:
                method(BAD_REQUEST, timeout=60)
            assert caught.value.code() is grpc.StatusCode.NOT_FOUND

        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(fail, range(calls)))


def assert_stops(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


@pytest.mark.long
def test_calls_do_not_wait_for_who_reads_the_log() -> None:
    with serving() as (process, address):
        fail_often(address, CALLS)
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
    with serving() as (process, address):
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
