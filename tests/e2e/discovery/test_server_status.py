"""What the server tells of itself."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime

import numpy as np

import aclgrad
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType, TensorView
from aclgrad.wire.chunks import chunk_prefix, encode_step_header
from aclgrad.wire.messages import OperatorCall
from tools.calling import AnyClient, maybe_await, wait_until
from tools.raw_calls import open_channel, open_chunked
from tools.serving import Server


async def test_status_of_a_server_on_the_host_library(client: AnyClient, server: Server) -> None:
    described = await maybe_await(client.list_operators())
    assert [each.name for each in described] == sorted(OPERATORS)
    await maybe_await(client.adaptive_avg_pool2d_backward(np.ones((1, 1, 1), np.float32), (1, 256, 256)))
    status = await maybe_await(client.server_status())
    assert status.version == aclgrad.__version__
    assert status.runtime_version.count(".") == 2
    assert not status.versions
    assert status.library == "libacl_host.so"
    assert status.computes_on_cpu
    assert status.executor_cache
    assert status.product == Product.ATLAS_A2
    assert status.start_time is not None
    assert status.start_time <= datetime.now(UTC)
    assert tuple(status.endpoints) == server.addresses
    assert status.limits.message_bytes > 0
    (device,) = status.devices
    assert (device.index, device.leased_stream_count) == (0, 0)
    assert device.soc_name.startswith("Ascend910B")
    assert 0 < device.free_bytes <= device.total_bytes
    pool = device.pool
    assert pool.allocated_bytes == 0
    assert 0 < pool.peak_allocated_bytes <= pool.peak_reserved_bytes <= pool.limit_bytes
    assert max(pool.largest_free_bytes, pool.allocated_bytes) <= pool.reserved_bytes <= pool.peak_reserved_bytes
    assert 0 <= pool.hit_count <= pool.allocation_count


def test_calls_on_their_way_are_counted(server: Server) -> None:
    """They hold memory and their callers wait, though nothing runs and nothing waits for a place."""
    # The answer is more than a connection holds.
    shapes = {"grad_output": (1, 2, 2), "self": (1, 4096, 4096)}
    inputs = (TensorView(name, TensorType(DTYPES["float32"], shape)) for name, shape in shapes.items())
    call = OperatorCall("adaptive_avg_pool2d_backward", tuple(inputs), {})
    received = threading.Event()

    def messages() -> Iterator[bytes]:
        yield encode_step_header(call, ["grad_output"], 2**20)
        for offset in (0, 8):
            yield chunk_prefix(0, offset, 8) + bytes(8)
            received.wait(60)

    def is_shown(receiving: int, replying: int) -> bool:
        queue = client.server_status().queue
        shown = (queue.receiving_count, queue.replying_count, queue.running_count, queue.waiting_count)
        return shown == (receiving, replying, 0, 0) and (queue.running_bytes > 0) == (receiving + replying > 0)

    with aclgrad.Client(server.address) as client, open_channel(server) as channel:
        replies = open_chunked(channel, messages())
        wait_until(lambda: is_shown(1, 0))
        received.set()
        wait_until(lambda: is_shown(0, 1))
        replies.cancel()
        wait_until(lambda: is_shown(0, 0))
