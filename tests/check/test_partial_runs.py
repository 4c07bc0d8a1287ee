"""Runs that do not come to their end, and targets without a server."""

import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from aclgrad.commands import program
from aclgrad.judgement.console import Display
from aclgrad.testing import serve
from tests.check.checking import Checked, check, read
from tools.calling import wait_until

ROWS = 20


def assert_partial(checked: Checked, page: Path, end: str) -> None:
    assert "Traceback" not in checked.output
    assert ROWS <= len(checked.rows) < checked.summary["planned"]
    told = (checked.summary["end"], checked.summary["exit_code"], checked.summary["rows"])
    assert told == (end, checked.exit_code, len(checked.rows))
    assert f"{end}, exit code {checked.exit_code}" in page.read_text()
    assert "safe" not in {each["verdict"] for each in checked.summary["switches"].values()}


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("is_gone", "end", "exit_code", "told"),
    [
        (False, "interrupted", 130, f"interrupted after {ROWS} of"),
        (True, "server gone", 2, "the server went away after"),
    ],
    ids=["interrupt", "gone"],
)
def test_a_run_that_ends_early_leaves_a_partial_report(
    few: pytest.MonkeyPatch, tmp_path: Path, is_gone: bool, end: str, exit_code: int, told: str
) -> None:
    page, rows = tmp_path / "report.html", []
    real = Display.take
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        address = stack.enter_context(serve()).target
        happen: Callable[[], None] = stack.close if is_gone else interrupt

        def take(*arguments: Any) -> None:
            real(*arguments)
            rows.append(arguments)
            if len(rows) == ROWS:
                happen()

        patch.setattr(Display, "take", take)
        checked = check(tmp_path, address, "--html", str(page), "--timeout-s", "5")
    assert checked.exit_code == exit_code
    assert told in checked.output
    assert_partial(checked, page, end)


@pytest.mark.slow
def test_sigint_ends_the_program_with_a_partial_report(tmp_path: Path) -> None:
    file, page = tmp_path / "rows.jsonl", tmp_path / "report.html"
    with serve() as server:
        program = "from aclgrad.cli import main; main()"
        words = [sys.executable, "-c", program, "check", server.target, "--json", str(file), "--html", str(page)]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            wait_until(lambda: file.exists() and file.read_text().count("\n") >= ROWS)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
    assert "interrupted after" in errors
    assert_partial(Checked(process.returncode, errors, *read(file)), page, "interrupted")


@pytest.mark.parametrize("target", ["nonsense", "http://127.0.0.1:1", "127.0.0.1:1"])
def test_a_target_without_a_server_is_refused(target: str, few: pytest.MonkeyPatch) -> None:
    result = CliRunner().invoke(program, ["check", target])
    assert result.exit_code == 2
    assert result.output.startswith("aclgrad check: ")
