"""Chunked calls that stall hold their tensors on a device that copies, and nothing else that another call needs."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

import aclgrad
from aclgrad.wire.messages import decode_response
from tests.e2e.shared_objects import Objects, send, sharing_server
from tools.calling import wait_until
from tools.raw_calls import (
    SMALL,
    assert_idle,
    chunked_messages,
    data_of,
    execute,
    open_channel,
    open_chunked,
    send_chunked,
)
from tools.serving import Server

pytestmark = [pytest.mark.alone, pytest.mark.once]

STALLED = 40
"""A device has 32 streams for copies."""
CALL = SMALL["adaptive_avg_pool2d_backward"]
NAMES = [each.name for each in CALL.inputs]
OTHERS_TIMEOUT_S = 20.0


class Stalled:
    """The header and one chunk of a call, and then nothing until the end."""

    def __init__(self, end: threading.Event) -> None:
        self._end = end

    def __iter__(self) -> Iterator[bytes]:
        messages = chunked_messages(CALL, NAMES, 256)
        yield from (next(messages) for _ in range(2))
        self._end.wait(60)


def held_bytes(server: Server) -> int:
    with aclgrad.Client(server.address) as client:
        return client.server_status().queue.running_bytes


def test_others_go_on(tmp_path: Path, objects: Objects) -> None:
    """With their chunks and with shared memory."""
    config = tmp_path / "acl.json"
    config.write_text(json.dumps({"host": {"host_pointers": False}}))
    end = threading.Event()
    with (
        sharing_server(tmp_path, "--acl-config", str(config)) as server,
        open_channel(server) as stalled_channel,
        open_channel(server) as channel,
    ):
        expected = execute(channel, CALL)
        stalled = [open_chunked(stalled_channel, Stalled(end))]
        wait_until(lambda: held_bytes(server) > 0, 30)
        each_bytes = held_bytes(server)
        stalled += [open_chunked(stalled_channel, Stalled(end)) for _ in range(STALLED - 1)]
        wait_until(lambda: held_bytes(server) == STALLED * each_bytes, 30)
        assert b"".join(send_chunked(channel, chunked_messages(CALL, NAMES, 256), OTHERS_TIMEOUT_S)) == expected
        reply = send(channel, objects.share(CALL), OTHERS_TIMEOUT_S)
        assert data_of(decode_response(reply)) == expected
        end.set()
        for each in stalled:
            with pytest.raises(grpc.RpcError):
                list(each)
        assert_idle(server)
