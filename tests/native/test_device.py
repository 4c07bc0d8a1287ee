"""Operators on a device: their results, refused calls, and leaks; many calls at once, each with its own end."""

from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
import pytest

import aclgrad_native
from aclgrad import reference
from aclgrad_native import AclError, Input, OutOfMemoryError

from .blocking import TIMEOUT_S, BlockingDevice
from .forked import hang, open_device
from .forks import in_fork
from .pooling import FLOAT32, SYMBOL, plan, pool, returned

GRAD = np.arange(12, dtype=np.float32).reshape(1, 3, 4)
SHAPE = (1, 7, 9)
UNSENT = Input(SHAPE, FLOAT32)
SENT = Input(GRAD.shape, FLOAT32)
DATA = GRAD.tobytes()


def truth(grad_output: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return reference.adaptive_avg_pool2d_backward(grad_output, shape)


def test_gradient_is_written_behind_the_prefix(device: BlockingDevice) -> None:
    """An input may start at any byte."""
    data = memoryview(b"x" + DATA)[1:]
    gradient = pool(device, GRAD, SHAPE, b"prefix\x00\xff", contents=[data, None])
    np.testing.assert_allclose(gradient, truth(GRAD, SHAPE), rtol=1e-6)
    state = device.state()
    assert 0 < state.free_bytes <= state.total_bytes


@pytest.mark.parametrize("index", [-1, 1, 99])
def test_index_that_no_device_has(library: aclgrad_native.AclLibrary, index: int) -> None:
    with pytest.raises(AclError) as caught:
        BlockingDevice(library, index, stream_limit=1)
    error = caught.value
    assert (error.code, error.call) == (107001, "aclrtSetDevice")
    assert str(index) in error.detail
    assert str(error) == f"aclrtSetDevice returned 107001: {error.detail}"


INVALID = r"takes|has|another kind|negative|overflow|no data type|given|no operator aclnnNothing; a header"
PADDING = {
    "symbol": "aclnnReflectionPad1dBackward",
    "inputs": [Input((1, 1, 6), FLOAT32), Input((1, 1, 4), FLOAT32)],
    "outputs": [returned((1, 1, 4))],
}
HUGE = Input((1, 2**14, 2**14), FLOAT32)
BAD_CALLS: dict[str, tuple[type[Exception], list[Any], dict[str, Any]]] = {
    "no_input": (ValueError, [], {"inputs": []}),
    "one_input": (ValueError, [DATA], {"inputs": [SENT]}),
    "three_inputs": (ValueError, [DATA, None, None], {"inputs": [SENT, UNSENT, UNSENT]}),
    "an_attribute": (ValueError, [DATA, None], {"attributes": [1]}),
    "short_data": (ValueError, [bytes(47), None], {}),
    "long_data": (ValueError, [bytes(49), None], {}),
    "negative_size": (ValueError, [DATA, None], {"inputs": [SENT, Input((1, -7, 9), FLOAT32)]}),
    "overflow": (ValueError, [DATA, None], {"inputs": [SENT, Input((2**33, 2**33), FLOAT32)]}),
    "no_data_type": (ValueError, [DATA, None], {"inputs": [SENT, Input(SHAPE, 9999)]}),
    "short_reply": (ValueError, [DATA, None], {"outputs": [returned(SHAPE, 4)]}),
    "long_reply": (ValueError, [DATA, None], {"outputs": [returned(SHAPE, 1000)]}),
    "two_outputs": (ValueError, [DATA, None], {"outputs": [returned(SHAPE), returned(SHAPE)]}),
    "another_kind": (ValueError, [bytes(24), None], {**PADDING, "attributes": [0.5]}),
    "no_operator": (ValueError, [DATA, None], {"symbol": "aclnnNothing"}),
    "refused": (AclError, [DATA, None], {"inputs": [SENT, Input((2, 7, 9), FLOAT32)]}),
    "beyond_the_pool": (OutOfMemoryError, [None, None], {"inputs": [HUGE, UNSENT]}),
}


@pytest.mark.parametrize(("kind", "contents", "changes"), BAD_CALLS.values(), ids=BAD_CALLS)
def test_a_bad_call_fails_alone_and_leaves_nothing(
    device: BlockingDevice, kind: type[Exception], contents: list[Any], changes: dict[str, Any]
) -> None:
    bad, good = plan(GRAD.shape, SHAPE, **changes), plan(GRAD.shape, SHAPE)
    with pytest.raises(kind, match=INVALID if kind is ValueError else None) as caught:
        device.execute(bad, contents)
    if kind is AclError:
        assert (getattr(caught.value, "code", 0), getattr(caught.value, "call", "")) == (161002, "phase 1")
    device.assert_idle()
    gradient = pool(device, GRAD, SHAPE)
    np.testing.assert_allclose(gradient, truth(GRAD, SHAPE), rtol=1e-6)
    for place in (0, 2):
        calls = [(good, [DATA, None], b"")] * 3
        calls[place] = bad, contents, b""
        reply, errors = device.execute_all(calls)
        assert isinstance(errors.pop(place), kind)
        assert errors == [None] * 2
        assert (reply.startswith if place else reply.endswith)(2 * gradient.tobytes())
    device.assert_idle()


def test_contents_that_are_no_contents(device: BlockingDevice) -> None:
    """Too few, too many, and an object without a buffer."""
    for kind, contents in ((ValueError, [DATA]), (ValueError, [DATA, None, None]), (TypeError, ["text", None])):
        with pytest.raises(kind):
            device.execute(plan(GRAD.shape, SHAPE), contents)
        with pytest.raises(kind):
            device.execute_all([(plan(GRAD.shape, SHAPE), contents, b"")])


def test_an_empty_call_is_zeros(device: BlockingDevice) -> None:
    """The device is not asked: an operator leaves the output untouched if an input is empty."""
    gradient = pool(device, np.empty((1, 0, 4), np.float32), SHAPE, b"prefix", is_empty=True)
    np.testing.assert_array_equal(gradient, np.zeros(SHAPE))
    size = 4 * 7 * 9
    empty, other = plan((1, 0, 4), SHAPE, is_empty=True), plan(GRAD.shape, SHAPE)
    reply, errors = device.execute_all(
        [(empty, [b"", None], b"<"), (other, [DATA, None], b""), (empty, [b"", None], b">")]
    )
    assert errors == [None] * 3
    assert (reply[: 1 + size], reply[-1 - size :]) == (b"<" + bytes(size), b">" + bytes(size))
    assert reply[1 + size : -1 - size] == pool(device, GRAD, SHAPE).tobytes()
    for on_host in (False, True):
        (target,) = device.stage(size, on_host=on_host)
        target.write(0, b"\x55" * size)
        device.execute_into(empty, [b"", None], target)
        assert target.read(0, size) == bytes(size)


def test_a_short_prefix_is_read_from_memory_of_the_whole_size(
    device: BlockingDevice, library: aclgrad_native.AclLibrary
) -> None:
    """Host memory that ends earlier is not given to a device that may read to the end."""
    inputs = [Input((1, 2, 2), FLOAT32, is_prefix=True), Input((1, 4, 4), FLOAT32)]
    call = plan((1, 2, 2), (1, 4, 4), inputs=inputs)

    def count_blocks(content: bytes) -> int:
        before = device.state().pool.allocation_count
        device.execute(call, [content, bytes(64)])
        return device.state().pool.allocation_count - before

    # A device that takes no host memory has a block for each input and for the output.
    assert (count_blocks(bytes(16)), count_blocks(bytes(4))) == ((0, 1) if library.host_pointers else (3, 3))


def grad(number: int) -> np.ndarray:
    return np.random.default_rng(number).standard_normal(GRAD.shape, np.float32)


def prefix(number: int) -> bytes:
    return b"<%d>" % number


def call(number: int) -> Any:
    return plan(GRAD.shape, SHAPE), [grad(number).tobytes(), None], prefix(number)


def check(reply: bytes, count: int, failed: AbstractSet[int] = frozenset()) -> None:
    """Every gradient but those of the failed calls is right and in its place, behind its prefix."""
    size = 4 * int(np.prod(SHAPE))
    start = 0
    for number in range(count):
        begin = start + len(prefix(number))
        assert reply[start:begin] == prefix(number)
        start = begin + size
        if number not in failed:
            gradient = np.frombuffer(reply[begin:start], np.float32).reshape(SHAPE)
            np.testing.assert_allclose(gradient, truth(grad(number), SHAPE), rtol=1e-5, atol=1e-6)
    assert start == len(reply)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 100])
def test_more_calls_than_streams(device: BlockingDevice, count: int) -> None:
    reply, errors = device.execute_all([call(number) for number in range(count)])
    assert errors == [None] * count
    check(reply, count)
    assert device.state().stream_count <= 2
    device.assert_idle()


KERNEL: dict[str, Any] = {"kind": "launch_error", "at": 3, "code": 507051}
MEMORY: dict[str, Any] = {"kind": "out_of_memory", "at": 8, "count": 2}
FAULTS = {
    "kernel": (KERNEL, TIMEOUT_S, "internal", 1),
    "memory": (MEMORY, TIMEOUT_S, "memory", 1),
    "lost": (KERNEL | {"code": 507015}, TIMEOUT_S, "device_lost", None),
    "late": (hang(duration_ms=1500, at=3), 1.0, "timeout", None),
}


@pytest.mark.parametrize("host_pointers", [True, False], ids=["host_pointers", "copies"])
@pytest.mark.parametrize(
    ("faults", "timeout_s", "kind", "count"), [([fault], *rest) for fault, *rest in FAULTS.values()], ids=FAULTS
)
@in_fork(stream_failure_mode=False)
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
