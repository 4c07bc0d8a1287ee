"""What one client does to others of its address: many may share one behind a NAT, a proxy or a container's network."""

import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest

import aclgrad
from tools.lab.hostile import bodies, frames
from tools.serving import Server

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.once]

MIB = 2**20
UNARY, BATCH = bodies.UNARY, bodies.BATCH
HEADER_BYTES = len(frames.message(b""))
COSTLY = bodies.costly(2**28)[HEADER_BYTES:]
"""A call of 1.2 MB that takes a core about two seconds."""
COSTLY_CALLS = 4
PATIENCE_S = 3.0
"""Less than the costly calls take together."""
SMALL = np.ones((1, 2, 2), np.float32), (1, 4, 4)
LARGE = np.ones((1, 512, 512), np.float32), (1, 512, 512)


@pytest.fixture
def narrow_server(tmp_path: Path) -> Iterator[Server]:
    """Runs one large call at a time; its second address is that of another caller."""
    with Server("--streams", "1", listen=("127.0.0.1:0", f"unix:{tmp_path / 'socket'}")) as server:
        yield server


def test_a_small_call_does_not_wait_for_large_ones_of_its_address(narrow_server: Server) -> None:
    with narrow_server.channel() as channel, aclgrad.Client(narrow_server.address, retries=0) as other:
        costly = [channel.unary_unary(UNARY).future(COSTLY, timeout=60) for _ in range(COSTLY_CALLS)]
        wait_for_a_run(other)
        for _ in range(10):
            assert other.adaptive_avg_pool2d_backward(*SMALL, timeout_s=PATIENCE_S).sum() == 4
        assert not any(call.done() for call in costly[1:]), "the small calls were not before the large ones"
        for call in costly:
            call.cancel()
        # Those that are cancelled while they run hold nothing up either.
        assert other.adaptive_avg_pool2d_backward(*SMALL, timeout_s=PATIENCE_S).sum() == 4


def test_a_large_call_runs_between_the_calls_of_a_batch(narrow_server: Server) -> None:
    batch = bodies.costly_batch(2**27, 6)[HEADER_BYTES:]
    with narrow_server.channel() as channel, aclgrad.Client(narrow_server.addresses[1], retries=0) as other:
        call = channel.unary_unary(BATCH).future(batch, timeout=60)
        wait_for_a_run(other)
        assert other.adaptive_avg_pool2d_backward(*LARGE, timeout_s=30).sum() == 512 * 512
        assert not call.done(), "the batch had ended before"
        call.cancel()


def test_replies_that_nobody_reads_stop_no_small_call() -> None:
    window = [
        ("grpc.max_receive_message_length", -1),
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", 1024),
    ]
    body = bodies.large_reply(15 * MIB)[HEADER_BYTES:]
    with (
        Server() as server,
        grpc.insecure_channel(
            server.address,
            [*window, ("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)],
        ) as channel,
        aclgrad.Client(server.address, retries=0) as other,
    ):
        unread = [channel.unary_stream(UNARY)(body, timeout=60) for _ in range(68)]
        for _ in range(20):
            assert other.adaptive_avg_pool2d_backward(*SMALL, timeout_s=PATIENCE_S).sum() == 4
        for call in unread:
            call.cancel()


def wait_for_a_run(client: aclgrad.Client) -> None:
    end = time.monotonic() + 30
    while client.server_status().queue.running_count == 0:
        assert time.monotonic() < end, "no costly call has begun"
        time.sleep(0.005)
