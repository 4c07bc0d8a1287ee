"""The chunk protocol: any bytes are a script of what a client sends, and when it stops sending or reading."""

import asyncio
import math
from collections.abc import Sequence
from typing import Final

from aclgrad.errors import AclgradError
from aclgrad.products import Product
from aclgrad.tensors import Announced
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.chunks import chunk_prefix, decode_header, decode_response_header, encode_header
from aclgrad.wire.messages import OperatorCall
from aclgrad_server.calls import call as call_module
from aclgrad_server.calls.admission import Admission, Occupancy
from aclgrad_server.calls.chunked import execute_chunked
from aclgrad_server.calls.runner import Runner
from aclgrad_server.devices.planning import Planner
from tests.server.fakes import FakeContext, FakeDevice, new_call, settle, tensor

# Nothing here waits for time.
call_module.CANCELLATION_S = 0.0
PLANNER: Final = Planner(Product.ATLAS_A2, 2**14)
MEMORY_LIMIT: Final = 2**15
MESSAGE_LIMIT: Final = 2**20
RUNNER: Final = asyncio.Runner()
"""One event loop for all runs: making one takes longer than a run."""
PIXELS: Final = bytes(range(1, 17))
CALLS: Final = (
    OperatorCall(
        "adaptive_avg_pool2d_backward",
        (tensor("grad_output", 1, 2, 2, data=PIXELS), tensor("self", 1, 3, 5, data=bytes(60))),
        {},
    ),
    OperatorCall(
        "max_unpool3d_backward",
        (
            tensor("grad_output", 1, 1, 2, 2, data=PIXELS),
            tensor("self", 1, 1, 2, 2, data=PIXELS[::-1]),
            tensor("indices", 1, 1, 2, 2, dtype="int32", data=bytes(16)),
        ),
        {"output_size": (1, 2, 2)},
    ),
    OperatorCall(
        "adaptive_avg_pool2d_backward",
        (tensor("grad_output", 0, 2, 2, data=b""), tensor("self", 0, 3, 5, data=b"")),
        {},
    ),
    OperatorCall(
        "adaptive_avg_pool2d_backward",
        (tensor("grad_output", 2, 0, 2, data=b""), tensor("self", 2, 3, 5, data=bytes(120))),
        {},
    ),
)


class Client(FakeContext):
    """A client that goes away after its messages, or stops reading after some of the answer."""

    def __init__(self, messages: Sequence[bytes], is_gone: bool, reads: int | None) -> None:
        super().__init__(messages, is_silent=is_gone)
        self._reads = reads

    async def write(self, message: bytes) -> None:
        if self._reads is not None and len(self.replies) >= self._reads:
            await asyncio.get_running_loop().create_future()
        await super().write(message)


class Script:
    """Numbers from bytes; zeros where they have ended."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def has_ended(self) -> bool:
        return self._position >= len(self._data)

    def byte(self) -> int:
        self._position += 1
        return 0 if self._position > len(self._data) else self._data[self._position - 1]

    def bytes(self, count: int) -> bytes:
        self._position += count
        return self._data[self._position - count : self._position]

    def changed(self, message: bytes) -> bytes:
        """Returns the message with one byte changed, or cut there."""
        place, value = self.byte() % max(1, len(message)), self.byte()
        return message[:place] if value == 0xFF else message[:place] + bytes((value,)) + message[place + 1 :]


def run(data: bytes) -> None:
    """Raises AssertionError where a legal call is refused, another is answered, or something is kept afterwards."""
    script = Script(data)
    reads = script.byte()
    messages, is_gone = _messages(script)
    RUNNER.run(_execute(messages, is_gone, reads if reads < 8 else None))


async def _execute(messages: list[bytes], is_gone: bool, reads: int | None) -> None:
    client, device = Client(messages, is_gone, reads), FakeDevice()
    admission = Admission(1, 1, MEMORY_LIMIT)
    runner = Runner(device, admission, PLANNER, MESSAGE_LIMIT)
    call = asyncio.ensure_future(execute_chunked(runner, MEMORY_LIMIT, new_call(client)))
    # Nothing here waits for time: a call that has not ended when all has come to rest waits for its client.
    while not call.done() and await _makes_progress(client):
        pass
    expected = None if is_gone else _model(messages)
    if call.done():
        error = call.exception()
        if error is None:
            _assert_answers(client.replies, messages[0], device, expected)
        else:
            assert isinstance(error, AclgradError), repr(error)
            assert expected is None, repr(error)
            assert not client.replies
    else:
        assert is_gone or reads is not None
        call.cancel()
        await settle()
    client.end()
    await settle()
    assert call.done()
    assert admission.occupancy() == Occupancy(0, 0, 0)
    assert not device.staged


async def _makes_progress(client: Client) -> bool:
    before = client.read_count, len(client.replies)
    await settle()
    return (client.read_count, len(client.replies)) != before


def _messages(script: Script) -> tuple[list[bytes], bool]:
    """Returns what the client sends, and whether it goes away then instead of closing its side."""
    call = CALLS[script.byte() % len(CALLS)]
    choice = script.byte()
    chunked = [each.name for index, each in enumerate(call.inputs) if choice >> index & 1]
    if choice & 0x80:
        chunked.reverse()
    contents = {each.name: bytes(each.data) for each in call.inputs if isinstance(each.data, memoryview)}
    kept = tuple(
        tensor(each.name, *each.type.shape, dtype=each.type.dtype.name) if each.name in chunked else each
        for each in call.inputs
    )
    header = encode_header(OperatorCall(call.operator, kept, call.attributes), chunked, script.byte())
    messages = [header]
    left = [(index, offset) for index, name in enumerate(chunked) for offset in range(len(contents[name]))]

    def honest(count: int) -> bytes:
        index, offset = left[0] if left else (len(chunked), 0)
        piece = contents[chunked[index]][offset : offset + count] if left else b"\0"
        del left[: len(piece)]
        return chunk_prefix(index, offset, len(piece)) + piece

    while not script.has_ended:
        match script.byte() % 10:
            case 0:
                messages.append(honest(1 + script.byte()))
            case 1:
                while left:
                    messages.append(honest(1 + script.byte()))
            case 2:
                piece = script.bytes(script.byte() % 32)
                messages.append(chunk_prefix(script.byte() % 4, script.byte(), len(piece)) + piece)
            case 3:
                messages.append(script.bytes(script.byte()))
            case 4:
                messages.append(script.changed(honest(1 + script.byte())))
            case 5:
                messages.append(header)
            case 6:
                messages.append(chunk_prefix(*(left[0] if left else (0, 0)), 0))
            case 7:
                messages.append(chunk_prefix(script.byte() - 128, (1 << script.byte() % 63) - script.byte(), 1) + b"x")
            case 8:
                messages[0] = script.changed(messages[0])
            case _:
                return messages[script.byte() % 2 :], bool(script.byte() & 1)
    return messages, False


def _model(messages: list[bytes]) -> list[bytes] | None:
    """Returns the bytes of each chunked input, as protobuf reads the messages, or None where the call is illegal."""
    try:
        header = decode_header(messages[0] if messages else b"")
        plan = PLANNER.plan(header.call)
    except AclgradError:
        return None
    announced = [each for each in plan.inputs if isinstance(each.data, Announced)]
    sizes = {each.name: each.type.size_bytes for each in announced}
    gathered = sum(
        sizes[each.name] for each, rule in zip(plan.inputs, plan.rules, strict=True) if rule and each in announced
    )
    if plan.size_bytes + gathered > MEMORY_LIMIT:
        return None
    received = [b"" for _ in header.chunked]
    rest = iter(messages[1:])
    for index, name in enumerate(header.chunked):
        while len(received[index]) < sizes[name]:
            try:
                message = pb.ExecuteOperatorChunkedRequest.FromString(next(rest, b""))
            except Exception:
                return None
            chunk = message.chunk
            fits = 0 < len(chunk.data) <= sizes[name] - len(received[index])
            if not fits or (chunk.tensor_index, chunk.offset_bytes) != (index, len(received[index])):
                return None
            received[index] += chunk.data
    return None if next(rest, None) is not None else received


def _assert_answers(answer: list[bytes], first: bytes, device: FakeDevice, expected: list[bytes] | None) -> None:
    assert expected is not None
    header = decode_header(first)
    (output,) = decode_response_header(answer[0])
    chunks = [pb.ExecuteOperatorChunkedResponse.FromString(each).chunk for each in answer[1:]]
    assert [chunk.offset_bytes for chunk in chunks] == list(range(0, output.type.size_bytes, header.chunk_bytes))
    assert len(chunks) == math.ceil(output.type.size_bytes / header.chunk_bytes)
    gradient = b"".join(chunk.data for chunk in chunks)
    ((plan, _),) = device.executed
    assert gradient == (b"\0" if plan.is_empty else b"\x01") * output.type.size_bytes
    for each, content in zip(plan.inputs, device.contents[0], strict=True):
        if isinstance(each.data, Announced):
            assert content == expected[each.data.index]
