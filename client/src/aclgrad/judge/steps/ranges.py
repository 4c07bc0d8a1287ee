"""Runs of a program that return every value by which its steps are judged: all at once, or in ranges of steps."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aclgrad._client.calls.handles import Handle
from aclgrad.errors import AclgradError, InputFailedError, InvalidFieldError, LimitExceededError, ServerFaultError
from aclgrad.judge.steps.recorded import Array, Needed, Recorded
from aclgrad.units import size

OF_STEPS: Final = (InvalidFieldError, InputFailedError, ServerFaultError)
"""Errors that say something of a step: a wrong step before may have made values that it refuses."""


@dataclass(frozen=True, slots=True)
class Range:
    """Steps of a program with their values, which one run returned; without them, the reason."""

    numbers: Sequence[int]
    recorded: Recorded | None
    reason: str = ""


def ranges_of(needed: Needed, given: Mapping[Handle, Array], most_bytes: int) -> Iterator[Range]:
    """Yields all needed steps of a program, in order, each range after a run of its own.

    A range is halved if its values take more than `most_bytes`, or more than the server allows for one call. The run of
    a range computes the steps before it again, but returns of them only what the range reads. So each step runs in its
    own program, and its inputs and outputs are of the same run. An error of a single step stands in the place of its
    outputs; others are raised, as a run of the program raises them.
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
    """Returns the values for these steps, or why they are too large."""
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
    """Says whether a program takes too much memory at once, so that one which returns less may succeed."""
    return "peak_bytes" in error.metadata


def why_too_large(error: LimitExceededError) -> str:
    """Returns how much a program takes, and what it may take."""
    peak, limit = (error.metadata.get(each, "") for each in ("peak_bytes", "limit"))
    if not peak.isdecimal() or not limit.isdecimal():
        return error.message
    allowed = f"one call may take {size(int(limit))}: raise --max-call-bytes of the server"
    return f"it takes {size(int(peak))} on the device at once, and {allowed}"
