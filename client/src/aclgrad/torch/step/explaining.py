"""Describes what a step sends, runs and leaves to PyTorch."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from aclgrad.torch.step.drawing import is_random
from aclgrad.torch.step.plan import Local, Plan
from aclgrad.units import counted, size

_MOST: Final = 12
"""Most lines for functions that run here."""


def explained(plan: Plan) -> str:
    """Returns the text of what a plan sends, runs and leaves to PyTorch, and why."""
    return "\n".join(_lines(plan))


def _lines(plan: Plan) -> Iterator[str]:
    programs = plan.costs
    sent, received = (sum(getattr(each, name) for each in programs) for name in ("sent_bytes", "received_bytes"))
    steps = sum(each.step_count for each in programs)
    peak = max(each.peak_bytes for each in programs)
    yield (
        f"step of {counted(len(programs), 'program')}: {counted(steps, 'operator')}, "
        f"{size(sent)} to the server, {size(received)} back, at least {size(peak)} on the device at once, "
        f"{sum(each.operations for each in programs) / 1e9:.3g} GFLOP"
    )
    here = [node for part in plan.parts for node in part.local]
    drawn = [node for node in here if is_random(node.target)]
    if drawn:
        yield f"drawn here in each step: {counted(len(drawn), 'random tensor')}"
    lines = list(_of_locals(plan.locals))
    if lines:
        yield "here, because they have no operator, or not for these arguments:"
        yield from lines[:_MOST]
        if len(lines) > _MOST:
            yield f"  and {len(lines) - _MOST} more"
    others = len(here) - len(drawn) - len(plan.locals)
    if others:
        yield f"on this machine, because no parameter is used: {counted(others, 'function')}"


def _of_locals(found: list[Local]) -> Iterator[str]:
    """Yields a line for each function and reason."""
    counts = Counter((str(each.node.target), each.because) for each in found)
    first = {(str(each.node.target), each.because): each for each in reversed(found)}
    for key, count in counts.items():
        yield f"  {count} x {key[0]} in {first[key].place}: {key[1]}"
