"""Graphs: operators of PyTorch, torch.compile, vmap, threads, and what a graph needs in its backward pass."""

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import aclgrad
import aclgrad.torch
from tools.serving import Server

from .conftest import RecordingClient

INPUT = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))
UNPOOLED = (torch.randn(1, 2, 2, 2, 2), torch.randperm(64)[:16].reshape(1, 2, 2, 2, 2))
BOXES = torch.tensor([[0, 1, 1, 6, 6], [1, 0, 0, 3, 3.5]])
PARAMETERS = {
    "adaptive_avg_pool2d": (INPUT, [3, 3]),
    "max_pool2d": (INPUT, [2, 2], [2, 2], [0, 0], [1, 1], False),
    "max_unpool3d": (*UNPOOLED, [2, 2, 2], None, [0, 0, 0], [4, 4, 4]),
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
    input, *rest = PARAMETERS[name]
    number = aclgrad.torch.number_of(client)
    torch.library.opcheck(getattr(torch.ops.aclgrad, name), (input.clone().requires_grad_(), *rest, number))
    assert client.called


def test_a_model_is_compiled_in_one_graph(client: RecordingClient, expected: torch.Tensor) -> None:
    network = model()
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
    with aclgrad.torch.remote_backward(client):
        loss = compiled(INPUT).sum()
    loss.backward()
    assert client.called == COMPILED
    torch.testing.assert_close(gradient_of(network), expected)


def test_a_function_is_compiled_with_a_client_that_was_used_before(client: RecordingClient) -> None:
    def padded(input: torch.Tensor) -> torch.Tensor:
        return aclgrad.torch.pad(input, (1, 1, 1, 1), "replicate", client=client)

    padded(INPUT)
    input = INPUT.clone().requires_grad_()
    torch.compile(padded, fullgraph=True, backend="aot_eager")(input).sum().backward()
    assert client.called == ["replication_pad2d_backward"]


def test_sizes_may_change_between_calls_of_a_compiled_model(client: RecordingClient) -> None:
    network = model()
    compiled = torch.compile(network, dynamic=True, backend="aot_eager")
    for size in (8, 11, 14):
        input = torch.randn(1, 3, size, size)
        network.zero_grad()
        network(input).sum().backward()
        expected = gradient_of(network).clone()
        network.zero_grad()
        with aclgrad.torch.remote_backward(client):
            compiled(input).sum().backward()
        torch.testing.assert_close(gradient_of(network), expected)
    assert client.called == COMPILED * 3


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


def test_backward_may_follow_the_block_in_another_thread(client: RecordingClient, expected: torch.Tensor) -> None:
    network = model()
    with aclgrad.torch.remote_backward(client):
        loss = network(INPUT).sum()
    thread = threading.Thread(target=loss.backward)
    thread.start()
    thread.join()
    assert client.called == CALLED
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


def test_vmap_is_refused(client: RecordingClient) -> None:
    def pooled(input: torch.Tensor) -> torch.Tensor:
        return aclgrad.torch.max_pool2d(input, 2, client=client)

    with pytest.raises(NotImplementedError, match="max_pool2d cannot be vectorised by vmap; give it the whole batch"):
        torch.vmap(pooled)(INPUT)


def test_second_derivatives_are_refused(client: RecordingClient) -> None:
    input = INPUT.clone().requires_grad_()
    output = aclgrad.torch.adaptive_avg_pool2d(input, 2, client=client).pow(2).sum()
    (gradient,) = torch.autograd.grad(output, input, create_graph=True)
    with pytest.raises(RuntimeError, match="no autograd formula"):
        gradient.sum().backward()


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
