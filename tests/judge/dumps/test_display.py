"""The terminal of a judgement."""

import re
from io import StringIO

import pytest
from rich.console import Console

from aclgrad import progress
from aclgrad.judge.dumps.display import Display
from aclgrad.judge.dumps.summary import Summary
from aclgrad.judge.findings.rows import End

from .summaries import CASES, HF32, HOSTILE, run_of
from .test_page import in_order

GREEN = "\x1b[32m"


def shown(
    case: str,
    *,
    terminal: bool = False,
    verbose: bool = False,
    only_end: bool = False,
    planned: int = 0,
    **changed: object,
) -> str:
    summary, file = Summary.of(CASES[case](), planned), StringIO()
    display = Display(Console(file=file, width=80, emoji=False, force_terminal=terminal), verbose=verbose)
    if not only_end:
        with display.of(len(summary.rows)):
            for row in summary.rows:
                display.take(row)
    display.end(summary, run_of(summary, **changed))
    return file.getvalue()


def test_coverage_then_the_first_wrong_call_then_apis_then_the_verdict() -> None:
    summary = Summary.of(CASES["eighteen"]())
    assert summary.first_wrong is not None
    text = shown("eighteen")
    text = " ".join(text[text.index("372 calls") :].split())
    assert in_order(
        text,
        "372 calls: 361 judged, 11 not judged",
        "Tensor.__iadd__ 7 its recorded input was overwritten later",
        "first wrong call: Functional.batch_norm.54.backward, call 191 of 372",
        f"at {summary.first_wrong.tensors[0].sides['training'].worst[0].index}:",
        "Functional.batch_norm 110 18",
        "Functional.linear 2 2",
        f"noted in Functional.linear: {HF32}",
        "18 of 361 judged calls are wrong: 341 passed, 18 failed, 2 noted, 11 not judged",
    )
    assert text.count("Functional.batch_norm 110") == 1


def test_failed_calls_are_named_as_they_come_and_all_are_explained_with_verbose() -> None:
    text = shown("eighteen")
    assert len(re.findall("^failed ", text, re.MULTILINE)) == 18
    found = re.search(r"^first wrong call: .*\n(  .*)$", text, re.MULTILINE)
    assert found is not None
    assert text.count(found[1]) == 1
    lines = shown("eighteen", verbose=True)
    assert lines.count(found[1]) == 2
    assert len(re.findall(r"^(?:passed|failed|noted|not judged) \S+ward$", lines, re.MULTILINE)) == 372


@pytest.mark.parametrize(
    ("case", "changed", "is_green"),
    [
        ("clean", {}, True),
        ("rest", {}, False),
        ("unjudged", {}, False),
        ("empty", {}, False),
        ("one", {}, False),
        ("served", {}, False),
        ("clean", {"end": End.INTERRUPTED, "message": "interrupted", "exit_code": 130}, False),
    ],
)
def test_nothing_is_green_over_a_rest(case: str, changed: dict[str, object], *, is_green: bool) -> None:
    assert (GREEN in shown(case, terminal=True, only_end=True, **changed)) is is_green


@pytest.mark.parametrize("case", [case for case in CASES if case not in ("many", "hostile")])
def test_a_terminal_of_80_columns_needs_no_more(case: str) -> None:
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown(case, terminal=True))
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80


def test_calls_that_were_not_reached_are_counted() -> None:
    text = shown("clean", planned=1600, end=End.INTERRUPTED, message="interrupted", exit_code=130)
    assert in_order(
        text,
        "1,600 calls: 372 judged, 1,228 not reached\n",
        "No call so far is wrong: 372 passed, 0 failed, 0 noted, 0 not judged, 1,228 not reached; interrupted",
    )
    text = shown("rest", planned=1600, end=End.INTERRUPTED, message="interrupted", exit_code=130)
    assert "1,600 calls: 361 judged, 11 not judged, 1,228 not reached\n" in text


def test_work_that_shows_no_calls_has_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    file = StringIO()
    monkeypatch.setattr(progress, "is_shown", lambda: True)
    monkeypatch.setattr(progress, "new_console", lambda **_: Console(file=file, width=80, force_terminal=True))
    display = Display(Console(file=StringIO()))
    assert list(display.each("abc", "other work")) == ["a", "b", "c"]
    assert "3/3" in file.getvalue()
    assert "other work" in file.getvalue()


def test_markup_in_names_is_text() -> None:
    assert HOSTILE in shown("hostile")
