"""What a real server tells systemd from its start to its end; deploy/systemd asks for it with Type=notify."""

import signal
from pathlib import Path

import pytest

from tests.e2e.admin_pages import starting
from tests.e2e.fault_plans import once, write_config
from tests.service_manager import managing
from tools.calling import wait_until
from tools.serving import Server

pytestmark = once

WATCHED = {"WATCHDOG_USEC": "300000"}


def test_one_process(tmp_path: Path) -> None:
    with managing(tmp_path) as manager:
        with Server(NOTIFY_SOCKET=manager.address, **WATCHED) as server:
            wait_until(lambda: len(manager.told) == 2)
            assert manager.told == ["READY=1", f"STATUS=serving {server.address}"]
            seen = manager.signs_of_life
            wait_until(lambda: manager.signs_of_life >= seen + 3)
        assert manager.told[2:] == ["STOPPING=1", "STATUS=draining"]


def test_only_the_supervisor_of_a_host_speaks(tmp_path: Path) -> None:
    with managing(tmp_path) as manager:
        with Server("--workers", "2", NOTIFY_SOCKET=manager.address, **WATCHED) as server:
            all_ready = "STATUS=2 of 2 workers are ready"
            wait_until(lambda: manager.told[-1:] == [all_ready])
            ready = manager.told.index("READY=1")
            assert manager.told[ready + 1 :] == ["STATUS=1 of 2 workers are ready", all_ready]
            wait_until(lambda: manager.signs_of_life >= 3)
            server.send(signal.SIGHUP)
            wait_until(lambda: manager.told.count("READY=1") == 2)
            assert manager.told.count("RELOADING=1") == 1
        assert manager.told[-2:] == ["STOPPING=1", "STATUS=draining"]


def test_the_start_of_a_server_on_an_unfit_card_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = write_config(tmp_path, {"kind": "set_device_error", "at": 1}, faults_after_launches=0)
    with managing(tmp_path) as manager:
        monkeypatch.setenv("NOTIFY_SOCKET", manager.address)
        with starting(tmp_path / "log", "--acl-config", config) as (process, _):
            wait_until(lambda: len(manager.told) == 2)
            assert manager.told == ["READY=1", "STATUS=never ready: device 0 does not open"]
            process.terminate()
            assert process.wait(60) == 0
