"""What the page embeds of the calls: a column for each fact, and the details of as many calls as it has room for."""

import json
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from jinja2.utils import htmlsafe_json_dumps

from aclgrad.judge.dumps.records import SERVER, TRAINING, CallRow, Side, TensorRow
from aclgrad.judge.dumps.summary import Summary
from aclgrad.judge.dumps.texts import figure, shape_of, share_of
from aclgrad.judge.findings.rows import Element, Verdict

MOST_DETAIL: Final = 2_500_000
"""The most bytes of details: with the columns of 50,000 calls, a page stays below 5 MB."""
MOST_TEXT: Final = 400
"""The most characters of a message or a name."""
_MOST_TENSORS: Final = 40
_LETTERS: Final = {Verdict.PASSED: "p", Verdict.NOTED: "n", Verdict.FAILED: "f", Verdict.SKIPPED: "s"}
_IMPORTANCE: Final = (Verdict.FAILED, Verdict.SKIPPED, Verdict.NOTED, Verdict.PASSED)


class Texts:
    """Texts of which each is embedded once. The server's address is in the page's head, and in none of them."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._numbers: dict[str, int] = {}
        self.length = 0
        """How many bytes all of them have in a page, at most."""

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
    """Returns what the page's script reads; all figures are texts, and a number stands for a text of `texts`."""
    rows = summary.rows
    columns = {
        "places": list(Counter(row.place for row in rows).values()),
        "sides": [TRAINING, SERVER] if summary.has_server else [TRAINING],
        "first": next((at for at, row in enumerate(rows) if row is summary.first_wrong), None),
        "api": [texts.number(row.api) for row in rows],
        "call": [texts.number(row.name.removeprefix(f"{row.api}.")) for row in rows],
        "share": [texts.number(share_of(row)) for row in rows],
        "verdict": "".join(_LETTERS[row.verdict] for row in rows),
        "off": "".join("1" if row.is_off else "0" for row in rows),
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
    """Returns the message and the tensors: those that failed first, each kind with the worst first."""

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
