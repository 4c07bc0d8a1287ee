"""What systemd is told, when a sign of life is due, and that nothing waits for systemd."""

import os
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from aclgrad_server.service_manager import READY, Watchdog, tell, tell_reloading, tell_status
from tests.service_manager import ServiceManager


@pytest.mark.parametrize("is_abstract", [False, True])
def test_lines_arrive_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_abstract: bool) -> None:
    address = f"@aclgrad-test-{os.getpid()}" if is_abstract else str(tmp_path / "notify")
    manager = ServiceManager(address)
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    tell_status("serving 127.0.0.1:50051", READY)
    tell_reloading()
    manager.read()
    manager.socket.close()
    ready, status, reloading, moment = manager.told
    assert (ready, status, reloading) == ("READY=1", "STATUS=serving 127.0.0.1:50051", "RELOADING=1")
    assert moment.startswith("MONOTONIC_USEC=")
    assert moment.partition("=")[2].isdecimal()


def test_nobody_waits_for_a_service_manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is none, it has gone, or it reads nothing."""
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    tell(READY)
    for address in (str(tmp_path / "gone"), "vsock:2:1", "x" * 200):
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        tell(READY)
    manager = ServiceManager(str(tmp_path / "notify"))
    monkeypatch.setenv("NOTIFY_SOCKET", manager.address)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.setblocking(False)
        other.connect(manager.address)
        with suppress(BlockingIOError):
            while True:
                other.send(b"STATUS=full")
    tell(READY)
    manager.read()
    assert READY not in manager.told
    tell(READY)
    manager.read()
    manager.socket.close()
    assert manager.told[-1] == READY


def beats(environment: dict[str, str], *moments: float, failure: str | None = None) -> list[float]:
    """Returns the moments at which a sign of life was sent."""
    sent: list[float] = []
    clock = [0.0]
    watchdog = Watchdog(environment)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aclgrad_server.service_manager.tell", lambda line: sent.append(clock[0]))
        for clock[0] in moments:
            watchdog.beat(clock[0], failure)
    return sent


def test_signs_of_life_come_three_times_within_the_limit() -> None:
    limit = {"WATCHDOG_USEC": "30000000"}
    assert beats(limit, 0, 5, 9.9, 10, 10.1, 25, 35) == [0, 10, 25, 35]
    assert beats(limit | {"WATCHDOG_PID": str(os.getpid())}, 0) == [0]
    assert beats(limit | {"WATCHDOG_PID": str(os.getpid() + 1)}, 0) == []
    assert beats({}, 0, 100) == beats({"WATCHDOG_USEC": "soon"}, 0, 100) == []


def test_no_sign_of_life_comes_after_a_failure() -> None:
    assert beats({"WATCHDOG_USEC": "30000000"}, 0, 100, failure="the background task 'beat' has ended") == []
