"""Shares under load: an identity that sends all it can leaves the others theirs."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import grpc.aio
import pytest

from aclgrad.wire.messages import encode_request
from tools.authority import write_identities
from tools.raw_calls import SERVICE, SMALL, TIMEOUT_S
from tools.serving import Server, write_host_config

pytestmark = [pytest.mark.alone, pytest.mark.slow]

REQUEST = encode_request(SMALL["adaptive_avg_pool2d_backward"])
KERNEL_MS = 50
CALLS = 400
"""In all; which of them end first is judged, and not how soon."""
IN_FLIGHT = {"flood": 30, "small": 12, "double": 12}
"""As many as wait, so that each always has a call that could run."""


async def test_one_that_floods_leaves_the_others_their_shares(tmp_path: Path) -> None:
    """All calls come from one address, and the device is the bottleneck: four streams, and slow kernels."""
    tokens = {name: {"token": f"{name}s-token", "share": 2 if name == "double" else 1} for name in IN_FLIGHT}
    fault = {"kind": "hang", "at": 1, "count": 10**9, "duration_ms": KERNEL_MS}
    flags = "--identities", write_identities(tmp_path / "identities.toml", tokens)
    with Server(*flags, "--acl-config", write_host_config(tmp_path, faults=[fault])) as server:
        async with AsyncExitStack() as stack:
            # A connection for each: one takes 32 calls at once, and they would wait in the client, in its own order.
            apart = [("grpc.use_local_subchannel_pool", 1)]
            channels = {
                name: await stack.enter_async_context(grpc.aio.insecure_channel(server.address, apart))
                for name in IN_FLIGHT
            }
            execute = {name: channel.unary_unary(SERVICE + "ExecuteOperator") for name, channel in channels.items()}
            done = dict.fromkeys(IN_FLIGHT, 0)

            async def call(name: str) -> None:
                while sum(done.values()) < CALLS:
                    token = ("authorization", f"Bearer {name}s-token")
                    await execute[name](REQUEST, metadata=(token,), timeout=TIMEOUT_S)
                    done[name] += 1

            await asyncio.gather(*(call(name) for name, count in IN_FLIGHT.items() for _ in range(count)))
    # Of four turns, one is the flood's, one the small one's, and two those of the double share.
    shares = {name: count / sum(done.values()) for name, count in done.items()}
    assert shares["flood"] < 0.4, shares
    assert shares["small"] > 0.15, shares
    assert shares["double"] > 1.3 * shares["small"], shares
