"""A device that has fewer streams left than a pool may make, because other processes use them."""

import numpy as np
import pytest

from aclgrad.products import STREAM_LIMITS, Product
from aclgrad_native import AclError
from tools.calling import wait_until

from .forked import CALL, CONTENTS, open_device, steer
from .forks import in_fork
from .pooling import plan

pytestmark = pytest.mark.once

NO_STREAM = 207008
PRODUCT = Product.ATLAS_A2
DEFAULT_STREAMS = 1
"""A process has one on each device that it opens."""


def elsewhere(left: int) -> int:
    """Returns how many streams others have if so many are left for a process."""
    return STREAM_LIMITS[PRODUCT] - DEFAULT_STREAMS - left


@in_fork(host_pointers=False, threads=2, product=PRODUCT, streams_elsewhere=elsewhere(6))
def test_every_call_is_answered() -> None:
    """Copies have streams of their own, of which one is left to them, whatever the calls have taken."""
    device = open_device(stream_limit=16)
    plans = plan((1, 1, 1), (1, 2, 2)), plan((1, 2, 2), (1, 2, 2))
    values = [np.full((1, 1 + number % 2, 1 + number % 2), number, np.float32) for number in range(400)]
    tickets = [device.submit(plans[number % 2], [value.tobytes(), None]) for number, value in enumerate(values)]
    # A larger pool of memory is also read and written by copies of its own.
    tensors = device.stage(3 << 20, 3 << 20)
    pieces = [bytes([number]) * (3 << 20) for number in range(2)]
    for tensor, piece in zip(tensors, pieces, strict=True):
        tensor.write(0, piece)
    batch = [(plans[0], [np.full((1, 1, 1), number, np.float32).tobytes(), None], b"") for number in range(50)]
    reply, errors = device.execute_all(batch)
    for number, ticket in enumerate(tickets):
        gradient = np.frombuffer(device.waiting.result(ticket), np.float32)
        assert (gradient == (number if number % 2 else number / 4)).all()
    assert errors == [None] * 50
    assert (np.frombuffer(reply, np.float32).reshape(50, 4) == np.arange(50)[:, None] / 4).all()
    assert [tensor.read(0, 3 << 20) for tensor in tensors] == pieces
    assert device.state().stream_count <= 6


@pytest.mark.parametrize("streams_elsewhere", [elsewhere(0), elsewhere(1)])
@in_fork(host_pointers=False, product=PRODUCT)
def test_a_device_without_a_stream_does_not_open(streams_elsewhere: int) -> None:
    """Copies need one, too."""
    with pytest.raises(AclError) as caught:
        open_device()
    assert (caught.value.fault, caught.value.code, caught.value.call) == ("streams", NO_STREAM, "aclrtCreateStream")


@pytest.mark.slow
@in_fork()
def test_it_asks_again_after_some_seconds() -> None:
    """Another process may have ended."""
    device = open_device(steered=True, stream_limit=4)
    steer.Fail(b"aclrtCreateStream", NO_STREAM, 1)
    batch = [(CALL, CONTENTS, b"")] * 4
    assert device.execute_all(batch)[1] == [None] * 4
    assert device.state().stream_count == 1
    wait_until(lambda: device.execute_all(batch)[1] == [None] * 4 and device.state().stream_count > 1)
    assert steer.Calls(b"aclrtCreateStream") <= 5
