"""Replies of operators with several outputs: arrays by name, in each way that a reply comes."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import aclgrad
import aclgrad.testing
from aclgrad import reference
from aclgrad._client.calls import exchanges, outgoing
from aclgrad._client.calls.chunked import ChunkedAnswer
from aclgrad._client.calls.destination import Destination
from aclgrad._client.calls.exchanges import gradient_of
from aclgrad.operators import validation
from aclgrad.tensors import TensorView, type_of_array, view_of_array
from aclgrad.wire.chunks import chunk_prefix, encode_response_header
from aclgrad.wire.messages import decode_response, response_of
from tests.two_outputs import NAME, SPEC, backward, register

ARRAYS = {
    "grad_input": np.arange(6, dtype=np.float32).reshape(2, 3),
    "grad_weight": np.zeros((0, 3), np.float32),
    "grad_bias": np.arange(3, dtype=np.float16),
}
NAMES = tuple(ARRAYS)
VIEWS = tuple(view_of_array(name, array) for name, array in ARRAYS.items())


def check(gradients: tuple[np.ndarray, ...]) -> None:
    assert gradients._fields == NAMES
    for found, expected in zip(gradients, ARRAYS.values(), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_gradients_have_the_names_of_the_outputs() -> None:
    outputs = decode_response(response_of(*VIEWS))
    check(gradient_of(outputs, Destination(None, NAMES)))
    # Of an operator that this client does not know.
    check(gradient_of(outputs))


def test_gradients_are_written_to_the_arrays_of_the_caller() -> None:
    out = tuple(np.full_like(each, 9) for each in ARRAYS.values())
    gradients = gradient_of(decode_response(response_of(*VIEWS)), Destination(out, NAMES))
    check(gradients)
    assert all(found is given for found, given in zip(gradients, out, strict=True))


@pytest.mark.parametrize(
    ("out", "told"),
    [
        (
            np.zeros((2, 3), np.float32),
            "out is not a tuple of 3; give one for each of grad_input, grad_weight, grad_bias",
        ),
        ((np.zeros((2, 3), np.float32),) * 2, "out is not a tuple of 3"),
        (
            (np.zeros((2, 3), np.float32), np.zeros((0, 3), np.float32), np.zeros(3)),
            r"out\[grad_bias\] is float64\[3\]",
        ),
    ],
)
def test_arrays_that_do_not_fit_are_refused_by_name(out: object, told: str) -> None:
    with pytest.raises(aclgrad.InvalidFieldError, match=told):
        gradient_of(VIEWS, Destination(out, NAMES))


@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_another_number_of_outputs_is_no_reply(count: int) -> None:
    with pytest.raises(aclgrad.ServerFaultError):
        gradient_of((*VIEWS, *VIEWS)[:count], Destination(None, NAMES))


def chunk(index: int, offset: int, data: bytes) -> bytes:
    return chunk_prefix(index, offset, len(data)) + data


def header() -> bytes:
    types = [TensorView(name, type_of_array(name, array)) for name, array in ARRAYS.items()]
    return encode_response_header(*types)


def test_chunks_go_to_their_outputs() -> None:
    answer, data = ChunkedAnswer(Destination(None, NAMES)), ARRAYS["grad_input"].tobytes()
    for message in (
        header(),
        chunk(0, 0, data[:10]),
        chunk(0, 10, data[10:]),
        chunk(2, 0, ARRAYS["grad_bias"].tobytes()),
    ):
        answer.take(message)
    check(answer.gradient())


@pytest.mark.parametrize("wrong", [(0, 8, b"1"), (1, 0, b"1"), (2, 0, b"1"), (0, 10, bytes(15)), (3, 0, b"1")], ids=str)
def test_a_chunk_that_does_not_continue_its_output_is_refused(wrong: tuple[int, int, bytes]) -> None:
    answer = ChunkedAnswer(Destination(None, NAMES))
    answer.take(header())
    answer.take(chunk(0, 0, bytes(10)))
    with pytest.raises(aclgrad.ServerFaultError, match="was due"):
        answer.take(chunk(*wrong))


@pytest.mark.parametrize("end", [1, 2, 3])
def test_an_answer_that_ends_early_is_told(end: int) -> None:
    answer, data = ChunkedAnswer(Destination(None, NAMES)), ARRAYS["grad_input"].tobytes()
    for message in (header(), chunk(0, 0, data[:10]), chunk(0, 10, data[10:]))[:end]:
        answer.take(message)
    with pytest.raises(aclgrad.ServerFaultError, match="ended after"):
        answer.gradient()


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server of an operator with two outputs."""
    register(monkeypatch, validation, outgoing, exchanges)
    monkeypatch.setitem(vars(outgoing)["_ATTRIBUTES"], NAME, {each.name: each for each in SPEC.attributes})
    monkeypatch.setitem(vars(outgoing)["_DEFAULTS"], NAME, SPEC.defaults)
    monkeypatch.setitem(vars(outgoing)["_OPTIONAL"], NAME, {"weight"})
    monkeypatch.setitem(vars(reference)["_DEFINITIONS"], NAME, backward)
    with aclgrad.testing.serve(max_message_bytes=2**16) as server:
        yield server.target


def given(rows: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(rows)
    shapes = {"grad": (rows, 16), "self": (rows, 16), "weight": (16,)}
    return {name: generator.standard_normal(shape, np.float32) for name, shape in shapes.items()}


def check_scale(gradients: Any, inputs: dict[str, np.ndarray]) -> None:
    assert gradients._fields == ("grad_input", "grad_weight")
    truths = backward(inputs["grad"], inputs["self"], inputs["weight"])
    for found, truth in zip(gradients, truths, strict=True):
        np.testing.assert_allclose(found, truth, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows", [0, 3, 2000], ids=["empty", "unary", "chunked"])
def test_a_call_returns_all_gradients(target: str, rows: int) -> None:
    inputs = given(rows)
    out = np.empty((rows, 16), np.float32), np.empty(16, np.float32)
    with aclgrad.Client(target) as client:
        check_scale(client.execute(NAME, inputs), inputs)
        check_scale(client.execute(NAME, inputs, out=out), inputs)
        check_scale(out_as_gradients(out), inputs)
        batch = client.batch()
        for _ in range(3):
            batch.execute(NAME, inputs)
        for gradients in batch.run():
            check_scale(gradients, inputs)


def out_as_gradients(out: tuple[np.ndarray, ...]) -> Any:
    return gradient_of(
        tuple(view_of_array(name, each) for name, each in zip(("grad_input", "grad_weight"), out, strict=True))
    )


async def test_an_asynchronous_call_returns_all_gradients(target: str) -> None:
    for rows in (3, 2000):
        inputs = given(rows)
        async with aclgrad.AsyncClient(target) as client:
            check_scale(await client.execute(NAME, inputs), inputs)


@pytest.mark.parametrize("rows", [3, 2000], ids=["unary", "chunked"])
@pytest.mark.parametrize("wanted", [("grad_input",), ("grad_weight",), ("grad_weight", "grad_input")], ids="+".join)
def test_what_is_not_wanted_is_none(target: str, rows: int, wanted: tuple[str, ...]) -> None:
    inputs = given(rows)
    new = {"grad_input": np.empty((rows, 16), np.float32), "grad_weight": np.empty(16, np.float32)}
    out = tuple(array if name in wanted else None for name, array in new.items())
    with aclgrad.Client(target) as client:
        everything = client.execute(NAME, inputs)
        batch = client.batch()
        batch.execute(NAME, inputs, outputs=wanted)
        found = [client.execute(NAME, inputs, outputs=wanted), client.execute(NAME, inputs, outputs=wanted, out=out)]
        for gradients in (*found, *batch.run()):
            for name, gradient in gradients._asdict().items():
                assert (gradient is None) == (name not in wanted)
                if gradient is not None:
                    np.testing.assert_array_equal(gradient, getattr(everything, name))
        assert all(each is given for each, given in zip(found[1], out, strict=True))


@pytest.mark.parametrize(
    ("outputs", "told"),
    [
        ((), "outputs is (), which names no outputs; give a sequence of names, or leave it out for all outputs"),
        ("grad_input", "outputs is 'grad_input', which names no outputs"),
        (["grad_bias"], "outputs[grad_bias] is not known; call it grad_input or grad_weight: the operator returns"),
        (["grad_input", "grad_input"], "outputs[grad_input] is given 2 times; send it once"),
        ([3], "outputs has the name 3; give text that UTF-8 holds"),
    ],
    ids=str,
)
def test_outputs_that_nobody_can_want_are_refused(target: str, outputs: Any, told: str) -> None:
    with aclgrad.Client(target) as client, pytest.raises(aclgrad.InvalidFieldError) as caught:
        client.execute(NAME, given(2), outputs=outputs)
    assert told in str(caught.value)


def test_arrays_that_share_memory_are_refused(target: str) -> None:
    memory = np.empty(100, np.float32)
    for out in ((memory[:32].reshape(2, 16), memory[20:36]), (memory[16:48].reshape(2, 16), memory[16:32])):
        with aclgrad.Client(target) as client, pytest.raises(aclgrad.InvalidFieldError) as caught:
            client.execute(NAME, given(2), out=out)
        assert "out[grad_weight] shares memory with out[grad_input]; give another array" in str(caught.value)


def test_an_array_for_an_output_that_is_not_wanted_is_refused(target: str) -> None:
    out = np.empty((2, 16), np.float32), np.empty(16, np.float32)
    with aclgrad.Client(target) as client, pytest.raises(aclgrad.InvalidFieldError) as caught:
        client.execute(NAME, given(2), outputs=["grad_input"], out=out)
    assert "out[grad_weight] is for an output that is not wanted; give None there" in str(caught.value)


def test_an_input_that_is_none_is_left_out_if_it_is_optional(target: str) -> None:
    inputs = given(3)
    with aclgrad.Client(target) as client:
        gradients = client.execute(NAME, {**inputs, "weight": None}, {"mode": "twice"})
        for found, truth in zip(gradients, backward(inputs["grad"], inputs["self"], mode="twice"), strict=True):
            np.testing.assert_allclose(found, truth, rtol=1e-5, atol=1e-5)
        with pytest.raises(aclgrad.InvalidFieldError, match=r"inputs\[grad\] is None, which numpy reads as no numbers"):
            client.execute(NAME, {**inputs, "grad": None})
