"""Shared memory of a process that ends or forks: its names go in silence, and a child has a copy of the results."""

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.calling import wait_until

FOLDER = Path("/dev/shm")
PROGRAM = """
import sys, time
import numpy as np
import aclgrad
from aclgrad._client.shared_memory.loans import Loan
from aclgrad._client.calls.call import Call
from aclgrad._client.calls.requirements import Requirements
from aclgrad.sources import SharedRange
from aclgrad.tensors import TensorView
from aclgrad.wire import service
from aclgrad.wire.messages import decode_request, response_of

service.SHARED_PREFIX = sys.argv[1]
client = aclgrad.Client("unix:/nowhere", shared_memory=True, retries=0)
inputs = {"grad_output": np.ones((1, 256, 256), "float32"), "self": (1, 300, 300)}
lent = Call("adaptive_avg_pool2d_backward", inputs, None, Requirements(2**24, shape_only=True))

def call():
    with Loan(client._regions, lent) as shared:
        shared.lend()
        (named,) = decode_request(shared.request).output_memory.values()
        return shared.read(response_of(TensorView("out", lent.outputs[0].type, named)))

result = call()
"""
ENDS = {
    "close": ("client.close()", 0),
    "close_and_use": ("client.close(); result += 1", 0),
    "no_close": ("", 0),
    "sys_exit": ("sys.exit(3)", 3),
    "cycle": ("cycle = [client, result]; cycle.append(cycle); del client, result", 0),
    "forked_child_exits_first": (
        "import os, glob\nchild = os.fork()\nif not child: sys.exit()\nos.waitpid(child, 0)\n"
        "assert len(glob.glob('/dev/shm/' + sys.argv[1] + '*')) == 2",
        0,
    ),
}

FAST = ("close_and_use", "no_close")


@pytest.fixture
def prefix() -> Iterator[str]:
    prefix = f"aclgrad-{secrets.token_hex(6)}-"
    yield prefix
    for path in FOLDER.glob(f"{prefix}*"):
        path.unlink()


def start(prefix: str, end: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM + end, prefix],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def names(prefix: str) -> list[str]:
    return [each.name for each in FOLDER.glob(f"{prefix}*")]


@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name in FAST else pytest.mark.slow) for name in ENDS])
def test_a_process_that_ends_by_itself(prefix: str, name: str) -> None:
    end, code = ENDS[name]
    with start(prefix, end) as process:
        # The end of its standard error is the end of the resource tracker too.
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (code, "")
    assert names(prefix) == []


@pytest.mark.slow
def test_an_exception_that_nobody_catches(prefix: str) -> None:
    with start(prefix, "raise ValueError('as the test wants')") as process:
        _, said = process.communicate(timeout=60)
    assert said.rstrip().endswith("ValueError: as the test wants")
    assert "resource_tracker" not in said
    assert names(prefix) == []


@pytest.mark.parametrize(
    "number",
    [signal.SIGKILL, *(pytest.param(each, marks=pytest.mark.slow) for each in (signal.SIGTERM, signal.SIGINT))],
    ids=lambda number: number.name,
)
def test_a_process_that_is_ended_from_outside(prefix: str, number: signal.Signals) -> None:
    # A signal that comes just before the system call of a sleep is noticed after it.
    with start(prefix, "print('ready', flush=True); [time.sleep(0.1) for _ in range(600)]") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert len(names(prefix)) == 2
        os.kill(process.pid, number)
        process.communicate(timeout=60)
    wait_until(lambda: names(prefix) == [])


# `result` is a result in shared memory; `call` makes another, in the same memory once the first is gone.
SETUP = """
import os, threading
truth = np.random.default_rng(0).standard_normal(result.shape, "float32")
result[...] = truth

def wait(pipe):
    assert os.read(pipe[0], 1) == b"x"

def tell(pipe):
    os.write(pipe[1], b"x")

def end(child):
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

go = os.pipe()
"""
IN_CHILD = """
if not (child := os.fork()):
    wait(go)
    np.testing.assert_array_equal(result, truth)
    result[...] = 5
    assert (result == 5).all()
    del result
    os._exit(0)
"""
PROGRAMS = {
    "parent_uses_the_memory_again": IN_CHILD
    + "del result; other = call(); other[...] = 7; tell(go); end(child); assert (other == 7).all()",
    "parent_closes": IN_CHILD + "client.close(); tell(go); end(child); np.testing.assert_array_equal(result, truth)",
    "parent_ends_first": "done = os.pipe()\nif not os.fork():\n    "
    + IN_CHILD.replace("\n", "\n    ")
    + "result[...] = 7; os._exit(0)\nos.wait(); tell(go)",
    "child_of_a_child": """
if not (child := os.fork()):
    if not (grandchild := os.fork()):
        wait(go)
        np.testing.assert_array_equal(result, truth)
        os._exit(0)
    result[...] = 5
    os.write(go[1], b"x")
    end(grandchild)
    os._exit(0)
end(child)
np.testing.assert_array_equal(result, truth)
""",
    "view_of_it": "view = result[0, 10:20]; del result; result = view; truth = truth[0, 10:20]"
    + IN_CHILD
    + "result[...] = 7; tell(go); end(child)",
    "regions_stay_the_parents": """
other = call()
kept = {other.ctypes.data}
del other
if not (child := os.fork()):
    mine = call()
    assert mine.ctypes.data not in kept
    mine[...] = 5
    client._regions.close()
    os._exit(0)
end(child)
other = call()
assert other.ctypes.data in kept
assert not other.any()
""",
    "threads_fork_at_once": """
def fork():
    for _ in range(5):
        if not (child := os.fork()):
            os._exit(0 if (result == truth).all() else 1)
        end(child)

threads = [threading.Thread(target=fork) for _ in range(4)]
for each in threads: each.start()
for each in threads: each.join()
np.testing.assert_array_equal(result, truth)
""",
}
FAST = ("parent_uses_the_memory_again", "regions_stay_the_parents")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in FAST else pytest.mark.slow) for name in PROGRAMS]
)
def test_forked_child_has_a_copy_of_its_own(prefix: str, name: str) -> None:
    with start(prefix, SETUP + PROGRAMS[name]) as process:
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, "")
