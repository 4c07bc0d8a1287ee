"""Trainings of networks of convolutions: whole backward passes, and steps that stay with those of PyTorch."""

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import aclgrad
import aclgrad.torch

from .conftest import RecordingClient
from .convolutions import OPERATOR
from .images import ResNet, UNet
from .table import random

LABELS = torch.arange(8) % 3
NETWORKS: dict[str, tuple[Callable[[], nn.Module], Tensor, Tensor, float]] = {
    "resnet_18": (lambda: ResNet((4, 6, 8, 10), 3), random(8, 3, 48, 48), LABELS, 1e-3),
    "u_net": (lambda: UNet((4, 6, 8), 3), random(8, 3, 16, 16), LABELS[:, None, None].expand(8, 16, 16), 1e-2),
}
"""With inputs, classes, and a rate at which PyTorch's steps in float32 and in float64 stay together as well."""
CALLS = {
    "resnet_18": {OPERATOR: 20, "batch_norm_backward": 20, "threshold_backward": 17, "linear_backward": 1,
                  "max_pool2d_with_mask_backward": 1, "adaptive_avg_pool2d_backward": 1, "cross_entropy_backward": 1},
    "u_net": {OPERATOR: 13, "threshold_backward": 10, "reflection_pad2d_backward": 5,
              "max_pool2d_with_mask_backward": 2, "cross_entropy_backward": 1},
}  # fmt: skip


def trained(name: str, block: Any, steps: int, change: Callable[[nn.Module], nn.Module] = lambda each: each) -> Any:
    """Returns the losses of the steps, and the gradients of the last one."""
    torch.manual_seed(3)
    make, images, labels, rate = NETWORKS[name]
    network = change(make())
    images = images.to(next(network.parameters()).dtype)
    optimizer, losses = torch.optim.SGD(network.parameters(), rate), []
    for _ in range(steps):
        optimizer.zero_grad()
        with block:
            loss = functional.cross_entropy(network(images), labels)
            loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses), [each.grad for each in network.parameters()]


@pytest.mark.parametrize("name", NETWORKS)
def test_all_of_the_work_of_a_backward_pass_is_the_servers(client: RecordingClient, name: str) -> None:
    remote = aclgrad.torch.remote_backward(client, strict=True)
    _, found = trained(name, remote, 1)
    _, expected = trained(name, nullcontext(), 1, nn.Module.double)
    for mine, theirs in zip(found, expected, strict=True):
        scale = float(theirs.abs().max())
        torch.testing.assert_close(mine.double(), theirs, rtol=1e-4, atol=1e-5 + 1e-4 * scale)
    assert str(remote).endswith("\n100.0% of " + str(remote).rpartition("\n100.0% of ")[2])
    assert {site.whose for site, count in remote.account.flops.items() if count} == {"remote"}
    assert Counter(client.called) == CALLS[name]


@pytest.mark.parametrize("name", NETWORKS)
def test_fifty_steps_stay_with_those_of_pytorch(client: RecordingClient, name: str) -> None:
    remote = aclgrad.torch.remote_backward(client, strict=True)
    found, expected = trained(name, remote, 50)[0], trained(name, nullcontext(), 50)[0]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=0)
    assert expected[-1] < expected[0]
    assert len(client.called) == 50 * sum(CALLS[name].values())
