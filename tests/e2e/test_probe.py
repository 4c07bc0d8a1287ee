"""`aclgrad-server probe` tells by its exit code, in one line and a bounded time, how a server is."""

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from tests.serving import Server, run_to_end


@pytest.mark.parametrize("service", ["readiness", "liveness", "aclgrad.v1.OperatorService", ""])
def test_server_that_serves(server: Server, service: str) -> None:
    done = run_to_end("probe", "--service", service, server.address)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{server.address}: {service or 'server'} is SERVING\n"


@pytest.mark.parametrize(
    ("flags", "variables"),
    [
        (("--listen", "0.0.0.0:{port}", "probe"), {}),
        (("probe",), {"ACLGRAD_LISTEN": "0.0.0.0:{port},unix:/nowhere"}),
        (("probe",), {"ACLGRAD_LISTEN": "127.0.0.1:{port}", "http_proxy": "http://127.0.0.1:1"}),
    ],
    ids=["flag", "variable", "proxy"],
)
def test_address_is_the_one_that_a_server_would_take(
    server: Server, flags: tuple[str, ...], variables: dict[str, str]
) -> None:
    port = server.address.rpartition(":")[2]
    filled = {name: value.format(port=port) for name, value in variables.items()}
    done = run_to_end(*(flag.format(port=port) for flag in flags), **filled)
    assert (done.returncode, done.stdout) == (0, f"127.0.0.1:{port}: readiness is SERVING\n"), done.stderr


def test_socket(tmp_path: Path) -> None:
    with Server(listen=(f"unix:{tmp_path}/socket",)) as server:
        assert run_to_end("probe", server.address).returncode == 0
        assert run_to_end("probe", ACLGRAD_LISTEN=server.address).returncode == 0


def assert_one_line(stderr: str, told: str) -> None:
    assert told in stderr
    assert stderr.startswith("aclgrad-server: ")
    assert stderr.count("\n") == 1


def test_nobody_listens() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = "{}:{}".format(*unused.getsockname())
        done = run_to_end("probe", address)
    assert (done.returncode, done.stdout) == (1, "")
    assert_one_line(done.stderr, f"{address}: no health (UNAVAILABLE)")


def test_service_that_is_none(server: Server) -> None:
    done = run_to_end("probe", "--service", "readyness", server.address)
    assert done.returncode == 1
    assert_one_line(done.stderr, "there is no service 'readyness'; give --service readiness or liveness")


def test_process_that_hangs_does_not_hold_up_the_probe() -> None:
    with Server() as server:
        os.kill(server.process_id, signal.SIGSTOP)
        try:
            start = time.monotonic()
            done = run_to_end("probe", "--timeout-s", "0.3", server.address)
            assert time.monotonic() - start < 10
        finally:
            os.kill(server.process_id, signal.SIGCONT)
        assert done.returncode == 1
        assert_one_line(done.stderr, "no answer within 0.3 s")


@pytest.mark.parametrize("flags", [("probe", "--timeout-s", "0"), ("probe", "--speed", "1"), ("prob",)])
def test_wrong_use(flags: tuple[str, ...]) -> None:
    done = run_to_end(*flags)
    assert done.returncode == 2
    assert flags[-2 if len(flags) > 1 else 0] in done.stderr
