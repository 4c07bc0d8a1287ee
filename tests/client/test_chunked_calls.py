"""Both clients against a scripted service: what goes in chunks, and which answers are none."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import ml_dtypes
import numpy as np
import pytest

import aclgrad
from aclgrad._message_limit import CHUNKED_ABOVE_BYTES
from aclgrad.tensors import DTYPES, TensorType
from aclgrad.wire.chunks import encode_response_header
from tools.calling import maybe_await

from .scripted_streams import ANSWER, GRAD, HEADER, OPERATOR, SMALL, ScriptedStreams, chunk

Connect = Callable[..., Any]
DATA = ANSWER.tobytes()


async def test_a_large_array_comes_whole_and_in_order(connect: Connect, streams: ScriptedStreams) -> None:
    gradient = await maybe_await(connect(streams.address).adaptive_avg_pool2d_backward(GRAD, (3, 1, 2)))
    assert gradient.tolist() == ANSWER.tolist()
    (received,) = streams.attempts
    assert received.header.chunked == ("grad_output",)
    assert received.data["grad_output"] == GRAD.tobytes()


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "fortran": np.asfortranarray,
    "strided": lambda array: np.repeat(array, 2, axis=2)[:, :, ::2],
    "reversed": lambda array: array[::-1, :, ::-1],
    "transposed": lambda array: array.transpose(2, 0, 1),
    "big_endian": lambda array: array.astype(">f4"),
    "read_only": lambda array: np.frombuffer(array.tobytes(), np.float32).reshape(array.shape),
    "bfloat16": lambda array: np.concatenate([array, array]).astype(ml_dtypes.bfloat16),
    "float64": lambda array: array.astype(np.float64),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
async def test_arrays_go_row_major_and_little_endian(
    connect: Connect, streams: ScriptedStreams, layout: Callable[[np.ndarray], np.ndarray]
) -> None:
    array = layout(GRAD)
    await maybe_await(connect(streams.address).execute(OPERATOR, {"grad_output": array, "self": (3, 1, 2)}))
    (received,) = streams.attempts
    little = array.dtype.newbyteorder("<")
    assert received.data["grad_output"] == array.astype(little).tobytes(order="C")
    assert received.header.call.inputs[0].type.shape == array.shape


async def test_small_inputs_go_with_the_header(connect: Connect, streams: ScriptedStreams) -> None:
    """Only the answer is large: there is nothing to send but the header."""
    await maybe_await(connect(streams.address).adaptive_avg_pool2d_backward(SMALL, (1, 2048, 2048)))
    (received,) = streams.attempts
    assert received.header.chunked == ()
    assert bytes(received.header.call.inputs[0].data) == SMALL.tobytes()  # type: ignore[arg-type]


N = CHUNKED_ABOVE_BYTES // 4
SIZES: dict[str, Callable[[int], dict[str, Any]]] = {
    "sent": lambda elements: {"grad_output": np.ones((1, 1, elements), np.float32), "self": (1, 1, 1)},
    "returned": lambda elements: {"grad_output": SMALL, "self": (1, 1, elements)},
    "sent_together": lambda elements: {"grad_output": np.ones((1, 1, elements - 1), np.float32), "self": SMALL},
}


@pytest.mark.parametrize("inputs", SIZES.values(), ids=SIZES)
async def test_calls_above_a_size_go_in_chunks(
    connect: Connect, streams: ScriptedStreams, inputs: Callable[[int], dict[str, Any]]
) -> None:
    client = connect(streams.address, shape_only=False, retries=0)
    with pytest.raises(aclgrad.MethodNotServedError):
        await maybe_await(client.execute(OPERATOR, inputs(N)))
    assert streams.other_methods == ["/aclgrad.v1.OperatorService/ExecuteOperator"]
    await maybe_await(client.execute(OPERATOR, inputs(N + 1)))
    assert len(streams.attempts) == 1


UNSENDABLE: dict[str, tuple[Any, dict[str, Any]]] = {
    "size": ((2**70, 1, 1), {}),
    "attribute": ((3, 1, 2), {"number": object()}),
    "name": ((3, 1, 2), {"\udcff": 1}),
}


@pytest.mark.parametrize(("shape", "attributes"), UNSENDABLE.values(), ids=UNSENDABLE)
async def test_what_the_wire_cannot_hold_is_told_as_in_a_message(
    connect: Connect, streams: ScriptedStreams, shape: Any, attributes: dict[str, Any]
) -> None:
    with pytest.raises(aclgrad.InvalidFieldError):
        await maybe_await(connect(streams.address).execute(OPERATOR, {"grad_output": GRAD, "self": shape}, attributes))
    assert streams.attempts == []


ANSWERS: dict[str, list[bytes]] = {
    "nothing": [],
    "no_message": [b"\xff"],
    "no_header": [chunk(0, DATA)],
    "two_headers": [HEADER, HEADER],
    "header_alone": [HEADER],
    "short": [HEADER, chunk(0, DATA[:20])],
    "long": [HEADER, chunk(0, DATA), chunk(24, b"more")],
    "too_much_at_once": [HEADER, chunk(0, DATA + b"more")],
    "gap": [HEADER, chunk(0, DATA[:8]), chunk(12, DATA[12:])],
    "twice": [HEADER, chunk(0, DATA[:8]), chunk(0, DATA[:8]), chunk(8, DATA[8:])],
    "another_output": [HEADER, chunk(0, DATA, tensor=1)],
    "impossible_shape": [encode_response_header("grad_input", TensorType(DTYPES["float32"], (2**62, 4)))],
    "negative_shape": [encode_response_header("grad_input", TensorType(DTYPES["float32"], (-1, 4)))],
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
async def test_an_answer_that_is_none(connect: Connect, streams: ScriptedStreams, answer: list[bytes]) -> None:
    def script(messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        streams.receive(messages, context)
        yield from answer

    streams.script = script
    with pytest.raises(aclgrad.ServerFaultError, match=r"^the reply of the server"):
        await maybe_await(connect(streams.address).adaptive_avg_pool2d_backward(GRAD, (3, 1, 2)))
    assert len(streams.attempts) == 1


async def test_gradients_are_arrays_of_their_own(connect: Connect, streams: ScriptedStreams) -> None:
    client = connect(streams.address)
    first = await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, (3, 1, 2)))
    first[:] = 7
    second = await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, (3, 1, 2)))
    assert second.tolist() == ANSWER.tolist()
    assert all(each.flags.owndata and each.flags.writeable and each.flags.c_contiguous for each in (first, second))


async def test_a_server_that_never_says_that_it_is_ready(connect: Connect, streams: ScriptedStreams) -> None:
    streams.says_ready = False
    start = time.monotonic()
    gradient = await maybe_await(connect(streams.address, timeout_s=30).adaptive_avg_pool2d_backward(GRAD, (3, 1, 2)))
    assert time.monotonic() - start < 10
    assert gradient.tolist() == ANSWER.tolist()
    assert len(streams.attempts) == 1
