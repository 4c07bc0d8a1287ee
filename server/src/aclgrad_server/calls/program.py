"""What the server runs: a program of steps in order, each one operator, and what it demands of admission."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from aclgrad_server.devices.planning import PlannedStep
from aclgrad_server.limits import GROUP_S, SMALL_BYTES, SMALL_S

_NOTHING: Final[Mapping[int, Any]] = {}


class Step:
    """One step of a program: what is planned of it, and the payloads of its message."""

    __slots__ = ("payloads", "planned", "prefix", "workspace_bytes")

    def __init__(self, planned: PlannedStep, payloads: Sequence[memoryview], prefix: bytes = b"") -> None:
        """Takes what stands before its outputs in the reply."""
        self.planned, self.payloads, self.prefix = planned, payloads, prefix
        self.workspace_bytes = planned.plan.workspace.size_bytes
        """What it may take: another step of its form may learn of a larger one before it runs."""

    def contents(self, beside: Mapping[int, Any] = _NOTHING) -> list[Any]:
        """Returns the bytes of each input; `beside` has, by position, what holds those that come beside the message."""
        return [
            None if each is None else each.content(self.payloads, beside.get(index))
            for index, each in enumerate(self.planned.sources)
        ]


@dataclass(frozen=True, slots=True)
class Demand:
    """What a program asks admission for; sequences have one number for each group."""

    device: Sequence[int]  # bytes of the device while the group runs, workspaces included
    process: Sequence[int]  # bytes of the process for inputs that it checks or has encoded
    replied: Sequence[int]  # bytes of the reply before the first group, after it, after the next, and so on
    workspace_bytes: int  # the part of `device` that is for workspaces
    reply_bytes: int  # of messages that wait for the client, or are on their way in chunks
    seconds: float  # about how long it takes
    is_small: bool = False  # whether small programs may wait for it; its workspaces do not count
    waits_for_client: bool = False  # whether its client decides how long it takes

    @property
    def takes_little(self) -> bool:
        """Whether it has the memory of small programs, and not only their slots."""
        return self.is_small and self.device[0] + self.process[0] <= SMALL_BYTES


@dataclass(frozen=True, slots=True)
class Program:
    """Groups of steps in order. A step has sources and sinks; of several, each has its own result or status."""

    groups: Sequence[Sequence[Step]]
    demand: Demand
    streams: int  # how many steps of a group run at once, at most

    @classmethod
    def of_step(cls, step: Step, reply_bytes: int) -> "Program":
        """Returns a program of one step, whose error is the program's."""
        planned, plan, workspace_bytes = step.planned, step.planned.plan, step.workspace_bytes
        process_bytes = plan.encoded_bytes + planned.checked_bytes
        is_light = plan.size_bytes + process_bytes <= SMALL_BYTES and plan.seconds <= SMALL_S
        demand = Demand(
            (plan.size_bytes + workspace_bytes,),
            (process_bytes,),
            (0, planned.replied_bytes),
            workspace_bytes,
            reply_bytes,
            plan.seconds,
            is_light and not planned.is_beside,
            planned.waits_for_client,
        )
        return cls(((step,),), demand, 1)

    @classmethod
    def of_steps(cls, steps: Sequence[Step], streams: int) -> "Program":
        """Returns a program of steps that do not refer to each other, in groups that take about `GROUP_S`.

        Inputs are there until their group has ended, outputs from their group on, and everything else while it runs.
        All groups have the same workspaces: one begins when the device is done with the one before, or never.
        """
        groups = list(_groups(steps))
        by_group = [[step.planned for step in group] for group in groups]
        arriving = [sum(each.arriving_bytes for each in group) for group in by_group]
        replied = [0, *accumulate(sum(each.replied_bytes for each in group) for group in by_group)]
        sizes = [sum(each.plan.size_bytes for each in group) for group in by_group]
        encoded = [sum(each.plan.encoded_bytes for each in group) for group in by_group]
        # Before a group begins, the inputs of those after it are there, too, and the outputs of those before it.
        later = [sum(arriving) - here for here in accumulate(arriving)]
        workspace_bytes = max(bytes_at_once([step.workspace_bytes for step in group], streams) for group in groups)
        device = [sum(each) + workspace_bytes for each in zip(sizes, later, replied[:-1], strict=True)]
        # Outputs may have to be joined, with those of other groups or with statuses.
        reply_bytes = replied[-1] * min(len(steps), 2)
        seconds = sum(step.planned.plan.seconds for step in steps)
        is_small = sum(sizes) + sum(encoded) <= SMALL_BYTES and seconds <= SMALL_S
        demand = Demand(device, encoded, replied, workspace_bytes, reply_bytes, seconds, is_small)
        return cls(groups, demand, streams)


def _groups(steps: Sequence[Step]) -> Iterator[Sequence[Step]]:
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
