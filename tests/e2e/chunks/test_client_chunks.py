"""Calls that a client sends in chunks by itself."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from aclgrad._client.calls import chunked, message_limit
from aclgrad.operators.cases import TypedCase, first_cases
from aclgrad.products import Product
from tools.calling import AnyClient, maybe_await, wait_until
from tools.serving import Server

Connect = Callable[..., AnyClient]
CASES = list(first_cases(Product.ATLAS_A2, every_dtype=True))
LARGE = np.random.default_rng(1).standard_normal((3, 1024, 1024), np.float32)
"""12 MiB."""


@pytest.fixture
def chunks_above(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the size of calls above which both clients send chunks."""
    return lambda size_bytes: monkeypatch.setattr(message_limit, "CHUNKED_ABOVE_BYTES", size_bytes)


async def call(client: AnyClient, typed: TypedCase) -> Any:
    return await maybe_await(client.execute(typed.spec.name, typed.arrays(), typed.case.attributes))


async def test_every_dtype_gives_the_bits_of_one_message(
    connect: Connect, shared_server: Server, chunks_above: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunked, "_INLINE_BYTES", 0)
    monkeypatch.setattr(message_limit, "DEFAULT_CHUNK_BYTES", 1021)
    client = connect(shared_server.address)
    before = shared_server.log.count("ExecuteOperatorChunked ok")
    for typed in CASES:
        whole = await call(client, typed)
        chunks_above(-1)
        gradient = await call(client, typed)
        chunks_above(2**40)
        assert (gradient.dtype, gradient.shape, gradient.tobytes()) == (whole.dtype, whole.shape, whole.tobytes())
        assert gradient.flags.owndata
        assert gradient.flags.writeable
    wait_until(lambda: shared_server.log.count("ExecuteOperatorChunked ok") == before + len(CASES))


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
    chunks_above: Callable[[int], None],
    grad_output: np.ndarray,
    shape: tuple[int, ...],
) -> None:
    client = connect(shared_server.address, max_message_bytes=2**24)
    gradient = await maybe_await(client.adaptive_avg_pool2d_backward(grad_output, shape))
    chunks_above(2**40)
    whole = await maybe_await(client.adaptive_avg_pool2d_backward(grad_output, shape))
    assert gradient.tobytes() == whole.tobytes()
