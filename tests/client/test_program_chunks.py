"""Both clients: programs in chunks, what goes, and which answers are none."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad._client.attempts.retry import RetryPolicy
from aclgrad.errors import InputFailedError, to_status
from aclgrad.tensors import DTYPES, TensorType, TensorView
from aclgrad.testing import TestServer, serve
from aclgrad.wire.chunks import decode_chunk, decode_header, encode_results
from aclgrad.wire.programs import SentProgram, StepOutcome
from tools.calling import maybe_await

from .conftest import Connect
from .scripted_service import failing
from .scripted_streams import ScriptedStreams, chunk, limited_server

LIMIT = 4096
"""Bytes of a message: chunks have 64 fewer."""
RANDOM = np.random.default_rng(0)
X, Y = (RANDOM.standard_normal((30, 40)).astype(np.float32) for _ in range(2))
"""4,800 bytes: two chunks."""
SMALL = X[:1, :5].copy()
BAD = aclgrad.InvalidFieldError("wrong", field="inputs[output]")
BUSY = aclgrad.ServerBusyError("full", retry_after_s=0.001)


def too_large(limit: int) -> aclgrad.AclgradError:
    return aclgrad.LimitExceededError("too large", metadata={"max_message_bytes": str(limit)})


@pytest.fixture(autouse=True)
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RetryPolicy, "backoff_s", lambda *_: 0.001)


@pytest.fixture
def fresh() -> Iterator[TestServer]:
    with serve() as running:
        yield running


def tanh(grad: Any, output: Any) -> Any:
    """Returns the definition: the slope of tanh is 1 - output**2."""
    return (grad * (1.0 - output.astype(np.float64) ** 2)).astype(np.float32)


@dataclass
class Scripted:
    """Answers each attempt with these messages, the last ones for all further attempts, and keeps what came."""

    answers: list[Any]
    programs: list[SentProgram] = field(default_factory=list)
    chunks: list[list[tuple[int, int, int]]] = field(default_factory=list)
    data: list[dict[int, bytearray]] = field(default_factory=list)

    def __call__(self, messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        self.programs.append(decode_header(next(messages)))
        self.chunks.append([])
        self.data.append({})
        context.send_initial_metadata(())
        for message in messages:
            assert len(message) <= LIMIT
            piece = decode_chunk(message)
            self.chunks[-1].append((piece.tensor, piece.offset, len(piece.data)))
            content = self.data[-1].setdefault(piece.tensor, bytearray())
            assert len(content) == piece.offset
            content += piece.data
        answer = self.answers[min(len(self.programs), len(self.answers)) - 1]
        if isinstance(answer, aclgrad.AclgradError):
            failing(answer)(context)
        yield from answer


def outputs(*arrays: Any) -> StepOutcome:
    return tuple(TensorView("grad_input", TensorType(DTYPES["float32"], each.shape)) for each in arrays)


def failure(error: aclgrad.AclgradError) -> StepOutcome:
    return to_status(error, "5f0c")


def no_input(step: int) -> StepOutcome:
    return failure(InputFailedError("no input", metadata={"step": str(step)}))


def in_chunks(array: Any, tensor: int = 0, size: int = 1000) -> list[bytes]:
    data = array.tobytes()
    return [chunk(offset, data[offset : offset + size], tensor) for offset in range(0, len(data), size)]


def add_steps(program: Any) -> list[aclgrad.Handle]:
    """Adds a step, one that uses it, and one by itself."""
    first = program.tanh_backward(X, Y)
    return [
        first,
        program.gelu_backward(first, X),
        program.silu_backward(X[:10].copy(), SMALL.repeat(40, 0)[:10, :1].repeat(40, 1)),
    ]


async def test_a_large_program_goes_in_chunks(connect: Connect, streams: ScriptedStreams) -> None:
    """Its tensors are large or used twice; those in chunks come as steps first use them, each byte once."""
    streams.script = script = Scripted(
        [[encode_results([(), outputs(X), outputs(SMALL)]), *in_chunks(X), *in_chunks(SMALL, 1)]]
    )
    program = connect(streams.address, max_message_bytes=LIMIT).program()
    first = program.tanh_backward(X, Y)
    second = program.tanh_backward(first, X.T.T[::1])
    third = program.tanh_backward(SMALL, SMALL)
    found = await maybe_await(program.run(second.T, third))
    np.testing.assert_array_equal(found[0], X.T)
    np.testing.assert_array_equal(found[1], SMALL)
    (sent,) = script.programs
    assert sent.chunk_bytes == LIMIT - 64
    assert [(each.type.shape, each.source.in_chunks) for each in sent.tensors] == [
        ((30, 40), True),
        ((30, 40), True),
        ((1, 5), False),
    ]
    assert script.chunks == [[(0, 0, 4032), (0, 4032, 768), (1, 0, 4032), (1, 4032, 768)]]
    assert script.data == [{0: bytearray(X.tobytes()), 1: bytearray(Y.tobytes())}]
    entries = [[each.source.entry for each in step.inputs] for step in sent.steps()]
    assert entries == [[0, 1], [None, 0], [2, 2]]
    assert streams.other_methods == []


async def test_chunks_of_a_server_have_the_values_of_a_message(connect: Connect, fresh: TestServer) -> None:
    """By the definition, with several outputs, `out`, views and what only later steps use."""
    program = connect(fresh.target, max_message_bytes=LIMIT).program()
    out = np.zeros((40, 30), np.float32).T
    ones = np.ones((30, 1), np.float32)
    grads = program.layer_norm_backward(Y, X, 0 * ones, ones, 40)
    first = program.tanh_backward(X, Y, out=out)
    last = program.tanh_backward(first.T, grads.grad_weight.broadcast_to(30, 40).T)
    found = await maybe_await(program.run(last, first, grads.grad_bias, first[::2, ::3], grads))
    weight = (Y * X.astype(np.float64)).sum(0)
    np.testing.assert_allclose(found[0], tanh(tanh(X, Y).T, np.broadcast_to(weight, (30, 40)).T), 1e-3, 1e-3)
    assert found[1] is out
    np.testing.assert_allclose(out, tanh(X, Y), 1e-5, 1e-6)
    np.testing.assert_allclose(found[2], Y.sum(0), 1e-4, 1e-5)
    np.testing.assert_array_equal(found[3], out[::2, ::3])
    assert found[4].grad_bias is found[2]
    fresh.fail(BUSY)
    fresh.fail(aclgrad.ServerFaultError("oops"))
    with pytest.raises(aclgrad.ServerFaultError, match=r"^step 1 \(tanh_backward, test_.*\): oops"):
        await maybe_await(program.run(first, last.T))


@pytest.mark.parametrize("limit", [LIMIT, 600])
async def test_a_message_that_turns_out_too_large_goes_in_chunks(connect: Connect, limit: int) -> None:
    """To a server that takes less than the client knew."""
    with serve(max_message_bytes=limit) as server:
        client = connect(server.target)
        for _ in range(2):
            program = client.program()
            [found] = await maybe_await(program.run(program.tanh_backward(program.tanh_backward(X, Y), Y).T))
            np.testing.assert_allclose(found, tanh(tanh(X, Y), Y).T, 1e-4, 1e-6)


async def test_a_reply_that_turns_out_too_large_comes_in_chunks(connect: Connect) -> None:
    with limited_server(2**20) as limited:
        limited.service.answer = lambda context: bytes(2 * LIMIT)
        limited.streams.script = script = Scripted([[encode_results([(), outputs(SMALL)]), *in_chunks(SMALL)]])
        program = connect(limited.address, max_message_bytes=LIMIT).program()
        first = program.tanh_backward(SMALL, SMALL)
        [found] = await maybe_await(program.run(program.tanh_backward(first, SMALL)))
        np.testing.assert_array_equal(found, SMALL)
        assert script.chunks == [[]]
        assert limited.messages_begun == 1


async def test_chunks_get_smaller_until_a_server_takes_them(connect: Connect, streams: ScriptedStreams) -> None:
    good = [encode_results([outputs(X)]), *in_chunks(X)]
    streams.script = script = Scripted([too_large(4000), too_large(1064), good])
    program = connect(streams.address, max_message_bytes=LIMIT).program()
    handle = program.tanh_backward(X, Y)
    await maybe_await(program.run(handle))
    assert [each.chunk_bytes for each in script.programs] == [LIMIT - 64, 3936, 1000]
    assert [max(size for _, _, size in each) for each in script.chunks] == [LIMIT - 64, 3936, 1000]
    script.answers = [too_large(1064)]
    with pytest.raises(aclgrad.LimitExceededError, match="too large"):
        await maybe_await(program.run(handle))
    assert len(script.programs) <= 5


async def test_steps_that_fail_are_sent_again_with_what_they_need(connect: Connect, streams: ScriptedStreams) -> None:
    """Results come in several messages."""
    streams.script = script = Scripted(
        [
            [encode_results([outputs(X)]), *in_chunks(X), encode_results([failure(BUSY), failure(BUSY)])],
            [encode_results([(), failure(BUSY)]), encode_results([outputs(X[:10])]), *in_chunks(X[:10])],
            [encode_results([()]), encode_results([outputs(Y)]), *in_chunks(Y)],
        ]
    )
    program = connect(streams.address, max_message_bytes=LIMIT).program()
    found = await maybe_await(program.run(*add_steps(program)))
    for array, expected in zip(found, (X, Y, X[:10]), strict=True):
        np.testing.assert_array_equal(array, expected)
    operators = [[step.operator for step in sent.steps()] for sent in script.programs]
    whole = ["tanh_backward", "gelu_backward", "silu_backward"]
    assert operators == [whole, whole, whole[:2]]
    assert [sent.returned for sent in script.programs] == [
        (),
        ((1, "grad_input"), (2, "grad_input")),
        ((1, "grad_input"),),
    ]


async def test_errors_of_steps(connect: Connect, streams: ScriptedStreams) -> None:
    streams.script = Scripted(
        [[encode_results([failure(BAD), no_input(0)]), encode_results([outputs(Y)]), *in_chunks(Y)]]
    )
    program = connect(streams.address, max_message_bytes=LIMIT).program()
    handles = add_steps(program)
    with pytest.raises(aclgrad.InvalidFieldError, match=r"^step 0 \(tanh_backward, test_.*\): wrong"):
        await maybe_await(program.run(*handles))
    handles[2] = handles[2].T
    with pytest.raises(aclgrad.ServerFaultError, match="the server sent"):
        await maybe_await(program.run(*handles, return_errors=True))
    streams.script = Scripted([[encode_results([failure(BAD), no_input(0), outputs(X[:10])]), *in_chunks(X[:10])]])
    found = await maybe_await(program.run(*handles, return_errors=True))
    assert [type(each) for each in found] == [aclgrad.InvalidFieldError, InputFailedError, np.ndarray]
    np.testing.assert_array_equal(found[2], X[:10].T)


BOTH = encode_results([outputs(X), outputs(Y)])
RESULTS = encode_results([outputs(X)])
ANSWERS: dict[str, list[bytes]] = {
    "nothing": [],
    "no message": [b"\xff"],
    "one result": [RESULTS, *in_chunks(X)],
    "three results": [BOTH, *in_chunks(X), *in_chunks(Y, 1), RESULTS],
    "three at once": [encode_results([outputs(X)] * 3)],
    "no results": [encode_results([])],
    "chunks first": [*in_chunks(X), BOTH],
    "the first is cut short": [BOTH, *in_chunks(X)[:-1], *in_chunks(Y, 1)],
    "the second is cut short": [BOTH, *in_chunks(X), *in_chunks(Y, 1)[:-1]],
    "no second": [BOTH, *in_chunks(X)],
    "results before the last chunk": [RESULTS, *in_chunks(X)[:-1], RESULTS, *in_chunks(Y)],
    "the wrong order": [BOTH, *in_chunks(Y, 1), *in_chunks(X)],
    "the wrong tensor": [RESULTS, *in_chunks(X), RESULTS, *in_chunks(Y, 1)],
    "too much": [BOTH, *in_chunks(X), *in_chunks(Y, 1), chunk(4800, b"more", 1)],
    "a gap": [BOTH, *in_chunks(X)[1:], *in_chunks(Y, 1)],
    "twice": [BOTH, *in_chunks(X)[:1], *in_chunks(X), *in_chunks(Y, 1)],
    "a chunk of a failed step": [encode_results([failure(BAD), outputs(Y)]), *in_chunks(X), *in_chunks(Y, 1)],
    "two outputs": [encode_results([outputs(X, X), outputs(Y)])],
    "none": [encode_results([(), outputs(Y)]), *in_chunks(Y)],
    "another shape": [encode_results([outputs(X), outputs(Y[0])]), *in_chunks(X), *in_chunks(Y[0], 1)],
    "more than there is": [encode_results([outputs(X), (TensorView("", TensorType(DTYPES["float32"], (2**62, 4))),)])],
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
async def test_an_answer_that_is_none(connect: Connect, streams: ScriptedStreams, answer: list[bytes]) -> None:
    streams.script = script = Scripted([answer])
    program = connect(streams.address, max_message_bytes=LIMIT).program()
    first = program.tanh_backward(X, Y)
    second = program.tanh_backward(first, Y)
    for return_errors in (False, True):
        with pytest.raises(aclgrad.ServerFaultError, match=r"^(the reply of the server|the server sent)"):
            await maybe_await(program.run(first, second, return_errors=return_errors))
    assert len(script.programs) == 2
    script.answers = [[encode_results([()]), RESULTS, *in_chunks(X)]]
    [found] = await maybe_await(program.run(second))
    np.testing.assert_array_equal(found, X)
    script.answers = [[BOTH, *in_chunks(X), *in_chunks(Y, 1)]]
    with pytest.raises(aclgrad.ServerFaultError, match="1 outputs of a step that was to send none back"):
        await maybe_await(program.run(second))


async def test_out_that_does_not_fit_concerns_no_other_step(connect: Connect, streams: ScriptedStreams) -> None:
    """The server answers another shape than the definition does."""
    other = Y.reshape(40, 30)
    streams.script = Scripted([[encode_results([outputs(other), outputs(X)]), *in_chunks(other), *in_chunks(X, 1)]])
    program = connect(streams.address, max_message_bytes=LIMIT).program()
    out = np.zeros(X.shape, np.float32)
    first, second = program.tanh_backward(X, Y, out=out), program.tanh_backward(Y, X)
    found = await maybe_await(program.run(first, second, return_errors=True))
    assert isinstance(found[0], aclgrad.InvalidFieldError)
    assert found[0].field == "out"
    assert not out.any()
    np.testing.assert_array_equal(found[1], X)
