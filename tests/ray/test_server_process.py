"""A server as the process of a holder: its end, whoever causes it, and what is said of it. No cluster is needed."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import aclgrad
from aclgrad.ray import _server_process as server_process
from aclgrad.ray._server_process import ServerProcess
from aclgrad.ray._spec import DeploymentError, Server
from tests.e2e.workers.hosts import GRAD
from tools.calling import wait_until
from tools.serving import clean_environment

HOLDER = """
import sys, time
from aclgrad.ray._server_process import ServerProcess
server = ServerProcess(sys.argv[1:], __import__("os").environ).wait_until_ready()
print(server.process_id, flush=True)
time.sleep(600)
"""


def command(*flags: str) -> list[str]:
    program = str(Path(sys.executable).with_name("aclgrad-server"))
    return [program, "--listen", "127.0.0.1:0", "--backend", "host", "--workers", "1", "--log-format", "text", *flags]


@pytest.fixture
def process() -> Iterator[ServerProcess]:
    running = ServerProcess(command(), clean_environment())
    yield running
    running.stop(10)


def ready(process: ServerProcess) -> Server:
    return process.wait_until_ready(60)


def test_it_serves_and_drains(process: ServerProcess) -> None:
    server = ready(process)
    assert server == ready(process)
    with aclgrad.Client(server.address) as client:
        assert client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2)).tolist() == [[[0.25] * 2] * 2]
    assert server_process.is_alive(server.admin)
    assert process.wait(0) is None
    process.stop(30)
    reason = process.wait(0)
    assert reason is not None
    assert reason.startswith("it ended with exit code 0")
    assert not server_process.is_alive(server.admin)


def test_server_ends_with_the_process_that_holds_it_however_that_ends() -> None:
    """Also if it is stopped at the moment."""
    for number in (signal.SIGKILL, signal.SIGTERM):
        with subprocess.Popen(
            [sys.executable, "-c", HOLDER, *command()],
            env=clean_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as holder:
            assert holder.stdout is not None
            server = psutil.Process(int(holder.stdout.readline()))
            server.send_signal(signal.SIGSTOP)
            holder.send_signal(number)
            holder.wait(30)
            wait_until(lambda server=server: not server.is_running() or server.status() == psutil.STATUS_ZOMBIE, 30)


def test_launcher_whose_parent_is_gone_starts_nothing(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    launch = [sys.executable, "-I", server_process._launch.__file__, "1", "0", "/bin/touch", str(touched)]  # noqa: SLF001
    assert subprocess.run(launch, timeout=30, check=False).returncode == 1
    assert not touched.exists()


@pytest.mark.parametrize(
    ("program", "told"),
    [
        (command("--streams", "0"), "it ended with exit code 2: "),
        (command("--no-such-flag"), "it ended with exit code 2: Error: No such option '--no-such-flag'"),
        (command("--backend", "/no/library.so"), "it ended with exit code 1: "),
        (["/no/aclgrad-server"], "it ended with exit code 1: .*No such file or directory"),
        (command("--listen", "127.0.0.1:{port}"), "it ended with exit code 1: .*127.0.0.1:{port}"),
    ],
    ids=["a_bad_value", "no_such_flag", "no_library", "no_program", "a_port_that_is_taken"],
)
def test_server_that_does_not_start_has_last_words(program: list[str], told: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = ServerProcess([word.format(port=port) for word in program], clean_environment())
        with pytest.raises(DeploymentError, match=f"^{told.format(port=port)}.*"):
            ready(process)
    assert process.wait(0) is not None


def test_server_that_takes_too_long_to_start() -> None:
    process = ServerProcess(["/bin/sh", "-c", "echo opening the card >&2; sleep 600"], clean_environment())
    with pytest.raises(DeploymentError, match=r"it was not ready after 1 s: opening the card"):
        process.wait_until_ready(1)


def test_server_that_hangs_is_killed(process: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_process, "LOOK_INTERVAL_S", 0.2)
    monkeypatch.setattr(server_process, "ANSWER_LIMIT_S", 0.2)
    monkeypatch.setattr(server_process, "DEAD_S", 0.6)
    psutil.Process(ready(process).process_id).send_signal(signal.SIGSTOP)
    reason = process.wait(60)
    assert reason is not None
    assert reason.startswith("it was not alive for 0.6 s")


def test_server_that_does_not_stop_is_killed(process: ServerProcess) -> None:
    psutil.Process(ready(process).process_id).send_signal(signal.SIGSTOP)
    process.stop(0.5)
    reason = process.wait(0)
    assert reason is not None
    assert reason.startswith("it did not stop within 0.5 s")
