"""The program without its libraries, and what it shows on a terminal."""

import io
import subprocess
import sys

import pytest
from rich.console import Console

from aclgrad.check.console import Display
from aclgrad.check.report import Report
from aclgrad.check.rows import Finding, Origin, Row, Task, Verdict

LIBRARIES = ("click", "rich", "jinja2", "safetensors")
ORIGIN = Origin("127.0.0.1:1", "910B", "libacl_host.so", "8.1.0")


_PROGRAM = f"""
import os, sys, aclgrad
aclgrad.Client, aclgrad.AsyncClient
print(set({LIBRARIES}) & set(sys.modules), flush=True)
from aclgrad.cli import main
for library in {LIBRARIES}:
    if not (child := os.fork()):
        sys.modules[library] = None
        main()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_the_client_imports_none_of_them_and_without_one_the_program_says_what_to_install() -> None:
    finished = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False)
    assert finished.stdout == "set()\n" + "2\n" * len(LIBRARIES), finished.stderr
    assert finished.stderr.splitlines() == [
        f"aclgrad: {library} is not installed; run: pip install 'aclgrad[cli]'" for library in LIBRARIES
    ]


def _row(verdict: Verdict, case: str) -> Row:
    task = Task(ORIGIN, "accuracy", "some_operator", "float32", (2, 3), case, lambda: Finding(verdict))
    return Row.of(task, Finding(verdict, "told [why]", {"error_of_limit": 0.5, "max_error": 0.001}), 0.1)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_gets_a_table_and_a_file_gets_lines(is_terminal: bool) -> None:
    out = io.StringIO()
    display = Display(Console(file=out, force_terminal=is_terminal, width=120, color_system=None))
    rows = [_row(Verdict.PASSED, "fine"), _row(Verdict.FAILED, "broken")]
    with display.of(len(rows)):
        for row in rows:
            display.take(row)
    display.end(Report(planned=2, rows=rows))
    shown = out.getvalue()
    assert "accuracy some_operator float32 2x3 broken; error 0.001, 50.0% of the limit; told [why]" in shown
    assert ("x3 fine" in shown) is not is_terminal
    assert ("worst of limit" in shown) is is_terminal
    assert "complete: 1 passed, 1 failed, 0 noted, 0 skipped; 2 of 2 rows" in shown
