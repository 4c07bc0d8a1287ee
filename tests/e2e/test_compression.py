"""Messages that travel compressed have the limits, and the results, of those that do not."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import aclgrad
from tests.calling import maybe_await
from tests.serving import Server

MEBIBYTE = 1 << 20
ZEROS = np.zeros((1, 512, 512), np.float32)


@pytest.fixture(scope="module")
def compressing_server() -> Iterator[Server]:
    with Server("--reply-compression", "gzip", "--max-message-bytes", str(4 * MEBIBYTE)) as server:
        yield server


@pytest.mark.parametrize("compression", ["gzip", None])
async def test_a_compressed_call_gives_the_same_gradient(
    connect: Callable[..., Any], server: Server, compressing_server: Server, compression: str | None
) -> None:
    values = np.random.default_rng(1).standard_normal((2, 3, 64, 64), np.float32)
    gradients = [
        await maybe_await(connect(each.address, compression=compression).adaptive_avg_pool2d_backward(values, shape))
        for each in (server, compressing_server)
        for shape in [(2, 3, 128, 100)]
    ]
    plain = await maybe_await(connect(server.address).adaptive_avg_pool2d_backward(values, (2, 3, 128, 100)))
    for gradient in gradients:
        np.testing.assert_array_equal(gradient, plain)


async def test_the_limit_of_a_request_is_that_of_its_decompressed_size(
    connect: Callable[..., Any], compressing_server: Server
) -> None:
    """However small the message was on the wire: a megabyte of it could hold a gigabyte."""
    client = connect(compressing_server.address, compression="gzip")
    assert (await maybe_await(client.adaptive_avg_pool2d_backward(ZEROS, (1, 1, 1)))).sum() == 0
    with pytest.raises(aclgrad.MessageTooLargeError, match=r"decompressed, the limit .* --max-message-bytes"):
        await maybe_await(client.adaptive_avg_pool2d_backward(np.zeros((1, 1024, 1025), np.float32), (1, 1, 1)))
    assert (await maybe_await(client.adaptive_avg_pool2d_backward(ZEROS, (1, 1, 1)))).sum() == 0


async def test_the_limit_of_a_reply_is_that_of_its_decompressed_size(
    connect: Callable[..., Any], compressing_server: Server
) -> None:
    client = connect(compressing_server.address, max_message_bytes=MEBIBYTE // 2)
    with pytest.raises(aclgrad.MessageTooLargeError, match="max_message_bytes of the client"):
        await maybe_await(client.adaptive_avg_pool2d_backward(ZEROS[:, :1, :1], (1, 512, 512)))
