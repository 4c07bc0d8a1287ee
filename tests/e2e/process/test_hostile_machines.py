"""Servers on machines that give them little, and servers that are ended at a bad moment."""

import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

import aclgrad
from tools.calling import wait_until
from tools.serving import Server, announced, clean_environment, command, run_to_end

GRAD = np.ones((1, 1, 1), np.float32)


def assert_computes(address: str) -> None:
    with aclgrad.Client(address) as client:
        assert client.adaptive_avg_pool2d_backward(GRAD, (1, 1, 2)).tolist() == [[[0.5, 0.5]]]


def test_server_writes_no_file() -> None:
    """As on a read-only root: here the kernel lets no file of it grow beyond nothing."""
    shell = ["bash", "-c", 'ulimit -f 0 && exec "$@"', "server"]
    flags = command("--backend", "host", "--listen", "127.0.0.1:0")
    environment = clean_environment(HOME="/nowhere", TMPDIR="/nowhere")
    with subprocess.Popen(
        shell + flags, env=environment, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            found = announced(process.stdout)
            assert "ready" in found, process.stderr.read()
            assert_computes(found["ready"])
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()


@pytest.mark.parametrize("variables", [{}, {"ACLGRAD_BACKEND": "host"}], ids=["flag", "flag_before_variable"])
def test_card_without_its_driver_is_no_reason_to_compute_on_the_cpu(tmp_path: Path, variables: dict[str, str]) -> None:
    """CANN is looked for in a folder that is empty."""
    nowhere = dict.fromkeys(("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "LD_LIBRARY_PATH"), str(tmp_path))
    done = run_to_end("--backend", "ascend", "--listen", "127.0.0.1:0", **nowhere, **variables)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("aclgrad-server: backend 'ascend': cannot open libascendcl.so")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("after_s", [0.0, 0.2, 0.5, 1.0])
def test_server_that_is_killed_while_it_starts_is_no_obstacle_to_the_next(tmp_path: Path, after_s: float) -> None:
    address = f"unix:{tmp_path}/socket"
    first = subprocess.Popen(command("--backend", "host", "--listen", address), env=clean_environment())
    try:
        first.wait(after_s)
    except subprocess.TimeoutExpired:
        first.kill()
    assert first.wait(60) == -signal.SIGKILL
    with Server(listen=(address,)) as next_server:
        assert_computes(next_server.address)


def test_server_that_is_killed_when_it_has_just_bound(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    first = subprocess.Popen(command("--backend", "host", "--listen", f"unix:{path}"), env=clean_environment())
    try:
        wait_until(path.exists)
    finally:
        first.kill()
    assert first.wait(60) == -signal.SIGKILL
    with Server(listen=(f"unix:{path}",)) as next_server:
        assert_computes(next_server.address)
