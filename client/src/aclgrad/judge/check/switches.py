"""Whether the rows show that a server may be sent shapes in place of values."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from aclgrad.judge.check.target import Target
from aclgrad.judge.findings.rows import NOT_COMPARED, NOT_SAFE, SAFE, End, Report, Row, SwitchFinding, Verdict, names_of

_SWITCH: Final = "--shape-only"


def judge_switches(report: Report, targets: Sequence[Target]) -> list[SwitchFinding]:
    """Returns the finding about each server, which it names if there are several."""
    found = []
    for target in targets:
        own = [row for row in report.rows if row.check == "shape_only" and row.origin == target.origin]
        finding = _shape_only(own, is_complete=report.end is End.COMPLETE)
        found.append(finding if len(targets) == 1 else replace(finding, switch=f"{target.origin.target} {_SWITCH}"))
    return found


def _shape_only(rows: Sequence[Row], *, is_complete: bool) -> SwitchFinding:
    unsent = [row for row in rows if row.figures.get("unsent")]
    different = [row for row in rows if row.verdict is not Verdict.PASSED]
    if different:
        return SwitchFinding(_SWITCH, NOT_SAFE, f"values matter or calls fail: {names_of(different)}")
    if not is_complete:
        return SwitchFinding(_SWITCH, NOT_COMPARED, "the run did not come to its end")
    if not rows:
        return SwitchFinding(_SWITCH, NOT_COMPARED, "no call without values was made")
    if not unsent:
        why = "the values are not read, but no call went without them; check a server with --shape-only on"
        return SwitchFinding(_SWITCH, NOT_COMPARED, why)
    return SwitchFinding(_SWITCH, SAFE, f"{len(unsent)} calls without values gave the bits of calls with them")
