"""The chunks of a call go to their tensors in order, and its answer comes in chunks."""

import asyncio
import gc
from collections.abc import Sequence

import pytest

from aclgrad import errors
from aclgrad.products import Product
from aclgrad.sources import SharedRange
from aclgrad.tensors import TensorType, TensorView
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.chunks import MAX_CHUNK_BYTES, chunk_prefix, decode_response_header, encode_header
from aclgrad.wire.messages import OperatorCall
from aclgrad_server.calls.admission import Admission, Occupancy
from aclgrad_server.calls.runner import Runner
from aclgrad_server.devices.device import Write
from aclgrad_server.devices.plan import Limits
from aclgrad_server.devices.planning import Planner
from aclgrad_server.services.chunked import CHUNKS_AT_ONCE, execute_chunked
from tests.server.fake_device import FakeDevice, raising
from tests.server.fakes import FakeContext, begun, new_call, runner_of, settle
from tests.server.sent import NO_LIMIT, tensor

GRADIENT = bytes(range(64))
SHAPE = (1, 4, 4)
CHUNK_BYTES = 32
CALL_BYTES = 64 + 6 * 6 * 4


def header(gradient: TensorView | None = None, chunked: tuple[str, ...] = ("grad_output",), height: int = 6) -> bytes:
    inputs = gradient or tensor("grad_output", *SHAPE), tensor("self", 1, height, 6)
    return encode_header(OperatorCall("adaptive_avg_pool2d_backward", inputs, {}), chunked, CHUNK_BYTES)


def chunk(offset: int, data: bytes, index: int = 0) -> bytes:
    return chunk_prefix(index, offset, len(data)) + data


def chunks(size_bytes: int = 20) -> list[bytes]:
    return [chunk(offset, GRADIENT[offset : offset + size_bytes]) for offset in range(0, 64, size_bytes)]


class Server:
    """A runner with one fake device, and what is left of calls."""

    def __init__(self, device: FakeDevice | None = None) -> None:
        self.device = device or FakeDevice()
        self.runner = runner_of(self.device, running_limit=1)
        self.admission = self.runner.admission

    async def execute(self, *messages: bytes, max_call_bytes: int = 2**20) -> list[bytes]:
        """Returns the messages of the answer."""
        context = FakeContext(messages)
        await execute_chunked(self.runner, max_call_bytes, new_call(context))
        context.end()
        return context.replies

    async def refuse(self, *messages: bytes, **limits: int) -> errors.AclgradError:
        with pytest.raises(errors.AclgradError) as caught:
            await self.execute(*messages, **limits)
        assert self.device.executed == []
        return caught.value


@pytest.mark.parametrize("size_bytes", [1, 20, 64])
async def test_chunks_become_the_input_and_the_output_becomes_chunks(size_bytes: int) -> None:
    server = Server()
    answer = await server.execute(header(), *chunks(size_bytes))
    assert server.device.contents == [[GRADIENT, None]]
    (output,) = decode_response_header(answer[0])
    assert (output.name, output.type.shape) == ("out", (1, 6, 6))
    sent = [pb.ExecuteOperatorChunkedResponse.FromString(each).chunk for each in answer[1:]]
    assert [each.offset_bytes for each in sent] == list(range(0, 144, CHUNK_BYTES))
    assert b"".join(each.data for each in sent) == b"\x01" * 144


async def test_inputs_in_the_header_and_those_without_elements_need_no_chunks() -> None:
    server = Server()
    await server.execute(header(tensor("grad_output", *SHAPE, data=GRADIENT), ()))
    assert server.device.contents == [[GRADIENT, None]]
    answer = await server.execute(header(tensor("grad_output", 1, 0, 4)))
    assert b"".join(pb.ExecuteOperatorChunkedResponse.FromString(each).chunk.data for each in answer[1:]) == bytes(144)


FIRST, *REST = chunks()
BAD_CHUNKS = {
    "none": ([], "ended after 0 of 64 bytes"),
    "too_few": ([FIRST], "ended after 20 of 64 bytes"),
    "gap": ([chunk(1, b"x")], "at byte 1, but tensor 0 continues at 0"),
    "repeated": ([FIRST, FIRST], "at byte 0, but tensor 0 continues at 20"),
    "wrong_tensor": ([chunk(0, b"x", 1)], "has a chunk of tensor 1"),
    "empty": ([chunk(0, b"")], "has an empty chunk at byte 0"),
    "too_long": ([chunk(0, GRADIENT + b"x")], "has a chunk of 65 bytes at byte 0 of 64"),
    "too_long_at_the_end": ([FIRST, chunk(20, GRADIENT[20:] + b"x")], "has a chunk of 45 bytes at byte 20 of 64"),
    "negative_tensor": ([chunk(0, b"x", -1)], "has a chunk of tensor -1"),
    "negative_offset": ([chunk(-4, b"x")], "at byte -4, but tensor 0 continues at 0"),
    "largest_offset": ([chunk(2**63 - 1, b"x")], f"at byte {2**63 - 1}, but tensor 0 continues at 0"),
    "cut_short": ([FIRST[:-1]], ""),
    "too_large": ([chunk(0, bytes(MAX_CHUNK_BYTES + 1))], f"the limit is {MAX_CHUNK_BYTES}"),
    "too_many": ([FIRST, *REST, chunk(64, b"x")], "has more chunks than its inputs take"),
    "second_header": ([FIRST, header()], "nothing but chunks may come"),
    "no_message": ([FIRST, b"\xff"], "a varint that does not end"),
}


@pytest.mark.parametrize(("messages", "told"), BAD_CHUNKS.values(), ids=BAD_CHUNKS)
async def test_bad_chunks_are_refused(messages: list[bytes], told: str) -> None:
    error = await Server().refuse(header(), *messages)
    assert isinstance(error, errors.RequestError)
    assert told in str(error)


SELF = tensor("self", 1, 6, 6)
NAMES = ("grad_output", "self")
WRONG_HEADERS = {
    "petabyte": ([tensor(name, 1, 2**24, 2**24) for name in NAMES], NAMES, 256, "call"),
    "overflowing": ([tensor(name, 2**62, 2**62, 2**62) for name in NAMES], NAMES, 256, "inputs[grad_output].shape"),
    "unknown_name": ([tensor(NAMES[0], *SHAPE), SELF], ("grad_output", "other"), 256, "header.chunked_inputs"),
    "name_twice": ([tensor(NAMES[0], *SHAPE), SELF], ("self", "self"), 256, "header.chunked_inputs"),
    "both_ways": ([tensor(NAMES[0], *SHAPE, data=GRADIENT), SELF], NAMES[:1], 256, "inputs[grad_output]"),
    "missing_values": ([tensor(NAMES[0], *SHAPE), SELF], ("self",), 256, "inputs[grad_output].data"),
    "negative_chunks": ([tensor(NAMES[0], *SHAPE), SELF], NAMES, -1, "header.chunk_size_bytes"),
    "large_chunks": ([tensor(NAMES[0], *SHAPE), SELF], NAMES, MAX_CHUNK_BYTES + 1, "header.chunk_size_bytes"),
    "many_names": ([tensor(f"n{i}", 1) for i in range(9000)], [f"n{i}" for i in range(9000)], 256, None),
}


@pytest.mark.parametrize(("inputs", "chunked", "chunk_bytes", "field"), WRONG_HEADERS.values(), ids=WRONG_HEADERS)
async def test_header_that_cannot_be_kept_names_its_field(
    inputs: list[TensorView], chunked: Sequence[str], chunk_bytes: int, field: str | None
) -> None:
    call = OperatorCall("adaptive_avg_pool2d_backward", tuple(inputs), {})
    error = await Server().refuse(encode_header(call, chunked, chunk_bytes))
    assert isinstance(error, errors.InvalidFieldError | errors.LimitExceededError)
    assert field is None or error.field == field


async def test_a_client_that_goes_between_two_chunks_is_cancelled_and_sent_nothing_wrong() -> None:
    """gRPC ends its stream first, as that of a client that has sent all, and cancels the call then."""
    call = new_call(FakeContext([header(), FIRST]))
    task = asyncio.ensure_future(execute_chunked(Server().runner, 2**20, call))
    while not call.is_cut_short:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_call_without_a_header_and_one_with_shared_memory_are_refused() -> None:
    assert isinstance(await Server().refuse(), errors.MalformedRequestError)
    assert isinstance(await Server().refuse(FIRST), errors.MalformedRequestError)
    shared = TensorView("grad_output", TensorType(tensor("x").type.dtype, SHAPE), SharedRange("/aclgrad-x", 0, 64))
    assert isinstance(await Server().refuse(header(shared, ())), errors.InvalidFieldError)


async def test_call_that_takes_too_much_is_refused_before_it_claims_memory() -> None:
    server = Server()
    error = await server.refuse(header(), *chunks(), max_call_bytes=CALL_BYTES - 1)
    assert isinstance(error, errors.LimitExceededError)
    assert f"takes {CALL_BYTES} bytes and one call may take {CALL_BYTES - 1}" in str(error)
    assert "--max-call-bytes" in str(error)
    assert await server.execute(header(), *chunks(), max_call_bytes=CALL_BYTES)


@pytest.mark.parametrize(("messages", "claimed"), [([header()], 0), ([header(), FIRST], CALL_BYTES)])
async def test_memory_is_claimed_when_the_first_chunk_comes_and_a_place_after_the_last(
    messages: list[bytes], claimed: int
) -> None:
    server, call = Server(), new_call(FakeContext(messages, is_silent=True))
    task = await begun(execute_chunked(server.runner, 2**20, call))
    assert server.admission.occupancy() == Occupancy(0, 0, claimed)
    task.cancel()


class BrokenDevice(FakeDevice):
    """Fails to write."""

    async def write(self, writes: Sequence[Write], deadline: float) -> None:
        raise errors.DeviceLostError("lost")


async def test_failing_write_is_told_and_nobody_misses_it(caplog: pytest.LogCaptureFixture) -> None:
    error = await Server(BrokenDevice()).refuse(header(), *chunks(4))
    assert isinstance(error, errors.DeviceLostError)
    with pytest.raises(errors.DeviceLostError):
        await Server(FakeDevice(0, raising(errors.DeviceLostError("lost")))).execute(header(), *chunks())
    # The client's fault is found before the one of the write that is under way.
    error = await Server(BrokenDevice()).refuse(header(), *chunks(4)[:6], FIRST)
    assert isinstance(error, errors.InvalidFieldError)
    gc.collect()
    await settle()
    assert "never retrieved" not in caplog.text


async def test_chunks_are_written_while_the_next_ones_come() -> None:
    """The write of the first chunks has begun, and has not ended, when those after them are read."""
    reads: list[int] = []

    class SlowDevice(FakeDevice):
        async def write(self, writes: Sequence[Write], deadline: float) -> None:
            if not reads:
                while context.read_count < 3 + CHUNKS_AT_ONCE:
                    await asyncio.sleep(0)
            reads.append(context.read_count)
            await super().write(writes, deadline)

    server, context = Server(SlowDevice()), FakeContext([header(), *chunks(4)])
    async with asyncio.timeout(60):
        await execute_chunked(server.runner, 2**20, new_call(context))
    assert reads[0] == 3 + CHUNKS_AT_ONCE
    # The last ones are written with the call.
    assert len(reads) == len(chunks(4)) / CHUNKS_AT_ONCE - 1


async def test_client_that_sends_faster_than_the_device_copies_is_read_no_further() -> None:
    """The chunks of one copy are under way and those of the next have come."""

    class StuckDevice(FakeDevice):
        async def write(self, writes: Sequence[Write], deadline: float) -> None:
            await asyncio.get_running_loop().create_future()

    server, context = Server(StuckDevice()), FakeContext([header(), *chunks(1)])
    task = await begun(execute_chunked(server.runner, 2**20, new_call(context)))
    for _ in range(5):
        await settle()
    assert context.read_count == 1 + 2 * CHUNKS_AT_ONCE
    task.cancel()


async def test_client_that_takes_no_chunk_of_its_answer_holds_those_of_two_reads() -> None:
    """Those that wait to be sent, and those that are read meanwhile."""

    class SilentContext(FakeContext):
        async def write(self, message: bytes) -> None:
            if self.replies:
                await asyncio.get_running_loop().create_future()
            await super().write(message)

    device, context = FakeDevice(), SilentContext([header(height=60), *chunks()])
    server = Server(device)
    task = await begun(execute_chunked(server.runner, 2**20, new_call(context)))
    for _ in range(5):
        await settle()
    assert device.submitted == ["stage", "execute_into", "read"]
    assert len(context.replies) == 1
    assert server.admission.occupancy().running == 0
    task.cancel()


IN_HEADER = [header(tensor("grad_output", *SHAPE, data=GRADIENT), chunked=())]
WAYS = pytest.mark.parametrize("messages", [[header(), *chunks()], IN_HEADER], ids=["in_chunks", "in_the_header"])


@WAYS
async def test_chunks_on_their_way_are_admitted_until_the_call_ends(messages: list[bytes]) -> None:
    """A caller has half of the memory for replies: here, as many bytes as the answer of one call."""
    runner = runner_of(FakeDevice(), reply_limit=2 * 6 * 6 * 4)
    first, second = FakeContext(messages), FakeContext(messages)
    await execute_chunked(runner, 2**20, new_call(first))
    task = await begun(execute_chunked(runner, 2**20, new_call(second)))
    assert second.replies == []
    first.end()
    await task
    assert second.replies == first.replies


@WAYS
async def test_a_client_that_takes_no_answer_never_has_more_than_its_share(messages: list[bytes]) -> None:
    """Also while nobody else asks: it decides how long it holds the memory of its calls."""

    class StalledContext(FakeContext):
        async def write(self, message: bytes) -> None:
            await asyncio.get_running_loop().create_future()

    admission = Admission(4, 16, 2 * CALL_BYTES)
    runner = Runner(FakeDevice(), admission, Planner(Product.ATLAS_A2, Limits(NO_LIMIT)), 2**20)
    contexts = StalledContext(messages), StalledContext(messages), FakeContext(messages, "ipv4:192.0.2.9:1")
    *stalled, other = [await begun(execute_chunked(runner, 2**20, new_call(each))) for each in contexts]
    await other
    assert admission.occupancy() == Occupancy(0, 1, CALL_BYTES)
    for task, context in zip(stalled, contexts, strict=False):
        task.cancel()
        context.end()
    await settle()
    assert admission.occupancy() == Occupancy(0, 0, 0)


@pytest.mark.parametrize(("size_bytes", "height"), [(16, 5), (20, 6), (4, 6), (1, 60)])
async def test_last_and_first_copies_are_made_with_the_call(size_bytes: int, height: int) -> None:
    """Each piece of work wakes a thread of the device and the event loop: a small call takes two."""
    server = Server()
    answer = await server.execute(header(height=height), *chunks(size_bytes))
    writes, reads = -(-64 // size_bytes) - 1, len(answer[1:]) - 1
    expected = ["stage", *["write"] * (writes // CHUNKS_AT_ONCE), "execute_into", *["read"] * (reads // CHUNKS_AT_ONCE)]
    assert server.device.submitted == expected
    assert server.device.contents == [[GRADIENT, None]]
