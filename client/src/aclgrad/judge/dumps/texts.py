"""How findings are put into words and figures, alike on a terminal and in the page."""

import math
from collections import Counter
from typing import Final

from aclgrad.judge.dumps.records import NOT_RECORDED, CallRow, Side, TensorRow
from aclgrad.judge.dumps.summary import Group, Summary
from aclgrad.judge.findings.rows import Verdict
from aclgrad.units import counted

_MOST_APIS: Final = 12
_MOST_LINES: Final = 20
NOT_JUDGED: Final = "not judged"
WORDS: Final = {verdict: NOT_JUDGED if verdict is Verdict.SKIPPED else str(verdict) for verdict in Verdict}
"""The verdicts as readers see them."""


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
    """Returns how large the error is, for example "error 1.1e-6, 18 times its limit 6.1e-8"."""
    if not side.error:
        return "" if side.error is not None else "error not finite"
    times = (
        f", {figure(side.of_limit)} times its limit {figure(side.limit)}" if side.limit else ", exact values expected"
    )
    return f"error {figure(side.error)}{times}"


def finding_of(tensor: TensorRow, side: Side) -> str:
    """Returns what is said of one computation of a tensor."""
    parts = [f"{tensor.name}, {tensor.dtype} {shape_of(tensor)}"]
    if said := times_of(side):
        parts.append(said)
    if side.outside:
        parts.append(f"{side.outside:,} of {counted(tensor.elements, 'element')} outside")
    return "; ".join([*parts, side.message] if side.message else parts)


def coverage_of(summary: Summary) -> str:
    """Returns how many calls there are, and how many of them were judged."""
    rest = len(summary.rows) - summary.judged
    steps = summary.last_steps
    partly = f"; of {steps:,} of the backward passes the dump has the last step alone" if steps else ""
    others = [f"{rest:,} {NOT_JUDGED}"] if rest or not summary.unreached else []
    others += unreached_of(summary)
    return f"{counted(summary.planned, 'call')}: {', '.join([f'{summary.judged:,} judged', *others])}{partly}"


def unreached_of(summary: Summary) -> list[str]:
    """Returns how many calls the run has not reached, if it has not reached all."""
    return [f"{summary.unreached:,} not reached"] if summary.unreached else []


def sides_of(summary: Summary) -> list[str]:
    """Returns what the server has computed and what it has not, and which calls it alone was judged of."""
    if not summary.has_server:
        return []
    unserved = summary.unserved
    asked = summary.served + sum(each.total() for each in unserved.values())
    lines = [f"server: {summary.served:,} of {counted(asked, 'backward call')}"]
    for reason, apis in unserved.items():
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
    """Returns how many of the calls that failed had wrong inputs, or nothing if no call had."""
    count = sum(row.is_off and row.verdict is Verdict.FAILED for row in summary.rows)
    return f"the inputs of {count:,} are results of earlier wrong calls" if count else ""


def position_of(summary: Summary, row: CallRow) -> str:
    """Returns where a call stands in its dump, for example "call 12 of 352, step0/rank1"."""
    own = [each.index for each in summary.rows if each.place == row.place]
    place = f", {row.place}" if row.place else ""
    reached = " reached" if summary.unreached else ""
    return f"call {own.index(row.index) + 1:,} of {len(own):,}{reached}{place}"


def note_of(group: Group) -> str:
    """Returns what was noted most often about the calls of an API."""
    messages = Counter(
        side.message or row.message
        for row in group.rows
        if row.verdict is Verdict.NOTED and row.worst
        for side in [row.worst[2]]
    )
    return messages.most_common(1)[0][0] if messages else ""
