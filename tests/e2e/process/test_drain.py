"""What a stop does not wait for. What it does wait for: test_admin.py."""

from pathlib import Path
from threading import Event

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad_server.exits import EXIT_UNDRAINED
from tests.e2e.fault_plans import once, write_config
from tools.raw_calls import SMALL, chunked_messages, open_channel, open_chunked
from tools.serving import Server

pytestmark = [once, pytest.mark.slow]


def test_call_that_never_ends_is_given_up_at_the_limit() -> None:
    call, never = SMALL["adaptive_avg_pool2d_backward"], Event()
    with Server("--drain-timeout-s", "0.1") as server, open_channel(server) as channel:
        (header, *_) = chunked_messages(call, [each.name for each in call.inputs], 64)
        replies = open_chunked(channel, (each if each == header else never.wait(60) for each in (header, b"")))
        assert replies.initial_metadata() is not None
        server.ask_to_stop()
        assert replies.code() is not grpc.StatusCode.OK
        assert server.exit_code() == EXIT_UNDRAINED
        never.set()


def test_a_driver_that_hangs_does_not_keep_the_process(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"kind": "hang_destroy_stream", "at": 1})
    with Server("--acl-config", config) as server, aclgrad.Client(server.address) as client:
        assert client.adaptive_avg_pool2d_backward(np.ones((1, 1, 1), np.float32), (1, 2, 2)).sum() == 1
        server.ask_to_stop()
        assert server.exit_code() == EXIT_UNDRAINED
        assert "the device did not close within" in server.log
