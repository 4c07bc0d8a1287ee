"""Both clients: what runs of a program send of their arrays, also to servers that fail, or ask for more."""

from collections.abc import Iterator

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad._client.attempts.retry import RetryPolicy
from aclgrad.testing import TestServer
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.chunks import decode_chunk, decode_header
from tools.calling import maybe_await

from .conftest import Connect
from .scripted_programs import ScriptedPrograms, scripted_programs
from .scripted_streams import ScriptedStreams
from .test_placeholders import F32, LIMIT, Product, type_of

BUSY = aclgrad.ServerBusyError("full", retry_after_s=0.001)


@pytest.fixture(autouse=True)
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RetryPolicy, "backoff_s", lambda *_: 0.001)


@pytest.fixture(scope="module")
def programs() -> Iterator[ScriptedPrograms]:
    with scripted_programs() as scripted:
        yield scripted


async def test_an_array_is_sent_once_and_nothing_else_differs(connect: Connect, programs: ScriptedPrograms) -> None:
    """Servers know a program by everything but the bytes of its tensors."""
    programs.fail({})
    product = Product(connect(programs.address))
    given = [product.values(seed) for seed in (1, 2)]
    for values in given:
        await maybe_await(product.program.run(*product.wanted, values=values))
    order = ["weight", "bias", "scale", "nothing", "rows"]
    for values, sent in zip(given, programs.sent, strict=True):
        arrays = [values[product.handles[name]] for name in order]
        assert sorted(each.data for each in sent.tensors) == sorted(each.tobytes() for each in arrays)
        assert not any(each.HasField("data") for step in sent.steps for each in step.inputs)
    bare = list(map(without_data, programs.sent))
    assert bare[0] == bare[1]


def without_data(program: pb.ExecuteProgramRequest) -> bytes:
    for tensor in program.tensors:
        tensor.data = bytes(len(tensor.data))
    return program.SerializeToString(deterministic=True)


async def test_steps_that_failed_for_a_moment_get_the_same_values(connect: Connect, programs: ScriptedPrograms) -> None:
    program = connect(programs.address).program()
    first, second = program.placeholder(type_of(3)), program.placeholder(type_of(3))
    sums = [program.add(first, first), program.add(second, second)]
    for number in range(2):
        programs.fail({1: BUSY}, {})
        values = {first: np.full(3, number, F32), second: np.full(3, 10 + number, F32)}
        found = await maybe_await(program.run(*sums, values=values))
        assert [each.tolist() for each in found] == [[2 * number] * 3, [20 + 2 * number] * 3]
        data = [[each.data for each in sent.tensors] for sent in programs.sent]
        assert data == [[each.tobytes() for each in values.values()], [values[second].tobytes()]]
    programs.fail({1: aclgrad.InvalidFieldError("wrong", field="inputs[self]")})
    found = await maybe_await(program.run(*sums, values=values, return_errors=True))
    assert found[0].tolist() == [2] * 3
    assert isinstance(found[1], aclgrad.InvalidFieldError)


async def test_a_placeholder_of_which_the_shape_does_goes_when_values_are_asked_for(connect: Connect) -> None:
    """It has to be given from the beginning."""
    with scripted_programs(shape_only=True) as knows, scripted_programs(shape_only=False) as asks:
        for scripted, count in ((knows, 1), (asks, 2)):
            program = connect(scripted.address).program()
            grad, input = program.placeholder(type_of(1, 1, 1)), program.placeholder(type_of(1, 2, 3))
            pooled = program.adaptive_avg_pool2d_backward(grad, program.relu(input))
            with pytest.raises(aclgrad.InvalidFieldError, match=r"^values lacks placeholder 1"):
                await maybe_await(program.run(pooled, values={grad: np.ones((1, 1, 1), F32)}))
            values = {grad: np.full((1, 1, 1), 6, F32), input: np.ones((1, 2, 3), F32)}
            [found] = await maybe_await(program.run(pooled, values=values))
            assert (found == 1).all()
            assert [len(each.tensors) for each in scripted.sent] == [1, 2][:count]


class Relay:
    """Takes calls in chunks, of which it breaks the first ones off, and answers the others as another server does."""

    def __init__(self, channel: grpc.Channel, broken_after: list[int]) -> None:
        self._channel = channel
        self._broken_after = broken_after
        self.headers: list[bytes] = []
        self.data: list[dict[int, bytes]] = []

    def __call__(self, messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        self.headers.append(next(messages))
        self.data.append({})
        context.send_initial_metadata(())
        kept = [self.headers[-1]]
        left = self._broken_after.pop(0) if self._broken_after else None
        for number, message in enumerate(messages):
            if number == left:
                context.abort(grpc.StatusCode.UNAVAILABLE, "reset")
            chunk = decode_chunk(message)
            self.data[-1][chunk.tensor] = self.data[-1].get(chunk.tensor, b"") + bytes(chunk.data)
            kept.append(message)
        method = self._channel.stream_stream("/aclgrad.v1.OperatorService/ExecuteProgramChunked")
        yield from method(iter(kept), timeout=60)


async def test_chunks_after_a_broken_connection_have_the_same_values(
    connect: Connect, streams: ScriptedStreams, server: TestServer
) -> None:
    with grpc.insecure_channel(server.target) as channel:
        relay = streams.script = Relay(channel, [1])
        program = connect(streams.address, max_message_bytes=LIMIT).program()
        large, small = program.placeholder(type_of(30, 40)), program.placeholder(type_of(40))
        total = program.add(program.add(large, small), large)
        for seed in range(3):
            generator = np.random.default_rng(seed)
            values = {each: generator.standard_normal(each.shape).astype(F32) for each in (large, small)}
            [found] = await maybe_await(program.run(total, values=values))
            np.testing.assert_array_equal(found, values[large] + values[small] + values[large])
            assert relay.data[-1] == {0: values[large].tobytes()}
            sent = decode_header(relay.headers[-1])
            assert [each.source.in_chunks for each in sent.tensors] == [True, False]
            assert bytes(sent.tensors[1].data or b"") == values[small].tobytes()
    assert len(relay.headers) == 4
    assert relay.headers[0] == relay.headers[1]
    assert len(set(map(len, relay.headers))) == 1
