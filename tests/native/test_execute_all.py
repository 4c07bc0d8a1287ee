"""Many calls at once on one device: each has its own end, in the order in which they were given."""

import json
import threading
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aclgrad import reference
from aclgrad_native import AclError, Device, OutOfMemoryError, ReplyBuffer

from .pooling import FLOAT32, SYMBOL

WAIT_MS = 60_000
SHAPE = (1, 5, 6)


def grad(number: int) -> np.ndarray:
    return np.random.default_rng(number).standard_normal((1, 2, 3), np.float32)


def call(number: int, output: Any, **changes: Any) -> Any:
    data = grad(number)
    arguments: dict[str, Any] = {
        "symbol": SYMBOL,
        "inputs": [(data.shape, FLOAT32, data.tobytes()), (SHAPE, FLOAT32, None)],
        "attributes": [],
        "shape": SHAPE,
        "dtype": FLOAT32,
        "output": output,
        "prefixes": [],
    }
    return tuple((arguments | changes).values())


def replies(count: int) -> ReplyBuffer:
    return ReplyBuffer([(b"", 4 * int(np.prod(SHAPE)))] * count)


def check(reply: ReplyBuffer, count: int, failed: AbstractSet[int] = frozenset()) -> None:
    """Every gradient but those of the failed calls is right and in its place."""
    gradients = np.frombuffer(reply.finish(), np.float32).reshape(count, *SHAPE)
    for number in set(range(count)) - failed:
        expected = reference.adaptive_avg_pool2d_backward(grad(number), SHAPE)
        np.testing.assert_allclose(gradients[number], expected, rtol=1e-5, atol=1e-6)


def assert_idle(device: Device) -> None:
    assert device.leased_stream_count == 0
    assert device.pool_statistics().allocated_bytes == 0


@pytest.mark.parametrize("count", [0, 1, 2, 3, 100])
def test_more_calls_than_streams(device: Device, count: int) -> None:
    reply = replies(count)
    calls = [call(number, part) for number, part in enumerate(reply.parts())]
    assert device.execute_all(calls, WAIT_MS) == [None] * count
    check(reply, count)
    assert device.stream_count <= 2
    assert_idle(device)


BAD: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "refused": ({"inputs": [((1, 2, 3), FLOAT32, bytes(24)), ((2, 5, 6), FLOAT32, None)]}, AclError),
    "short_data": ({"inputs": [((1, 2, 3), FLOAT32, bytes(23)), (SHAPE, FLOAT32, None)]}, ValueError),
    "short_output": ({"shape": (1, 5, 5)}, ValueError),
    "no_such_operator": ({"symbol": "aclnnNothing"}, IndexError),
    "beyond_the_pool": ({"inputs": [((1, 2**14, 2**14), FLOAT32, None), (SHAPE, FLOAT32, None)]}, OutOfMemoryError),
}


@pytest.mark.parametrize("place", [0, 3, 7])
@pytest.mark.parametrize(("changes", "kind"), BAD.values(), ids=BAD)
def test_a_bad_call_fails_alone(device: Device, place: int, changes: dict[str, Any], kind: type[Exception]) -> None:
    reply = replies(8)
    calls = [call(number, part, **changes if number == place else {}) for number, part in enumerate(reply.parts())]
    results = device.execute_all(calls, WAIT_MS)
    assert isinstance(results.pop(place), kind)
    assert results == [None] * 7
    check(reply, 8, {place})
    assert_idle(device)


def test_bad_calls_alone(device: Device) -> None:
    calls = [call(number, part, symbol="aclnnNothing") for number, part in enumerate(replies(5).parts())]
    assert [type(each) for each in device.execute_all(calls, WAIT_MS)] == [IndexError] * 5
    assert_idle(device)


def test_batches_at_once_share_the_streams(device: Device) -> None:
    start = threading.Barrier(6)
    ends: list[Any] = []

    def run() -> None:
        reply = replies(20)
        calls = [call(number, part) for number, part in enumerate(reply.parts())]
        start.wait(60)
        for _ in range(5):
            ends.append(device.execute_all(calls, WAIT_MS))
        check(reply, 20)

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert ends == [[None] * 20] * 30
    assert_idle(device)


FAULTY = """
import json, pathlib, sys
import aclgrad_native
from tests.native.test_execute_all import call, check, replies
config = pathlib.Path(sys.argv[1], "acl.json")
config.write_text(sys.argv[2])
library = aclgrad_native.open("host", str(config))
device = aclgrad_native.Device(library, 0, pool_limit_bytes=None, stream_limit=2, pool_pass_through=True)
reply = replies(8)
results = device.execute_all([call(*each) for each in enumerate(reply.parts())], int(sys.argv[3]))
failed = {number for number, each in enumerate(results) if each}
check(reply, 8, failed)
print(*[each.fault if each else "good" for each in results])
"""
FAULTS = {
    "kernel": ({"kind": "launch_error", "at": 3, "code": 507000}, WAIT_MS, "internal", 1),
    "memory": ({"kind": "out_of_memory", "at": 8, "count": 2}, WAIT_MS, "memory", 1),
    "lost": ({"kind": "launch_error", "at": 3, "code": 507015}, WAIT_MS, "device_lost", None),
    "late": ({"kind": "hang", "at": 3, "duration_ms": 1500}, 300, "timeout", None),
}


@pytest.mark.parametrize("host_pointers", ["true", "false"])
@pytest.mark.parametrize(("fault", "timeout_ms", "kind", "count"), FAULTS.values(), ids=FAULTS)
def test_a_fault_fails_the_call_that_meets_it(
    run_program: Callable[..., str],
    tmp_path: Path,
    fault: dict[str, Any],
    timeout_ms: int,
    kind: str,
    count: int | None,
    host_pointers: str,
) -> None:
    """Where the device is lost, or time runs out, so does every call that had no answer before."""
    if kind == "memory" and host_pointers == "true":
        pytest.skip("allocates nothing")
    config = json.dumps({"host": {"host_pointers": host_pointers == "true", "faults": [fault]}})
    ends = run_program(FAULTY, str(tmp_path), config, str(timeout_ms)).split()
    assert set(ends) <= {"good", kind}
    assert ends.count(kind) == count if count else kind in ends
    assert ends[0] == "good"
