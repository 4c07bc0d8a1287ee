"""Failures of servers, hooks and code in a block; blocks in blocks; models that are frozen or moved."""

import signal

import pytest
import torch
from torch import nn
from torch.nn import functional

import aclgrad
import aclgrad.torch
from aclgrad.torch._operations import OPEN
from tools.serving import Server

from .conftest import RecordingClient

INPUT = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.MaxPool2d(2))
        self.head = nn.Sequential(nn.Conv2d(4, 4, 1), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 1))

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self.head(self.stem(input))


def test_a_server_that_dies_in_backward_is_told_with_the_layer(client: RecordingClient) -> None:
    network, calls = Net(), []
    with Server() as server, RecordingClient(server.address, connect_timeout_s=1) as dying:

        def execute(name: str, *args: object, **options: object) -> object:
            calls.append(name)
            if len(calls) == 3:
                server.send(signal.SIGKILL)
                server.exit_code()
            return RecordingClient.execute(dying, name, *args, **options)

        dying.execute = execute
        with aclgrad.torch.remote_backward(dying):
            loss = network(INPUT).sum()
        with pytest.raises(aclgrad.ConnectionLostError) as caught:
            loss.backward()
    assert caught.value.operator == "max_pool2d_with_mask_backward"
    assert str(caught.value).startswith("the gradient of max_pool2d of Net.stem.1: ")
    # What was computed before stays.
    assert network.head[0].weight.grad is not None
    assert network.stem[0].weight.grad is None
    with aclgrad.torch.remote_backward(client):
        network(INPUT).sum().backward()
    assert network.stem[0].weight.grad is not None


def test_a_server_that_is_down_is_told_in_the_forward_pass() -> None:
    with aclgrad.Client("127.0.0.1:1", timeout_s=1) as client, aclgrad.torch.remote_backward(client):
        functional.pad(INPUT.clone().requires_grad_(), (1, 1))
        with pytest.raises(aclgrad.ServerUnreachableError, match=r"^max_pool2d of MaxPool2d: "):
            nn.MaxPool2d(2)(INPUT.clone().requires_grad_())


def test_a_block_left_by_an_exception_is_closed(client: RecordingClient) -> None:
    @aclgrad.torch.remote_backward(client, strict=True)
    def fail() -> None:
        functional.max_pool2d(INPUT.clone().requires_grad_(), 2)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert OPEN.blocks == []
    functional.max_pool2d(INPUT.clone().requires_grad_(), 2).sum().backward()
    assert client.called == []


def test_parameters_without_gradients_need_no_call(client: RecordingClient) -> None:
    network = Net()
    network.stem.requires_grad_(requires_grad=False)
    with aclgrad.torch.remote_backward(client) as remote:
        network(INPUT).sum().backward()
    assert client.called == ["linear_backward", "adaptive_avg_pool2d_backward", "convolution_backward"]
    assert {site.layer: site.whose for site in remote.account.calls} == {
        "Net.stem.0": "none", "Net.stem.1": "none",
        "Net.head.0": "remote", "Net.head.1": "remote", "Net.head.3": "remote",
    }  # fmt: skip


def test_a_model_may_be_moved_between_blocks(client: RecordingClient) -> None:
    network = Net()
    with aclgrad.torch.remote_backward(client) as remote:
        network(INPUT).sum().backward()
        network.double()
        network.zero_grad()
        network(INPUT.double()).sum().backward()
        network.to("meta")
        network(INPUT.double().to("meta")).sum().backward()
    assert len(client.called) == 5
    reasons = {(site.function, site.because) for site in remote.account.calls}
    assert ("max_pool2d", "no product takes float64") in reasons
