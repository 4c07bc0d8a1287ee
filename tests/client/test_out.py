"""Both clients: `out=` is where the gradient goes; one that does not fit is refused before anything is sent."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import grpc
import ml_dtypes
import numpy as np
import pytest

import aclgrad
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1 import tensor_pb2
from tools.calling import maybe_await

from .conftest import Connect
from .scripted_service import GRADIENT, ScriptedService, failing
from .test_inputs import ByDlpack

RNG = np.random.default_rng(7)
SMALL, LARGE = (2, 3, 4), (1, 150, 150)


def outs(shape: tuple[int, ...], dtype: Any) -> Iterator[tuple[Any, np.ndarray]]:
    """Yields what a caller may give, and the array in whose memory it is."""
    array = np.zeros(shape, dtype)
    yield array, array
    strided = np.zeros((*shape[:-1], 2 * shape[-1]), dtype)[..., ::2]
    yield strided, strided
    if dtype is np.float32:
        yield ByDlpack(array), array
        yield memoryview(array), array


async def test_the_gradient_is_written_to_out(connect: Connect, echo: str) -> None:
    """In one message, in chunks, through shared memory and in a batch."""
    clients = (connect(echo, max_message_bytes=30_000), connect(echo, shared_memory=True))
    for shape, dtype in ((SMALL, np.float32), (SMALL, ml_dtypes.bfloat16), (LARGE, np.float32)):
        gradient = RNG.standard_normal(shape).astype(dtype)
        for client, (out, array) in product(clients, outs(shape, dtype)):
            array[...] = 0
            assert await maybe_await(client.adaptive_avg_pool2d_backward(gradient, shape, out=out)) is out
            np.testing.assert_array_equal(array, gradient)
            array[...] = 0
            batch = client.batch()
            batch.adaptive_avg_pool2d_backward(gradient, shape, out=out)
            batch.adaptive_avg_pool2d_backward(-gradient, shape)
            first, second = await maybe_await(batch.run())
            assert first is out
            np.testing.assert_array_equal(array, gradient)
            np.testing.assert_array_equal(second, -gradient)


def read_only() -> np.ndarray:
    array = np.empty(SMALL, np.float32)
    array.flags.writeable = False
    return array


async def test_an_out_that_does_not_fit_is_refused(connect: Connect, service: ScriptedService) -> None:
    client = connect(service.address)
    grad_output = np.ones((2, 6, 4), np.float32)
    unfit = (
        (np.empty(SMALL[::-1], np.float32), r"is float32\[4, 3, 2\], and the output is float32\[2, 3, 4\]"),
        (np.empty(SMALL, np.float64), r"is float64\[2, 3, 4\], and the output is float32"),
        (np.empty(SMALL, ">f4"), r"is >f4\[2, 3, 4\]"),
        (read_only(), "is read-only"),
        (np.empty(SMALL, np.float32).tolist(), "is a list, whose memory numpy cannot write to"),
        (grad_output[:, ::2], r"shares memory with inputs\[grad_output\]; give another array"),
    )
    for out, message in unfit:
        for target in (client, client.batch()):
            with pytest.raises(aclgrad.InvalidFieldError, match=f"^out {message}") as caught:
                await maybe_await(target.adaptive_avg_pool2d_backward(grad_output, SMALL, out=out))
            assert caught.value.field == "out"
    assert not service.requests


async def test_the_gradient_of_an_unknown_operator_is_compared_when_it_comes(
    connect: Connect, service: ScriptedService
) -> None:
    client = connect(service.address)
    out = np.empty_like(GRADIENT)
    assert await maybe_await(client.execute("pool", {"a": np.ones(3)}, out=out)) is out
    np.testing.assert_array_equal(out, GRADIENT)
    with pytest.raises(aclgrad.InvalidFieldError, match=r"^out is int8\[2\], and the output is float32\[2\]"):
        await maybe_await(client.execute("pool", {"a": np.ones(3)}, out=np.empty(2, np.int8)))


async def test_out_stays_with_a_call_that_is_sent_again(connect: Connect, service: ScriptedService) -> None:
    errors = [
        aclgrad.InputValuesRequiredError("send the array"),
        aclgrad.ServerBusyError("full", retry_after_s=0.001),
    ]

    def answer(context: grpc.ServicerContext) -> bytes:
        if not errors:
            gradient = tensor_pb2.Tensor(name="out", data_type=1, shape=out.shape, data=GRADIENT.tobytes())
            return pb.ExecuteOperatorResponse(outputs=[gradient]).SerializeToString()
        return failing(errors.pop(0))(context)

    service.answer = answer
    out = np.empty((1, 1, 2), np.float32)
    inputs = {"grad_output": np.ones((1, 1, 1), np.float32), "self": np.ones((1, 1, 2), np.float32)}
    client = connect(service.address)
    assert await maybe_await(client.execute("adaptive_avg_pool2d_backward", inputs, out=out)) is out
    assert out.tolist() == [[GRADIENT.tolist()]]
    assert len(service.requests) == 3
