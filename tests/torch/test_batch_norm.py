"""Batch normalisation: the running statistics are those of PyTorch, whatever runs around it."""

import itertools
from collections.abc import Callable
from contextlib import nullcontext
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import aclgrad
import aclgrad.torch
from aclgrad.products import Product
from tools.serving import Server, write_host_config

from .conftest import RecordingClient
from .table import random

INPUT = random(4, 3, 5, 5)
LAYERS: dict[str, Callable[[], nn.Module]] = {
    "default": lambda: nn.BatchNorm2d(3),
    "momentum": lambda: nn.BatchNorm2d(3, momentum=0.7),
    "cumulative": lambda: nn.BatchNorm2d(3, momentum=None),
    "without_statistics": lambda: nn.BatchNorm2d(3, track_running_stats=False),
    "without_parameters": lambda: nn.BatchNorm2d(3, affine=False),
}


def equal_buffers(found: nn.Module, expected: nn.Module) -> None:
    for mine, theirs in zip(found.buffers(), expected.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0)


@pytest.mark.parametrize("name", LAYERS)
def test_the_statistics_are_those_of_pytorch(client: RecordingClient, name: str) -> None:
    found = LAYERS[name]()
    expected = deepcopy(found)
    for step in range(3):
        inputs = [(INPUT * (step + 1)).requires_grad_() for _ in range(2)]
        with aclgrad.torch.remote_backward(client, strict=True):
            found(inputs[0]).pow(3).sum().backward()
        expected(inputs[1]).pow(3).sum().backward()
        equal_buffers(found, expected)
        torch.testing.assert_close(inputs[0].grad, inputs[1].grad, rtol=1e-4, atol=1e-4)
    assert client.called == ["batch_norm_backward"] * 3


def test_a_layer_may_run_again_before_its_backward_pass(client: RecordingClient) -> None:
    """As the critic of a GAN does: the update is no change of what the first pass saved."""
    found, expected = nn.BatchNorm2d(3), nn.BatchNorm2d(3)
    with aclgrad.torch.remote_backward(client, strict=True):
        (found(INPUT).pow(3).sum() + found(-2 * INPUT).pow(3).sum()).backward()
    (expected(INPUT).pow(3).sum() + expected(-2 * INPUT).pow(3).sum()).backward()
    equal_buffers(found, expected)
    torch.testing.assert_close(found.weight.grad, expected.weight.grad, rtol=1e-4, atol=1e-4)


def test_vmap_updates_the_statistics_of_each_element_and_refuses_common_ones(client: RecordingClient) -> None:
    def loss(input: Tensor, *running: Tensor, **options: Any) -> Tensor:
        function = aclgrad.torch.batch_norm if options else functional.batch_norm
        return function(input, *running, training=True, **options).pow(3).sum()

    inputs, found = torch.stack([INPUT, -2 * INPUT]), [torch.zeros(2, 3), torch.ones(2, 3)]
    expected = [each.clone() for each in found]
    gradients = torch.vmap(torch.func.grad(lambda *each: loss(*each, client=client)))(inputs, *found)
    torch.testing.assert_close(gradients, torch.vmap(torch.func.grad(loss))(inputs, *expected), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found, expected)
    assert client.called == ["batch_norm_backward"]
    with pytest.raises(aclgrad.InvalidFieldError, match="running statistics in common"):
        torch.vmap(lambda each: loss(each, torch.zeros(3), torch.ones(3), client=client))(inputs)


@pytest.mark.parametrize("is_reentrant", [True, False])
def test_a_checkpoint_updates_them_as_often_as_that_of_pytorch(client: RecordingClient, is_reentrant: bool) -> None:
    found = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.CELU(), nn.LayerNorm(5))
    expected = deepcopy(found)
    inputs = [INPUT.clone().requires_grad_() for _ in range(2)]
    with aclgrad.torch.remote_backward(client, strict=True):
        loss = checkpoint(found, inputs[0], use_reentrant=is_reentrant).pow(3).sum()
    loss.backward()
    checkpoint(expected, inputs[1], use_reentrant=is_reentrant).pow(3).sum().backward()
    operators = ["batch_norm_backward", "convolution_backward", "elu_backward", "layer_norm_backward"]
    assert sorted(client.called) == operators
    equal_buffers(found, expected)
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad, rtol=1e-3, atol=1e-3)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_a_compiled_model_updates_them(client: RecordingClient) -> None:
    found = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3))
    expected = deepcopy(found)
    compiled = torch.compile(found, backend="aot_eager", fullgraph=True)
    for step in range(2):
        with aclgrad.torch.remote_backward(client, strict=True):
            compiled(INPUT + step).pow(3).sum().backward()
        expected(INPUT + step).pow(3).sum().backward()
    assert client.called == ["batch_norm_backward", "convolution_backward"] * 2
    for mine, theirs in zip(found.buffers(), expected.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs)
    torch.testing.assert_close(found[0].weight.grad, expected[0].weight.grad, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("dtype", "eps"), [(torch.bfloat16, 2e-5), (torch.float16, 3e-5), (torch.float16, 1e-7)])
def test_a_dead_channel_of_half_precision_has_its_gradient(
    client: RecordingClient, dtype: torch.dtype, eps: float
) -> None:
    """PyTorch saves 1 / sqrt(eps) in that precision, which may round it up."""
    gradients = []
    for block in (nullcontext(), aclgrad.torch.remote_backward(client)):
        input = torch.zeros(4, 3, 5, 5, dtype=dtype, requires_grad=True)
        grad = torch.arange(300).reshape(4, 3, 5, 5).remainder(7).to(dtype)
        with block:
            functional.batch_norm(input, None, None, None, None, True, 0.1, eps).backward(grad)
        gradients.append(input.grad)
    assert client.called == ["batch_norm_backward"]
    torch.testing.assert_close(*gradients, rtol=2e-2, atol=1e-1 * float(gradients[0].abs().max()))


def overflowed(block: Any, name: str, input: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the gradients of a normalisation whose 1 / sqrt(eps), 1e5, is more than float16 holds."""
    leaf = input.clone().requires_grad_()
    weight = torch.ones(4, dtype=torch.float16, requires_grad=True)
    with block:
        output = {
            "batch_norm": lambda: functional.batch_norm(leaf, None, None, weight, None, True, 0.1, 1e-10),
            "group_norm": lambda: functional.group_norm(leaf, 2, weight, None, 1e-10),
            "layer_norm": lambda: functional.layer_norm(leaf, (4,), weight, None, 1e-10),
            "rms_norm": lambda: functional.rms_norm(leaf, (4,), weight, 1e-10),
        }[name]()
        output.backward(torch.arange(64).reshape(4, 4, 4).remainder(7).to(output.dtype))
    return leaf.grad, weight.grad


def test_a_reciprocal_that_overflowed_gives_what_pytorch_gives(client: RecordingClient, tmp_path: Path) -> None:
    config = write_host_config(tmp_path, product=Product.ASCEND_950)
    steps = torch.randint(-3, 4, (4, 4, 4), generator=torch.Generator().manual_seed(1))
    norms, inputs = ("batch_norm", "group_norm", "layer_norm", "rms_norm"), (torch.zeros(4, 4, 4), steps * 2.0**-24)
    with Server("--acl-config", config) as server, RecordingClient(server.address) as other:
        for each, name, input in itertools.product((client, other), norms, inputs):
            found = overflowed(aclgrad.torch.remote_backward(each, strict=True), name, input.half())
            expected = overflowed(nullcontext(), name, input.half())
            assert not all(gradient.isfinite().all() for gradient in expected)
            for mine, theirs in zip(found, expected, strict=True):
                assert mine.isfinite().tolist() == theirs.isfinite().tolist()
        assert len(client.called) == len(other.called) == 8


def test_a_gradient_that_is_no_number_makes_the_scaler_skip_the_step(client: RecordingClient) -> None:
    layer = nn.BatchNorm1d(3, eps=1e-10, dtype=torch.float16)
    # The scaler unscales gradients of float32 alone.
    kept = nn.Parameter(torch.ones(3))
    optimizer, scaler = torch.optim.SGD([kept], 0.1), torch.amp.GradScaler("cpu")
    for input, is_skipped in ((torch.zeros(4, 3), True), (INPUT[..., 0, 0], False)):
        optimizer.zero_grad()
        scale = scaler.get_scale()
        with aclgrad.torch.remote_backward(client, strict=True):
            loss = layer((input * kept).half()).float().pow(2).sum() * 1e-4
        scaler.scale(loss).backward()
        before = kept.detach().clone()
        scaler.step(optimizer)
        scaler.update()
        assert torch.equal(kept, before) == is_skipped
        assert (scaler.get_scale() < scale) == is_skipped
    assert client.called == ["batch_norm_backward"] * 2
