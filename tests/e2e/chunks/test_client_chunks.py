"""Calls that a client sends in chunks by itself."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from aclgrad.operators.cases import TypedCase, arrays_of, first_cases
from aclgrad.products import Product
from aclgrad.tensors import TensorType, TensorView, view_of_array
from aclgrad.wire.messages import OperatorCall
from tests.bounds import bits_of
from tools.calling import AnyClient, maybe_await, wait_until
from tools.raw_calls import execute, open_channel
from tools.serving import Server

Connect = Callable[..., AnyClient]
CASES = list(first_cases(Product.ATLAS_A2, every_dtype=True))
LARGE = np.random.default_rng(1).standard_normal((3, 1024, 1024), np.float32)
"""12 MiB."""
MESSAGE_BYTES = 401
"""So small a limit that calls go in chunks of 337 bytes."""


async def call(client: AnyClient, typed: TypedCase) -> Any:
    return await maybe_await(client.execute(typed.spec.name, typed.arrays(), typed.case.attributes))


async def test_every_dtype_gives_the_bits_of_one_message(connect: Connect, shared_server: Server) -> None:
    client, chunking = connect(shared_server.address), connect(shared_server.address, max_message_bytes=MESSAGE_BYTES)
    chunked, before = 0, shared_server.log.count("ExecuteOperatorChunked ok")
    for typed in CASES:
        whole = await call(client, typed)
        gradient = await call(chunking, typed)
        assert bits_of(gradient) == bits_of(whole)
        assert all(each.flags.owndata and each.flags.writeable for each in arrays_of(gradient))
        read = [each.name for each in typed.spec.inputs if each.unread_on is None]
        sent = sum(array.nbytes for name, array in typed.arrays().items() if name in read)
        chunked += max(sent, sum(each.nbytes for each in arrays_of(whole))) > MESSAGE_BYTES // 2
    assert chunked > 60
    wait_until(lambda: shared_server.log.count("ExecuteOperatorChunked ok") == before + chunked)


SIZES = {
    "large_request": (LARGE[:, ::-1, ::-1], (3, 2, 2)),
    "both": (LARGE, LARGE.shape),
    "fortran": (np.asfortranarray(LARGE), (3, 5, 7)),
    "large_reply": (LARGE[:, :2, :3], LARGE.shape),
    "float16": (LARGE.astype(np.float16), (3, 1024, 2048)),
}
QUICK = ("large_request", "both")


@pytest.mark.parametrize(
    ("grad_output", "shape"),
    [pytest.param(*given, id=name, marks=() if name in QUICK else pytest.mark.slow) for name, given in SIZES.items()],
)
async def test_large_calls_give_the_bits_of_one_message(
    connect: Connect,
    shared_server: Server,
    grad_output: np.ndarray,
    shape: tuple[int, ...],
) -> None:
    client = connect(shared_server.address, max_message_bytes=2**24)
    gradient = await maybe_await(client.adaptive_avg_pool2d_backward(grad_output, shape))
    sent = view_of_array("grad_output", grad_output)
    inputs = sent, TensorView("self", TensorType(sent.type.dtype, shape))
    with open_channel(shared_server) as channel:
        assert gradient.tobytes() == execute(channel, OperatorCall("adaptive_avg_pool2d_backward", inputs, {}))
