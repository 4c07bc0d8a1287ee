"""The program without its libraries, and what it shows on a terminal."""

import io
import subprocess
import sys
from dataclasses import replace

import pytest
from rich.console import Console

from aclgrad.judge.compare.command import PairDisplay
from aclgrad.judge.findings.display import Display
from aclgrad.judge.findings.rows import Finding, Origin, Report, Row, Task, Verdict
from aclgrad.operators.catalogue import OPERATORS

LIBRARIES = {"click": "--help", "safetensors": "call"}
"""What the program needs at once, or for a command."""
ORIGIN = Origin("127.0.0.1:1", "910B", "libacl_host.so", "8.1.0")


_PROGRAM = f"""
import os, sys, aclgrad
aclgrad.Client, aclgrad.AsyncClient
print({{"click", "rich", "jinja2", "safetensors"}} & set(sys.modules), flush=True)
from aclgrad.cli import main
for library, command in {LIBRARIES}.items():
    if not (child := os.fork()):
        sys.modules[library] = None
        sys.argv = ["aclgrad", command, "127.0.0.1:1"]
        main()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_the_client_imports_none_of_them_and_without_one_the_program_says_what_to_install() -> None:
    finished = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False)
    assert finished.stdout == "set()\n" + "2\n" * len(LIBRARIES), finished.stderr
    assert finished.stderr.splitlines() == [
        f"aclgrad: {library} is not installed; run: pip install 'aclgrad[cli]'" for library in LIBRARIES
    ]


def row_of(origin: Origin, check: str, operator: str, case: str, finding: Finding) -> Row:
    return Row.of(Task(origin, check, operator, "float32", (2, 3), case, lambda: finding), finding, 0.1)


def row(verdict: Verdict, case: str) -> Row:
    finding = Finding(verdict, "told [why]", {"error_of_limit": 0.5, "max_error": 0.001})
    return row_of(ORIGIN, "accuracy", "some_operator", case, finding)


def test_the_tables_are_whole_at_90_columns() -> None:
    """The longest name of an operator, every verdict, counts of four digits and errors beyond all limits."""
    far, slow = {"error_of_limit": 123.456, "max_error": 1.0}, {"p50_ms": 12345.678, "p99_ms": 23456.789}
    rows, operator = [], max(OPERATORS, key=len)
    for target in ("127.0.0.1:1", "127.0.0.1:2"):
        origin = replace(ORIGIN, target=target)
        for verdict in Verdict:
            rows += [row_of(origin, "determinism", operator, "", Finding(verdict, figures=far))] * 1000
        rows.append(row_of(origin, "latency", operator, "16 MB", Finding(Verdict.PASSED, figures=slow)))
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=90, color_system=None)
    Display(console, verbose=True).end(Report(len(rows), rows))
    lines = [line.split() for line in out.getvalue().splitlines()]
    short = operator.removesuffix("_backward")
    counts = ["determinism", short, *["1000"] * len(Verdict), "12345.6%"]
    assert [line for line in lines if line[0] == "determinism"] == [counts] * 2
    assert [line for line in lines if line[1:3] == ["16", "MB"]] == [[short, "16", "MB", "12345.68", "23456.79"]] * 2
    assert [line for line in lines if line[0].startswith("127")] == [[f"127.0.0.1:{number}"] for number in (1, 1, 2, 2)]


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize("verbose", [True, False])
def test_failures_and_a_table_are_shown_or_all_rows(is_terminal: bool, verbose: bool) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=is_terminal, width=120, color_system=None)
    display = Display(console, verbose=verbose)
    rows = [row(Verdict.PASSED, "fine"), row(Verdict.FAILED, "broken"), row(Verdict.NOTED, "odd")]
    with display.of(len(rows)):
        for each in rows:
            display.take(each)
    display.end(Report(planned=3, rows=rows))
    shown = out.getvalue()
    assert "accuracy some_operator float32 2x3 broken; error 0.001, 50.0% of the limit; told [why]" in shown
    assert ("x3 fine" in shown, "x3 odd" in shown) == (verbose, verbose)
    table = [line.split() for line in shown.splitlines()[-3:-1]]
    operator = (["operator"], ["some_operator"]) if verbose else ([], [])
    assert table == [
        ["check", *operator[0], "passed", "failed", "noted", "of", "limit"],
        ["accuracy", *operator[1], "1", "1", "1", "50.0%"],
    ]
    ending = shown.splitlines()[-1]
    assert ending.startswith("complete: 1 passed, 1 failed, 1 noted, 0 skipped; 3 of 3 rows")
    assert ending.endswith("; --verbose shows all rows") is not verbose


def test_the_table_of_a_comparison_is_whole_at_90_columns() -> None:
    figures = {"different": 1.0, "max_ulps": 12345678.0, "a_varied": 1.0, "b_varied": 1.0, "error_of_limit": 123.0}
    finding = Finding(Verdict.FAILED, figures=figures | {"a_of_limit": 1e9, "b_of_limit": 99.99})
    rows = [replace(row_of(ORIGIN, "compare", name, "case", finding), dtype="complex128") for name in OPERATORS]
    out = io.StringIO()
    PairDisplay(Console(file=out, force_terminal=True, width=90, color_system=None)).end(Report(len(rows), rows))
    lines = [line.split() for line in out.getvalue().splitlines()]
    assert lines[0] == ["operator", "dtype", "A", "B", "elements", "ULPs", "varies"]
    cells = ["complex128", ">9999%", "9999.0%", "100.0%", "1.2e+07", "A,", "B"]
    assert lines[1:-1] == [[name.removesuffix("_backward"), *cells] for name in OPERATORS]


@pytest.mark.parametrize("verbose", [True, False])
def test_operators_with_the_same_bits_are_shown_if_asked_for(verbose: bool) -> None:
    figures = {"a_of_limit": 0.5, "b_of_limit": 0.5}
    found = [row_of(ORIGIN, "compare", f"{each}_operator", "", Finding(each, figures=figures)) for each in Verdict]
    out = io.StringIO()
    display = PairDisplay(Console(file=out, width=120, color_system=None), verbose=verbose)
    for each in found:
        display.take(each)
    assert [line.split()[0] for line in out.getvalue().splitlines()] == (list(Verdict) if verbose else ["failed"])
    display.end(Report(len(found), found))
    shown = [line.split()[0] for line in out.getvalue().splitlines() if "_operator  " in line]
    assert shown == [f"{each}_operator" for each in ("failed", "noted", *(["passed"] if verbose else []))]
