"""What the server runs: a program of steps in order, each one operator."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from aclgrad_server.devices.planning import PlannedStep
from aclgrad_server.limits import GROUP_S, SMALL_BYTES, SMALL_S

_NOTHING: Final[Mapping[int, Any]] = {}


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a program: what is planned of it, and the payloads of its message."""

    planned: PlannedStep
    payloads: Sequence[memoryview]
    prefix: bytes = b""  # what stands before its outputs in the reply

    def contents(self, beside: Mapping[int, Any] = _NOTHING) -> list[Any]:
        """Returns the bytes of each input; `beside` has, by position, what holds those that come beside the message."""
        return [
            None if each is None else each.content(self.payloads, beside.get(index))
            for index, each in enumerate(self.planned.sources)
        ]


@dataclass(slots=True)
class Demand:
    """What a program asks admission for, by group."""

    device: Sequence[int]
    """Bytes of the device while each group runs, its workspaces included."""
    process: Sequence[int]
    """Bytes of the process, while each group runs, of inputs that it checks or has encoded."""
    replied: Sequence[int]
    """Bytes of the reply before the first group, after it, after the next, and so on."""
    workspace_bytes: int
    """The part of `device` that is for workspaces."""
    reply_bytes: int
    """Bytes of messages to the client, or on their way in chunks."""
    seconds: float
    """About how long it takes."""
    waits_for_client: bool = False
    """Whether the client decides how long that is."""
    is_small: bool = False
    """Whether small programs may wait for it; its workspaces do not count."""

    @property
    def takes_little(self) -> bool:
        """Whether it has the memory of small programs, and not only their slots."""
        return self.is_small and self.device[0] + self.process[0] <= SMALL_BYTES


def demand_of_step(planned: PlannedStep, reply_bytes: int) -> Demand:
    """Returns the demand of a program of one step."""
    plan = planned.plan
    size_bytes, workspace_bytes = plan.size_bytes, plan.workspace.size_bytes
    process_bytes = plan.encoded_bytes + planned.checked_bytes
    return Demand(
        (size_bytes + workspace_bytes,),
        (process_bytes,),
        (0, planned.replied_bytes),
        workspace_bytes,
        reply_bytes,
        plan.seconds,
        planned.waits_for_client,
        not planned.is_beside and size_bytes + process_bytes <= SMALL_BYTES and plan.seconds <= SMALL_S,
    )


def demand_of_groups(groups: Sequence[Sequence[Step]], streams: int) -> Demand:
    """Returns the demand of steps that do not refer to each other, of which so many run at once.

    Inputs are there until their group has ended, outputs from their group on, and everything else while it runs. All
    groups have the same workspaces: a group begins when the device is done with the one before, or never.
    """
    arriving, passing, replied, encoded, seconds, workspace_bytes = [], [], [0], [], 0.0, 0
    for group in groups:
        planned = [step.planned for step in group]
        arriving.append(sum(each.arriving_bytes for each in planned))
        replied.append(replied[-1] + sum(each.replied_bytes for each in planned))
        sizes = sum(each.plan.size_bytes for each in planned)
        passing.append(sizes - arriving[-1] - replied[-1] + replied[-2])
        encoded.append(sum(each.plan.encoded_bytes for each in planned))
        seconds += sum(each.plan.seconds for each in planned)
        workspace_bytes = max(
            workspace_bytes, bytes_at_once([each.plan.workspace.size_bytes for each in planned], streams)
        )
    left = list(accumulate(reversed(arriving)))[::-1]
    device = [sum(each) + workspace_bytes for each in zip(left, passing, replied[1:], strict=True)]
    # Outputs may have to be joined, with those of other groups or with statuses.
    reply_bytes = replied[-1] * (1 if sum(map(len, groups)) == 1 else 2)
    tensor_bytes = sum(arriving) + sum(passing) + replied[-1] + sum(encoded)
    is_small = tensor_bytes <= SMALL_BYTES and seconds <= SMALL_S
    return Demand(device, encoded, replied, workspace_bytes, reply_bytes, seconds, is_small=is_small)


def groups_of(steps: Sequence[Step]) -> Iterator[Sequence[Step]]:
    """Yields steps that take about `GROUP_S` together, and single ones that take longer."""
    start, seconds = 0, 0.0
    for number, step in enumerate(steps):
        step_s = step.planned.plan.seconds
        if number > start and seconds + step_s > GROUP_S:
            yield steps[start:number]
            start, seconds = number, 0.0
        seconds += step_s
    yield steps[start:]


def bytes_at_once(workspaces: Sequence[int], count: int) -> int:
    """Returns what the workspaces of so many steps take at most."""
    return sum(sorted(workspaces)[-count:])
