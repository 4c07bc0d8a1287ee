"""Messages that travel compressed have the limits, and the results, of those that do not."""

from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest

from aclgrad.tensors import DTYPES, TensorType, TensorView, view_of_array
from aclgrad.wire.chunks import decode_chunk
from aclgrad.wire.messages import OperatorCall
from tools.calling import maybe_await
from tools.raw_calls import SERVICE, chunked_messages, execute
from tools.serving import Server

pytestmark = pytest.mark.once

MEBIBYTE = 1 << 20
ZEROS = np.zeros((1, 512, 512), np.float32)


@pytest.fixture(scope="module")
def small_server() -> Iterator[Server]:
    with Server("--max-message-bytes", str(4 * MEBIBYTE)) as server:
        yield server


@pytest.mark.parametrize("compression", ["gzip", None])
async def test_a_compressed_call_gives_the_same_gradient(
    connect: Callable[..., Any], server: Server, small_server: Server, compression: str | None
) -> None:
    values = np.random.default_rng(1).standard_normal((2, 3, 64, 64), np.float32)
    plain = await maybe_await(connect(server.address).adaptive_avg_pool2d_backward(values, (2, 3, 128, 100)))
    for each in (server, small_server):
        client = connect(each.address, compression=compression)
        gradient = await maybe_await(client.adaptive_avg_pool2d_backward(values, (2, 3, 128, 100)))
        np.testing.assert_array_equal(gradient, plain)


def call(grad_output: np.ndarray, shape: tuple[int, ...]) -> OperatorCall:
    output = TensorView("self", TensorType(DTYPES["float32"], shape))
    return OperatorCall("adaptive_avg_pool2d_backward", (view_of_array("grad_output", grad_output), output), {})


@pytest.mark.parametrize(
    ("options", "large", "code", "problem"),
    [
        (
            [("grpc.default_compression_algorithm", grpc.Compression.Gzip)],
            call(np.zeros((1, 1024, 1025), "f4"), (1, 1, 1)),
            grpc.StatusCode.INVALID_ARGUMENT,
            "bytes decompressed and the limit is 4194304",
        ),
    ],
    ids=["request"],
)
def test_the_limit_is_that_of_the_decompressed_size(
    small_server: Server, options: list[tuple[str, Any]], large: OperatorCall, code: grpc.StatusCode, problem: str
) -> None:
    """However small the message was on the wire: a megabyte of it could hold a gigabyte."""
    with grpc.insecure_channel(small_server.address, options) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            execute(channel, large)
        assert caught.value.code() is code
        assert problem in caught.value.details()
        assert not any(execute(channel, call(ZEROS[:, :64, :64], (1, 1, 1))))


async def test_a_client_sends_in_chunks_what_is_too_large_decompressed(
    connect: Callable[..., Any], small_server: Server
) -> None:
    client = connect(small_server.address, compression="gzip", retries=0)
    large = np.zeros((1, 1024, 1025), np.float32)
    for _ in range(2):
        assert (await maybe_await(client.adaptive_avg_pool2d_backward(large, (1, 1, 1)))).tolist() == [[[0]]]
    batch = client.batch()
    for _ in range(5):
        batch.adaptive_avg_pool2d_backward(large[:, :, :512], (1, 1, 1))
    assert [each.tolist() for each in await maybe_await(batch.run())] == [[[[0]]]] * 5


def test_chunks_may_be_compressed(small_server: Server) -> None:
    options = [("grpc.default_compression_algorithm", grpc.Compression.Gzip), ("grpc.max_receive_message_length", -1)]
    gradients = call(np.ones((1, 1024, 1024), "f4"), (1, 1, 1))
    with grpc.insecure_channel(small_server.address, options) as channel:
        messages = chunked_messages(gradients, ["grad_output"], 2**20)
        header, *chunks = channel.stream_stream(SERVICE + "ExecuteOperatorChunked")(messages, timeout=60)
    assert header
    assert np.frombuffer(decode_chunk(chunks[0]).data, "f4").tolist() == [1024 * 1024]


def test_deflate_is_not_served(small_server: Server) -> None:
    options = [("grpc.default_compression_algorithm", grpc.Compression.Deflate)]
    with (
        grpc.insecure_channel(small_server.address, options) as channel,
        pytest.raises(grpc.RpcError, match="'deflate' is disabled"),
    ):
        execute(channel, call(ZEROS, (1, 1, 1)))
