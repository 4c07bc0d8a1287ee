"""SIGHUP to a server of one process: what it takes, what it names as not taken, and what is wrong."""

import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import aclgrad
from tests.e2e.admin_pages import ask
from tests.e2e.fault_plans import once
from tests.e2e.workers.hosts import calling
from tests.service_manager import managing
from tools.calling import wait_until
from tools.serving import Server

pytestmark = once
GRAD = np.ones((1, 1, 1), np.float32)
BEGIN = 'log_level = "warning"\nmax_waiting_calls = 7\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "server.toml"
    path.write_text(BEGIN)
    return path


@pytest.fixture
def server(file: Path) -> Iterator[Server]:
    with Server("--config", str(file)) as server:
        yield server


def reload(server: Server, file: Path, text: str) -> str:
    """Returns what the server logs of the reload by this file."""
    before = server.log
    file.write_text(text)
    server.send(signal.SIGHUP)
    wait_until(lambda: "SIGHUP: " in server.log[len(before) :])
    # The line that may follow is written by then.
    assert ask(server.admin, "/readyz") == (200, "ready\n")
    return server.log[len(before) :]


def test_takes_what_can_change_and_loses_no_call(server: Server, file: Path) -> None:
    with aclgrad.Client(server.address, retries=0) as client:

        def call() -> None:
            client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2))

        with calling(call, threads=4) as failures:
            for waiting in (1, 30):
                told = reload(server, file, f'log_level = "debug"\nmax_waiting_calls = {waiting}\ndrain_timeout_s = 5')
                assert f"max_waiting_calls {waiting}" in told
                assert "not taken" not in told
        assert failures == []
        status = client.server_status()
    assert status.queue.waiting_limit == 30
    assert {**status.changed_settings, "admin": "", "listen": "", "config": ""} == {
        **dict.fromkeys(("admin", "listen", "config"), ""),
        "backend": "host",
        "probe_in_child": "off",
        "log_format": "text",
        "log_level": "debug",
        "max_waiting_calls": "30",
        "drain_timeout_s": "5.0",
    }
    assert " ExecuteOperator ok in " in server.log, "debug lines are written"
    server.ask_to_stop()
    server.exit_code()
    assert "draining for at most 5 s" in server.log


def test_names_what_needs_a_restart_each_time(server: Server, file: Path) -> None:
    for waiting in (8, 9):
        reload(server, file, f"max_waiting_calls = {waiting}\nstreams = 9\nlog_level = 'warning'")
        wait_until(lambda: server.log.endswith("restart the server to change that\n"))
        told = server.log.splitlines()[-2:]
        assert f"SIGHUP: taken: max_waiting_calls {waiting}" in told[0]
        assert "SIGHUP: not taken: --streams; restart the server to change that" in told[1]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("max_waiting_calls = 0\nlog_level = 'debug'", "max_waiting_calls is 0"),
        ("streems = 4", "has the setting 'streems', which does not exist"),
        ("streams = [", "is no TOML"),
    ],
)
def test_wrong_settings_change_nothing(server: Server, file: Path, text: str, problem: str) -> None:
    told = reload(server, file, text)
    assert "ERROR" in told
    assert problem in told
    assert told.count("\n") == 1
    assert told.endswith("; correct that, and send SIGHUP again\n")
    with aclgrad.Client(server.address) as client:
        status = client.server_status()
    assert status.queue.waiting_limit == 7
    assert status.changed_settings["log_level"] == "warning"
    assert "taken: max_waiting_calls 6" in reload(server, file, BEGIN.replace("7", "6"))


def test_service_manager_is_told_of_begin_and_end(file: Path, tmp_path: Path) -> None:
    with managing(tmp_path) as manager, Server("--config", str(file), NOTIFY_SOCKET=manager.address) as server:
        wait_until(lambda: "READY=1" in manager.told)
        before = len(manager.told)
        reload(server, file, BEGIN)
        wait_until(lambda: "READY=1" in manager.told[before:])
        assert manager.told[before] == "RELOADING=1"
