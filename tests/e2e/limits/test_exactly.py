"""What is as large as a message may be passes, and one byte more does not; clients of ours send it otherwise."""

from collections.abc import Callable, Iterator

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad.sources import in_message
from aclgrad.tensors import DTYPES, TensorType, TensorView, View, view_of_array
from aclgrad.wire.messages import OperatorCall, decode_response, encode_request, response_prefix
from aclgrad_server.limits import SMALL_BYTES, SMALL_POOL_BYTES
from tests.client.wire.wire_format import key, varint
from tools.calling import AnyClient, maybe_await, wait_until
from tools.raw_calls import SERVICE, assert_idle, error_of, execute, open_channel
from tools.serving import Server

OPERATOR = "adaptive_avg_pool2d_backward"
POOL_BYTES, MESSAGE_BYTES = 60 * 2**20, 1_000_022
"""A message may be a reply with a tensor of 250,000 float32."""
LARGE = np.random.default_rng(1).standard_normal((1, 600, 500), np.float32)


@pytest.fixture(scope="module")
def narrow_server() -> Iterator[Server]:
    limits = {"max-message-bytes": MESSAGE_BYTES, "pool-bytes": POOL_BYTES, "streams": 2, "max-waiting-calls": 5}
    with Server(*(f"--{name}={limit}" for name, limit in limits.items()), "--log-level", "debug") as server:
        yield server
        assert_idle(server)


def pooling(output_elements: int) -> bytes:
    grad_output = view_of_array("grad_output", np.ones((1, 1, 1), np.float32))
    output = TensorType(grad_output.type.dtype, (1, 1, output_elements))
    return encode_request(OperatorCall(OPERATOR, (grad_output, TensorView("self", output)), {}))


def request_of_size(size_bytes: int) -> bytes:
    """Returns a legal request of exactly this size: a tensor, and a field that nobody knows."""
    values = np.zeros((1, 1, (size_bytes - 1000) // 4), np.float32)
    inputs = (view_of_array("grad_output", values), TensorView("self", view_of_array("", values[..., :1]).type))
    request = encode_request(OperatorCall(OPERATOR, inputs, {})) + key(99, 2)
    left = size_bytes - len(request) - 3
    return request + varint(left, padding=3 - len(varint(left))) + bytes(left)


def test_status_follows_the_settings(narrow_server: Server) -> None:
    with aclgrad.Client(narrow_server.address) as client:
        status = client.server_status()
    assert (status.queue.running_limit, status.queue.waiting_limit) == (2, 5)
    assert status.limits.message_bytes == MESSAGE_BYTES
    assert status.devices[0].claimed_bytes_limit == POOL_BYTES
    # Small calls have more.
    assert status.devices[0].pool.limit_bytes == POOL_BYTES + SMALL_POOL_BYTES + 2 * SMALL_BYTES


def test_the_memory_limit_bounds_what_the_host_library_takes() -> None:
    """Its memory is the process's, so a call that the pool has room for may be too large all the same."""
    limit = 400 * 2**20
    with Server("--memory-limit-bytes", str(limit)) as server:
        with aclgrad.Client(server.address) as client:
            (device,) = client.server_status().devices
        assert device.claimed_bytes_limit == limit - 128 * 2**20 < device.pool.limit_bytes
        with open_channel(server) as channel, pytest.raises(grpc.RpcError) as caught:
            execute(channel, repeated((2**14, 2**13)))
        error = error_of(caught.value)
    assert error.reason == "LIMIT_EXCEEDED"
    assert "--memory-limit-bytes" in error.remedy


def repeated(shape: tuple[int, int]) -> OperatorCall:
    """Returns a call whose inputs of 4 bytes are read over and over; its reply has a value for each column alone."""
    value = in_message(memoryview(np.ones(1, np.float32)).cast("B"))
    types = {"grad_output": shape, "input": shape, "mean": shape[:1], "rstd": shape[:1], "weight": shape[1:]}
    inputs = tuple(
        TensorView(name, TensorType(DTYPES["float32"], each), value, View(0, (0,) * len(each)))
        for name, each in types.items()
    )
    return OperatorCall("layer_norm_backward", inputs, {"normalized_shape": shape[1:]}, outputs=("grad_weight",))


def test_a_message_of_the_size_of_the_limit(narrow_server: Server) -> None:
    prefix = response_prefix("out", TensorType(DTYPES["float32"], (1, 1, 250_000)))
    assert len(prefix) + 1_000_000 == len(request_of_size(MESSAGE_BYTES)) == MESSAGE_BYTES
    with open_channel(narrow_server) as channel:
        send = channel.unary_unary(SERVICE + "ExecuteOperator")
        for request, output_bytes in ((request_of_size(MESSAGE_BYTES), 4), (pooling(250_000), 1_000_000)):
            assert decode_response(send(request, timeout=60))[0].type.size_bytes == output_bytes
        with pytest.raises(grpc.RpcError) as caught:
            send(request_of_size(MESSAGE_BYTES + 1), timeout=60)
        # The words of gRPC's core, which are all that other clients see.
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert f"Received message larger than max ({MESSAGE_BYTES + 1} vs. {MESSAGE_BYTES})" in caught.value.details()
        with pytest.raises(grpc.RpcError) as caught:
            send(pooling(250_001), timeout=60)
        error = error_of(caught.value)
        assert isinstance(error, aclgrad.LimitExceededError)
        assert error.field == "outputs[out]"
        assert "ExecuteProgramChunked" in error.remedy
        assert "--max-message-bytes" in error.remedy
        assert error.metadata["max_message_bytes"] == str(MESSAGE_BYTES)


@pytest.mark.parametrize(
    ("grad_output", "shape"), [(LARGE, (1, 3, 2)), (LARGE[:, :2, :3], (1, 600, 500))], ids=["request", "reply"]
)
async def test_a_client_learns_the_limit_from_one_refusal_of_a_call(
    connect: Callable[..., AnyClient],
    server: Server,
    narrow_server: Server,
    grad_output: np.ndarray,
    shape: tuple[int, ...],
) -> None:
    expected = await maybe_await(connect(server.address).adaptive_avg_pool2d_backward(grad_output, shape))
    client = connect(narrow_server.address, retries=0)
    ended, done = (narrow_server.log.count(f"ExecuteProgramChunked {each}") for each in ("", "ok"))
    for _ in range(2):
        gradient = await maybe_await(client.adaptive_avg_pool2d_backward(grad_output, shape))
        assert np.array_equal(gradient, expected)
    wait_until(lambda: narrow_server.log.count("ExecuteProgramChunked ok") == done + 2)
    assert narrow_server.log.count("ExecuteProgramChunked ") <= ended + 3, "one attempt may have been refused"


async def test_a_client_learns_the_limit_from_one_refusal_of_a_batch(
    connect: Callable[..., AnyClient], server: Server, narrow_server: Server
) -> None:
    """Two of these calls exceed one message."""
    calls = [(LARGE[:, :380, :380] * number, (1, 380, 380)) for number in range(5)]
    batches = [connect(each.address, retries=0).batch() for each in (server, narrow_server)]
    done = narrow_server.log.count("ExecuteProgram ok")
    for batch in batches:
        for call in calls:
            batch.adaptive_avg_pool2d_backward(*call)
    expected, gradients = [await maybe_await(batch.run()) for batch in batches]
    assert all(map(np.array_equal, gradients, expected))
    wait_until(lambda: narrow_server.log.count("ExecuteProgram ok") == done + 5)
