"""The chunk protocol: any bytes are a script of what a client sends, and when it stops sending or reading."""

import math
import time
from collections.abc import Iterator
from typing import Final

from aclgrad.errors import AclgradError
from aclgrad.products import Product
from aclgrad.tensors import Announced
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.chunks import chunk_prefix, decode_header, decode_response_header, encode_header
from aclgrad.wire.messages import OperatorCall
from aclgrad_server.admission import Admission, Occupancy
from aclgrad_server.executor import Executor
from aclgrad_server.native_codec import extract_payloads
from aclgrad_server.planner import Planner
from aclgrad_server.services.chunked import execute_chunked
from tests.server.fakes import FakeDevice, tensor

PLANNER: Final = Planner(Product.ATLAS_A2, 2**14, extract_payloads)
MEMORY_LIMIT: Final = 2**15
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


class GoneError(Exception):
    """The client is gone, as grpc tells it."""


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
    device = FakeDevice()
    admission = Admission(1, 0, [MEMORY_LIMIT])
    executor = Executor([device], admission)
    replies = execute_chunked(PLANNER, executor, _sent(messages, is_gone), lambda: None, time.monotonic() + 3600)
    expected = _model(messages) if not is_gone else None
    answer: list[bytes] = []
    try:
        for reply in replies:
            answer.append(reply)
            if len(answer) > reads and reads < 8:
                break
        else:
            _assert_answers(answer, messages[0], device, expected)
    except (AclgradError, GoneError) as error:
        assert expected is None, error
        assert not answer
        assert is_gone or isinstance(error, AclgradError)
    del replies
    assert admission.occupancy() == Occupancy(0, 0, 0)
    assert not device.staged


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


def _sent(messages: list[bytes], is_gone: bool) -> Iterator[bytes]:
    yield from messages
    if is_gone:
        raise GoneError


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
    assert gradient == (b"\x01" if device.executed else b"\0") * output.type.size_bytes
    for plan, contents in zip([plan for plan, _ in device.executed], device.contents, strict=True):
        for each, content in zip(plan.inputs, contents, strict=True):
            if isinstance(each.data, Announced):
                assert content == expected[each.data.index]
