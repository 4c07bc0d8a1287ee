"""Runs of a program that return all values for judging its steps, at once or in ranges of steps."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aclgrad._client.calls.handles import Handle
from aclgrad.errors import AclgradError, InputFailedError, InvalidFieldError, LimitExceededError, ServerFaultError
from aclgrad.judge.steps.recorded import Array, Needed, Recorded
from aclgrad.units import size

OF_STEPS: Final = (InvalidFieldError, InputFailedError, ServerFaultError)
"""Errors of single steps: an earlier wrong step may have made values that it refuses."""


@dataclass(frozen=True, slots=True)
class Range:
    """Steps of a program with their values from one run, or why there are none."""

    numbers: Sequence[int]
    recorded: Recorded | None
    reason: str = ""


def ranges_of(needed: Needed, given: Mapping[Handle, Array], most_bytes: int) -> Iterator[Range]:
    """Yields all needed steps of a program in order, each range after a run of its own.

    A range is halved if its values take more than `most_bytes`, or than the server allows for one call. The run of a
    range recomputes the steps before it, but returns only those of their values that the range reads. So each step runs
    in its own program, with inputs and outputs of the same run. The error of a single step replaces its outputs; other
    errors are raised.
    """
    left = [needed.numbers]
    while left:
        numbers = left.pop()
        recorded, reason = _ran(needed, numbers, given, most_bytes)
        if recorded is None and len(numbers) > 1:
            half = len(numbers) // 2
            left += [numbers[half:], numbers[:half]]
        else:
            yield Range(numbers, recorded, reason)


def _ran(
    needed: Needed, numbers: Sequence[int], given: Mapping[Handle, Array], most_bytes: int
) -> tuple[Recorded | None, str]:
    """Returns these steps' values, or why they are too large."""
    handles = needed.returned_for(numbers)
    returned_bytes = sum(each.type.size_bytes for each in handles)
    if returned_bytes > most_bytes:
        return None, f"its values take {size(returned_bytes)}, and most_bytes is {size(most_bytes)}: raise it"
    try:
        found = needed.program.run(*handles, values=given, return_errors=True) if handles else []
    except LimitExceededError as error:
        if not is_of_memory(error):
            raise
        return None, why_too_large(error)
    for each in found:
        if isinstance(each, AclgradError) and not isinstance(each, OF_STEPS):
            raise each
    names = [(each.step, each.output) for each in handles]
    return Recorded(needed, given, dict(zip(names, found, strict=True))), ""


def is_of_memory(error: LimitExceededError) -> bool:
    """Returns whether a program takes too much memory at once, so that one that returns less may succeed."""
    return "peak_bytes" in error.metadata


def why_too_large(error: LimitExceededError) -> str:
    """Returns how much memory a program takes, and its limit."""
    peak, limit = (error.metadata.get(each, "") for each in ("peak_bytes", "limit"))
    if not peak.isdecimal() or not limit.isdecimal():
        return error.message
    allowed = f"one call may take {size(int(limit))}: raise --max-call-bytes of the server"
    return f"it takes {size(int(peak))} on the device at once, and {allowed}"
