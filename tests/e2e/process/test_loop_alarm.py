"""No kind of call holds the event loop, on the device that is most work: strict, with copies, with all inputs sent."""

import re
from pathlib import Path

import pytest

from aclgrad.wire.messages import encode_request
from tests.e2e.fault_plans import write_config
from tests.e2e.shared_objects import Objects, sharing_server
from tools.raw_calls import CALLS, SERVICE, assert_idle, execute, execute_batch, execute_chunked, open_channel

pytestmark = [pytest.mark.alone, pytest.mark.once, pytest.mark.slow]

HELD = re.compile(r"loop held for [\d.]+ ms, ([\d.]+) ms of it on the CPU: .*")
LIMIT_MS = 50
"""Of CPU time: on a busy machine, a callback may wait for the processor for as long as others like."""
FLAGS = ("--shape-only", "off")


def test_no_kind_of_call_holds_the_loop(tmp_path: Path, objects: Objects) -> None:
    config = write_config(tmp_path, host_pointers=False)
    with (
        sharing_server(tmp_path, "--acl-config", config, *FLAGS, changes="loop_alarm_ms=10") as server,
        open_channel(server) as channel,
    ):
        calls = list(CALLS.values())
        execute(channel, calls[0])
        # The start holds the loop, when nobody waits for it yet.
        start = len(server.log)
        gradients = [execute(channel, call) for call in calls]
        assert execute_batch(channel, calls * 2) == gradients * 2
        assert [execute_chunked(channel, call) for call in calls] == gradients
        for call in calls:
            channel.unary_unary(SERVICE + "ExecuteOperator")(encode_request(objects.share(call)), timeout=60)
        assert_idle(server)
        assert [line for line in map(str, HELD.findall(server.log[start:])) if float(line) > LIMIT_MS] == []
