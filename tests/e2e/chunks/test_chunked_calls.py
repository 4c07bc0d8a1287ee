"""ExecuteOperatorChunked: every operator, cut in every way, gives what the unary call gives."""

from collections.abc import Iterator

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad.operators.cases import first_cases
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from aclgrad.tensors import TensorView, view_of_array
from aclgrad.wire.messages import OperatorCall
from tools.raw_calls import (
    CALLS,
    SMALL,
    chunked_messages,
    error_of,
    execute,
    execute_chunked,
    open_channel,
    send_chunked,
)
from tools.serving import Server

slow = pytest.mark.slow


@pytest.fixture
def channel(shared_server: Server) -> Iterator[grpc.Channel]:
    with open_channel(shared_server) as channel:
        yield channel


@pytest.mark.parametrize("chunk_bytes", [7, *(pytest.param(size, marks=slow) for size in (1, 3, 64))])
def test_chunks_need_not_end_with_an_element(channel: grpc.Channel, chunk_bytes: int) -> None:
    for operator in OPERATORS:
        call = min((each for each in CALLS.values() if each.operator == operator), key=_bytes_of)
        chunks = send_chunked(channel, chunked_messages(call, [each.name for each in call.inputs], chunk_bytes))
        # Each output ends with a piece that may be shorter.
        assert sum(len(chunk) != chunk_bytes for chunk in chunks) <= len(OPERATORS[operator].outputs)
        assert b"".join(chunks) == execute(channel, call)


def _bytes_of(call: OperatorCall) -> float:
    return sum(each.type.size_bytes for each in call.inputs) or float("inf")


def test_any_inputs_in_chunks_beside_any_others_in_the_header(channel: grpc.Channel) -> None:
    for call in SMALL.values():
        names = [each.name for each in call.inputs]
        expected = execute(channel, call)
        for choice in range(2 ** len(names)):
            chosen = [name for index, name in enumerate(names) if choice >> index & 1]
            assert execute_chunked(channel, call, chosen[::-1], 500) == expected


def test_a_shape_without_values_beside_chunks(channel: grpc.Channel) -> None:
    for name, call in SMALL.items():
        unread = {each.name for each in OPERATORS[name].inputs if each.unread_on is not None}
        inputs = tuple(TensorView(each.name, each.type) if each.name in unread else each for each in call.inputs)
        bare = OperatorCall(call.operator, inputs, call.attributes)
        names = [each.name for each in call.inputs if each.name not in unread]
        assert execute_chunked(channel, bare, names, 500) == execute(channel, call)


RULED = [
    (typed.spec.name, each.name)
    for typed in first_cases(Product.ATLAS_A2)
    for each in typed.spec.inputs
    if each.values(typed.arguments, Product.ATLAS_A2) is not None
]
"""The inputs whose values have to keep a rule."""


@pytest.mark.parametrize("chunk_bytes", [3, pytest.param(2**20, marks=slow)])
@pytest.mark.parametrize(("operator", "name"), RULED)
def test_a_bad_value_in_a_chunk_is_refused_as_in_a_message(
    channel: grpc.Channel, operator: str, name: str, chunk_bytes: int
) -> None:
    call = SMALL[operator]
    inputs = []
    for each in call.inputs:
        if each.name == name:
            array = np.frombuffer(each.data, each.type.dtype.numpy).copy()
            array[-1] = -np.inf if array.dtype.kind == "f" else 2**30
            inputs.append(view_of_array(name, array.reshape(each.type.shape)))
        else:
            inputs.append(each)
    bad = OperatorCall(operator, tuple(inputs), call.attributes)
    errors = []
    for send in (execute, lambda *given: execute_chunked(*given, chunk_bytes=chunk_bytes)):
        with pytest.raises(grpc.RpcError) as caught:
            send(channel, bad)
        errors.append(error_of(caught.value))
    assert isinstance(errors[1], aclgrad.InvalidFieldError)
    assert errors[1].violations == errors[0].violations


def test_many_pieces_through_pinned_memory(channel: grpc.Channel) -> None:
    grad_output = np.random.default_rng(5).standard_normal((2, 900, 1100), np.float32)
    call = OperatorCall(
        "replication_pad2d_backward",
        (view_of_array("grad_output", grad_output), view_of_array("self", np.zeros((2, 896, 1096), np.float32))),
        {"padding": (2, 2, 2, 2)},
    )
    assert execute_chunked(channel, call, chunk_bytes=2**20 - 1) == execute(channel, call)
