"""`aclgrad status --watch`: looks again and again, whatever becomes of the server, until Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.client.scripted_service import serving
from tests.server.status.statuses import status_with

from .conftest import Run

PROGRAM = "from aclgrad.cli import main; main()"
# A server that is down is told at once.
ENVIRONMENT = os.environ | {"ACLGRAD_CONNECT_TIMEOUT_S": "0", "TERM": "xterm"}
INTERRUPTED = b"aclgrad status: interrupted\n"


@contextmanager
def watching(*flags: str, **streams: Any) -> Iterator[subprocess.Popen[str]]:
    """Yields the program, whose lines can be read; Ctrl-C ends it, with its exit code and one line."""
    command = [sys.executable, "-c", PROGRAM, "status", "--watch", "0.1", *flags]
    streams = {"stdout": subprocess.PIPE, "text": True} | streams
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env=ENVIRONMENT, **streams)
    try:
        yield process
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=60)[1]
    finally:
        process.kill()
    assert (process.returncode, bytes(errors, "utf-8") if isinstance(errors, str) else errors) == (130, INTERRUPTED)


def until(process: subprocess.Popen[str], begins: str) -> str:
    assert process.stdout is not None
    return next(line for line in process.stdout if line.startswith(begins))


@contextmanager
def answering(address: str) -> Iterator[None]:
    with serving(address) as service:
        service.answer = lambda context: status_with().SerializeToString()
        yield


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"unix:{tmp_path}/server"


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_without_a_terminal_one_look_follows_the_other_also_if_a_server_goes_and_comes_back(
    address: str, as_json: bool
) -> None:
    answers, fails = ('{"version"', '{"target"') if as_json else ("server: ", "does not answer: ")
    with ExitStack() as life:
        life.enter_context(answering(address))
        with watching(*(["--json"] if as_json else []), "--target", address) as process:
            for _ in range(2):
                told = until(process, answers)
                assert json.loads(told)["product"] == "910B" if as_json else address in told
            life.close()
            told = until(process, fails)
            assert "ServerUnreachableError" in told
            life.enter_context(answering(address))
            until(process, answers)


def test_a_terminal_shows_each_look_in_the_same_place(address: str) -> None:
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (60, 80))
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        with answering(address), watching("--target", address, stdout=theirs, stdin=theirs, text=False) as process:
            told = b""
            while told.count(b"server: ") < 3:
                told += terminal.read(2**16)
        os.close(theirs)
    assert process.returncode == 130
    # Up to the line where the look before began, and the cursor, which was hidden, is there again.
    assert told.count(b"\x1b[1A") >= 2 * told.count(b"server: ") - 2


def test_a_wrong_setting_ends_it_at_once(run: Run) -> None:
    assert run("status --watch --target nowhere").exit_code == 2
    assert run("status --watch 0").exit_code == 2
