"""Bars: on a terminal they say how much, how fast and how long still; elsewhere there is nothing."""

import json
import os
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any, cast

import pytest

from aclgrad.testing import TestServer

# The clock of the bar is the real one: its rate needs some time.
BAR = """
import time
from aclgrad.progress import progress
with progress(4, "calls") as bar:
    for n in range(4):
        time.sleep(0.1)
        bar.advance("[call] " + str(n))
        bar.echo("line " + str(n))
    if {fails}:
        raise KeyboardInterrupt
"""
SHOWS, HIDES = b"\x1b[?25h", b"\x1b[?25l"


def on_terminal(*words: str, width: int = 80, **streams: Any) -> tuple[bytes, bytes]:
    """Returns what a program writes to its standard output, if that is a pipe, and to a terminal."""
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, width))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    environment |= {"TERM": "xterm", **streams.pop("env", {})}
    streams = {"stdout": subprocess.PIPE, "stderr": theirs} | {
        name: theirs if value == "terminal" else value for name, value in streams.items()
    }
    with subprocess.Popen([sys.executable, *words], env=environment, text=False, **streams) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the terminal's other side is closed
                break
            if not part:
                break
            shown += part
        output = cast("bytes", process.stdout.read()) if process.stdout else b""
    os.close(ours)
    return output, shown


@pytest.mark.parametrize("fails", [False, True], ids=["ends", "interrupted"])
def test_a_terminal_shows_count_rate_and_time_left_and_is_whole_at_the_end(fails: bool) -> None:
    _, shown = on_terminal("-c", BAR.format(fails=fails), stdout="terminal")
    assert all(each in shown for each in (b"[call] 3", b"4/4", b" calls/s", b" left"))
    assert shown.rindex(SHOWS) > shown.rindex(HIDES)
    # Each line is alone in its row: the bar was erased before.
    assert all(f"\x1b[2Kline {n}\r\n".encode() in shown for n in range(4))


def test_a_file_gets_the_lines_and_the_terminal_the_bar(tmp_path: Path) -> None:
    with (tmp_path / "output").open("wb") as file:
        _, shown = on_terminal("-c", BAR.format(fails=False), width=40, stdout=file)
    assert (tmp_path / "output").read_bytes() == b"line 0\nline 1\nline 2\nline 3\n"
    assert b"4/4" in shown
    assert b"line" not in shown


def test_what_another_program_reads_and_may_print_comes_without_a_bar() -> None:
    output, shown = on_terminal("-c", BAR.format(fails=False))
    assert (output.count(b"line"), shown) == (4, b"")


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_terminals_without_colour_or_cursor(environment: dict[str, str]) -> None:
    _, shown = on_terminal("-c", BAR.format(fails=False), stdout="terminal", env=environment)
    assert b"\x1b[3" not in shown
    assert (b"4/4" in shown) == ("NO_COLOR" in environment)


def test_json_has_no_bar(testing: TestServer) -> None:
    main = "from aclgrad.cli import main; main()"
    _, shown = on_terminal("-c", main, "doctor", testing.target, "--json", stdout="terminal")
    assert json.loads(shown)["exit_code"] == 0


def test_no_terminal_has_no_bar() -> None:
    done = subprocess.run([sys.executable, "-c", BAR.format(fails=False)], capture_output=True, check=True)
    assert (done.stderr, done.stdout.count(b"line")) == (b"", 4)


@pytest.mark.parametrize("words", ["status", "operators --target", "bench --seconds 1 --target"])
def test_a_server_that_does_not_answer_is_named_while_a_command_waits(words: str) -> None:
    main, environment = "from aclgrad.cli import main; main()", {"ACLGRAD_CONNECT_TIMEOUT_S": "0.3"}
    _, shown = on_terminal("-c", main, *words.split(), "127.0.0.1:1", stdout="terminal", env=environment)
    assert b"waiting for 127.0.0.1:1" in shown
