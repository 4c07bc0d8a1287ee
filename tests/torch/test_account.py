"""Whose gradient it was: counts by function and layer, a log line, strict blocks, and blocks as decorators."""

import logging
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

import aclgrad
import aclgrad.torch
from aclgrad.torch._account import CallSite

from .conftest import RecordingClient

INPUT = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))
SCALE = "PyTorch uses the scale, and the operator the ratio of the sizes; they differ here"


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv2d(3, 3, 3, padding=1), nn.MaxPool2d(2)])

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            input = layer(input)
        return functional.avg_pool2d(input, 2)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Upsample(scale_factor=1.4)
        self.blocks = nn.Sequential(Block(), nn.ReflectionPad2d(1))

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self.blocks(self.stem(functional.pad(input, (0, 0, 1, 1))))


def test_calls_are_counted_by_function_layer_and_reason(client: RecordingClient) -> None:
    net = Net()
    with aclgrad.torch.remote_backward(client) as remote:
        for _ in range(2):
            net(INPUT.clone().requires_grad_()).sum().backward()
        with torch.no_grad():
            functional.max_pool2d(INPUT, 2)
    assert remote.account.calls == {
        CallSite("pad", "Net", "there is no operator for constant pads"): 2,
        CallSite("interpolate", "Net.stem", SCALE): 2,
        CallSite("conv2d", "Net.blocks.0.layers.0", None): 2,
        CallSite("max_pool2d", "Net.blocks.0.layers.1", None): 2,
        CallSite("avg_pool2d", "Net.blocks.0", None): 2,
        CallSite("pad", "Net.blocks.1", None): 2,
        CallSite("max_pool2d", "", "no gradient is recorded"): 1,
    }
    lines = str(remote).splitlines()
    assert lines[0].split() == ["calls", "gradient", "FLOPs", "function", "layer", "because"]
    assert any(line.split()[:4] == ["2", "local", "interpolate", "Net.stem"] and SCALE in line for line in lines)
    assert any(line.split() == ["2", "local", "plain", "arithmetic"] for line in lines)
    assert lines[-2] == "8 of 14 backward calls are the server's; no gradient is recorded for 1 more"
    assert lines[-1].startswith("100.0% of ")
    assert len(client.called) == 8


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda each: torch.addmv(each[0], each, each[0]), "addmv"),
        (lambda each: torch.matrix_power(each, 3), "matrix_power"),
        (torch.cov, "cov"),
    ],
)
def test_what_is_made_of_products_unseen_is_told_by_its_own_name(
    client: RecordingClient, function: Callable[[torch.Tensor], torch.Tensor], name: str
) -> None:
    with aclgrad.torch.remote_backward(client) as remote:
        function(INPUT[0, 0].clone().requires_grad_()).sum().backward()
    assert {(site.function, site.because) for site in remote.account.calls} == {
        (name, f"there is no operator for {name}")
    }
    assert remote.account.flops.total()


@pytest.mark.parametrize("layer", [nn.Conv2d(3, 2, 3), nn.Linear(8, 2)], ids=["conv2d", "linear"])
def test_derivatives_of_a_local_call_are_local_for_its_reason(client: RecordingClient, layer: nn.Module) -> None:
    image = INPUT.double().requires_grad_()
    with aclgrad.torch.remote_backward(client) as remote:
        output = layer.double()(image)
        (gradient,) = torch.autograd.grad(output.pow(2).sum(), image, create_graph=True)
        gradient.pow(2).sum().backward()
    assert remote.account.calls.total() > 1
    assert {site.because for site in remote.account.calls} == {"no product takes float64"}


def test_what_stays_local_is_logged_once(client: RecordingClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "aclgrad.torch")
    input = INPUT.double().requires_grad_()
    with aclgrad.torch.remote_backward(client):
        for _ in range(3):
            functional.max_pool2d(input, 2, dilation=2).sum().backward()
    assert caplog.messages == ["max_pool2d stays local: the operator has no dilation"]


def test_a_block_decorates_a_function(client: RecordingClient) -> None:
    remote = aclgrad.torch.remote_backward(client)

    @remote
    def step(input: torch.Tensor) -> None:
        functional.max_pool2d(input, 2).sum().backward()

    for _ in range(2):
        step(INPUT.clone().requires_grad_())
    functional.max_pool2d(INPUT.clone().requires_grad_(), 2).sum().backward()
    assert client.called == ["max_pool2d_with_mask_backward"] * 2
    assert remote.account.calls == {CallSite("max_pool2d", "", None): 2}


def test_exchanged_parts_are_found_by_their_new_names(client: RecordingClient) -> None:
    net = nn.Sequential(nn.MaxPool2d(2))
    with aclgrad.torch.remote_backward(client) as remote:
        first = net(INPUT.clone().requires_grad_())
        net.append(nn.AvgPool2d(2))
        second = net(INPUT.clone().requires_grad_())
    assert first.shape != second.shape
    assert {site.layer for site in remote.account.calls} == {"Sequential.0", "Sequential.1"}
