"""Runs that do not come to their end, and targets without a server."""

import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from aclgrad.commands import program
from tests.check.checking import COMMAND, read
from tools.serving import Server

ROWS = 20
LIMIT_S = 60


def _begin(address: str, folder: Path) -> subprocess.Popen[str]:
    """Starts a full run and returns when it has made some rows."""
    files = ["--json", str(folder / "rows.jsonl"), "--html", str(folder / "report.html")]
    process = subprocess.Popen(
        [*COMMAND, address, *files], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    end = time.monotonic() + LIMIT_S
    while len(_rows(folder)) < ROWS and process.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    return process


def _rows(folder: Path) -> list[dict[str, Any]]:
    path = folder / "rows.jsonl"
    return [] if not path.exists() else path.read_text().splitlines()[:ROWS]  # type: ignore[return-value]


def _assert_partial(folder: Path, end: str, exit_code: int) -> None:
    rows, summary = read(folder / "rows.jsonl")
    assert ROWS <= len(rows) < summary["planned"]
    assert (summary["end"], summary["exit_code"], summary["rows"]) == (end, exit_code, len(rows))
    assert f"{end}, exit code {exit_code}" in (folder / "report.html").read_text()
    assert "safe" not in {each["verdict"] for each in summary["switches"].values()}


def test_an_interrupt_leaves_a_partial_report(server: Server, tmp_path: Path) -> None:
    with _begin(server.address, tmp_path) as process:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert "interrupted after" in errors
    assert "Traceback" not in errors
    _assert_partial(tmp_path, "interrupted", 130)


def test_a_server_that_goes_down_leaves_a_partial_report(tmp_path: Path) -> None:
    with Server() as own:
        with _begin(own.address, tmp_path) as process:
            own.send(signal.SIGKILL)
            _, errors = process.communicate(timeout=LIMIT_S)
        own.exit_code()
    assert process.returncode == 2
    assert "the server went away after" in errors
    assert "Traceback" not in errors
    _assert_partial(tmp_path, "server gone", 2)


@pytest.mark.parametrize("target", ["nonsense", "http://127.0.0.1:1", "127.0.0.1:1"])
def test_a_target_without_a_server_is_refused(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aclgrad.check.target.CONNECT_TIMEOUT_S", 0.5)
    result = CliRunner().invoke(program, ["check", target])
    assert result.exit_code == 2
    assert result.output.startswith("aclgrad check: ")
