"""ExecuteProgramChunked: cut in every way, a call gives what the unary call gives."""

from collections.abc import Iterator

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad.operators.cases import first_cases
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from aclgrad.tensors import view_of_array
from aclgrad.wire.messages import OperatorCall
from tools.calling import AnyClient, maybe_await
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

LARGE = np.random.default_rng(1).standard_normal((3, 1024, 1024), np.float32)
"""12 MiB: many pieces through pinned memory, and more than a message of 4 MiB."""


@pytest.fixture
def channel(shared_server: Server) -> Iterator[grpc.Channel]:
    with open_channel(shared_server) as channel:
        yield channel


@pytest.mark.parametrize("chunk_bytes", [7, pytest.param(1, marks=pytest.mark.slow)])
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
    """Of one operator with each number of inputs."""
    for names, call in {
        len(call.inputs): ([each.name for each in call.inputs], call) for call in SMALL.values()
    }.values():
        expected = execute(channel, call)
        for choice in range(2 ** len(names)):
            chosen = [name for index, name in enumerate(names) if choice >> index & 1]
            assert execute_chunked(channel, call, chosen[::-1], 500) == expected


RULED = [
    (typed.spec.name, each.name)
    for typed in first_cases(Product.ATLAS_A2)
    for each in typed.spec.inputs
    if each.values(typed.arguments, Product.ATLAS_A2) is not None
]
"""The inputs whose values have to keep a rule."""


def test_a_bad_value_in_a_chunk_is_refused_as_in_a_message(channel: grpc.Channel) -> None:
    for operator, name in RULED:
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
        with pytest.raises(grpc.RpcError) as caught:
            execute(channel, bad)
        # In chunks it is the step that fails.
        with pytest.raises(aclgrad.InvalidFieldError) as of_step:
            execute_chunked(channel, bad, chunk_bytes=3)
        assert of_step.value.violations == error_of(caught.value).violations, (operator, name)


async def test_a_large_call_of_a_client(client: AnyClient, shared_server: Server, channel: grpc.Channel) -> None:
    given = LARGE[:, ::-1, ::-1]
    gradient = await maybe_await(client.adaptive_avg_pool2d_backward(given, LARGE.shape))
    inputs = view_of_array("grad_output", given), view_of_array("self", LARGE)
    expected = execute_chunked(channel, OperatorCall("adaptive_avg_pool2d_backward", inputs, {}), chunk_bytes=2**20 - 1)
    assert gradient.tobytes() == expected == given.tobytes()
