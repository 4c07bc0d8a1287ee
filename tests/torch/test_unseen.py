"""What a block does not see being called, and tells all the same: threads, TorchScript, forks."""

import logging
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import aclgrad
import aclgrad.torch
from aclgrad.torch._account import CallSite
from tools.serving import Server

from .conftest import RecordingClient

INPUT = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))
THREAD = "a thread that begins in the block has to enter it itself"
UNSEEN = "TorchScript, or code outside of the block, has called it"


def step() -> None:
    functional.max_pool2d(INPUT.clone().requires_grad_(), 2).sum().backward()


def test_a_thread_that_begins_in_a_block_is_told(client: RecordingClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "aclgrad.torch")
    before = threading.getprofile()
    with ThreadPoolExecutor(1) as pool:
        for _ in range(2):
            with aclgrad.torch.remote_backward(client) as remote:
                thread = threading.Thread(target=step)
                thread.start()
                thread.join()
                # It begins in the first block, and is told to the second one as well.
                pool.submit(step).result()
            assert remote.account.calls == {CallSite("max_pool2d", "", THREAD): 2}
    assert client.called == []
    assert set(caplog.messages) == {f"max_pool2d stays local: {THREAD}"}
    assert threading.getprofile() is before


def test_a_thread_that_outlives_the_block_is_no_longer_told(client: RecordingClient) -> None:
    closed, failures = threading.Event(), []

    def later() -> None:
        closed.wait(30)
        try:
            step()
        except Exception as error:
            failures.append(error)

    with aclgrad.torch.remote_backward(client, strict=True) as remote:
        thread = threading.Thread(target=later)
        thread.start()
    closed.set()
    thread.join()
    assert not remote.account.calls
    assert failures == []


def test_a_strict_block_ends_a_thread_that_would_stay_local(client: RecordingClient) -> None:
    with aclgrad.torch.remote_backward(client, strict=True), ThreadPoolExecutor(1) as pool:
        future = pool.submit(step)
    with pytest.raises(aclgrad.InvalidFieldError, match="max_pool2d would stay local: a thread"):
        future.result()


def test_a_thread_that_enters_blocks_itself_may_compute_outside_of_them(client: RecordingClient) -> None:
    def within_and_after() -> None:
        with aclgrad.torch.remote_backward(client):
            step()
        step()

    with aclgrad.torch.remote_backward(client, strict=True) as other, ThreadPoolExecutor(1) as pool:
        pool.submit(within_and_after).result()
    assert not other.account.calls
    assert len(client.called) == 1


def test_a_profile_function_that_is_set_in_a_block_stays(client: RecordingClient) -> None:
    def profile(*_: object) -> None: ...

    try:
        with aclgrad.torch.remote_backward(client):
            threading.setprofile(profile)
        assert threading.getprofile() is profile
    finally:
        threading.setprofile(None)


def test_blocks_may_be_left_in_any_order(client: RecordingClient, server: Server) -> None:
    def within(block: aclgrad.torch.remote_backward) -> Iterator[None]:
        with block:
            yield

    with RecordingClient(server.address) as other:
        blocks = [aclgrad.torch.remote_backward(each) for each in (client, other)]
        first, second = map(within, blocks)
        next(first)
        next(second)
        first.close()
        step()
        second.close()
        step()
        assert [block.account.calls.total() for block in blocks] == [0, 1]
        assert other.called == ["max_pool2d_with_mask_backward"]
        assert client.called == []


def scripted() -> nn.Module:
    with pytest.warns(DeprecationWarning, match="jit.script"):
        return torch.jit.script(nn.Sequential(nn.MaxPool2d(2), nn.ReflectionPad2d(1)))


@pytest.mark.parametrize("is_within", [True, False], ids=["backward_within", "backward_after"])
def test_torchscript_is_told(client: RecordingClient, *, is_within: bool) -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), scripted(), nn.AvgPool2d(2))
    with aclgrad.torch.remote_backward(client) as remote:
        for _ in range(2):
            loss = network(INPUT).sum()
            if is_within:
                loss.backward()
    assert remote.account.calls == {
        CallSite("conv2d", "Sequential.0", None): 1 + is_within,
        CallSite("avg_pool2d", "Sequential.2", None): 1 + is_within,
        CallSite("max_pool2d", "", UNSEEN): 1 + is_within,
        CallSite("pad", "", UNSEEN): 1 + is_within,
    }


@pytest.mark.parametrize(
    "after",
    [
        lambda pooled: functional.pad(pooled, (1, 1)).sum(),
        lambda pooled: functional.max_pool2d(pooled, 2, dilation=2).sum(),
        lambda pooled: (pooled.sum(), pooled.sum().item(), torch.ones(1, requires_grad=True) * 2),
    ],
    ids=["pad", "local", "others"],
)
def test_what_follows_torchscript_does_not_hide_it(client: RecordingClient, after: Callable[[Any], Any]) -> None:
    network = scripted()
    with aclgrad.torch.remote_backward(client) as remote:
        kept = after(network(INPUT.clone().requires_grad_()))
        with aclgrad.torch.remote_backward(client):
            pass
    assert kept is not None
    assert remote.account.calls[CallSite("max_pool2d", "", UNSEEN)] == 1
    assert remote.account.calls[CallSite("pad", "", UNSEEN)] == 1


def test_a_block_keeps_no_graph_alive(client: RecordingClient) -> None:
    with aclgrad.torch.remote_backward(client):
        pooled = functional.max_pool2d(INPUT.clone().requires_grad_(), 2) * 2
        reference = weakref.ref(pooled)
        del pooled
        assert reference() is None


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_traces_are_those_of_pytorch(client: RecordingClient) -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d(2))
    with aclgrad.torch.remote_backward(client):
        traced = torch.jit.trace(network, INPUT)
        symbolic = torch.fx.symbolic_trace(network)
    assert "aclgrad" not in traced.code
    assert [node.op for node in symbolic.graph.nodes] == ["placeholder", "call_module", "call_module", "output"]
    with aclgrad.torch.remote_backward(client) as remote:
        traced(INPUT).sum().backward()
    assert remote.account.calls[CallSite("max_pool2d", "", UNSEEN)] == 1


def test_a_strict_block_refuses_torchscript(client: RecordingClient) -> None:
    network, refused = scripted(), r"would stay local: TorchScript"
    with pytest.raises(aclgrad.InvalidFieldError, match=refused), aclgrad.torch.remote_backward(client, strict=True):
        loss = network(INPUT.clone().requires_grad_()).sum()
    with aclgrad.torch.remote_backward(client, strict=True):
        input = INPUT.clone().requires_grad_()
        loss = network(input).sum()
        with pytest.raises(aclgrad.InvalidFieldError, match=refused):
            torch.autograd.grad(loss, input)


FORKED = """
import os, sys, torch, aclgrad, aclgrad.torch
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

class Forked(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        input = torch.arange(64.0).reshape(1, 8, 8).requires_grad_()
        functional.max_pool2d(input, 2).sum().backward()
        return input.grad.sum().item(), os.getpid()

with aclgrad.Client(sys.argv[1]) as client, aclgrad.torch.remote_backward(client) as remote:
    sums, processes = zip(*DataLoader(Forked(), num_workers=1, batch_size=None, multiprocessing_context="fork"))
    assert sums == (16.0, 16.0) and os.getpid() not in processes
    assert remote.account.calls.total() == 0
    Forked()[0]
    print(remote)
"""


def test_a_forked_worker_stays_local(server: Server) -> None:
    """In a process of its own, because threads of other tests do not survive a fork."""
    command = [sys.executable, "-c", FORKED, server.address]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "1 of 2 backward calls are the server's" in ended.stdout
