"""Devices that fail inside a batch: the call that meets the fault fails, alone unless its device is lost."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aclgrad
from aclgrad.errors import from_status
from aclgrad.tensors import view_of_array
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.messages import OperatorCall, encode_batch, encode_request
from tests.e2e.fault_plans import ATTRIBUTES, INPUTS, OPERATOR, TRUTH, FaultyServer, holdings, once
from tools.raw_calls import SERVICE, execute_batch, open_channel

pytestmark = once

COUNT = 8
CALLS = [OperatorCall(OPERATOR, tuple(view_of_array(*each) for each in INPUTS.items()), ATTRIBUTES)] * COUNT
# The fault, whether it is met on a device that takes host memory, and what the call that meets it gets.
FAULTS: dict[str, tuple[dict[str, Any], bool, type[aclgrad.AclgradError]]] = {
    "first_kernel": ({"kind": "launch_error", "at": 1, "code": 507051}, False, aclgrad.ServerFaultError),
    "fifth_kernel": ({"kind": "launch_error", "at": 5, "code": 507051}, True, aclgrad.ServerFaultError),
    "last_kernel": ({"kind": "launch_error", "at": 8, "code": 161002}, False, aclgrad.ServerFaultError),
    "copy": ({"kind": "copy_error", "at": 6, "code": 507051}, False, aclgrad.ServerFaultError),
    # In the second attempt: in the first, the workspaces are not known.
    "memory": ({"kind": "out_of_memory", "at": 31, "count": 2}, False, aclgrad.DeviceMemoryError),
}


@pytest.mark.parametrize(
    ("fault", "host_pointers", "kind"),
    [pytest.param(*row, id=name, marks=() if name == "copy" else pytest.mark.slow) for name, row in FAULTS.items()],
)
def test_a_fault_fails_one_call_of_the_batch(
    tmp_path: Path,
    fault: dict[str, Any],
    host_pointers: bool,
    kind: type[aclgrad.AclgradError],
) -> None:
    request = encode_batch([encode_request(call) for call in CALLS])
    with FaultyServer(tmp_path, fault, host_pointers=host_pointers) as server:
        with open_channel(server) as channel, aclgrad.Client(server.address) as client:
            reply = channel.unary_unary(SERVICE + "BatchExecuteOperators")(request, timeout=60)
            message = pb.BatchExecuteOperatorsResponse.FromString(reply)
            (failed,) = (each for each in message.results if each.HasField("error"))
            assert type(from_status(failed.error)) is kind
            gradients = [each.outputs[0].data for each in message.results if not each.HasField("error")]
            assert errors_among(gradients) == []
            assert errors_among(execute_batch(channel, CALLS)) == []
            held = holdings(client)
            assert (held["allocated_bytes"], held["leased"]) == (0, 0)
        # No bytes of its output, and nothing is hidden between the fields either.
        assert not failed.outputs
        assert message.SerializeToString() == reply
        assert server.misuse == ""


def errors_among(results: list[bytes | aclgrad.AclgradError]) -> list[aclgrad.AclgradError]:
    """Returns the errors; every gradient is right."""
    for each in results:
        if isinstance(each, bytes):
            np.testing.assert_allclose(np.frombuffer(each, "f4").reshape(TRUTH.shape), TRUTH, rtol=1e-5, atol=1e-6)
    return [each for each in results if isinstance(each, aclgrad.AclgradError)]
