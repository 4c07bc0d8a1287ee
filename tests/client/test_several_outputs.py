"""Replies of operators with several outputs: arrays by name, in each way that a reply comes."""

from typing import Any

import numpy as np
import pytest

import aclgrad
from aclgrad import reference
from aclgrad._client.calls.chunked import ChunkedProgram
from aclgrad._client.calls.destination import NEW, ONE, Destination
from aclgrad.tensors import TensorView, type_of_array, view_of_array
from aclgrad.testing import TestServer
from aclgrad.wire.chunks import chunk_prefix, encode_results
from aclgrad.wire.messages import decode_response, response_of
from tools.calling import maybe_await

from .conftest import Connect

ARRAYS = {
    "grad_input": np.arange(6, dtype=np.float32).reshape(2, 3),
    "grad_weight": np.zeros((0, 3), np.float32),
    "grad_bias": np.arange(3, dtype=np.float16),
}
NAMES = tuple(ARRAYS)
VIEWS = tuple(view_of_array(name, array) for name, array in ARRAYS.items())


def test_gradients_of_an_operator_that_the_client_does_not_know_have_the_names_of_the_outputs() -> None:
    gradients = NEW.read(decode_response(response_of(*VIEWS)))
    assert gradients._fields == NAMES
    for found, expected in zip(gradients, ARRAYS.values(), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_another_number_of_outputs_is_no_reply(count: int) -> None:
    with pytest.raises(aclgrad.ServerFaultError):
        Destination(None, NAMES).read((*VIEWS, *VIEWS)[:count])


def test_other_outputs_than_the_wanted_ones_are_no_reply() -> None:
    for given in (VIEWS[:1], VIEWS[::-1], (VIEWS[1], VIEWS[1])):
        wanted = Destination(None, NAMES, NAMES[1 : 1 + len(given)])
        with pytest.raises(aclgrad.ServerFaultError, match=r"it has (\d|the) outputs .*instead of"):
            wanted.read(given)
    with pytest.raises(aclgrad.ServerFaultError, match="2 outputs instead of 1"):
        ONE.read(VIEWS[:2])


def test_names_of_outputs_that_python_does_not_take() -> None:
    named = [TensorView(name, VIEWS[0].type, VIEWS[0].source) for name in ("class", "", "_x", "same", "same")]
    outputs = NEW.read(decode_response(response_of(*named)))
    assert len(outputs) == 5


def chunk(index: int, offset: int, data: bytes) -> bytes:
    return chunk_prefix(index, offset, len(data)) + data


def answered() -> ChunkedProgram[Any]:
    return ChunkedProgram(bytes, [], 1, [Destination(None, NAMES)], lambda taken: taken[0])


def results() -> bytes:
    return encode_results([tuple(TensorView(name, type_of_array(name, array)) for name, array in ARRAYS.items())])


@pytest.mark.parametrize("wrong", [(0, 8, b"1"), (1, 0, b"1"), (2, 0, b"1"), (0, 10, bytes(15)), (3, 0, b"1")], ids=str)
def test_a_chunk_that_does_not_continue_its_output_is_refused(wrong: tuple[int, int, bytes]) -> None:
    answer = answered()
    answer.take(results())
    answer.take(chunk(0, 0, bytes(10)))
    with pytest.raises(aclgrad.ServerFaultError, match="was due"):
        answer.take(chunk(*wrong))


@pytest.mark.parametrize("end", [1, 2, 3])
def test_an_answer_that_ends_early_is_told(end: int) -> None:
    answer, data = answered(), ARRAYS["grad_input"].tobytes()
    for message in (results(), chunk(0, 0, data[:10]), chunk(0, 10, data[10:]))[:end]:
        answer.take(message)
    with pytest.raises(aclgrad.ServerFaultError, match="ended after"):
        answer.result()


NAME, SIZE = "layer_norm_backward", {"normalized_shape": (16,)}
SMALL, LARGE = 3, 2000
"""Rows of a call that goes in one message, and in chunks."""
ways = pytest.mark.parametrize("rows", [SMALL, LARGE], ids=["unary", "chunked"])


@pytest.fixture
def client(connect: Connect, server: TestServer) -> Any:
    return connect(server.target, max_message_bytes=2**16)


def given(rows: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(rows)
    shapes = {"grad_output": (rows, 16), "input": (rows, 16), "mean": (rows, 1), "rstd": (rows, 1)}
    shapes |= {"weight": (16,), "bias": (16,)}
    return {name: generator.standard_normal(shape, np.float32) for name, shape in shapes.items()}


def memory(rows: int) -> dict[str, np.ndarray]:
    shapes = {"grad_input": (rows, 16), "grad_weight": (16,), "grad_bias": (16,)}
    return {name: np.empty(shape, np.float32) for name, shape in shapes.items()}


@ways
async def test_a_call_returns_all_gradients(client: Any, rows: int) -> None:
    inputs, out = given(rows), tuple(memory(rows).values())
    truths = reference.define(NAME, inputs, SIZE)
    batch = client.batch()
    for _ in range(2):
        batch.execute(NAME, inputs, SIZE)
    alone = await maybe_await(client.execute(NAME, inputs, SIZE))
    placed = await maybe_await(client.execute(NAME, inputs, SIZE, out=out))
    for gradients in (alone, placed, *await maybe_await(batch.run())):
        assert gradients._fields == tuple(memory(rows))
        for found, truth in zip(gradients, truths, strict=True):
            np.testing.assert_allclose(found, truth, rtol=1e-4, atol=1e-4)
    assert all(found is each for found, each in zip(placed, out, strict=True))


@ways
@pytest.mark.parametrize("wanted", [("grad_input",), ("grad_bias", "grad_input")], ids="+".join)
async def test_what_is_not_wanted_is_none(client: Any, rows: int, wanted: tuple[str, ...]) -> None:
    inputs = given(rows)
    out = tuple(array if name in wanted else None for name, array in memory(rows).items())
    everything = await maybe_await(client.execute(NAME, inputs, SIZE))
    batch = client.batch()
    batch.execute(NAME, inputs, SIZE, outputs=wanted)
    alone = await maybe_await(client.execute(NAME, inputs, SIZE, outputs=wanted))
    placed = await maybe_await(client.execute(NAME, inputs, SIZE, outputs=wanted, out=out))
    for gradients in (alone, placed, *await maybe_await(batch.run())):
        for name, gradient in gradients._asdict().items():
            assert (gradient is None) == (name not in wanted)
            if gradient is not None:
                np.testing.assert_array_equal(gradient, getattr(everything, name))
    assert all(found is each for found, each in zip(placed, out, strict=True))


FLAT = np.empty(100, np.float32)
OUTS = memory(2)
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"outputs": ()}, "outputs is (), which names no outputs; give a sequence of names, or leave it out for all"),
    ({"outputs": "grad_input"}, "outputs is 'grad_input', which names no outputs"),
    ({"outputs": ["gamma"]}, "outputs[gamma] is not known; leave it out: the operator returns grad_input, grad_weight"),
    ({"outputs": ["grad_bias", "grad_bias"]}, "outputs[grad_bias] is given 2 times; send it once"),
    ({"outputs": [3]}, "outputs has the name 3; give text that UTF-8 holds"),
    ({"out": OUTS["grad_input"]}, "out is not a tuple of 3; give one for each of grad_input, grad_weight, grad_bias"),
    ({"out": (OUTS["grad_input"],) * 2}, "out is not a tuple of 3"),
    ({"out": (OUTS["grad_input"], OUTS["grad_weight"], np.zeros(3))}, "out[grad_bias] is float64[3]"),
    (
        {"out": (FLAT[:32].reshape(2, 16), FLAT[20:36], OUTS["grad_bias"])},
        "out[grad_weight] shares memory with out[grad_input]; give another array",
    ),
    (
        {"out": (OUTS["grad_input"], FLAT[:16], FLAT[:16])},
        "out[grad_bias] shares memory with out[grad_weight]; give another array",
    ),
    (
        {"outputs": ["grad_input"], "out": (OUTS["grad_input"], None, OUTS["grad_bias"])},
        "out[grad_bias] is for an output that is not wanted; give None there",
    ),
]


@pytest.mark.parametrize(("options", "told"), REFUSED)
async def test_outputs_and_memory_that_make_no_sense(client: Any, options: dict[str, Any], told: str) -> None:
    with pytest.raises(aclgrad.InvalidFieldError) as caught:
        await maybe_await(client.execute(NAME, given(2), SIZE, **options))
    assert told in str(caught.value)


async def test_an_input_that_is_none_is_left_out_if_it_is_optional(client: Any) -> None:
    inputs = given(3)
    parts = {name: each for name, each in inputs.items() if name not in ("weight", "bias")}
    gradients = await maybe_await(client.execute(NAME, {**parts, "weight": None, "bias": None}, SIZE))
    truth, *_ = reference.define(NAME, parts, SIZE)
    np.testing.assert_allclose(gradients.grad_input, truth, rtol=1e-4, atol=1e-4)
    with pytest.raises(aclgrad.InvalidFieldError, match=r"inputs\[input\] is None, which numpy reads as no numbers"):
        await maybe_await(client.execute(NAME, {**inputs, "input": None}, SIZE))
