"""A device that has fewer streams left than a pool may make, because other processes use them."""

from collections.abc import Callable

import pytest

from aclgrad.products import STREAM_LIMITS, Product

pytestmark = pytest.mark.once

Run = Callable[..., list[str]]
NO_STREAM = 207008
PRODUCT = Product.ATLAS_A2
DEFAULT_STREAMS = 1
"""A process has one on each device that it opens."""


def elsewhere(left: int) -> dict[str, object]:
    """Returns the settings of a device that has so many streams left for a process."""
    return {"product": PRODUCT, "streams_elsewhere": STREAM_LIMITS[PRODUCT] - DEFAULT_STREAMS - left}


CALLS = """
device = open_device(stream_limit=16)
waiting, far = device.waiting, deadline(60)
plans = plan((1, 1, 1), (1, 2, 2)), plan((1, 2, 2), (1, 2, 2))
values = [np.full((1, 1 + number % 2, 1 + number % 2), number, np.float32) for number in range(400)]
tickets = []
for number, value in enumerate(values):
    tickets.append(waiting.new_ticket())
    device.native.submit(tickets[-1], plans[number % 2], [value.tobytes(), None], far)
# A larger pool of memory is also read and written by copies of its own.
tensors = device.stage(3 << 20, 3 << 20)
pieces = [bytes([number]) * (3 << 20) for number in range(2)]
for tensor, piece in zip(tensors, pieces):
    tensor.write(0, piece)
batch = [(plans[0], [np.full((1, 1, 1), number, np.float32).tobytes(), None], b"") for number in range(50)]
reply, errors = device.execute_all(batch)
right = sum(
    (np.frombuffer(waiting.result(ticket), np.float32) == (number if number % 2 else number / 4)).all()
    for number, ticket in enumerate(tickets)
)
rows = np.frombuffer(reply, np.float32).reshape(50, 4)
print(right, errors == [None] * 50, (rows == np.arange(50)[:, None] / 4).all())
print([tensor.read(0, 3 << 20) for tensor in tensors] == pieces)
print(device.state().stream_count <= 6)
"""


@pytest.mark.parametrize("host_pointers", [True, False], ids=["host_pointers", "copies"])
def test_every_call_is_answered(run_program: Run, host_pointers: bool) -> None:
    """Copies have streams of their own, of which one is left to them, whatever the calls have taken."""
    lines = run_program(CALLS, host_pointers=host_pointers, threads=2, **elsewhere(6))
    assert lines == ["400 True True", "True", "True"]


OPENING = """
try:
    open_device()
except AclError as error:
    print(error.fault, error.code, error.call)
"""


@pytest.mark.parametrize("left", [0, 1])
def test_a_device_without_a_stream_does_not_open(run_program: Run, left: int) -> None:
    """Copies need one, too."""
    assert run_program(OPENING, host_pointers=False, **elsewhere(left)) == [f"streams {NO_STREAM} aclrtCreateStream"]


AGAIN = f"""
device = open_device(steered=True, stream_limit=4)
steer.Fail(b"aclrtCreateStream", {NO_STREAM}, 1)
batch = [(call, contents, b"")] * 4
print(device.execute_all(batch)[1], device.state().stream_count)
wait_until(lambda: device.execute_all(batch)[1] == [None] * 4 and device.state().stream_count > 1)
print(steer.Calls(b"aclrtCreateStream") <= 5)
"""


@pytest.mark.slow
def test_it_asks_again_after_some_seconds(run_program: Run) -> None:
    """Another process may have ended."""
    assert run_program(AGAIN) == ["[None, None, None, None] 1", "True"]
