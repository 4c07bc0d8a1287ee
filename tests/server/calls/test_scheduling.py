"""Schedules of random programs: groups and lanes, places that never overlap, and the memory that all of it takes."""

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aclgrad.products import Product
from aclgrad.sources import Source
from aclgrad_server.calls import scheduling
from aclgrad_server.calls.schedule import IN_TABLE, FromHeld, FromMessage, Group, GroupStep, Key, Schedule
from aclgrad_server.devices.device import Place
from aclgrad_server.devices.plan import Limits
from aclgrad_server.devices.planning import Planner
from aclgrad_server.devices.programs import ProgramPlanner
from aclgrad_server.devices.steps import PlannedProgram
from tests.server.drawn import Drawn, programs
from tests.server.fakes import at_once
from tests.server.sent import NO_LIMIT

TAIL_BYTES = 32
"""Behind a tensor, which kernels may touch."""


@dataclass
class Planned:
    """A program with its schedule, and who uses what by its own words."""

    program: PlannedProgram
    schedule: Schedule
    copies_inputs: bool

    def __post_init__(self) -> None:
        self.group_of = {each.number: g for g, group in enumerate(self.schedule.groups) for each in group.steps}
        self.steps = {each.number: each for group in self.schedule.groups for each in group.steps}
        self.users: dict[Key, list[int]] = defaultdict(list)
        """The steps that use each output, by its step and its position, and each entry of the table."""
        for number, step in self.program.steps.items():
            for source in step.sources:
                if source is not None and source.entry is not None:
                    self.users[IN_TABLE, source.entry].append(number)
                elif source is not None and source.step is not None:
                    self.users[source.step, self.position(source.step, source.output)].append(number)

    def position(self, number: int, output: str) -> int:
        return [each.name for each in self.program.steps[number].plan.outputs].index(output)

    def is_held(self, key: Key) -> bool:
        """Whether an output has memory of its own: a later group uses it, or it does not go into the reply."""
        sink = self.program.steps[key[0]].sinks[key[1]]
        is_of_groups = any(self.group_of[each] > self.group_of[key[0]] for each in self.users[key])
        return is_of_groups or sink.in_chunks or sink.shared is not None

    def alive(self, key: Key, number: int) -> bool:
        """Whether an output in a place may not be overwritten while a step of its group runs, and before it."""
        if key[0] > number:
            return False
        return self.program.steps[key[0]].sinks[key[1]].in_reply or number <= max([key[0], *self.users[key]])


async def plan(drawn: Drawn, copies_inputs: bool = False, waits: bool = False) -> Planned:
    planner = ProgramPlanner(Planner(Product.ATLAS_A2, Limits(NO_LIMIT, host_pointers=not copies_inputs)))
    read = planner.read_header if drawn.chunk_bytes else planner.read
    program, _ = await read(drawn.header if drawn.chunk_bytes else drawn.request, at_once)
    assert program.failures == {}
    return Planned(
        program, await scheduling.make_schedule(program, at_once, STREAMS, waits, copies_inputs), copies_inputs
    )


STREAMS = 64  # more than lanes
GROUPS = st.sampled_from([(60.0, 2**40), (60.0, 1), (60.0, 5000), (-1.0, 2**40), (0.004, 2**40)])


@st.composite
def planned(draw: st.DrawFn) -> tuple[Drawn, tuple[float, int], bool]:
    return draw(programs(max_steps=15)), draw(GROUPS), draw(st.booleans())


async def schedule_of(given: tuple[Drawn, tuple[float, int], bool]) -> Planned:
    drawn, (group_s, group_bytes), copies_inputs = given
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduling, "GROUP_S", group_s)
        patch.setattr(scheduling, "GROUP_BYTES", group_bytes)
        return await plan(drawn, copies_inputs)


@settings(max_examples=80)
@given(planned())
async def test_each_step_is_in_one_lane_with_all_that_it_is_connected_with(drawn: Any) -> None:
    found = await schedule_of(drawn)
    order = [each.number for group in found.schedule.groups for each in group.steps]
    assert order == list(found.program.steps), "the client's order"
    for g, group in enumerate(found.schedule.groups):
        lane_of = {position: index for index, lane in enumerate(group.lanes) for position in lane.positions}
        assert sorted(lane_of) == list(range(len(group.steps)))
        assert sum(len(lane.positions) for lane in group.lanes) == len(group.steps)
        # Components, by going from neighbour to neighbour.
        neighbours = defaultdict(set)
        for position, step in enumerate(group.steps):
            needs = needs_of(found, step.number)
            assert step.needs == sorted(needs)
            for need in needs:
                if found.group_of[need] == g:
                    other = [each.number for each in group.steps].index(need)
                    neighbours[position].add(other)
                    neighbours[other].add(position)
        for lane in group.lanes:
            assert lane.positions == sorted(lane.positions)
            reached, left = set(), [lane.positions[0]]
            while left:
                if (position := left.pop()) not in reached:
                    reached.add(position)
                    left += neighbours[position]
            assert reached == set(lane.positions)
            workspaces = [group.steps[each].planned.plan.workspace for each in lane.positions]
            assert all(mine is theirs for mine, theirs in zip(lane.workspaces, workspaces, strict=True))


def needs_of(found: Planned, number: int) -> set[int]:
    return {each.step for each in found.program.steps[number].sources if each is not None and each.step is not None}


def place_of(step: GroupStep, position: int) -> Place | None:
    target = None if step.sinks is None else step.sinks[position][0]
    return target if isinstance(target, Place) else None


@settings(max_examples=80)
@given(planned())
async def test_places_of_what_is_alive_at_once_do_not_overlap(drawn: Any) -> None:
    found = await schedule_of(drawn)
    for group in found.schedule.groups:
        for lane in group.lanes:
            steps = [group.steps[each] for each in lane.positions]
            places = {
                (step.number, position): place
                for step in steps
                for position in range(len(step.planned.sinks))
                if (place := place_of(step, position)) is not None
            }
            for place in places.values():
                assert place.offset % 64 == 0
                assert place.offset + place.size_bytes + TAIL_BYTES <= lane.arena_bytes
            for step in steps:
                alive = sorted(
                    (place.offset, place.offset + place.size_bytes + TAIL_BYTES)
                    for key, place in places.items()
                    if found.alive(key, step.number)
                )
                for (_, end), (offset, _) in pairwise(alive):
                    assert end <= offset


@settings(max_examples=80)
@given(planned())
async def test_every_input_and_output_is_where_it_should_be(drawn: Any) -> None:
    found = await schedule_of(drawn)
    for g, group in enumerate(found.schedule.groups):
        for step in group.steps:
            check_sinks(found, step)
            for index, (source, content) in enumerate(zip(step.planned.sources, step.contents, strict=True)):
                if source is None or not source.has_values:
                    assert content is None
                    continue
                if source.entry is not None:
                    of = found.program.table[source.entry].source
                    key: Key = (IN_TABLE, source.entry)
                elif source.step is not None:
                    of, key = source, (source.step, found.position(source.step, source.output))
                else:
                    of, key = source, (step.number, -1 - index)
                assert content.size_bytes == source.nbytes
                if source.step is not None and found.group_of[source.step] == g and not found.is_held(key):
                    place = place_of(found.steps[source.step], key[1])
                    assert place is not None
                    assert isinstance(content, Place)
                    assert content.offset == place.offset
                    assert content.size_bytes <= place.size_bytes
                elif of.is_beside:
                    assert isinstance(content, FromHeld)
                    assert content.key == key
                    assert holding(found, key, g)
                else:
                    assert content == FromMessage(getattr(of, "index", None), source.nbytes)


def check_sinks(found: Planned, step: GroupStep) -> None:
    count = len(step.planned.sinks)
    for position, sink in enumerate(step.planned.sinks):
        target, in_reply = (None, True) if step.sinks is None else step.sinks[position]
        assert in_reply == sink.in_reply
        assert target is not None or in_reply, "an output has to go somewhere"
        key = step.number, position
        if found.is_held(key):
            assert target == key
            groups = [found.group_of[each] for each in (step.number, *found.users[key])]
            assert all(holding(found, key, group) for group in range(min(groups), max(groups) + 1))
            if sink.in_chunks:
                assert holding(found, key, len(found.schedule.groups) - 1), "it may wait for its client"
        elif found.users[key]:
            assert isinstance(target, Place)
            assert target.size_bytes == step.planned.plan.outputs[position].type.size_bytes
    assert step.sinks is None or len(step.sinks) == count


def holding(found: Planned, key: Key, group: int) -> bool:
    """Whether a held tensor has its memory while the group runs."""
    (begin,) = [g for g, each in enumerate(found.schedule.groups) if any(held.key == key for held in each.begins)]
    (end,) = [g for g, each in enumerate(found.schedule.groups) if key in each.ends]
    return begin <= group <= end


@settings(max_examples=80)
@given(planned())
async def test_the_memory_of_each_group_is_about_that_of_a_plain_simulation(drawn: Any) -> None:
    found = await schedule_of(drawn)
    schedule = found.schedule
    replied = 0
    tensor_count = sum(len(each.sources) + len(each.sinks) for each in found.program.steps.values())
    for g, group in enumerate(schedule.groups):
        assert schedule.replied[g] == replied
        live = replied + live_in_message(found, g) + sum(held for held, on_host in held_bytes(found, g) if not on_host)
        live += sum(live_in_lane(found, group, lane.positions) for lane in group.lanes)
        assert schedule.device[g] >= live
        assert schedule.device[g] <= 1.5 * live + 8192 * tensor_count
        on_host = sum(held for held, on_host in held_bytes(found, g) if on_host)
        assert schedule.process[g] >= on_host
        replied += sum(each.planned.replied_bytes for each in group.steps)
    assert schedule.replied[-1] == replied


def live_in_message(found: Planned, g: int) -> int:
    """Payloads of the message that this group or a later one uses."""
    live = 0
    for number, step in found.program.steps.items():
        for source, size_bytes in zip(step.sources, step.plan.input_bytes, strict=True):
            is_own = source is not None and source.entry is None and source.step is None and not source.is_beside
            if is_own and source is not None and source.has_values and found.group_of[number] >= g:
                live += size_bytes
    for index, entry in enumerate(found.program.table):
        if not entry.source.is_beside and found.group_of[max(found.users[IN_TABLE, index])] >= g:
            live += entry.type.size_bytes
    return live


def held_bytes(found: Planned, g: int) -> list[tuple[int, bool]]:
    held = [each for group in found.schedule.groups for each in group.begins]
    return [(each.size_bytes, each.on_host) for each in held if holding(found, each.key, g)]


def live_in_lane(found: Planned, group: Group, positions: list[int]) -> int:
    """The most that the steps of a lane have at once: outputs, what one needs while it runs, and what is replied."""
    steps = [group.steps[each] for each in positions]
    most = 0
    for step in steps:
        plan, now = step.planned.plan, 0
        for other in steps:
            for position, output in enumerate(other.planned.plan.outputs):
                key = other.number, position
                if not found.is_held(key) and found.users[key] and found.alive(key, step.number):
                    now += output.type.size_bytes
        # Shapes that may be read, and rows of views that are not checked.
        for source, size_bytes, rule in zip(step.planned.sources, plan.input_bytes, plan.rules, strict=True):
            if source is not None and rule is None and not (source.has_values and in_message(source)):
                now += max(0, size_bytes - (source.nbytes if source.has_values else 0))
        most = max(most, now)
    return most + sum(each.planned.replied_bytes for each in steps) + copied_bytes(found, steps)


def in_message(source: Source) -> bool:
    return not source.is_beside and source.entry is None


def copied_bytes(found: Planned, steps: list[GroupStep]) -> int:
    """What the lane copies to the device: tensors of the table on a card, once, and those that the host checks."""
    copied: dict[Key, int] = {}
    for step in steps:
        inputs = zip(step.planned.sources, step.planned.plan.input_bytes, strict=True)
        for index, (source, size_bytes) in enumerate(inputs):
            if source is None or source.step is not None:
                continue
            key: Key = (step.number, -1 - index) if source.entry is None else (IN_TABLE, source.entry)
            of = source if source.entry is None else found.program.table[source.entry].source
            is_on_host = any(each.key == key and each.on_host for g in found.schedule.groups for each in g.begins)
            if is_on_host or (found.copies_inputs and source.entry is not None and not of.is_beside):
                copied[key] = max(copied.get(key, 0), min(source.nbytes, size_bytes))
    return sum(copied.values())
