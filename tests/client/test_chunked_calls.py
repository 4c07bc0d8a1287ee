"""Both clients against a scripted service: what goes in chunks, and which answers are none."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import grpc
import ml_dtypes
import numpy as np
import pytest

import aclgrad
from aclgrad._client.calls.requirements import CHUNKED_ABOVE_BYTES
from aclgrad.errors import to_status
from aclgrad.sources import in_message
from aclgrad.tensors import DTYPES, TensorType, TensorView, array_of_view
from aclgrad.wire.chunks import encode_results
from tools.calling import maybe_await

from .conftest import Connect
from .scripted_streams import ANSWER, GRAD, OPERATOR, RESULTS, SHAPE, SMALL, Script, ScriptedStreams, chunk, refusing

DATA = ANSWER.tobytes()
LIMIT = 30_000
MEDIUM = GRAD[:, :80, :60].copy()
"""56 KiB: three chunks if no message may have more bytes than LIMIT."""


LAYOUTS: list[Callable[[np.ndarray], np.ndarray]] = [
    np.asfortranarray,
    lambda array: np.repeat(array, 2, axis=2)[:, :, ::2],
    lambda array: array[::-1, :, ::-1],
    lambda array: array.transpose(2, 0, 1),
    lambda array: array.astype(">f4"),
    lambda array: np.frombuffer(array.tobytes(), np.float32).reshape(array.shape),
    lambda array: np.concatenate([array, array]).astype(ml_dtypes.bfloat16),
    lambda array: array.astype(np.float64),
]


async def test_arrays_go_little_endian_and_dense_ones_as_they_lie(connect: Connect, streams: ScriptedStreams) -> None:
    client = connect(streams.address, max_message_bytes=LIMIT)
    for layout in LAYOUTS:
        array = layout(MEDIUM)
        await maybe_await(client.execute(OPERATOR, {"grad_output": array, "self": (3, 1, 2)}))
        received = streams.attempts[-1]
        (sent,) = (each for each in received.call.inputs if each.name == "grad_output")
        assert sent.type.shape == array.shape
        arrived = replace(sent, source=in_message(memoryview(received.data["grad_output"])))
        np.testing.assert_array_equal(array_of_view(arrived), array)
        assert len(received.data["grad_output"]) == array.nbytes


async def test_small_inputs_go_with_the_header(connect: Connect, streams: ScriptedStreams) -> None:
    """Only the answer is large: there is nothing to send but the header."""
    await maybe_await(connect(streams.address).adaptive_avg_pool2d_backward(SMALL, (1, 2048, 2048)))
    (received,) = streams.attempts
    assert received.data == {}
    assert bytes(received.call.inputs[0].data) == SMALL.tobytes()  # type: ignore[arg-type]


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


FAILED = to_status(aclgrad.InvalidFieldError("wrong", field="inputs[self]"), "5f0c")
ANSWERS: list[list[bytes]] = [
    [],
    [b"\xff"],
    [chunk(0, DATA)],
    [RESULTS, RESULTS],
    [RESULTS],
    [RESULTS, chunk(0, DATA[:20])],
    [RESULTS, chunk(0, DATA), chunk(24, b"more")],
    [RESULTS, chunk(0, DATA + b"more")],
    [RESULTS, chunk(0, DATA[:8]), chunk(12, DATA[12:])],
    [RESULTS, chunk(0, DATA[:8]), chunk(0, DATA[:8]), chunk(8, DATA[8:])],
    [RESULTS, chunk(0, DATA, tensor=1)],
    [RESULTS, chunk(0, DATA), RESULTS],
    [encode_results([])],
    [encode_results([FAILED, FAILED])],
    [encode_results([FAILED]), RESULTS],
    [encode_results([FAILED]), chunk(0, DATA)],
    [encode_results([()])],
    [encode_results([(TensorView("grad_input", TensorType(DTYPES["float32"], (2**62, 4))),)])],
    [encode_results([(TensorView("grad_input", TensorType(DTYPES["float32"], (-1, 4))),)])],
]


def answering(streams: ScriptedStreams, *answers: list[bytes]) -> Script:
    """Returns what answers each attempt with these messages, the last of them for all further ones."""

    def script(messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        streams.receive(messages, context)
        yield from answers[min(len(streams.attempts), len(answers)) - 1]

    return script


async def test_an_answer_that_is_none(connect: Connect, streams: ScriptedStreams) -> None:
    client = connect(streams.address, max_message_bytes=LIMIT)
    for attempts, answer in enumerate(ANSWERS):
        streams.script = answering(streams, answer)
        with pytest.raises(aclgrad.ServerFaultError, match=r"^the reply of the server"):
            await maybe_await(client.adaptive_avg_pool2d_backward(MEDIUM, (3, 1, 2)))
        assert len(streams.attempts) == attempts + 1


async def test_the_error_of_the_step_is_that_of_the_call(connect: Connect, streams: ScriptedStreams) -> None:
    streams.script = answering(streams, [encode_results([FAILED])])
    with pytest.raises(aclgrad.InvalidFieldError, match=r"^wrong$") as caught:
        await maybe_await(connect(streams.address).adaptive_avg_pool2d_backward(GRAD, SHAPE))
    assert (caught.value.field, caught.value.request_id, caught.value.is_from_server) == ("inputs[self]", "5f0c", True)
    assert len(streams.attempts) == 1


async def test_a_step_that_failed_in_passing_is_sent_again(connect: Connect, streams: ScriptedStreams) -> None:
    busy = to_status(aclgrad.DeviceMemoryError("full", retry_after_s=0.001), "5f0c")
    required = to_status(aclgrad.InputValuesRequiredError("send the array", field="inputs[self]"), "5f0c")
    failures = [[encode_results([each])] for each in (busy, required)]
    streams.script = answering(streams, *failures, [RESULTS, chunk(0, DATA)])
    gradient = await maybe_await(connect(streams.address).adaptive_avg_pool2d_backward(GRAD, GRAD))
    assert gradient.tolist() == ANSWER.tolist()
    assert [tuple(each.data) for each in streams.attempts] == [("grad_output",)] * 2 + [("grad_output", "self")]


async def test_gradients_are_arrays_of_their_own(connect: Connect, streams: ScriptedStreams) -> None:
    client = connect(streams.address)
    first = await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, (3, 1, 2)))
    first[:] = 7
    second = await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, (3, 1, 2)))
    assert second.tolist() == ANSWER.tolist()
    assert all(each.flags.owndata and each.flags.writeable and each.flags.c_contiguous for each in (first, second))


async def test_a_server_that_never_says_that_it_is_ready(connect: Connect, streams: ScriptedStreams) -> None:
    streams.says_ready = False
    gradient = await maybe_await(connect(streams.address).adaptive_avg_pool2d_backward(GRAD, (3, 1, 2)))
    assert gradient.tolist() == ANSWER.tolist()
    assert len(streams.attempts) == 1


REFUSALS = [aclgrad.InvalidFieldError("wrong", field="inputs[self]"), aclgrad.ServerBusyError("full")]


@pytest.mark.parametrize("after", [0, None], ids=["header", "all"])
@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: type(error).__name__)
async def test_a_refusal_is_typed(
    connect: Connect, streams: ScriptedStreams, error: aclgrad.AclgradError, after: int | None
) -> None:
    streams.script = refusing(streams, error, after)
    with pytest.raises(type(error), match=f"^{error.message}$") as caught:
        await maybe_await(connect(streams.address).adaptive_avg_pool2d_backward(GRAD, SHAPE))
    assert (caught.value.field, caught.value.request_id) == (error.field, "5f0c")
    assert len(streams.attempts) == 1


@pytest.mark.parametrize("after", [1, 4])
async def test_a_failure_amid_the_chunks_is_typed(connect: Connect, streams: ScriptedStreams, after: int) -> None:
    streams.script = refusing(streams, aclgrad.DeviceLostError("lost"), after)
    client = connect(streams.address)
    for _ in range(3):
        with pytest.raises(aclgrad.DeviceLostError):
            await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, SHAPE))


@pytest.mark.parametrize("after", [0, 3, None], ids=["header", "middle", "all"])
async def test_another_attempt_sends_everything_again(
    connect: Connect, streams: ScriptedStreams, after: int | None
) -> None:
    streams.script = refusing(streams, aclgrad.ServerDrainingError("stopping", retry_after_s=0.001), after, times=2)
    gradient = await maybe_await(connect(streams.address).adaptive_avg_pool2d_backward(GRAD, SHAPE))
    assert gradient.tolist() == ANSWER.tolist()
    assert len(streams.attempts) == 3
    assert streams.attempts[-1].data["grad_output"] == GRAD.tobytes()


async def test_values_that_the_server_asks_for_come_in_chunks_too(connect: Connect, streams: ScriptedStreams) -> None:
    required = aclgrad.InputValuesRequiredError("send the array", field="inputs[self]")
    streams.script = refusing(streams, required, times=1)
    client = connect(streams.address, retries=0)
    for _ in range(2):
        await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, GRAD))
    assert [tuple(each.data) for each in streams.attempts] == [("grad_output",), *[("grad_output", "self")] * 2]
    assert streams.attempts[1].data["self"] == GRAD.tobytes()
    streams.script = refusing(streams, required)
    with pytest.raises(aclgrad.InputValuesRequiredError):
        await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, SHAPE))
