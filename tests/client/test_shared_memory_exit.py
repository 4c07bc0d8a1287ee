"""However a process ends that used shared memory, its names go, and nothing is said about it."""

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
import signal, sys, time
import numpy as np
import aclgrad
from aclgrad import _shared_memory
from aclgrad._planning import SentValues, plan
from aclgrad.tensors import SharedRange, TensorView
from aclgrad.wire.messages import response_of

# A shell starts what runs in the background with SIGINT ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
_shared_memory.PREFIX = sys.argv[1]
client = aclgrad.Client("unix:/nowhere", shared_memory=True, retries=0)
inputs = {"grad_output": np.ones((1, 256, 256), "float32"), "self": (1, 300, 300)}
planned = plan("adaptive_avg_pool2d_backward", inputs, None, SentValues(shape_only=True))

def call():
    with _shared_memory.Loan(client._regions, planned) as shared:
        (named,) = shared.lend().call.output_memory.values()
        return shared.read(response_of(TensorView("out", planned.output(), named)))

result = call()
"""
ENDS = {
    "close": ("client.close()", 0),
    "close_and_use": ("client.close(); result += 1", 0),
    "no_close": ("", 0),
    "no_close_two_results": ("other = call()", 0),
    "sys_exit": ("sys.exit(3)", 3),
    "cycle": ("cycle = [client, result]; cycle.append(cycle); del client, result", 0),
    "forked_child_exits_first": (
        "import os, glob\nchild = os.fork()\nif not child: sys.exit()\nos.waitpid(child, 0)\n"
        "assert len(glob.glob('/dev/shm/' + sys.argv[1] + '*')) == 2",
        0,
    ),
}


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


@pytest.mark.parametrize(("end", "code"), ENDS.values(), ids=ENDS)
def test_a_process_that_ends_by_itself(prefix: str, end: str, code: int) -> None:
    with start(prefix, end) as process:
        # The end of its standard error is the end of the resource tracker too.
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (code, "")
    assert names(prefix) == []


def test_an_exception_that_nobody_catches(prefix: str) -> None:
    with start(prefix, "raise ValueError('as the test wants')") as process:
        _, said = process.communicate(timeout=60)
    assert said.rstrip().endswith("ValueError: as the test wants")
    assert "resource_tracker" not in said
    assert names(prefix) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_process_that_is_ended_from_outside(prefix: str, number: signal.Signals) -> None:
    # A signal that comes just before the system call of a sleep is noticed after it.
    with start(prefix, "print('ready', flush=True); [time.sleep(0.1) for _ in range(600)]") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert len(names(prefix)) == 2
        os.kill(process.pid, number)
        process.communicate(timeout=60)
    wait_until(lambda: names(prefix) == [], 10)
