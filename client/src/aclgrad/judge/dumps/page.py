"""The page of a judged dump: coverage, verdict, the calls in order of execution, and errors by API.

It embeds the calls as columns, and the details of as many calls as there is room for.
"""

import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any, Final

from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

import aclgrad
from aclgrad.judge.dumps.records import SERVER, TRAINING, CallRow, Side, TensorRow
from aclgrad.judge.dumps.summary import (
    WORDS,
    Summary,
    coverage_of,
    figure,
    followers_of,
    note_of,
    position_of,
    shape_of,
    share_of,
    sides_of,
    times_of,
)
from aclgrad.judge.findings.display import new_environment
from aclgrad.judge.findings.rows import Element, End, Verdict
from aclgrad.units import counted, span

MOST_DETAIL: Final = 2_500_000
"""The most bytes of details, so that a page of 50,000 calls stays below 5 MB."""
MOST_TEXT: Final = 400
"""The most characters of a message or a name."""
_MOST_TENSORS: Final = 40
_LETTERS: Final = {Verdict.PASSED: "p", Verdict.NOTED: "n", Verdict.FAILED: "f", Verdict.SKIPPED: "s"}
_IMPORTANCE: Final = (Verdict.FAILED, Verdict.SKIPPED, Verdict.NOTED, Verdict.PASSED)
_MOST_LINES: Final = 300
"""The most APIs of a kind, and the most reasons, with a line in the page."""
_ALONE: Final = {
    TRAINING: "Training is wrong and the server right",
    SERVER: "The server is wrong and training right",
}


class Texts:
    """Texts that are embedded once each. The server's address is only in the page's head."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._numbers: dict[str, int] = {}
        self.length = 0
        """The most bytes of all of them in a page."""

    def clean(self, text: str) -> str:
        """Returns the text as the page shows it."""
        if self._target:
            text = text.replace(f"server {self._target}", "server").replace(self._target, "the server")
        return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}\N{HORIZONTAL ELLIPSIS}"

    def number(self, text: str) -> int:
        """Returns the number of the text in the list."""
        cleaned = self.clean(text)
        if cleaned not in self._numbers:
            self._numbers[cleaned] = len(self._numbers)
            self.length += len(htmlsafe_json_dumps(cleaned))
        return self._numbers[cleaned]

    def all(self) -> list[str]:
        return list(self._numbers)


def embed(summary: Summary, texts: Texts) -> dict[str, Any]:
    """Returns the data for the page's script; all figures are texts, and numbers refer to `texts`."""
    rows = summary.rows
    columns = {
        "places": list(Counter(row.place for row in rows).values()),
        "sides": [TRAINING, SERVER] if summary.has_server else [TRAINING],
        "first": next((at for at, row in enumerate(rows) if row is summary.first_wrong), None),
        "api": [texts.number(row.api) for row in rows],
        "call": [texts.number(row.name.removeprefix(f"{row.api}.")) for row in rows],
        "share": [texts.number(share_of(row)) for row in rows],
        "verdict": "".join(_LETTERS[row.verdict] for row in rows),
        "off": "".join("1" if row.inputs_are_off else "0" for row in rows),
    }
    details, length = {}, 0
    for at in _by_importance(summary):
        details[at] = _detail(rows[at], texts)
        length += len(json.dumps(details[at]))
        if length + texts.length > MOST_DETAIL:
            break
    return columns | {"details": details, "texts": texts.all()}


def _by_importance(summary: Summary) -> Iterator[int]:
    """Yields the positions of all calls: the worst of each API first, then by verdict in the order of execution."""
    worst = {id(group.worst) for group in summary.groups if group.verdict is Verdict.FAILED}
    ranks = {verdict: rank for rank, verdict in enumerate(_IMPORTANCE)}
    rows = summary.rows
    yield from sorted(range(len(rows)), key=lambda at: (id(rows[at]) not in worst, ranks[rows[at].verdict]))


def _detail(row: CallRow, texts: Texts) -> list[Any]:
    """Returns the message and the tensors, failed ones first, then by error."""

    def rank(tensor: TensorRow) -> tuple[int, float]:
        return min(
            ((_IMPORTANCE.index(each.verdict), -each.of_limit) for each in tensor.sides.values()), default=(9, 0.0)
        )

    tensors = sorted(row.tensors, key=rank)
    return [texts.number(row.message), len(tensors), [_tensor(each, texts) for each in tensors[:_MOST_TENSORS]]]


def _tensor(tensor: TensorRow, texts: Texts) -> list[Any]:
    pytorch = "" if tensor.pytorch_error is None else figure(tensor.pytorch_error)
    sides = {name: _side(side, texts) for name, side in tensor.sides.items()}
    extents = [tensor.elements // max(1, tensor.shape[-1]), tensor.shape[-1]] if tensor.shape else [1, 1]
    return [texts.number(tensor.name), texts.number(f"{tensor.dtype} {shape_of(tensor)}"), extents, pytorch, sides]


def _side(side: Side, texts: Texts) -> list[Any]:
    share = figure(side.of_limit) if math.isfinite(side.of_limit) else ""
    figures = [figure(side.error), figure(side.limit), share]
    found = [_LETTERS[side.verdict], *figures, texts.number(side.message), f"{side.outside:,}" if side.outside else ""]
    return [*found, [_element(each) for each in side.worst], side.picture] if side.worst or side.picture else found


def _element(element: Element) -> list[str]:
    values = f"{element.computed:.9g}", f"{element.expected:.9g}", f"{element.ratio:.6g}"
    return [", ".join(map(str, element.index)), *values]


@dataclass(frozen=True, slots=True)
class Run:
    """The judged dump, its judges, and how the run ended."""

    program: str
    dump: str
    target: str
    """The server; empty without one."""
    pytorch: str
    precision: str
    end: End
    message: str
    exit_code: int
    seconds: float


def is_clean(summary: Summary, run: Run) -> bool:
    """Whether all is well (green): a run without an error, in which every call was judged."""
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
    """Returns the self-contained page."""
    environment = new_environment()
    # Compact; raises an error for values that JSON does not have.
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
    return environment.get_template("dumps/report.html.j2").render(page)


def _place(summary: Summary, row: CallRow | None) -> dict[str, Any] | None:
    """Returns the place of a call and its finding, for a sentence with a link."""
    if row is None:
        return None
    _, side, found = row.worst or (None, "", None)
    finding = (found.message or times_of(found)) if found else row.message
    number = next(at for at, each in enumerate(summary.rows, 1) if each is row)
    return {"row": row, "number": number, "position": position_of(summary, row), "side": side, "finding": finding}


def wrong_alone(summary: Summary) -> list[tuple[str, list[CallRow]]]:
    """Returns the calls in which only one side is wrong, with a sentence that says which."""
    found = [(what, summary.wrong_only(side)) for side, what in _ALONE.items() if summary.has_server]
    return [(what, rows) for what, rows in found if rows]


def _places(summary: Summary) -> list[tuple[str, int, Counter[Verdict]]]:
    """Returns the dumps, with the position of their first call and the number of calls by verdict."""
    counts: dict[str, Counter[Verdict]] = {}
    for row in summary.rows:
        counts.setdefault(row.place, Counter())[row.verdict] += 1
    found, start = [], 0
    for place, own in counts.items():
        found.append((place, start, own))
        start += own.total()
    return found


def summary_of(summary: Summary, run: Run) -> dict[str, Any]:
    """Returns the content of the first line of a file of rows."""
    first = summary.first_wrong
    return {
        **asdict(run),
        "seconds": round(run.seconds, 1),
        "calls": summary.planned,
        "not_reached": summary.unreached,
        "judged": summary.judged,
        **{str(verdict): summary.count(verdict) for verdict in Verdict},
        "not_judged": [{"api": each.api, "calls": each.count, "reason": each.reason} for each in summary.unjudged],
        **(_told_of_server(summary) if run.target else {}),
        "first_wrong": None if first is None else {"place": first.place, "name": first.name},
    }


def _told_of_server(summary: Summary) -> dict[str, Any]:
    reasons = summary.unserved.items()
    return {
        "served": dict(summary.served),
        "not_served": [
            {"api": api, "calls": count, "reason": reason} for reason, apis in reasons for api, count in apis.items()
        ],
        "on_the_server_alone": summary.of_server_alone.total(),
    }
