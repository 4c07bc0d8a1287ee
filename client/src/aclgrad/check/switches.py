"""Which switches of the server the rows show to be safe."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from aclgrad.check.target import Target
from aclgrad.judgement.report import SwitchFinding
from aclgrad.judgement.rows import Row, Verdict

SAFE, NOT_SAFE, NOT_COMPARED = "safe", "not safe", "not compared"


def judge_all_switches(
    rows: Sequence[Row], targets: Sequence[Target], other: Target | None, is_complete: bool
) -> list[SwitchFinding]:
    """Returns the findings for each of the servers, which they name if there are several."""
    if len(targets) == 1:
        return judge_switches(rows, targets[0], other, is_complete)
    findings = []
    for target in targets:
        origins = {target.origin} if other is None else {target.origin, other.origin}
        own = [row for row in rows if row.origin in origins]
        for each in judge_switches(own, target, other, is_complete):
            findings.append(replace(each, switch=f"{target.origin.target} {each.switch}"))
    return findings


def judge_switches(rows: Sequence[Row], target: Target, other: Target | None, is_complete: bool) -> list[SwitchFinding]:
    """Returns a finding for each switch. A switch is safe only after a complete run without a difference."""
    findings = [_shape_only(rows), _executor_cache(rows, target, other)]
    if not is_complete:
        return [_partial(each) for each in findings]
    return findings


def _partial(finding: SwitchFinding) -> SwitchFinding:
    if finding.verdict != SAFE:
        return finding
    return SwitchFinding(finding.switch, NOT_COMPARED, "the run did not come to its end")


def _shape_only(rows: Sequence[Row]) -> SwitchFinding:
    switch = "--shape-only"
    own = [row for row in rows if row.check == "shape_only"]
    unsent = [row for row in own if row.figures.get("unsent")]
    different = [row for row in own if row.verdict is not Verdict.PASSED]
    if different:
        return SwitchFinding(switch, NOT_SAFE, f"values matter or calls fail: {_names(different)}")
    if not unsent:
        remedy = "start a server with --shape-only on and run: aclgrad check OFF --against ON"
        why = "the values are not read, but no call went without them" if own else "no input may go without values"
        return SwitchFinding(switch, NOT_COMPARED, f"{why}; {remedy}" if own else why)
    return SwitchFinding(switch, SAFE, f"{len(unsent)} calls without values gave the bits of calls with them")


def _executor_cache(rows: Sequence[Row], target: Target, other: Target | None) -> SwitchFinding:
    switch = "--executor-cache"
    remedy = "run: aclgrad check OFF --against ON, with a server of --executor-cache off and one of on"
    if other is None:
        return SwitchFinding(switch, NOT_COMPARED, f"there was no second server; {remedy}")
    if target.executor_cache or not other.executor_cache:
        states = " and ".join("on" if each.executor_cache else "off" for each in (target, other))
        return SwitchFinding(switch, NOT_COMPARED, f"the servers have it {states}; {remedy}")
    own = [row for row in rows if row.check == "against"]
    failed = [*_failed(own), *_failed(row for row in rows if row.origin == other.origin)]
    if failed:
        return SwitchFinding(switch, NOT_SAFE, f"gradients differ or calls fail: {_names(failed)}")
    if not own:
        return SwitchFinding(switch, NOT_COMPARED, "no call was compared")
    return SwitchFinding(switch, SAFE, f"{len(own)} calls with repeated executors gave the bits of fresh ones")


def _failed(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.verdict is Verdict.FAILED]


def _names(rows: Sequence[Row]) -> str:
    return ", ".join(sorted({row.operator or row.check for row in rows}))
