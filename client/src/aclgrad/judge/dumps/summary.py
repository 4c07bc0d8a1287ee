"""Conclusions from the rows of a dump, and their wording on a terminal and in the page."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Self

from aclgrad.judge.dumps.records import (
    ARRIVES_OTHERWISE,
    LAST_STEP,
    NOT_RECORDED,
    SERVER,
    TRAINING,
    CallRow,
    Side,
    TensorRow,
    in_order,
)
from aclgrad.judge.findings.rows import WORST_FIRST, Verdict, by_key, worst_of
from aclgrad.units import counted

_MOST_APIS: Final = 12
_MOST_LINES: Final = 20


@dataclass(frozen=True, slots=True)
class Unjudged:
    """Calls of one API that were not judged, for one reason."""

    api: str
    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class Group:
    """The calls of one API, with the worst verdict among them."""

    api: str
    rows: tuple[CallRow, ...]

    def count(self, verdict: Verdict) -> int:
        return sum(row.verdict is verdict for row in self.rows)

    @property
    def verdict(self) -> Verdict:
        return worst_of(row.verdict for row in self.rows)

    @property
    def worst(self) -> CallRow:
        """The call with the largest share of its limit, among those with the group's verdict."""
        verdict = self.verdict
        own = [row for row in self.rows if row.verdict is verdict]
        return max(own, key=lambda row: row.worst[2].of_limit if row.worst else 0.0)


@dataclass(frozen=True)
class Summary:
    """The rows in the order of execution, and conclusions about all."""

    rows: tuple[CallRow, ...]
    planned: int
    """The calls to judge, including those that a run has not reached."""

    @classmethod
    def of(cls, rows: Sequence[CallRow], planned: int = 0) -> Self:
        """Marks the rows whose inputs are wrong results of earlier calls. `planned` defaults to the number of rows."""
        marked, wrong, place = [], set[str](), None
        for row in in_order(rows):
            if row.place != place:
                wrong, place = set(), row.place
            marked.append(replace(row, inputs_are_off=not wrong.isdisjoint(row.digests.inputs)))
            wrong.update(each for each in row.digests.wrong if each)
        return cls(tuple(marked), max(planned, len(marked)))

    def count(self, verdict: Verdict) -> int:
        return sum(row.verdict is verdict for row in self.rows)

    @cached_property
    def judged(self) -> int:
        return len(self.rows) - self.count(Verdict.SKIPPED)

    @cached_property
    def damaged(self) -> int:
        """The number of calls with a file that is missing or broken."""
        return sum(row.is_damaged for row in self.rows)

    @cached_property
    def unexplained(self) -> int:
        """The number of calls given a gradient that is not the sum over the uses in the dump."""
        return sum(ARRIVES_OTHERWISE in row.message for row in self.rows)

    @cached_property
    def unreached(self) -> int:
        return self.planned - len(self.rows)

    @cached_property
    def last_steps(self) -> int:
        """The number of backward passes judged by their last step, because the dump has no more of them."""
        return sum(LAST_STEP in row.message for row in self.rows)

    @cached_property
    def unjudged(self) -> list[Unjudged]:
        """The calls that were not judged by API and reason, the most frequent first."""
        counts = Counter((row.api, row.message) for row in self.rows if row.verdict is Verdict.SKIPPED)
        return [Unjudged(api, count, reason) for (api, reason), count in counts.most_common()]

    @cached_property
    def first_wrong(self) -> CallRow | None:
        """The first call in the order of execution that failed."""
        return next((row for row in self.rows if row.verdict is Verdict.FAILED), None)

    @cached_property
    def has_server(self) -> bool:
        """Whether a server was asked for any of the calls."""
        return any(row.unserved or row.has(SERVER) for row in self.rows)

    @cached_property
    def served(self) -> Counter[str]:
        """The numbers of forward and backward passes that the server has computed."""
        return Counter(row.kind for row in self.rows if row.has(SERVER))

    @cached_property
    def asked(self) -> Counter[str]:
        """The numbers of forward and backward passes that the server was asked for."""
        return self.served + Counter(row.kind for row in self.rows if row.unserved)

    @cached_property
    def unserved(self) -> dict[str, Counter[str]]:
        """The passes that the server has not computed, by reason and API, the most frequent reason first."""
        reasons: dict[str, Counter[str]] = {}
        for row in self.rows:
            if row.unserved:
                reasons.setdefault(row.unserved, Counter())[row.api] += 1
        return dict(sorted(reasons.items(), key=lambda each: -each[1].total()))

    @cached_property
    def of_server_alone(self) -> Counter[str]:
        """The calls judged only on the server, by reason."""
        return Counter(row.message for row in self.rows if row.has(SERVER) and not row.has(TRAINING))

    @cached_property
    def is_covered(self) -> bool:
        """Whether each call was judged, both the recorded results and those asked of a server."""
        is_whole = bool(self.rows) and self.judged == self.planned
        return is_whole and not self.unserved and not self.of_server_alone

    def wrong_only(self, side: str) -> list[CallRow]:
        """Returns the calls in which only this side failed."""
        other = SERVER if side == TRAINING else TRAINING
        return [
            row
            for row in self.rows
            if any(
                side in tensor.sides
                and tensor.sides[side].verdict is Verdict.FAILED
                and other in tensor.sides
                and tensor.sides[other].verdict is not Verdict.FAILED
                for tensor in row.tensors
            )
        ]

    @cached_property
    def groups(self) -> list[Group]:
        """The APIs, the worst first, by verdict and then by share of the limit."""
        groups = [Group(api, tuple(own)) for api, own in by_key(self.rows, lambda row: row.api).items()]

        def rank(group: Group) -> tuple[int, float]:
            worst = group.worst.worst
            return WORST_FIRST.index(group.verdict), -(worst[2].of_limit if worst else 0.0)

        return sorted(groups, key=rank)


NOT_JUDGED: Final = "not judged"
WORDS: Final = {verdict: NOT_JUDGED if verdict is Verdict.SKIPPED else str(verdict) for verdict in Verdict}
"""The displayed names of verdicts."""


def figure(value: float | None) -> str:
    """Returns an error, a limit or a share with two digits, for example "1.1e-6"; None is not finite."""
    if value is None or math.isnan(value):
        return "not finite"
    if 10 <= value < 9999.5:
        return f"{value:,.0f}"
    if value == 0 or 0.01 <= value < 10 or math.isinf(value):
        return f"{value:.2g}"
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def share_of(row: CallRow) -> str:
    """Returns the largest error of a call as a share of its limit, or nothing if it was not judged."""
    return figure(row.worst[2].of_limit) if row.worst else ""


def shape_of(tensor: TensorRow) -> str:
    """Returns the shape, for example "64x3x3"."""
    return "x".join(map(str, tensor.shape)) or "scalar"


def times_of(side: Side) -> str:
    """Returns the size of the error, for example "error 1.1e-6, 18 times its limit 6.1e-8"."""
    if not side.error:
        return "" if side.error is not None else "error not finite"
    times = (
        f", {figure(side.of_limit)} times its limit {figure(side.limit)}" if side.limit else ", exact values expected"
    )
    return f"error {figure(side.error)}{times}"


def finding_of(tensor: TensorRow, side: Side) -> str:
    """Returns the description of one computation of a tensor."""
    parts = [f"{tensor.name}, {tensor.dtype} {shape_of(tensor)}"]
    if said := times_of(side):
        parts.append(said)
    if side.outside:
        parts.append(f"{side.outside:,} of {counted(tensor.elements, 'element')} outside")
    return "; ".join([*parts, side.message] if side.message else parts)


def coverage_of(summary: Summary) -> str:
    """Returns the number of calls, and how many were judged."""
    rest = len(summary.rows) - summary.judged
    steps = summary.last_steps
    partly = f"; backward passes of which only the last step is recorded: {steps:,}" if steps else ""
    others = [f"{rest:,} {NOT_JUDGED}"] if rest or not summary.unreached else []
    others += unreached_of(summary)
    return f"{counted(summary.planned, 'call')}: {', '.join([f'{summary.judged:,} judged', *others])}{partly}"


def unreached_of(summary: Summary) -> list[str]:
    """Returns how many calls the run has not reached, if any."""
    return [f"{summary.unreached:,} not reached"] if summary.unreached else []


def sides_of(summary: Summary) -> list[str]:
    """Returns what the server has computed and what not, and the calls judged only on the server."""
    if not summary.has_server:
        return []
    kinds = [f"{summary.served[kind]:,} of {count:,} {kind}" for kind, count in sorted(summary.asked.items())[::-1]]
    lines = [f"server: {' and '.join(kinds)} call{'' if summary.asked.total() == 1 else 's'}"]
    for reason, apis in summary.unserved.items():
        lines.append(f"not computed: {listed(apis)}: {reason}")
    told = {f"{NOT_RECORDED}: {each.reason}" for each in summary.unjudged}
    for why, count in summary.of_server_alone.items():
        lines.append(f"{counted(count, 'call')} judged on the server alone" + ("" if why in told else f": {why}"))
    return lines[:_MOST_LINES]


def listed(apis: Counter[str]) -> str:
    """Returns how many calls each API has, the most frequent first."""
    most = ", ".join(f"{api} {count:,}" for api, count in apis.most_common(_MOST_APIS))
    return f"{most} and {counted(len(apis) - _MOST_APIS, 'further API')}" if len(apis) > _MOST_APIS else most


def counts_of(summary: Summary) -> str:
    """Returns how many calls have each verdict."""
    counts = [f"{summary.count(verdict):,} {WORDS[verdict]}" for verdict in Verdict]
    return ", ".join([*counts, *unreached_of(summary)])


def followers_of(summary: Summary) -> str:
    """Returns how many failed calls had wrong inputs, or nothing if none had."""
    count = sum(row.inputs_are_off and row.verdict is Verdict.FAILED for row in summary.rows)
    return f"{count:,} had inputs that were already wrong" if count else ""


def position_of(summary: Summary, row: CallRow) -> str:
    """Returns the place of a call in its dump, for example "call 12 of 352, step0/rank1"."""
    own = [each.index for each in summary.rows if each.place == row.place]
    place = f", {row.place}" if row.place else ""
    reached = " reached" if summary.unreached else ""
    return f"call {own.index(row.index) + 1:,} of {len(own):,}{reached}{place}"


def note_of(group: Group) -> str:
    """Returns the most frequent note about the calls of an API."""
    messages = Counter(
        side.message or row.message
        for row in group.rows
        if row.verdict is Verdict.NOTED and row.worst
        for side in [row.worst[2]]
    )
    return messages.most_common(1)[0][0] if messages else ""
