"""A card whose operator succeeds and writes nothing: no call receives what another left in the device's memory."""

from pathlib import Path

import numpy as np
import pytest

import aclgrad
from aclgrad.tensors import view_of_array
from aclgrad.wire import service
from aclgrad.wire.messages import OperatorCall
from tests.e2e.fault_plans import assert_no_misuse, once, write_config
from tools.raw_calls import execute, execute_batch, execute_chunked, open_channel
from tools.serving import Server

pytestmark = once

OPERATOR = "adaptive_avg_pool2d_backward"
SECRET = np.full((4, 64, 64), 1.25, np.float32)
"""Its own gradient: every window has one cell."""


def test_nothing_of_another_call_arrives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one message, in a batch, in chunks, and through shared memory."""
    monkeypatch.setattr(service, "SHARED_ABOVE_BYTES", 1)
    inputs = {"grad_output": SECRET, "self": SECRET}
    call = OperatorCall(OPERATOR, tuple(view_of_array(*each) for each in inputs.items()), {})
    listen = (f"unix:{tmp_path}/server",)
    # The first call of each kind is computed, and leaves the secret on the device.
    config = write_config(tmp_path, {"kind": "unwritten_output", "at": 5, "count": 1000})
    with (
        Server("--acl-config", config, "--streams", "1", "--shared-memory", "true", listen=listen) as server,
        open_channel(server) as channel,
        aclgrad.Client(server.address, shared_memory=True) as sharing,
    ):
        for expected in (SECRET, np.full_like(SECRET, np.nan)):
            (batched,) = execute_batch(channel, [call])
            shared = sharing.execute(OPERATOR, inputs)
            for found in (execute(channel, call), batched, execute_chunked(channel, call), shared):
                np.testing.assert_array_equal(np.frombuffer(found, np.float32), expected.ravel())
    assert_no_misuse(tmp_path)
