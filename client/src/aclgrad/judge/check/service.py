"""Checks of the server as a whole: its operators, times of calls, and whether its memory is released."""

import time
from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy as np

import aclgrad
from aclgrad.judge.check.target import SIZES, Selection, Target, task
from aclgrad.judge.findings import comparison
from aclgrad.judge.findings.rows import Finding, Task, Verdict
from aclgrad.operators.cases import TypedCase, first_cases

_RUNS: Final = {"16 KB": 200, "6 MB": 30, "100 MB": 10}
_QUICK_RUNS: Final = 20
_FEWEST_RUNS: Final = 3
_LONGEST_S: Final = 3.0
_MIXED_CALLS: Final = 100
_IDLE_S: Final = 5.0
_LOOK_S: Final = 0.1


def listing(selection: Selection) -> Iterator[Task]:
    """Every operator and dtype of the product is served; unknown ones are noted."""
    target = selection.target

    def row(operator: str, verdict: Verdict, message: str = "", dtype: str = "") -> Task:
        return Task(target.origin, "listing", operator, dtype, (), "", lambda: Finding(verdict, message))

    for name in target.expected_operators:
        yield row(name, *_listed(target, name))
    for name in target.unknown_operators:
        yield row(name, Verdict.SKIPPED, "this client does not know the operator; upgrade aclgrad to check it")
    for name in sorted(set(target.described) - set(target.unknown_operators)):
        for number in target.unknown_dtypes(name):
            problem = "this client does not know the dtype; upgrade aclgrad to check it"
            yield row(name, Verdict.SKIPPED, problem, f"DataType {number}")


def _listed(target: Target, name: str) -> tuple[Verdict, str]:
    """Returns whether the server serves an operator of its product, and why not."""
    if name in target.described:
        missing = target.missing_dtypes(name)
        told = [f"the server {_why_missing(target, name, dtype)}" for dtype in missing]
        return (Verdict.FAILED, "; ".join(told)) if told else (Verdict.PASSED, "")
    if why := target.why_off(name):
        return Verdict.FAILED, f"the server has turned the operator off: {why}; its log says more"
    if target.status.version != aclgrad.__version__:
        return Verdict.SKIPPED, f"aclgrad {target.status.version} of the server does not have the operator"
    return Verdict.FAILED, f"the server does not list the operator, which product {target.product} has"


def _why_missing(target: Target, name: str, dtype: str) -> str:
    why = target.why_off(name, dtype)
    return f"has turned {dtype} off: {why}" if why else f"does not list {dtype}"


def latency(selection: Selection) -> Iterator[Task]:
    """The times of sequential calls of each operator, 16 KB to 100 MB, are reported; none is wrong."""
    target, sizes = selection.target, SIZES[:1] if selection.is_quick else SIZES
    for size, typed in selection.timed(*sizes):
        runs = _QUICK_RUNS if selection.is_quick else _RUNS[size]
        yield task(target, "latency", typed, partial(_latency, target, typed, runs), size)


def memory(selection: Selection) -> Iterator[Task]:
    """The devices' memory in use returns to its initial value, and repeated calls need no more memory."""
    target = selection.target
    if not any(target.cases()):
        return
    before = _in_use(target)

    def row(case: str, judge: partial[Finding]) -> Task:
        return Task(target.origin, "memory", "", "", (), case, judge)

    yield row("same calls again", partial(_steady, target))
    yield row("back to the start", partial(_returned, target, before))


def _latency(target: Target, typed: TypedCase, runs: int) -> Finding:
    inputs = typed.arrays()
    times_s: list[float] = []
    start = time.monotonic()
    while len(times_s) <= runs and (len(times_s) <= _FEWEST_RUNS or time.monotonic() - start < _LONGEST_S):
        begin = time.perf_counter()
        gradients = target.client.execute(typed.spec.name, inputs, typed.case.attributes)
        times_s.append(time.perf_counter() - begin)
    if wrong := comparison.wrong_type(gradients, typed.outputs):
        return wrong
    first, *others = (1000 * each for each in times_s)
    p50, p99 = np.percentile(others, [50, 99])
    size_bytes = sum(each.size_bytes for each in typed.outputs.values())
    figures = {"p50_ms": p50, "p99_ms": p99, "first_ms": first, "runs": len(others), "gradient_bytes": size_bytes}
    return Finding(Verdict.PASSED, figures=figures)


def _in_use(target: Target) -> dict[str, int]:
    devices = target.client.server_status().devices
    return {
        "allocated_bytes": sum(device.pool.allocated_bytes for device in devices),
        "leased_streams": sum(device.leased_stream_count for device in devices),
    }


def _returned(target: Target, before: dict[str, int]) -> Finding:
    end = time.monotonic() + _IDLE_S
    while (after := _in_use(target)) and any(after[key] > before[key] for key in before) and time.monotonic() < end:
        time.sleep(_LOOK_S)
    figures = {f"{key}_{when}": float(use[key]) for when, use in (("before", before), ("after", after)) for key in use}
    grown = [f"{key} were {before[key]} and are {after[key]}" for key in before if after[key] > before[key]]
    if not grown:
        return Finding(Verdict.PASSED, figures=figures)
    message = f"{'; '.join(grown)}, {_IDLE_S:g} s after the last call; make sure that nobody else calls the server"
    return Finding(Verdict.FAILED, message, figures)


def _steady(target: Target) -> Finding:
    held = []
    for _ in range(2):
        _mixed_calls(target)
        held.append(sum(device.pool.reserved_bytes for device in target.client.server_status().devices))
    figures = {"reserved_bytes_before": float(held[0]), "reserved_bytes_after": float(held[1])}
    if held[1] <= held[0]:
        return Finding(Verdict.PASSED, figures=figures)
    message = f"the pools hold {held[1]} bytes after {_MIXED_CALLS} calls that left them with {held[0]} the first time"
    return Finding(Verdict.FAILED, message, figures)


def _mixed_calls(target: Target) -> None:
    calls = [(typed, typed.arrays()) for typed in first_cases(target.product) if target.serves(typed)]
    for number in range(_MIXED_CALLS if calls else 0):
        typed, inputs = calls[number % len(calls)]
        target.client.execute(typed.spec.name, inputs, typed.case.attributes)
