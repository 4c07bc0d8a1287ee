"""What a call asks of a device that takes no host memory: copies, waits and allocations."""

from collections.abc import Callable

import pytest

pytestmark = pytest.mark.once

COUNTED = """
device = open_device(steered=True)
PINNED = 4 << 20
names = "aclrtSynchronizeStreamWithTimeout", "aclrtMemcpy", "aclrtMemcpyAsync"
memory = "aclrtMalloc", "aclrtMallocHost", "aclrtFree", "aclrtFreeHost"

def count():
    found = [steer.Calls(name.encode()) for name in (*names, *memory)]
    return "{} waits, {} blocking, {} asynchronous, {} allocations".format(*found[:3], sum(found[3:]))

def pooled_right(shape, scale):
    grad_output = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    larger = (shape[0], shape[1] * scale, shape[2])
    return (pool(device, grad_output, larger) == grad_output.repeat(scale, 1) / scale).all()
"""


def test_a_warm_call_waits_once_and_copies_without_blocking(run_program: Callable[..., list[str]]) -> None:
    """Two inputs come in and one output goes out; their sizes are no multiples of 64."""
    program = """
shape = (3, 1, 5)
for warm in (False, True):
    count()
    right = pooled_right(shape, 2)
print(right, count(), steer.Misalignment())
two = test_checked_calls
for warm in (False, True):
    count()
    reply = device.execute(two.unpool(), [two.GRAD.tobytes(), None, two.INDICES.tobytes()])
right = (two.gradient(reply, two.INDICES.shape) == two.unpooled()).all()
print(right, count(), steer.Misalignment())
device.assert_idle()
"""
    assert run_program(COUNTED + program, host_pointers=False, strict=True) == [
        "True 1 waits, 0 blocking, 2 asynchronous, 0 allocations 0",
        "True 1 waits, 0 blocking, 3 asynchronous, 0 allocations 0",
    ]


def test_calls_of_a_batch_wait_once_each(run_program: Callable[..., list[str]]) -> None:
    program = """
for warm in (False, True):
    count()
    reply, errors = device.execute_all([(call, contents, b"")] * 4)
print(errors, len(reply), count())
"""
    expected = "[None, None, None, None] 64 4 waits, 0 blocking, 8 asynchronous, 0 allocations"
    assert run_program(COUNTED + program, host_pointers=False, strict=True) == [expected]


@pytest.mark.parametrize(
    ("columns", "scale", "copies"),
    [
        # The output takes the place of the input.
        ("PINNED // 4", 1, "0 blocking, 2 asynchronous"),
        ("PINNED // 8", 2, "0 blocking, 2 asynchronous"),
        ("PINNED // 4 - 1", 2, "1 blocking, 1 asynchronous"),
        ("PINNED // 4 + 1", 1, "2 blocking, 0 asynchronous"),
    ],
)
def test_tensors_that_do_not_fit_into_the_pinned_memory_are_copied_by_blocking_copies(
    run_program: Callable[..., list[str]], columns: str, scale: int, copies: str
) -> None:
    program = f"""
for warm in (False, True):
    count()
    right = pooled_right((1, 1, {columns}), {scale})
print(right, count())
"""
    lines = run_program(COUNTED + program, host_pointers=False, strict=True)
    assert lines == [f"True 1 waits, {copies}, 0 allocations"]


LATE = """
device = open_device(steered=True, stream_limit=2)
print(outcome(device.execute, call, contents, 0.1))
other = np.full((1, 1, 1), 8, np.float32)
print(pool(device, other, (1, 2, 2)).ravel(), device.state().abandoned_count, steer.Calls(b"aclrtMallocHost"))
wait_until(steer.IsDone)
device.release_finished()
print(device.state().abandoned_count)
tickets = [device.waiting.new_ticket() for _ in range(2)]
for ticket in tickets:
    device.native.submit(ticket, call, [other.tobytes(), None], deadline(60))
print(*[np.frombuffer(device.waiting.result(ticket), np.float32).sum() for ticket in tickets])
print(steer.Calls(b"aclrtMallocHost"))
"""


def test_an_abandoned_call_keeps_its_pinned_memory(run_program: Callable[..., list[str]]) -> None:
    """Its input is copied late and its output later; the next call has memory of its own, and strict mode sees both."""
    slow = [{"kind": "slow_copy", "at": 1, "duration_ms": 500}]
    lines = run_program(LATE, host_pointers=False, strict=True, faults=slow)
    assert lines == ["timeout aclrtSynchronizeStream", "[2. 2. 2. 2.] 1 1", "0", "8.0 8.0", "0"]


UNTOUCHED = """
device = open_device(pool_pass_through=True)
grad_output, shape = np.arange(3, dtype=np.float32).reshape(3, 1, 1), (3, 64, 1)
for untouched in ({}, {1: 0}):
    right = (pool(device, grad_output, shape, untouched=untouched) == grad_output / 64).all()
    print(right, device.state().pool.peak_allocated_bytes)
    device = open_device(pool_pass_through=True)
try:
    pool(device, grad_output, shape, untouched={0: 0})
    pool(device, grad_output, shape, untouched={0: 0}, contents=[None, None])
except ValueError as error:
    print(error)
"""


@pytest.mark.parametrize("host_pointers", [True, False])
def test_an_input_that_is_not_touched_has_the_memory_of_an_output(
    run_program: Callable[..., list[str]], host_pointers: bool
) -> None:
    """The output takes 768 bytes, which strict mode sees; an output of another size is none for the input."""
    lines = run_program(UNTOUCHED, host_pointers=host_pointers, strict=True)
    own = 0 if host_pointers else 12 + 768
    size = "the input that has the memory of an output has 768 bytes; its shape takes 12"
    assert lines == [f"True {own + 768}", f"True {own}", size]
