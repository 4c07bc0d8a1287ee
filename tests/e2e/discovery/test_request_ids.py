"""Every way to send a call carries its request id to the server's log."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import aclgrad
from tools.calling import maybe_await, wait_until
from tools.serving import Server

SMALL = np.ones((1, 1, 1), np.float32)
MEDIUM = np.ones((1, 2**10, 2**9), np.float32)
LARGE = np.ones((1, 2**12, 2**10), np.float32)
METHODS = {"batch": "BatchExecuteOperators", "chunked": "ExecuteOperatorChunked", "list": "ListOperators"} | {
    "status": "GetServerStatus"
}


async def test_the_log_has_the_id_of_every_kind_of_call(connect: Callable[..., Any], shared_server: Server) -> None:
    plain, sharing = connect(shared_server.address), connect(shared_server.address, shared_memory=True)
    prefix = type(plain).__name__
    ways = {
        "small": lambda: plain.adaptive_avg_pool2d_backward(SMALL, (1, 2, 2)),
        "medium": lambda: plain.adaptive_avg_pool2d_backward(MEDIUM, MEDIUM.shape),
        "chunked": lambda: plain.adaptive_avg_pool2d_backward(LARGE, LARGE.shape),
        "shared": lambda: sharing.adaptive_avg_pool2d_backward(LARGE, LARGE.shape),
        "batch": batch_of(plain).run,
        "list": plain.list_operators,
        "status": plain.server_status,
    }
    for name, way in ways.items():
        with aclgrad.request_id(f"{prefix}-{name}"):
            await maybe_await(way())
    for name in ways:
        line = f"{prefix}-{name} {METHODS.get(name, 'ExecuteOperator')} ok in "
        wait_until(partial(contains, shared_server, line))


def contains(server: Server, line: str) -> bool:
    return line in server.log


def batch_of(client: Any) -> Any:
    batch = client.batch()
    batch.adaptive_avg_pool2d_backward(SMALL, (1, 2, 2))
    return batch
