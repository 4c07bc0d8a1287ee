"""Random programs on a device that hashes: whatever their groups and places, each output is that of plain steps."""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aclgrad.errors import AclgradError, DeviceMemoryError, InputFailedError, from_status
from aclgrad.tensors import TensorView
from aclgrad.wire.chunks import Chunk, chunk_prefix, decode_answer
from aclgrad.wire.programs import decode_results
from aclgrad_server.calls import scheduling
from aclgrad_server.calls.admission import Occupancy
from aclgrad_server.calls.runner import Runner
from aclgrad_server.calls.shared_memory import SharedMemory
from aclgrad_server.devices.plan import StepPlan
from aclgrad_server.services.chunked import execute_chunked
from aclgrad_server.services.programs import execute_program
from tests.server.drawn import Drawn, programs, shared_object
from tests.server.fake_device import FakeDevice
from tests.server.fakes import FakeContext, new_call, runner_of, settle
from tests.server.sent import step_of

Results = list[dict[str, bytes] | int]
"""Of each step, the outputs that came back, in whatever way, or the step whose failure is behind its own."""
Expected = list[dict[str, bytes] | set[int]]
"""Of a step that needs several that failed, either may be named."""


def hashed(operator: str, contents: Sequence[bytes | None], size_bytes: int) -> bytes:
    parts = [operator.encode(), *(b"-" if each is None else b"+" + each for each in contents)]
    return hashlib.shake_128(b"".join(len(each).to_bytes(8) + each for each in parts)).digest(size_bytes)


def fails(operator: str, contents: Sequence[bytes | None]) -> bool:
    """One of eight steps does, by its contents."""
    return hashed(operator, contents, 1)[0] % 8 == 0


class Hashing(FakeDevice):
    """Writes what depends on the operator and all inputs; some steps fail."""

    def __init__(self, stops_at_faults: bool) -> None:
        super().__init__()
        self.stops_at_faults = stops_at_faults

    def compute(self, plan: StepPlan, contents: Sequence[bytes | None]) -> bytes:
        if fails(plan.spec.name, contents):
            raise DeviceMemoryError("full")
        return hashed(plan.spec.name, contents, plan.output_bytes)


def interpreted(drawn: Drawn) -> Expected:
    """Returns what a reader of the program would compute, step by step."""
    outputs: dict[tuple[int, str], bytes] = {}
    failed: dict[int, set[int]] = {}
    found: Expected = []
    for number, call in enumerate(drawn.calls):
        plan = step_of(call).plan
        needed = [each.source.step for each in call.inputs if each.source.step in failed]
        causes = {cause for each in needed if each is not None for cause in failed[each]}
        contents: list[bytes | None] = []
        if not causes:
            given = {each.name: drawn.bytes_of(each, outputs) for each in call.inputs}
            contents = [given.get(each.name) for each in plan.spec.inputs]
            if fails(call.operator, contents):
                causes = {number}
        if causes:
            failed[number] = causes
            found.append(causes)
            continue
        left, results = hashed(call.operator, contents, plan.output_bytes), {}
        for output in plan.outputs:
            data, left = left[: output.type.size_bytes], left[output.type.size_bytes :]
            outputs[number, output.name] = data
            if output.name in call.output_memory or drawn.returns(number, output.name):
                results[output.name] = data
        found.append(results)
    return found


def answered(drawn: Drawn, messages: Sequence[bytes], file: Path) -> Results:
    """Returns what came back in one message, or in messages of results and chunks, or by shared memory."""
    found: Results = []
    open_outputs: list[tuple[dict[str, bytes], str]] = []
    content = file.read_bytes()
    for message in messages:
        decoded = decode_answer(message) if drawn.chunk_bytes else decode_results(message)
        if isinstance(decoded, Chunk):
            results, name = open_outputs[decoded.tensor]
            assert decoded.offset == len(results[name])
            results[name] += bytes(decoded.data)
            continue
        open_outputs = []
        for result in decoded:
            number = len(found)
            if not isinstance(result, tuple):
                found.append(failure_of(from_status(result), number))
                continue
            results = {}
            for output in result:
                if (range := output.source.shared) is not None:
                    assert drawn.calls[number].output_memory[output.name] == range
                    results[output.name] = content[range.offset : range.offset + range.nbytes]
                elif drawn.chunk_bytes:
                    results[output.name] = b""
                    open_outputs.append((results, output.name))
                else:
                    results[output.name] = bytes(output.data or b"")
            found.append(results)
    return found


def failure_of(error: AclgradError, number: int) -> int:
    if isinstance(error, InputFailedError):
        return int(error.metadata["step"])
    assert isinstance(error, DeviceMemoryError)
    return number


async def run(drawn: Drawn, runner: Runner, file: Path) -> Results:
    context = FakeContext(peer="unix:")
    if drawn.chunk_bytes:
        context.messages = [drawn.header, *chunks_of(drawn)]
        await execute_chunked(runner, new_call(context))
        messages = context.replies
    else:
        messages = [await execute_program(runner, drawn.request, new_call(context))]
    found = answered(drawn, messages, file)
    context.end()
    await settle()
    assert runner.admission.occupancy() == Occupancy(0, 0, 0)
    return found


def chunks_of(drawn: Drawn) -> list[bytes]:
    found = []
    for index, (tensor, content) in enumerate(zip(drawn.tensors, drawn.table, strict=True)):
        if not tensor.source.has_values:
            for offset in range(0, len(content), 1000):
                piece = content[offset : offset + 1000]
                found.append(chunk_prefix(index, offset, len(piece)) + piece)
    return found


@settings(max_examples=100)
@given(
    drawn=programs(max_steps=20),
    group=st.sampled_from([(60.0, 2**40), (60.0, 1), (-1.0, 2**40), (60.0, 5000)]),
    running_limit=st.sampled_from([1, 4]),
    stops_at_faults=st.booleans(),
)
async def test_each_output_is_that_of_plain_steps(
    drawn: Drawn, group: tuple[float, int], running_limit: int, stops_at_faults: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch, shared_object() as file:
        patch.setattr(scheduling, "GROUP_S", group[0])
        patch.setattr(scheduling, "GROUP_BYTES", group[1])
        drawn = renamed(drawn, f"/{file.name}")
        file.write_bytes(drawn.shared)
        device = Hashing(stops_at_faults)
        runner = replace(
            runner_of(device, running_limit, max_message_bytes=2**24), memory=SharedMemory(enabled=True, owners=())
        )
        async with asyncio.timeout(60):
            found = await run(drawn, runner, file)
        for number, (result, expected) in enumerate(zip(found, interpreted(drawn), strict=True)):
            if isinstance(expected, set):
                assert result in expected, number
            else:
                assert result == expected, number
        assert not device.staged


def renamed(drawn: Drawn, name: str) -> Drawn:
    """Returns the program with this object in place of the one that it was drawn with."""

    def moved(tensor: TensorView) -> TensorView:
        range = tensor.source.shared
        return tensor if range is None else replace(tensor, source=replace(range, name=name))

    calls = [
        replace(
            each,
            inputs=tuple(map(moved, each.inputs)),
            output_memory={key: replace(range, name=name) for key, range in each.output_memory.items()},
        )
        for each in drawn.calls
    ]
    return replace(drawn, calls=calls, tensors=list(map(moved, drawn.tensors)), shared_name=name)
