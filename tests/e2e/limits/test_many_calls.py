"""Clients that are not ours lose no call, however many they make at once, and hold up nobody's small calls."""

import asyncio
from collections import Counter
from typing import Any

import grpc.aio
import pytest

from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.messages import encode_request
from tools.raw_calls import SERVICE, SMALL
from tools.serving import Server

pytestmark = pytest.mark.once
# As many small calls may wait as a server answers within a second: a busy machine refuses some.
many = [pytest.mark.alone, pytest.mark.slow]

UNARY = SERVICE + "ExecuteOperator"
REQUEST = encode_request(SMALL["adaptive_avg_pool2d_backward"])
TIMEOUT_S = 60.0


def channel_to(server: Server, number: int) -> grpc.aio.Channel:
    """Returns a channel with a connection of its own and nothing of our client's."""
    return grpc.aio.insecure_channel(server.address, [("grpc.use_local_subchannel_pool", 1), ("number", number)])


async def outcomes(server: Server, channels: int, calls: int) -> Counter[str]:
    """Returns how many of so many calls at once on each channel ended how."""
    opened = [channel_to(server, number) for number in range(channels)]
    methods = [channel.unary_unary(UNARY) for channel in opened]
    # Warm connections: all calls of a channel begin at once.
    await asyncio.gather(*(method(REQUEST, timeout=TIMEOUT_S) for method in methods))

    async def outcome(method: Any) -> str:
        try:
            reply = await method(REQUEST, timeout=TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            return f"{error.code().name}: {error.details()}"
        return "OK" if pb.ExecuteOperatorResponse.FromString(reply).outputs else "no gradient"

    found = await asyncio.gather(*(outcome(method) for method in methods for _ in range(calls)))
    for channel in opened:
        await channel.close()
    return Counter(found)


@pytest.mark.parametrize(
    ("channels", "calls"),
    [(1, 150), *(pytest.param(*row, marks=many) for row in ((1, 2000), (20, 50)))],
)
async def test_no_call_of_a_raw_client_is_lost(server: Server, channels: int, calls: int) -> None:
    assert await outcomes(server, channels, calls) == {"OK": channels * calls}
