"""A client stays in its process: what a fork, a pickle and a copy say. And how a client shows itself."""

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import aclgrad
from aclgrad.testing import TestServer
from tools.calling import maybe_await

FORKING = """
import asyncio, os, sys, numpy as np, aclgrad

ones = np.ones((1, 1, 1), np.float32)
client = aclgrad.Client(sys.argv[1])
batch = client.batch()
batch.adaptive_avg_pool2d_backward(ones, (1, 2, 2))
client.list_operators()

def refused(call):
    try:
        call()
    except aclgrad.WrongProcessError as error:
        assert "make a client in each process" in str(error)
        return
    raise AssertionError(call)

class Forking:
    # Its conversion leaves a child in the middle of the call.

    def __array__(self, dtype=None, copy=None):
        self.child = os.fork()
        return ones

def amid_a_pause():
    import signal
    with aclgrad.Client("127.0.0.1:1", connect_timeout_s=60.0, timeout_s=2.5) as other:
        children = []
        signal.signal(signal.SIGALRM, lambda *_: children.append(os.fork()))
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            other.list_operators()
        except aclgrad.WrongProcessError:
            assert children == [0]
            os._exit(0)
        except (aclgrad.ServerUnreachableError, aclgrad.DeadlinePassedError):
            # A pause takes a second at most.
            assert children and children[0]
            assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0

async def of_a_task():
    async with aclgrad.AsyncClient(sys.argv[1]) as own:
        await own.list_operators()
        if not (child := os.fork()):
            try:
                await own.list_operators()
            except aclgrad.WrongProcessError:
                await own.close()
                os._exit(0)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        await own.list_operators()

if not (child := os.fork()):
    for call in (client.list_operators, client.wait_until_ready, batch.run):
        refused(call)
    client.close()
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
client.list_operators()
assert batch.run()[0].shape == (1, 2, 2)
forking = Forking()
try:
    client.adaptive_avg_pool2d_backward(forking, (1, 2, 2))
except aclgrad.WrongProcessError:
    os._exit(0 if not forking.child else 1)
assert forking.child and os.waitstatus_to_exitcode(os.waitpid(forking.child, 0)[1]) == 0
amid_a_pause()
client.close()
asyncio.run(of_a_task())
"""


def test_a_forked_process_is_told_and_leaves_the_parent_alone(server: TestServer) -> None:
    command = [sys.executable, "-c", FORKING, server.target]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert finished.returncode == 0, finished.stderr


@pytest.mark.parametrize("way", [pickle.dumps, copy.copy, copy.deepcopy])
async def test_a_client_is_no_value_to_copy(connect: Callable[..., Any], way: Callable[[Any], Any]) -> None:
    client = connect("127.0.0.1:1")
    for each in (client, [client], client.batch()):
        if way is copy.copy and each is not client:
            continue
        with pytest.raises(aclgrad.NotCopyableError, match=r"^127.0.0.1:1: .*; pass on the target"):
            way(each)


async def test_a_client_shows_its_target_and_state(connect: Callable[..., Any]) -> None:
    client = connect("127.0.0.1:1", metadata={"authorization": "s3cret"})
    name = f"aclgrad.{type(client).__name__} of 127.0.0.1:1"
    assert repr(client) == f"<{name}, open>"
    await maybe_await(client.close())
    assert repr(client) == f"<{name}, closed>"
