"""Many calls at once on one device: each has its own end, in the order in which they were given."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
import pytest

from aclgrad import reference
from aclgrad_native import AclError, OutOfMemoryError

from .blocking import TIMEOUT_S, BlockingDevice
from .pooling import FLOAT32, plan, returned

SHAPE = (1, 5, 6)
POOLED = (1, 2, 3)
SENT = (POOLED, FLOAT32, False, None)
UNSENT = (SHAPE, FLOAT32, False, None)


def grad(number: int) -> np.ndarray:
    return np.random.default_rng(number).standard_normal(POOLED, np.float32)


def prefix(number: int) -> bytes:
    return b"<%d>" % number


def call(number: int, contents: list[Any] | None = None, **changes: Any) -> Any:
    return plan(POOLED, SHAPE, **changes), contents or [grad(number).tobytes(), None], prefix(number)


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


BAD: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "refused": ({"inputs": [SENT, ((2, 5, 6), FLOAT32, False, None)]}, AclError),
    "short_data": ({"contents": [bytes(23), None]}, ValueError),
    "short_output": ({"outputs": [returned((1, 5, 5), 120)]}, ValueError),
    "no_such_operator": ({"symbol": "aclnnNothing"}, ValueError),
    "beyond_the_pool": (
        {"inputs": [((1, 2**14, 2**14), FLOAT32, False, None), UNSENT], "contents": [None, None]},
        OutOfMemoryError,
    ),
}


@pytest.mark.parametrize("place", [0, 3, 7])
@pytest.mark.parametrize(("changes", "kind"), BAD.values(), ids=BAD)
def test_a_bad_call_fails_alone(
    device: BlockingDevice, place: int, changes: dict[str, Any], kind: type[Exception]
) -> None:
    reply, errors = device.execute_all([call(number, **changes if number == place else {}) for number in range(8)])
    assert isinstance(errors.pop(place), kind)
    assert errors == [None] * 7
    check(reply, 8, {place})
    device.assert_idle()


def test_empty_calls_among_others_are_zeros(device: BlockingDevice) -> None:
    empty = plan((1, 0, 3), SHAPE, is_empty=True), [b"", None], b"empty"
    reply, errors = device.execute_all([empty, call(1), empty])
    assert errors == [None] * 3
    size = 4 * int(np.prod(SHAPE))
    assert reply.startswith(b"empty" + bytes(size) + prefix(1))
    assert reply.endswith(b"empty" + bytes(size))


FAULTY = """
calls = [test_execute_all.call(number) for number in range(8)]
reply, errors = open_device(pool_pass_through=True).execute_all(calls, arguments[0])
test_execute_all.check(reply, 8, {number for number, each in enumerate(errors) if each})
print(*[each.fault if each else "good" for each in errors])
"""
KERNEL: dict[str, Any] = {"kind": "launch_error", "at": 3, "code": 507051}
MEMORY: dict[str, Any] = {"kind": "out_of_memory", "at": 8, "count": 2}
LOST: dict[str, Any] = {"kind": "launch_error", "at": 3, "code": 507015}
LATE: dict[str, Any] = {"kind": "hang", "at": 3, "duration_ms": 1500}
FAULTS = {
    "kernel": (KERNEL, TIMEOUT_S, "internal", 1),
    "memory": (MEMORY, TIMEOUT_S, "memory", 1),
    "lost": (LOST, TIMEOUT_S, "device_lost", None),
    "late": (LATE, 1.0, "timeout", None),
}


@pytest.mark.once
@pytest.mark.parametrize("host_pointers", [True, False], ids=["host_pointers", "copies"])
@pytest.mark.parametrize(("fault", "timeout_s", "kind", "count"), FAULTS.values(), ids=FAULTS)
def test_a_fault_fails_the_call_that_meets_it(
    run_program: Callable[..., list[str]],
    fault: dict[str, Any],
    timeout_s: float,
    kind: str,
    count: int | None,
    host_pointers: bool,
) -> None:
    """If the device is lost, or time runs out, so does every call that had no answer before."""
    if kind == "memory" and host_pointers:
        fault = fault | {"at": 3}
    (line,) = run_program(FAULTY, timeout_s, host_pointers=host_pointers, faults=[fault])
    ends = line.split()
    assert set(ends) <= {"good", kind} | ({"not_begun"} if kind == "timeout" else set())
    assert ends.count(kind) == count if count else kind in ends
    assert ends[0] == "good"
