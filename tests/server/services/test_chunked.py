"""The chunks of a call go to their tensors in order, and its answer comes in chunks."""

import asyncio
import gc
from collections.abc import Sequence

import pytest

from aclgrad import errors
from aclgrad.sources import SharedRange
from aclgrad.tensors import TensorView
from aclgrad.wire.chunks import MAX_CHUNK_BYTES, Chunk, chunk_prefix, decode_answer, encode_header
from aclgrad.wire.messages import OperatorCall
from aclgrad.wire.programs import StepOutcome
from aclgrad_server.calls.admission import Occupancy
from aclgrad_server.devices.device import Write
from aclgrad_server.services.chunked import CHUNKS_AT_ONCE, execute_chunked
from tests.server.fake_device import FakeDevice, raising
from tests.server.fakes import FakeContext, begun, new_call, runner_of, settle
from tests.server.sent import call_of, entry, program_of, tensor

GRADIENT = bytes(range(64))
SHAPE = (1, 4, 4)
CHUNK_BYTES = 32
CALL_BYTES = 64 + 6 * 6 * 4


def pooling(gradient: TensorView, height: int = 6) -> OperatorCall:
    return call_of("adaptive_avg_pool2d_backward", gradient, tensor("self", 1, height, 6))


def header_of(*calls: OperatorCall, tensors: Sequence[TensorView] = (), chunk_bytes: int = CHUNK_BYTES) -> bytes:
    return encode_header(program_of(*calls, tensors=tensors), chunk_bytes)


def header(height: int = 6) -> bytes:
    """Returns the header of a program of one step, whose gradient comes in chunks."""
    return header_of(pooling(entry(0, "grad_output", *SHAPE), height), tensors=[tensor("", *SHAPE)])


def chunk(offset: int, data: bytes, index: int = 0) -> bytes:
    return chunk_prefix(index, offset, len(data)) + data


def chunks(size_bytes: int = 20) -> list[bytes]:
    return [chunk(offset, GRADIENT[offset : offset + size_bytes]) for offset in range(0, 64, size_bytes)]


class Server:
    """A runner with one fake device, and what is left of calls."""

    def __init__(self, device: FakeDevice | None = None, **options: int) -> None:
        self.device = device or FakeDevice()
        self.runner = runner_of(self.device, running_limit=1, **options)
        self.admission = self.runner.admission

    async def execute(self, *messages: bytes) -> list[bytes]:
        """Returns the messages of the answer."""
        context = FakeContext(messages)
        await execute_chunked(self.runner, new_call(context))
        context.end()
        return context.replies

    async def refuse(self, *messages: bytes) -> errors.AclgradError:
        with pytest.raises(errors.AclgradError) as caught:
            await self.execute(*messages)
        assert self.device.executed == []
        return caught.value


def answered(messages: Sequence[bytes]) -> tuple[list[StepOutcome], list[Chunk]]:
    """Returns all results and chunks of an answer."""
    results: list[StepOutcome] = []
    chunks: list[Chunk] = []
    for each in map(decode_answer, messages):
        if isinstance(each, Chunk):
            chunks.append(each)
        else:
            results += each
    return results, chunks


@pytest.mark.parametrize("size_bytes", [1, 20, 64])
async def test_chunks_become_the_input_and_the_output_becomes_chunks(size_bytes: int) -> None:
    server = Server()
    (result,), sent = answered(await server.execute(header(), *chunks(size_bytes)))
    assert server.device.contents == [[GRADIENT, None]]
    assert isinstance(result, tuple)
    assert [(each.name, each.type.shape) for each in result] == [("out", (1, 6, 6))]
    assert [(each.tensor, each.offset) for each in sent] == [(0, offset) for offset in range(0, 144, CHUNK_BYTES)]
    assert b"".join(each.data for each in sent) == b"\x01" * 144


async def test_inputs_in_the_header_and_those_without_elements_need_no_chunks() -> None:
    """Whether they are in the step or in the table."""
    whole = tensor("grad_output", *SHAPE, data=GRADIENT)
    for message in (
        header_of(pooling(whole)),
        header_of(pooling(entry(0, "grad_output", *SHAPE)), tensors=[tensor("", *SHAPE, data=GRADIENT)]),
    ):
        server = Server()
        await server.execute(message)
        assert server.device.contents == [[GRADIENT, None]]
    for message in (
        header_of(pooling(tensor("grad_output", 1, 0, 4))),
        header_of(pooling(entry(0, "grad_output", 1, 0, 4)), tensors=[tensor("", 1, 0, 4)]),
    ):
        _, sent = answered(await Server().execute(message))
        assert b"".join(each.data for each in sent) == bytes(144)


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
    "second_header": ([FIRST, header()], "nothing but chunks may come"),
    "no_message": ([FIRST, b"\xff"], "a varint that does not end"),
}


@pytest.mark.parametrize(("messages", "told"), BAD_CHUNKS.values(), ids=BAD_CHUNKS)
async def test_bad_chunks_are_refused(messages: list[bytes], told: str) -> None:
    error = await Server().refuse(header(), *messages)
    assert isinstance(error, errors.RequestError)
    assert told in str(error)


ENTRY = entry(0, "grad_output", *SHAPE)
WRONG_HEADERS = {
    "petabyte": ([pooling(entry(0, "grad_output", 1, 2**24, 2**24))], [tensor("", 1, 2**24, 2**24)], 256, None),
    "overflowing": ([pooling(ENTRY)], [tensor("", 2**62, 2**62, 2**62)], 256, "tensors[0].data"),
    "negative_shape": ([pooling(ENTRY)], [tensor("", 1, -4, 4)], 256, "tensors[0].shape"),
    "of_another_shape": ([pooling(ENTRY)], [tensor("", 1, 4, 5)], 256, "inputs[grad_output].shape"),
    "not_used": ([pooling(ENTRY)], [tensor("", *SHAPE), tensor("", 1)], 256, "tensors[1]"),
    "missing_values": ([pooling(tensor("grad_output", *SHAPE))], [], 256, "inputs[grad_output].data"),
    "negative_chunks": ([pooling(ENTRY)], [tensor("", *SHAPE)], -1, "header.chunk_size_bytes"),
    "large_chunks": ([pooling(ENTRY)], [tensor("", *SHAPE)], MAX_CHUNK_BYTES + 1, "header.chunk_size_bytes"),
    "many_tensors": ([pooling(ENTRY)], [tensor("", 1)] * 9000, 256, "tensors"),
}


@pytest.mark.parametrize(("calls", "tensors", "chunk_bytes", "field"), WRONG_HEADERS.values(), ids=WRONG_HEADERS)
async def test_header_that_cannot_be_kept_names_its_field(
    calls: list[OperatorCall], tensors: list[TensorView], chunk_bytes: int, field: str | None
) -> None:
    error = await Server().refuse(header_of(*calls, tensors=tensors, chunk_bytes=chunk_bytes))
    assert isinstance(error, errors.InvalidFieldError | errors.LimitExceededError)
    assert field is None or error.field == field


async def test_a_client_that_goes_between_two_chunks_is_cancelled_and_sent_nothing_wrong() -> None:
    """gRPC ends its stream first, as that of a client that has sent all, and cancels the call then."""
    call = new_call(FakeContext([header(), FIRST]))
    task = asyncio.ensure_future(execute_chunked(Server().runner, call))
    while not call.is_cut_short:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_call_without_a_header_and_one_with_shared_memory_are_refused() -> None:
    assert isinstance(await Server().refuse(), errors.MalformedRequestError)
    assert isinstance(await Server().refuse(FIRST), errors.MalformedRequestError)
    shared = TensorView("grad_output", tensor("x", *SHAPE).type, SharedRange("/aclgrad-x", 0, 64))
    assert isinstance(await Server().refuse(header_of(pooling(shared))), errors.SharedMemoryUnavailableError)


async def test_call_that_takes_too_much_is_refused_before_it_claims_memory() -> None:
    server = Server(max_call_bytes=CALL_BYTES - 1)
    error = await server.refuse(header(), *chunks())
    assert isinstance(error, errors.LimitExceededError)
    assert f"takes {CALL_BYTES} bytes at once and one call may take {CALL_BYTES - 1}" in str(error)
    assert "--max-call-bytes" in str(error)
    assert "stage" not in server.device.submitted
    assert await Server(max_call_bytes=CALL_BYTES).execute(header(), *chunks())


@pytest.mark.parametrize(("messages", "claimed"), [([header()], 0), ([header(), FIRST], CALL_BYTES)])
async def test_memory_is_claimed_when_the_first_chunk_comes_and_a_place_after_the_last(
    messages: list[bytes], claimed: int
) -> None:
    server, call = Server(), new_call(FakeContext(messages, is_silent=True))
    task = await begun(execute_chunked(server.runner, call))
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
        await execute_chunked(server.runner, new_call(context))
    assert reads[0] == 3 + CHUNKS_AT_ONCE
    assert len(reads) == len(chunks(4)) / CHUNKS_AT_ONCE


async def test_client_that_sends_faster_than_the_device_copies_is_read_no_further() -> None:
    """The chunks of one copy are under way and those of the next have come."""

    class StuckDevice(FakeDevice):
        async def write(self, writes: Sequence[Write], deadline: float) -> None:
            await asyncio.get_running_loop().create_future()

    server, context = Server(StuckDevice()), FakeContext([header(), *chunks(1)])
    task = await begun(execute_chunked(server.runner, new_call(context)))
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
    task = await begun(execute_chunked(server.runner, new_call(context)))
    for _ in range(5):
        await settle()
    assert device.submitted == ["stage", "write", "execute_group", "read", "read"]
    assert len(context.replies) == 1
    assert server.admission.occupancy().running == 0
    task.cancel()


@pytest.mark.parametrize(("size_bytes", "height"), [(16, 5), (20, 6), (4, 6), (1, 60)])
async def test_chunks_are_copied_some_at_a_time(size_bytes: int, height: int) -> None:
    """Each piece of work wakes a thread of the device and the event loop."""
    server = Server()
    answer = await server.execute(header(height), *chunks(size_bytes))
    writes, reads = -(-64 // size_bytes), len(answer[1:])
    copies = [[name] * -(-count // CHUNKS_AT_ONCE) for name, count in (("write", writes), ("read", reads))]
    assert server.device.submitted == ["stage", *copies[0], "execute_group", *copies[1]]
    assert server.device.contents == [[GRADIENT, None]]


async def test_more_chunks_than_were_announced_are_refused_though_the_program_may_have_run() -> None:
    context = FakeContext([header(), *chunks(), chunk(64, b"x")])
    with pytest.raises(errors.InvalidFieldError, match="has more chunks than its tensors take; send exactly"):
        await execute_chunked(Server().runner, new_call(context))
