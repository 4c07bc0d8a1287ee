"""ExecuteOperatorChunked: tensors of any size, in pieces, that go to the device while the next ones arrive."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from aclgrad.errors import InvalidFieldError, MalformedRequestError, Violation
from aclgrad.operators.values import ValueRule
from aclgrad.tensors import Announced, TensorView
from aclgrad.wire.chunks import Chunk, chunk_prefix, decode_chunk, decode_header, encode_response_header
from aclgrad_server.device import Device, DeviceCall, DeviceInput, StagedTensor, Staging
from aclgrad_server.executor import Executor, prepare_input, remaining
from aclgrad_server.planner import Planner
from aclgrad_server.validation import OperatorPlan


def execute_chunked(
    planner: Planner, executor: Executor, messages: Iterator[bytes], deadline: float
) -> Iterator[bytes]:
    """Yields the serialized messages of the answer; raises an AclgradError where the call is refused or fails.

    The call holds the memory of its tensors from its header on, and a place to run only while its operator runs.
    """
    first = next(messages, None)
    if first is None:
        raise MalformedRequestError("the call ended before its header")
    header = decode_header(first, planner.extract_payloads)
    plan = planner.plan(header.call)
    with executor.hold(plan.size_bytes + _gathered_bytes(plan), deadline) as device:
        staging = device.stage(remaining(deadline))
        buffers = _buffers(staging, plan, len(header.chunked))
        _receive(planner, messages, buffers, header.chunked, deadline)
        staging.finish(remaining(deadline))
        inputs = [_input(device, tensor, rule, buffers) for tensor, rule in zip(plan.inputs, plan.rules, strict=True)]
        output = staging.reserve(plan.output.size_bytes)
        if not plan.is_empty:
            with executor.admission.run(deadline):
                device.execute(DeviceCall(plan, inputs, output), remaining(deadline))
        yield encode_response_header(plan.spec.output.name, plan.output)
        for offset in range(0, plan.output.size_bytes, header.chunk_bytes):
            count = min(header.chunk_bytes, plan.output.size_bytes - offset)
            reply = device.new_reply([(chunk_prefix(0, offset, count), count)])
            (part,) = reply.parts()
            if plan.is_empty:
                # The device was not asked, and its memory holds what others left there.
                part.fill_with_zeros()
            else:
                output.read(offset, part, remaining(deadline))
            yield reply.finish()


class _Buffer(Protocol):
    """What takes the chunks of one input."""

    size_bytes: int

    def write(self, offset: int, data: memoryview, timeout_s: float) -> None: ...

    def content(self) -> memoryview | StagedTensor: ...


class _OnDevice:
    """For values that nobody but the device reads."""

    def __init__(self, staging: Staging, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._tensor = staging.reserve(size_bytes)

    def write(self, offset: int, data: memoryview, timeout_s: float) -> None:
        self._tensor.write(offset, data, timeout_s)

    def content(self) -> StagedTensor:
        return self._tensor


class _OnHost:
    """For values that have to be checked before a device reads them."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._bytes = np.empty(size_bytes, np.uint8).data

    def write(self, offset: int, data: memoryview, timeout_s: float) -> None:
        self._bytes[offset : offset + len(data)] = data

    def content(self) -> memoryview:
        return self._bytes


def _gathered_bytes(plan: OperatorPlan) -> int:
    """Returns what the call holds on the host beside the memory of its tensors on the device."""
    return sum(
        tensor.type.size_bytes
        for tensor, rule in zip(plan.inputs, plan.rules, strict=True)
        if rule is not None and isinstance(tensor.data, Announced)
    )


def _buffers(staging: Staging, plan: OperatorPlan, count: int) -> Sequence[_Buffer]:
    """Returns a buffer for each chunked input, in the order in which they come."""
    buffers: dict[int, _Buffer] = {}
    for tensor, rule in zip(plan.inputs, plan.rules, strict=True):
        if isinstance(tensor.data, Announced):
            size = tensor.type.size_bytes
            buffers[tensor.data.index] = _OnDevice(staging, size) if rule is None else _OnHost(size)
    return [buffers[index] for index in range(count)]


def _receive(
    planner: Planner, messages: Iterator[bytes], buffers: Sequence[_Buffer], names: Sequence[str], deadline: float
) -> None:
    """Writes every chunk to its place; raises InvalidFieldError unless they come in order, complete and not more."""
    expected = [(index, buffer) for index, buffer in enumerate(buffers) if buffer.size_bytes]
    for index, buffer in expected:
        offset = 0
        while offset < buffer.size_bytes:
            message = next(messages, None)
            if message is None:
                raise _wrong(names[index], f"ended after {offset} of {buffer.size_bytes} bytes", "send all chunks")
            chunk = decode_chunk(message, planner.extract_payloads)
            _check(chunk, index, offset, buffer.size_bytes, names[index])
            buffer.write(offset, chunk.data, remaining(deadline))
            offset += len(chunk.data)
    if next(messages, None) is not None:
        raise _wrong("", "has more chunks than its inputs take", "send exactly the elements of the shapes")


def _check(chunk: Chunk, tensor: int, offset: int, size_bytes: int, name: str) -> None:
    if (chunk.tensor, chunk.offset) != (tensor, offset):
        problem = (
            f"has a chunk of tensor {chunk.tensor} at byte {chunk.offset} where tensor {tensor} goes on at {offset}"
        )
        raise _wrong(name, problem, "send the chunks by tensor, then by offset, without gaps")
    if not chunk.data:
        raise _wrong(name, f"has an empty chunk at byte {offset}", "send at least one byte in each chunk")
    if len(chunk.data) > size_bytes - offset:
        problem = f"has a chunk of {len(chunk.data)} bytes at byte {offset} of {size_bytes}"
        raise _wrong(name, problem, "send exactly the elements of the shape")


def _wrong(name: str, problem: str, remedy: str) -> InvalidFieldError:
    return InvalidFieldError.of(Violation(f"inputs[{name}]" if name else "chunk", problem, remedy))


def _input(device: Device, tensor: TensorView, rule: ValueRule | None, buffers: Sequence[_Buffer]) -> DeviceInput:
    data = tensor.data
    content = buffers[data.index].content() if isinstance(data, Announced) else data
    return prepare_input(device, tensor.name, DeviceInput(tensor.type, content), rule)
