"""How a program runs: its steps in groups, the connected steps of a group in lanes, and the memory of each.

Steps run in the client's order. Steps that refer to each other run on one stream, one after the other, so that a tensor
may reuse the bytes of one that is no longer used. A tensor is *held* if more than one group uses it, or if it is
transferred outside the messages: it has its own memory from its first group to its last.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aclgrad.errors import AclgradError
from aclgrad_server.calls.admission import Demand
from aclgrad_server.devices.device import GroupWork, StagedTensor, Target
from aclgrad_server.devices.plan import Workspace
from aclgrad_server.devices.steps import PlannedStep
from aclgrad_server.limits import SMALL_BYTES, SMALL_S

Key = tuple[int, int]
"""A held tensor: the step and the position of its output, or -1 and the position in the table; an input in shared
memory has the step and -1 - its position."""
IN_TABLE: Final = -1


@dataclass(slots=True)
class Held:
    """A tensor with its own memory from one group to another, on the host if its values are checked there."""

    key: Key
    size_bytes: int
    first: int
    last: int
    on_host: bool = False


@dataclass(frozen=True, slots=True)
class FromHeld:
    """The first bytes of a held tensor."""

    key: Key
    size_bytes: int


@dataclass(frozen=True, slots=True)
class FromMessage:
    """The first bytes of a payload."""

    payload: int
    size_bytes: int


Content = FromHeld | FromMessage | Any
"""The source of an input: one of these, a place in its lane's memory, or None if the device gets no bytes."""


@dataclass(slots=True)
class GroupStep:
    """A step of a group in the device's form, without bytes."""

    number: int
    planned: PlannedStep
    prefix: bytes
    contents: list[Content]
    sinks: list[tuple[Key | Any, bool]] | None = None
    """For each wanted output: the held tensor or the place that it is written to, and whether the reply has it."""
    needs: list[int] = field(default_factory=list)
    """The steps of the program whose outputs it uses."""

    @property
    def section_bytes(self) -> int:
        """Its bytes in its group's reply."""
        return len(self.prefix) + self.planned.section_bytes


@dataclass(slots=True)
class Lane:
    """Connected steps, by their positions in the group."""

    positions: list[int]
    workspaces: list[Workspace]
    arena_bytes: int = 0

    @property
    def workspace_bytes(self) -> int:
        """The bytes of its largest workspace, as far as known."""
        return max(each.size_bytes for each in self.workspaces)


@dataclass(slots=True)
class Group:
    """Steps that run together."""

    steps: list[GroupStep] = field(default_factory=list)
    lanes: list[Lane] = field(default_factory=list)
    begins: list[Held] = field(default_factory=list)
    """The tensors whose memory is made before the group."""
    ends: list[Key] = field(default_factory=list)
    """The tensors that nothing uses after the group; outputs sent in chunks are kept until the last group."""


@dataclass(slots=True)
class Schedule:
    """The groups of a program, and the bytes that it takes while each of them runs, without workspaces."""

    groups: list[Group]
    device: list[int]
    process: list[int]
    replied: list[int]
    """The bytes of the reply before the first group, after it, and so on."""
    seconds: float
    longest_s: float
    """About how long the longest step takes, and so the longest group."""
    in_chunks: bool

    def workspaces(self) -> list[list[int]]:
        """Returns the workspace bytes of each lane of each group; they grow if another call needs more."""
        return [[lane.workspace_bytes for lane in group.lanes] for group in self.groups]

    def demand(self, workspaces: Sequence[Sequence[int]], streams: int, reply_bytes: int | None = None) -> Demand:
        """Returns the request to admission with these workspaces, of which `streams` are in use at once.

        `reply_bytes` are those of messages that wait for the client.
        """
        workspace_bytes = max((bytes_at_once(each, streams) for each in workspaces), default=0)
        if reply_bytes is None:
            # Outputs may have to be joined, with those of other groups or with statuses.
            reply_bytes = self.replied[-1] * min(sum(len(group.steps) for group in self.groups), 2)
        is_small = max(self.device) + max(self.process) <= SMALL_BYTES and self.seconds <= SMALL_S
        device = [each + workspace_bytes for each in self.device]
        return Demand(
            device,
            self.process,
            self.replied,
            workspace_bytes,
            reply_bytes,
            self.seconds,
            is_small and not any(group.begins for group in self.groups),
            self.in_chunks,
            self.longest_s,
        )


def bytes_at_once(workspaces: Sequence[int], count: int) -> int:
    """Returns the most bytes that the workspaces of this many lanes take."""
    return sum(sorted(workspaces)[-count:])


def work_of(
    group: Group,
    workspaces: Sequence[int],
    payloads: Sequence[memoryview],
    held: dict[Key, StagedTensor],
    failures: dict[int, AclgradError],
) -> tuple[GroupWork, list[int], list[int]]:
    """Returns the steps of the group that have not failed, the workspace of each lane, and the lane of each step."""

    def content_of(content: Content) -> Any:
        if isinstance(content, FromMessage):
            payload = payloads[content.payload]
            return payload if len(payload) == content.size_bytes else payload[: content.size_bytes]
        if isinstance(content, FromHeld):
            tensor = held[content.key]
            return tensor if tensor.size_bytes == content.size_bytes else tensor.first(content.size_bytes)
        return content

    positions: dict[int, int] = {}
    work = GroupWork()
    for step in group.steps:
        if step.number in failures:
            continue
        positions[step.number] = len(positions)
        sinks: list[tuple[Target, bool]] | None = None
        if step.sinks is not None:
            sinks = [(held[each] if isinstance(each, tuple) else each, in_reply) for each, in_reply in step.sinks]
        needs = [positions[need] for need in step.needs if need in positions]
        contents = [content_of(each) for each in step.contents]
        plan = step.planned.plan
        work.steps.append((plan.native, contents, step.prefix, sinks, needs, step.planned.unseen))
        work.plans.append(plan)
        work.numbers.append(step.number)
    limits: list[int] = []
    lane_of = [0] * len(positions)
    for lane, workspace_bytes in zip(group.lanes, workspaces, strict=True):
        numbers = [group.steps[position].number for position in lane.positions]
        left = [positions[number] for number in numbers if number in positions]
        for position in left:
            lane_of[position] = len(limits)
        if left:
            work.lanes.append((left, lane.arena_bytes))
            limits.append(workspace_bytes)
    return work, limits, lane_of
