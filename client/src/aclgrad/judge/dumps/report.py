"""The page of a judgement: coverage, verdict, the calls in order of execution, and what is wrong, by API."""

from collections import Counter
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

import aclgrad
from aclgrad.judge.dumps.embedded import Texts, embed
from aclgrad.judge.dumps.records import SERVER, TRAINING, CallRow
from aclgrad.judge.dumps.summary import Summary
from aclgrad.judge.dumps.texts import (
    WORDS,
    coverage_of,
    figure,
    followers_of,
    note_of,
    position_of,
    share_of,
    sides_of,
    times_of,
)
from aclgrad.judge.findings.rows import End, Verdict
from aclgrad.units import counted, span

_MOST_LINES: Final = 300
"""The most APIs of a kind, and the most reasons, that the page has a line for."""
_ALONE: Final = {
    TRAINING: "Training is wrong and the server right",
    SERVER: "The server is wrong and training right",
}


@dataclass(frozen=True, slots=True)
class Run:
    """What was judged, with what, and how the run ended."""

    program: str
    dump: str
    target: str
    """The server, or empty for a judgement without one."""
    pytorch: str
    precision: str
    end: End
    message: str
    exit_code: int
    seconds: float


def is_clean(summary: Summary, run: Run) -> bool:
    """Whether all is well, so that it may be green: a run without an error, and no call that was not judged."""
    return run.exit_code == 0 and summary.is_covered and not summary.unexplained


def headline_of(summary: Summary, run: Run) -> str:
    """Returns the verdict in a few words."""
    failed, judged = summary.count(Verdict.FAILED), summary.judged
    if not judged:
        return "No call was judged"
    if failed:
        return f"{failed:,} of {counted(judged, 'judged call')} {'is' if failed == 1 else 'are'} wrong"
    if run.end is not End.COMPLETE or summary.unreached:
        return "No call so far is wrong"
    if summary.unexplained:
        return f"No call failed, and {counted(summary.unexplained, 'gradient')} may be wrong"
    return "Every call is right" if summary.is_covered else "No judged call is wrong"


def render(summary: Summary, run: Run) -> str:
    """Returns the page, which needs nothing from elsewhere."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    # Compact, and with an error instead of what JSON does not have.
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "ensure_ascii": False, "allow_nan": False}
    folder = files(__package__)
    texts = Texts(run.target)
    groups = summary.groups
    sections = {
        verdict: [group for group in groups if group.verdict is verdict]
        for verdict in (Verdict.FAILED, Verdict.NOTED, Verdict.PASSED)
    }
    page: dict[str, Any] = {
        "style": Markup(folder.joinpath("report.css").read_text("utf-8")),
        "script": Markup(folder.joinpath("report.js").read_text("utf-8")),
        "calls": embed(summary, texts),
        "run": run,
        "summary": summary,
        "sections": sections,
        "first": _place(summary, summary.first_wrong),
        "followers": followers_of(summary),
        "alone": [(what, len(rows), _place(summary, rows[0])) for what, rows in wrong_alone(summary)],
        "places": _places(summary),
        "unjudged": summary.unjudged,
        "most": _MOST_LINES,
        "coverage": coverage_of(summary),
        "by_side": sides_of(summary),
        "headline": headline_of(summary, run),
        "is_clean": is_clean(summary, run),
        "version": aclgrad.__version__,
        "verdicts": {verdict.name: verdict for verdict in Verdict},
        "words": WORDS,
    }
    environment.filters |= {"clean": texts.clean, "counted": counted, "figure": figure, "span": span}
    environment.globals |= {"note_of": note_of, "share_of": share_of}
    return environment.from_string(folder.joinpath("report.html.j2").read_text("utf-8")).render(page)


def _place(summary: Summary, row: CallRow | None) -> dict[str, Any] | None:
    """Returns where a call is and what was found, for a sentence with a link."""
    if row is None:
        return None
    _, side, found = row.worst or (None, "", None)
    finding = (found.message or times_of(found)) if found else row.message
    number = next(at for at, each in enumerate(summary.rows, 1) if each is row)
    return {"row": row, "number": number, "position": position_of(summary, row), "side": side, "finding": finding}


def wrong_alone(summary: Summary) -> list[tuple[str, list[CallRow]]]:
    """Returns the calls in which one side is wrong and the other right, with a sentence that says which."""
    found = [(what, summary.wrong_only(side)) for side, what in _ALONE.items() if summary.has_server]
    return [(what, rows) for what, rows in found if rows]


def _places(summary: Summary) -> list[tuple[str, int, Counter[Verdict]]]:
    """Returns the dumps, with the position of their first call and how many calls have each verdict."""
    counts: dict[str, Counter[Verdict]] = {}
    for row in summary.rows:
        counts.setdefault(row.place, Counter())[row.verdict] += 1
    found, start = [], 0
    for place, own in counts.items():
        found.append((place, start, own))
        start += own.total()
    return found
