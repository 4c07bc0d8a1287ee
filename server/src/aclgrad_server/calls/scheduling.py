"""Makes the schedule of a program: groups of about `GROUP_S`, lanes, places, and the bytes of each group."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from aclgrad.sources import InMessage, Source
from aclgrad.wire.programs import result_prefix
from aclgrad_server.calls.arena import Arena
from aclgrad_server.calls.intermediates import Intermediate, join
from aclgrad_server.calls.schedule import (
    IN_TABLE,
    Content,
    FromHeld,
    FromMessage,
    Group,
    GroupStep,
    Held,
    Key,
    Lane,
    Schedule,
    bytes_at_once,
)
from aclgrad_server.devices.device import Place
from aclgrad_server.devices.programs import Pause
from aclgrad_server.devices.steps import PlannedProgram, PlannedStep
from aclgrad_server.limits import GROUP_BYTES, GROUP_S, GROUP_STEPS


async def make_schedule(
    program: PlannedProgram, pause: Pause, streams: int, waits_for_values: bool = False, copies_inputs: bool = False
) -> Schedule:
    """Returns the schedule of the program's legal steps, with at most this many lanes at once.

    With `waits_for_values`, a step begins a group if an earlier step guarantees a rule of its values: after a fault the
    device goes on, and the values may break the rule. With `copies_inputs`, each lane copies the payloads that it uses.
    """
    groups = list(_groups(program, waits_for_values))
    maker = _Maker(program, groups, copies_inputs, streams)
    for number in program.steps:
        maker.note_uses(number)
        await pause()
    for number in [number for number, step in program.steps.items() if step.plan.joins]:
        maker.join_parts(number)
        await pause()
    for index in range(len(groups)):
        for number in groups[index]:
            maker.place(index, number)
            await pause()
    return await maker.finish(pause)


def _groups(program: PlannedProgram, waits_for_values: bool) -> Iterator[list[int]]:
    arriving = dict.fromkeys(program.steps, 0)
    for entry, number in program.first_uses.items():
        if number in arriving and program.table[entry].source.in_chunks:
            arriving[number] += program.table[entry].type.size_bytes
    group: list[int] = []
    seconds, chunk_bytes = 0.0, 0
    for number, step in program.steps.items():
        waits = waits_for_values and any(_producer(step, index) in group for index in step.unseen)
        is_long = seconds + step.plan.seconds > GROUP_S or len(group) == GROUP_STEPS
        is_late = arriving[number] > 0 and chunk_bytes >= GROUP_BYTES
        if group and (waits or is_long or is_late):
            yield group
            group, seconds, chunk_bytes = [], 0.0, 0
        group.append(number)
        seconds += step.plan.seconds
        chunk_bytes += arriving[number]
    if group:
        yield group


def _producer(step: PlannedStep, index: int) -> int | None:
    source = step.sources[index]
    return None if source is None else source.step


@dataclass(slots=True)
class _LaneInMaking:
    group: int
    lane: Lane = field(default_factory=lambda: Lane([], []))
    arena: Arena = field(default_factory=Arena)
    over: dict[int, list[Intermediate]] = field(default_factory=dict)
    """The outputs whose memory is free after a step."""
    copied: set[tuple[Key, int]] = field(default_factory=set)
    """The inputs that it copies to the device, once for all of its steps, and their bytes."""
    copied_bytes: int = 0
    needed_bytes: int = 0
    """The most bytes that one of its steps takes while it runs."""


class _Maker:
    def __init__(self, program: PlannedProgram, groups: list[list[int]], copies_inputs: bool, streams: int) -> None:
        self._program = program
        self._streams = streams
        self._copies_inputs = copies_inputs
        self._group_of = {number: index for index, group in enumerate(groups) for number in group}
        self._groups = [Group() for _ in groups]
        self._outputs: dict[Key, Intermediate] = {}
        self._held: dict[Key, Held] = {}
        count = len(groups)
        self._device, self._process, self._reply = [0] * (count + 1), [0] * (count + 1), [0] * count
        self._message_bytes = sum(each.type.size_bytes for each in program.table if not each.source.is_beside)
        self._joined: dict[int, int] = {}
        """An earlier step of the same lane, for each step but the first."""
        self._lanes: dict[int, _LaneInMaking] = {}
        """Lanes by their first steps."""

    def _add(self, first: int, last: int, size_bytes: int, *, of_process: bool = False) -> None:
        """Counts bytes of the device, or of the process, for the groups from `first` to `last`."""
        bytes_of = self._process if of_process else self._device
        bytes_of[first] += size_bytes
        bytes_of[last + 1] -= size_bytes

    def note_uses(self, number: int) -> None:
        """Notes which tensors the step uses, and until when their memory is needed."""
        step, group = self._program.steps[number], self._group_of[number]
        for position, (output, sink) in enumerate(zip(step.plan.outputs, step.sinks, strict=True)):
            size_bytes = output.type.size_bytes
            self._outputs[number, position] = Intermediate(number, size_bytes, sink, group, group, number)
        for index, source in enumerate(step.sources):
            if source is None:
                continue
            key, is_checked = _key_of(self._program, number, index), step.plan.rules[index] is not None
            if (entry := source.entry) is not None:
                of_entry = self._program.table[entry].source
                if of_entry.is_beside:
                    first = max(group - 1, 0) if of_entry.in_chunks else group
                    self._hold(key, of_entry.nbytes, first, group, is_checked)
            elif (producer := source.step) is not None:
                self._use(self._outputs[key], producer, number)
            elif source.is_beside:
                self._hold(key, source.nbytes, group, group, is_checked)

    def join_parts(self, number: int) -> None:
        """Places the inputs of a joining step in its output, if possible; all uses are noted."""
        sources = self._program.steps[number].sources
        if all(each is not None and each.step is not None for each in sources):
            keys = [_key_of(self._program, number, index) for index in range(len(sources))]
            join([self._outputs[key] for key in keys], self._outputs[number, 0])

    def _use(self, output: Intermediate, producer: int, number: int) -> None:
        output.use_count += 1
        output.last_group = self._group_of[number]
        if output.last_group == output.group:
            output.last_step = number
            first, other = sorted((self._first_of(producer), self._first_of(number)))
            if first != other:
                self._joined[other] = first

    def _hold(self, key: Key, size_bytes: int, first: int, last: int, on_host: bool) -> None:
        held = self._held.setdefault(key, Held(key, size_bytes, first, last))
        held.last = max(held.last, last)
        held.on_host |= on_host

    def _first_of(self, number: int) -> int:
        """Returns the first step of the lane of a step."""
        first = number
        while first in self._joined:
            first = self._joined[first]
        while number != first:
            self._joined[number], number = first, self._joined[number]
        return first

    def place(self, index: int, number: int) -> None:
        """Assigns the step to its lane, and its tensors to places."""
        step, group, first = self._program.steps[number], self._groups[index], self._first_of(number)
        making = self._lanes.get(first)
        if making is None:
            making = self._lanes[first] = _LaneInMaking(index)
            group.lanes.append(making.lane)
        contents = [self._content(number, position) for position in range(len(step.sources))]
        sinks = [self._sink(making, number, position) for position in range(len(step.sinks))]
        needs = sorted({each.step for each in step.sources if each is not None and each.step is not None})
        making.lane.positions.append(len(group.steps))
        making.lane.workspaces.append(step.plan.workspace)
        prefix = b"" if self._program.chunk_bytes else result_prefix(step.message_bytes)
        is_plain = all(target is None for target, _ in sinks)
        group.steps.append(GroupStep(number, step, prefix, contents, None if is_plain else sinks, needs))
        self._count(making, number)
        for output in making.over.pop(number, ()):
            making.arena.give_back(output.position, output.size_bytes)

    def _content(self, number: int, position: int) -> Content:
        source, key = self._program.steps[number].sources[position], _key_of(self._program, number, position)
        if source is None or not source.has_values:
            return None
        if key in self._held:
            return FromHeld(key, source.nbytes)
        if source.step is not None:
            return Place(self._outputs[key].position, source.nbytes)
        in_message = source if source.entry is None else self._program.table[source.entry].source
        return FromMessage(in_message.index, source.nbytes) if isinstance(in_message, InMessage) else None

    def _sink(self, making: _LaneInMaking, number: int, position: int) -> tuple[Any, bool]:
        """Returns the target of an output unless it is the reply, and whether the reply has it."""
        output, index = self._outputs[number, position], making.group
        in_reply = output.sink.in_reply
        if in_reply:
            self._reply[index] += output.size_bytes
            self._add(index, index, output.size_bytes)
        if output.is_held:
            # An output in chunks may wait for its client until the end.
            last = len(self._groups) - 1 if output.sink.in_chunks else output.last_group
            self._hold((number, position), output.size_bytes, index, last, False)
            return (number, position), in_reply
        if in_reply and not output.use_count and not output.has_parts:
            return None, True
        output.take(making.arena)
        if output.whole is None and not output.is_copied:
            making.over.setdefault(output.last_step, []).append(output)
        return Place(output.position, output.size_bytes), in_reply

    def _count(self, making: _LaneInMaking, number: int) -> None:
        """Counts the bytes of the step besides its outputs and held tensors."""
        step = self._program.steps[number]
        plan = step.plan
        needed_bytes = plan.size_bytes - sum(plan.input_bytes) - plan.output_bytes
        for position, (source, size_bytes) in enumerate(zip(step.sources, plan.input_bytes, strict=True)):
            if source is None:
                continue
            key = _key_of(self._program, number, position)
            if not source.has_values:
                needed_bytes += size_bytes
            elif isinstance(source, InMessage):
                self._message_bytes += size_bytes
            else:
                is_copied, is_checked = self._is_copied(key, source), plan.rules[position] is not None
                # A checked input is copied in the form that is read; any other view is made row-major on the device.
                copy = key, size_bytes if is_copied and is_checked else source.nbytes
                needed_bytes += max(size_bytes - copy[1], 0)
                if is_copied and (plan.encoded[position] or copy not in making.copied):
                    making.copied.add(copy)
                    making.copied_bytes += copy[1]
        making.needed_bytes = max(making.needed_bytes, needed_bytes)
        self._add(making.group, making.group, plan.encoded_bytes, of_process=True)

    def _is_copied(self, key: Key, source: Source) -> bool:
        """Returns whether the device copies an input that is not in the message for this step alone."""
        if (held := self._held.get(key)) is not None:
            return held.on_host
        return source.entry is not None and self._copies_inputs

    async def finish(self, pause: Pause) -> Schedule:
        """Returns the schedule when all steps have their places."""
        program, groups = self._program, self._groups
        lanes: list[list[int]] = [[] for _ in groups]
        for making in self._lanes.values():
            making.lane.arena_bytes = making.arena.size_bytes
            lanes[making.group].append(making.arena.size_bytes + making.needed_bytes + making.copied_bytes)
            await pause()
        for index, of_lanes in enumerate(lanes):
            self._add(index, index, bytes_at_once(of_lanes, self._streams))
        # The message is one block of memory, which the call holds to its end.
        self._add(0, len(groups) - 1, self._message_bytes)
        # Chunks arrive in the order of the table, even for a tensor whose first user is not legal.
        earliest = len(groups)
        for entry in reversed(range(len(program.table))):
            held = self._held.get((IN_TABLE, entry))
            if held is not None and program.table[entry].source.in_chunks:
                earliest = held.first = min(earliest, held.first)
        for held in self._held.values():
            groups[held.first].begins.append(held)
            groups[held.last].ends.append(held.key)
            self._add(held.first, held.last, held.size_bytes, of_process=held.on_host)
            await pause()
        replied = [0, *accumulate(self._reply)]
        device = [each + before for each, before in zip(accumulate(self._device), replied, strict=False)][:-1]
        process = list(accumulate(self._process))[:-1]
        longest_s = max(step.plan.seconds for step in program.steps.values())
        return Schedule(groups, device, process, replied, program.seconds, longest_s, program.chunk_bytes > 0)


def _key_of(program: PlannedProgram, number: int, position: int) -> Key:
    """Returns the key of a step's input, if it is held."""
    source = program.steps[number].sources[position]
    if source is None:
        return number, -1 - position
    if source.entry is not None:
        return IN_TABLE, source.entry
    if source.step is not None:
        names = [each.name for each in program.steps[source.step].plan.outputs]
        return source.step, names.index(source.output_name)
    return number, -1 - position
