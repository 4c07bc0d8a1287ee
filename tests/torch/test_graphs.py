"""Graphs: operators of PyTorch, torch.compile, threads, and what a graph needs in its backward pass."""

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import aclgrad
import aclgrad.torch
from aclgrad.torch._tensors import number_of
from tools.serving import Server

from .conftest import RecordingClient

INPUT = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))
UNPOOLED = (torch.randn(1, 2, 2, 2, 2), torch.randperm(64)[:16].reshape(1, 2, 2, 2, 2))
BOXES = torch.tensor([[0, 1, 1, 6, 6], [1, 0, 0, 3, 3.5]])
PARAMETERS = {
    "adaptive_avg_pool2d": (INPUT, [3, 3]),
    "max_pool2d": (INPUT, [2, 2], [2, 2], [0, 0], [1, 1], False),
    "max_unpool3d": (*UNPOOLED, [4, 4, 4], [2, 2, 2], [0, 0, 0]),
    "replication_pad2d": (INPUT, [1, 1, 2, 2]),
    "upsample_nearest2d": (INPUT, [16, 12], 2.0, 1.5),
    "roi_align": (INPUT, BOXES, 2, 3, 0.5, 0, True),
}
LAYERS = (
    nn.ReplicationPad2d(1),
    nn.MaxPool2d(2),
    nn.Upsample(scale_factor=2),
    nn.AdaptiveAvgPool2d(2),
)
CALLED = [
    "adaptive_avg_pool2d_backward",
    "upsample_nearest2d_backward",
    "max_pool2d_with_mask_backward",
    "replication_pad2d_backward",
]


COMPILED = CALLED[:3]
"""torch.compile inlines functional.pad without asking for a mode, so padding stays local."""
pytestmark = pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
"""What torch.compile does with each function of autograd."""


def model() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Conv2d(3, 4, 3), *LAYERS, nn.Flatten(), nn.Linear(16, 1))


def gradient_of(network: nn.Module) -> torch.Tensor:
    return next(iter(network.parameters())).grad


@pytest.fixture
def expected() -> torch.Tensor:
    network = model()
    network(INPUT).sum().backward()
    return gradient_of(network)


@pytest.mark.parametrize("name", PARAMETERS)
def test_an_operation_passes_opcheck(client: RecordingClient, name: str) -> None:
    """Its gradient is that of the function around it."""
    number = number_of(client)
    torch.library.opcheck(getattr(torch.ops.aclgrad, name), (*PARAMETERS[name], number))


def test_a_model_is_compiled_in_one_graph(client: RecordingClient, expected: torch.Tensor) -> None:
    network = model()
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
    with aclgrad.torch.remote_backward(client) as remote:
        loss = compiled(INPUT).sum()
    assert {(site.function, site.whose) for site in remote.account.calls} == {
        ("conv2d", "remote"),
        ("adaptive_avg_pool2d", "remote"), ("interpolate", "remote"), ("linear", "remote"), ("max_pool2d", "remote"),
    }  # fmt: skip
    assert "torch.compile hides functional.pad" in str(remote)
    loss.backward()
    assert client.called == ["linear_backward", *COMPILED, "convolution_backward"]
    torch.testing.assert_close(gradient_of(network), expected)


def test_sizes_may_change_between_calls_of_a_compiled_model(client: RecordingClient) -> None:
    network = nn.Sequential(nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(2))
    compiled = torch.compile(network, dynamic=True, backend="aot_eager")
    for size in (8, 11):
        mine, theirs = (torch.ones(1, 3, size, size).cumsum(3).requires_grad_() for _ in range(2))
        with aclgrad.torch.remote_backward(client):
            compiled(mine).sum().backward()
        network(theirs).sum().backward()
        torch.testing.assert_close(mine.grad, theirs.grad)
    assert client.called == ["adaptive_avg_pool2d_backward", "max_pool2d_with_mask_backward"] * 2


def test_a_compiled_model_follows_its_client(client: RecordingClient, server: Server) -> None:
    compiled = torch.compile(nn.MaxPool2d(2), backend="aot_eager")
    input = INPUT.clone().requires_grad_()
    with aclgrad.Client(server.address) as other, aclgrad.torch.remote_backward(other):
        compiled(input).sum().backward()
    compiled(input).sum().backward()
    assert client.called == []
    with aclgrad.torch.remote_backward(client):
        compiled(input).sum().backward()
    assert client.called == ["max_pool2d_with_mask_backward"]


def test_what_stays_local_in_a_compiled_model_is_told_and_a_strict_block_refuses_it(client: RecordingClient) -> None:
    network = nn.Sequential(nn.MaxPool2d(2), nn.MaxPool2d(2, dilation=2))
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
    input = INPUT.clone().requires_grad_()
    for _ in range(2):
        with aclgrad.torch.remote_backward(client) as remote:
            compiled(input).sum().backward()
        assert {site.because for site in remote.account.calls} == {None, "the operator has no dilation"}
    with aclgrad.torch.remote_backward(client, strict=True):
        loss = compiled(input).sum()
        with pytest.raises(aclgrad.InvalidFieldError, match="max_pool2d would stay local: the operator has no"):
            loss.backward()


def test_a_checkpoint_within_a_compiled_model_is_told(client: RecordingClient) -> None:
    pool = nn.MaxPool2d(2)
    compiled = torch.compile(lambda each: checkpoint(pool, each, use_reentrant=False), backend="aot_eager")
    with aclgrad.torch.remote_backward(client) as remote:
        compiled(INPUT.clone().requires_grad_()).sum().backward()
    (site,) = remote.account.calls
    assert (site.function, site.whose) == ("checkpoint", "local")
    assert "checkpoint the compiled module" in site.because
    around = torch.compile(pool, backend="aot_eager")
    with aclgrad.torch.remote_backward(client, strict=True):
        checkpoint(around, INPUT.clone().requires_grad_(), use_reentrant=False).sum().backward()
    assert client.called == ["max_pool2d_with_mask_backward"]


def test_backward_may_follow_the_block_in_another_thread(client: RecordingClient, expected: torch.Tensor) -> None:
    network = model()
    with aclgrad.torch.remote_backward(client):
        loss = network(INPUT).sum()
    thread = threading.Thread(target=loss.backward)
    thread.start()
    thread.join()
    assert client.called == ["linear_backward", *CALLED, "convolution_backward"]
    torch.testing.assert_close(gradient_of(network), expected)


def test_threads_keep_several_calls_in_flight(server: Server) -> None:
    threads = 4
    all_in_flight = threading.Barrier(threads)

    class Meeting(aclgrad.Client):
        def execute(self, *args: Any, **options: Any) -> Any:
            all_in_flight.wait(30)
            return super().execute(*args, **options)

    def step(_: int) -> torch.Tensor:
        input = INPUT.clone().requires_grad_()
        with aclgrad.torch.remote_backward(client):
            functional.adaptive_avg_pool2d(input, 2).sum().backward()
        return input.grad

    with Meeting(server.address) as client, ThreadPoolExecutor(threads) as pool:
        for gradient in pool.map(step, range(threads)):
            torch.testing.assert_close(gradient, torch.full_like(INPUT, 1 / 16))


def test_an_error_of_the_call_is_that_of_backward(server: Server) -> None:
    client = aclgrad.Client(server.address)
    output = aclgrad.torch.adaptive_avg_pool2d(INPUT.clone().requires_grad_(), 2, client=client)
    client.close()
    with pytest.raises(aclgrad.CallCancelledError):
        output.sum().backward()


def test_a_graph_does_not_keep_its_client(server: Server) -> None:
    client = aclgrad.Client(server.address)
    output = aclgrad.torch.adaptive_avg_pool2d(INPUT.clone().requires_grad_(), 2, client=client)
    client.close()
    del client
    gc.collect()
    with pytest.raises(aclgrad.InvalidSettingError, match="no longer exists; keep the client until backward"):
        output.sum().backward()
