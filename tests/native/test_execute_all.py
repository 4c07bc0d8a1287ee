"""Many calls at once on one device: each has its own end, in the order in which they were given."""

from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
import pytest

from aclgrad import reference

from .blocking import TIMEOUT_S, BlockingDevice
from .forked import hang, open_device
from .forks import in_fork
from .pooling import SYMBOL, plan, pool

SHAPE = (1, 5, 6)
POOLED = (1, 2, 3)


def grad(number: int) -> np.ndarray:
    return np.random.default_rng(number).standard_normal(POOLED, np.float32)


def prefix(number: int) -> bytes:
    return b"<%d>" % number


def call(number: int) -> Any:
    return plan(POOLED, SHAPE), [grad(number).tobytes(), None], prefix(number)


def check(reply: bytes, count: int, failed: AbstractSet[int] = frozenset()) -> None:
    """Every gradient but those of the failed calls is right and in its place, behind its prefix."""
    size = 4 * int(np.prod(SHAPE))
    start = 0
    for number in range(count):
        begin = start + len(prefix(number))
        assert reply[start:begin] == prefix(number)
        start = begin + size
        if number not in failed:
            expected = reference.adaptive_avg_pool2d_backward(grad(number), SHAPE)
            gradient = np.frombuffer(reply[begin:start], np.float32).reshape(SHAPE)
            np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)
    assert start == len(reply)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 100])
def test_more_calls_than_streams(device: BlockingDevice, count: int) -> None:
    reply, errors = device.execute_all([call(number) for number in range(count)])
    assert errors == [None] * count
    check(reply, count)
    assert device.state().stream_count <= 2
    device.assert_idle()


def test_empty_calls_among_others_are_zeros(device: BlockingDevice) -> None:
    empty = plan((1, 0, 3), SHAPE, is_empty=True), [b"", None], b"empty"
    reply, errors = device.execute_all([empty, call(1), empty])
    assert errors == [None] * 3
    size = 4 * int(np.prod(SHAPE))
    assert reply.startswith(b"empty" + bytes(size) + prefix(1))
    assert reply.endswith(b"empty" + bytes(size))


KERNEL: dict[str, Any] = {"kind": "launch_error", "at": 3, "code": 507051}
MEMORY: dict[str, Any] = {"kind": "out_of_memory", "at": 8, "count": 2}
FAULTS = {
    "kernel": (KERNEL, TIMEOUT_S, "internal", 1),
    "memory": (MEMORY, TIMEOUT_S, "memory", 1),
    "lost": (KERNEL | {"code": 507015}, TIMEOUT_S, "device_lost", None),
    "late": (hang(duration_ms=1500, at=3), 1.0, "timeout", None),
}


@pytest.mark.once
@pytest.mark.parametrize("host_pointers", [True, False], ids=["host_pointers", "copies"])
@pytest.mark.parametrize(
    ("faults", "timeout_s", "kind", "count"), [([fault], *rest) for fault, *rest in FAULTS.values()], ids=FAULTS
)
@in_fork()
def test_a_fault_fails_the_call_that_meets_it(
    faults: list[dict[str, Any]], timeout_s: float, kind: str, count: int | None, host_pointers: bool
) -> None:
    """If the device is lost, or time runs out, so does every call that had no answer before."""
    device = open_device(pool_pass_through=True)
    reply, errors = device.execute_all([call(number) for number in range(8)], timeout_s)
    check(reply, 8, {number for number, each in enumerate(errors) if each})
    ends = [getattr(each, "fault", "good") for each in errors]
    assert set(ends) <= {"good", kind} | ({"not_begun"} if kind == "timeout" else set())
    assert ends.count(kind) == count if count else kind in ends
    assert ends[0] == "good"


@pytest.mark.once
@pytest.mark.parametrize("host_pointers", [True, False], ids=["host_pointers", "copies"])
@pytest.mark.parametrize("not_repeatable", [[], [SYMBOL]], ids=["repeatable", "not_repeatable"])
@in_fork(strict=True)
def test_each_call_has_its_own_values(not_repeatable: list[str], host_pointers: bool) -> None:
    """Whether a kept executor runs it again, or it is planned anew where the library keeps none."""
    device = open_device(stream_limit=1, executor_limit=2, pool_pass_through=True)
    # Of three forms one stays and the others take each other's place; each call has values of its own.
    for number in range(1, 40):
        side = (2, 3, 2, 4)[number % 4]
        grad_output = np.full((1, 1, 1), number * side * side, np.float32)
        assert (pool(device, grad_output, (1, side, side)) == number).all(), number
    state = device.state()
    assert state.pool.allocated_bytes == 0
    # The form that stays has 19 of the 39 calls, and all but the first find it. Each other call takes the place of the
    # one before it.
    counts = state.executors.entry_count, state.executors.hit_count, state.executors.miss_count
    assert counts == ((0, 0, 39) if not_repeatable else (2, 18, 21))
