"""From a received program to its planned steps; whole plans are cached."""

import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence

from aclgrad.errors import AclgradError, InvalidFieldError, OtherProductError
from aclgrad.products import Work
from aclgrad.sources import CHUNKS, REPLY, InMessage, SharedRange
from aclgrad.tensors import TensorView
from aclgrad.wire.chunks import HEADER_PAYLOADS, parse_header
from aclgrad.wire.limits import MAX_NAME, MAX_PROGRAM_REST_BYTES
from aclgrad.wire.programs import PROGRAM_PAYLOADS, SentProgram, parse_program
from aclgrad_server.devices.checks import check_stored_bytes, check_work
from aclgrad_server.devices.planning import Planner, extract_payloads
from aclgrad_server.devices.references import check_references, check_values
from aclgrad_server.devices.steps import PlannedProgram, PlannedStep
from aclgrad_server.limits import KEPT_PROGRAMS_BYTES, PROGRAM_S, STEP_OBJECTS_BYTES

Pause = Callable[[], Awaitable[None]]
"""Yields to other coroutines from time to time."""


_Ranges = list[tuple[SharedRange | None, bool, str]]
Parse = Callable[[bytes, Sequence[InMessage]], SentProgram]


class ProgramPlanner:
    """Plans programs for one product, step by step, and caches those whose steps are all legal."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._kept: OrderedDict[tuple[Parse, bytes, tuple[int, ...]], PlannedProgram] = OrderedDict()
        self.kept_bytes = 0
        """About the process's memory for cached programs."""

    async def read(self, request: bytes, pause: Pause) -> tuple[PlannedProgram, Sequence[memoryview]]:
        """Returns the program of an ExecuteProgramRequest, and its payloads; raises a RequestError."""
        return await self._read(request, PROGRAM_PAYLOADS, parse_program, pause)

    async def read_header(self, message: bytes, pause: Pause) -> tuple[PlannedProgram, Sequence[memoryview]]:
        """Returns the program that the first message of an ExecuteProgramChunked opens, and the message's payloads."""
        return await self._read(message, HEADER_PAYLOADS, parse_header, pause)

    async def _read(
        self, message: bytes, paths: Sequence[tuple[int, ...]], parse: Parse, pause: Pause
    ) -> tuple[PlannedProgram, Sequence[memoryview]]:
        rest, payloads = extract_payloads(message, *paths, max_rest_bytes=MAX_PROGRAM_REST_BYTES)
        key = parse, rest, tuple(map(len, payloads))
        program = self._kept.get(key)
        if program is not None:
            self._kept.move_to_end(key)
            return program, payloads
        program = await self.plan(parse(rest, [InMessage(length, i) for i, length in enumerate(key[2])]), pause)
        if not program.failures and key not in self._kept:
            self._kept[key] = program
            self.kept_bytes += len(rest) + STEP_OBJECTS_BYTES * program.step_count
            while self.kept_bytes > KEPT_PROGRAMS_BYTES:
                (_, old, _), forgotten = self._kept.popitem(last=False)
                self.kept_bytes -= len(old) + STEP_OBJECTS_BYTES * forgotten.step_count
        return program, payloads

    async def plan(self, sent: SentProgram, pause: Pause) -> PlannedProgram:
        """Returns the plan of a program; raises a RequestError if it is wrong as a whole."""
        product = self._planner.product
        if sent.product and sent.product != product:
            made_for = sent.product[:MAX_NAME]
            problem = f"the program is made for product {made_for!r}, and this server's is {product}"
            remedy = "make it for this product, or use a server of the other"
            metadata = {"product": product, "made_for": made_for}
            raise OtherProductError(problem, field="product", remedy=remedy, metadata=metadata)
        for index, entry in enumerate(sent.tensors):
            self._check_entry(index, entry)
        program = PlannedProgram(sent.step_count, {}, {}, sent.tensors, sent.chunk_bytes)
        returned = _returned(sent)
        reply = CHUNKS if sent.chunk_bytes else REPLY
        shared: _Ranges = [(each.source.shared, False, f"tensors[{i}]") for i, each in enumerate(sent.tensors)]
        for number in range(sent.step_count):
            try:
                call = sent.step(number)
                for each in call.inputs:
                    if each.source.entry is not None:
                        program.first_uses.setdefault(each.source.entry, number)
                check_references(number, call, program.steps, program.failures, sent.tensors)
                names = None if returned is None else returned.get(number, ())
                step = self._planner.step(call, reply, names)
                check_values(step, call, program.steps)
                program.steps[number] = step
                program.reply_bytes += step.result_bytes
                shared += _shared_in(number, step)
            except AclgradError as error:
                # Traceback, frame and error would form a cycle, which keeps the whole message.
                program.failures[number] = error.with_traceback(None)
            await pause()
        _check_table(program)
        _check_returned(sent, program)
        _check_shared(shared)
        self._check_work(program)
        return program

    def _check_entry(self, index: int, tensor: TensorView) -> None:
        field, source = f"tensors[{index}]", tensor.source
        if min((0, *tensor.type.shape)) < 0:
            problem = f"has the shape {tensor.type.shape}, with a negative size"
            raise InvalidFieldError.at(f"{field}.shape", problem, "send sizes of at least 0")
        check_stored_bytes(field, tensor.type.size_bytes, self._planner.limits.tensor_bytes)
        if not source.has_values and tensor.type.element_count:
            raise InvalidFieldError.at(field, "has no content", "send its elements, or a shape in each input instead")
        if source.has_values and source.nbytes != tensor.type.size_bytes:
            problem = f"has {source.nbytes} bytes, but {tensor.type} takes {tensor.type.size_bytes}"
            raise InvalidFieldError.at(f"{field}.data", problem, "send exactly the elements of the shape")

    def _check_work(self, program: PlannedProgram) -> None:
        """Checks a program's time; the work of boxes is checked when their step runs."""
        plans = [step.plan for step in program.steps.values()]
        works = [each.work for each in plans if math.isfinite(each.work.operations)]
        work = Work(sum(each.operations for each in works), 0.0, sum(each.matrix_operations for each in works))
        most = self._planner.limits.work_in(max(self._planner.limits.seconds, PROGRAM_S))
        least = sum(each.least_allowed for each in plans)
        check_work(work, most, least, f"programs have {PROGRAM_S:.0f} s of this device")


def _returned(sent: SentProgram) -> dict[int, set[str]] | None:
    """Returns the names of the outputs to send back, by step; None for all."""
    if not sent.returned:
        return None
    found: dict[int, set[str]] = {}
    for index, (number, output) in enumerate(sent.returned):
        if not 0 <= number < sent.step_count:
            problem = f"is {number}, and the program has {sent.step_count} steps"
            raise InvalidFieldError.at(f"returned[{index}].step", problem, "name a step of the program")
        found.setdefault(number, set()).add(output)
    return found


def _check_returned(sent: SentProgram, program: PlannedProgram) -> None:
    for index, (number, output) in enumerate(sent.returned):
        names = [each.name for each in program.steps[number].plan.outputs] if number in program.steps else [output]
        if output not in names:
            problem = f"is {output[:MAX_NAME]!r}, and step {number} makes {' and '.join(names)}"
            raise InvalidFieldError.at(f"returned[{index}].output", problem, "name an output that the step wants")
        if number in program.steps and output not in (each.name for each in program.steps[number].plan.spec.returned):
            problem = f"is {output!r}, which has a form of the device's own"
            raise InvalidFieldError.at(f"returned[{index}].output", problem, "use it in later steps alone")


def _check_table(program: PlannedProgram) -> None:
    """Checks that legal steps use every tensor, and that tensors in chunks come in the order of first use."""
    latest = 0
    for index, tensor in enumerate(program.table):
        first = program.first_uses.get(index)
        if first is None:
            # An illegal step may have unread inputs.
            if program.failures:
                raise next(iter(program.failures.values()))
            raise InvalidFieldError.at(f"tensors[{index}]", "is used by no step", "leave it out")
        if not tensor.source.in_chunks:
            continue
        if first < latest:
            problem = f"comes behind one that step {latest} is the first to use, and step {first} uses it"
            remedy = "send the tensors that come in chunks in the order in which the steps first use them"
            raise InvalidFieldError.at(f"tensors[{index}]", problem, remedy)
        latest = first


def _shared_in(number: int, step: PlannedStep) -> _Ranges:
    """Returns the shared memory of a step, and whether an output goes there."""
    if not step.is_shared:
        return []
    sources = [(each.shared, False, f"steps[{number}]") for each in step.sources if each is not None]
    return sources + [(each.shared, True, f"steps[{number}]") for each in step.sinks]


def _check_shared(ranges: _Ranges) -> None:
    """Checks that no output shares memory with another tensor: a retried program would read its own output."""
    ends: dict[str, tuple[int, int]] = {}
    found = [(each, is_sink, field) for each, is_sink, field in ranges if each is not None and each.nbytes]
    for range, is_sink, field in sorted(found, key=lambda each: (each[0].name, each[0].offset)):
        of_all, of_sinks = ends.get(range.name, (0, 0))
        if range.offset < (of_all if is_sink else of_sinks):
            problem = f"shares bytes of {range.name} with an output of the program"
            raise InvalidFieldError.at(field, problem, "name a range of its own for each output")
        end = range.offset + range.nbytes
        ends[range.name] = max(of_all, end), max(of_sinks, end) if is_sink else of_sinks
