"""Whole steps of eight kinds of models on a server, beside PyTorch's own and its steps in float64."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import aclgrad
import aclgrad.torch
from tools.models import MODELS

EXAMPLES = 4
RATES = {"resnet18": 1e-5, "resnet50": 1e-6}
"""Where PyTorch's steps in float32 and in float64 would part with the others' 1e-3."""


def without_dropout(model: nn.Module) -> nn.Module:
    """Masks of float64 are others."""
    for each in model.modules():
        if isinstance(each, nn.Dropout):
            each.p = 0.0
    return model


def denoised(model: nn.Module, images: Tensor, times: Tensor, noise: Tensor) -> Tensor:
    return functional.mse_loss(model(images + noise, times), noise)


def made(name: str) -> tuple[nn.Module, Any, tuple[Tensor, ...]]:
    """Returns a model, its loss and a batch, none of which draws numbers."""
    torch.manual_seed(5)
    known = MODELS[name]
    model, batch = without_dropout(known.make(True)), known.batch(True, EXAMPLES)
    if name == "diffusion":
        return model, denoised, (*batch, torch.randn_like(batch[0]))
    return model, known.loss, batch


def gradients(model: nn.Module) -> list[Tensor]:
    found = []
    for each in model.parameters():
        assert each.grad is not None
        found.append(each.grad.clone())
    return found


def own(model: nn.Module, loss_function: Any, batch: tuple[Tensor, ...]) -> tuple[Tensor, list[Tensor]]:
    own_model = copy.deepcopy(model)
    loss = loss_function(own_model, *batch)
    loss.backward()
    return loss.detach(), gradients(own_model)


def error(found: list[Tensor], truth: list[Tensor]) -> float:
    """Returns the norm of all errors."""
    return float(sum((one.double() - other).square().sum() for one, other in zip(found, truth, strict=True)) ** 0.5)


@pytest.mark.parametrize("name", MODELS)
def test_a_step_is_one_program_and_as_exact_as_pytorch(client: aclgrad.Client, name: str) -> None:
    model, loss_function, batch = made(name)
    wide = [each.double() if each.is_floating_point() else each for each in batch]
    true_loss, truth = own(copy.deepcopy(model).double(), loss_function, tuple(wide))
    own_loss, expected = own(model, loss_function, batch)
    step = aclgrad.torch.remote_step(model, loss_function, client, strict=True, verify_every=1)
    loss = step(*batch)
    assert step.explain().startswith("step of 1 program: ")
    assert error(gradients(model), truth) <= 4 * error(expected, truth)
    assert abs(loss.double() - true_loss) <= 4 * abs(own_loss - true_loss) + 1e-6 * true_loss


@pytest.mark.parametrize("name", MODELS)
def test_fifty_steps_are_those_of_pytorch(client: aclgrad.Client, name: str) -> None:
    """Masks and noise included: both draw them from PyTorch's generator."""
    torch.manual_seed(6)
    known = MODELS[name]
    model, batch = known.make(True), known.batch(True, EXAMPLES)
    other = copy.deepcopy(model)
    step = aclgrad.torch.remote_step(model, known.loss, client, verify_every=0)
    losses: list[list[float]] = []
    for network in (model, other):
        torch.manual_seed(7)
        optimizer = torch.optim.SGD(network.parameters(), RATES.get(name, 1e-3))
        losses.append([])
        for _ in range(50):
            optimizer.zero_grad()
            if network is model:
                loss = step(*batch)
            else:
                loss = known.loss(network, *batch)
                loss.backward()
            optimizer.step()
            losses[-1].append(float(loss.detach()))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for one, expected in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
        torch.testing.assert_close(one, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_a_step_of_autocast_is_one_program(client: aclgrad.Client, name: str) -> None:
    """Which is that of PyTorch up to the rounding of bfloat16: it is checked when it runs."""
    torch.manual_seed(9)
    known = MODELS[name]
    model, batch = known.make(True), known.batch(True, EXAMPLES)
    step = aclgrad.torch.remote_step(model, known.loss, client, strict=True, verify_every=1)
    with torch.autocast("cpu", torch.bfloat16):
        step(*batch)
    assert step.explain().startswith("step of 1 program: ")


@pytest.mark.parametrize("name", MODELS)
def test_only_inputs_and_gradients_travel(client: aclgrad.Client, name: str) -> None:
    """Masks are bits, and of small models the constants of attention and losses weigh something."""
    torch.manual_seed(8)
    known = MODELS[name]
    model, batch = known.make(True), known.batch(True, EXAMPLES)
    step = aclgrad.torch.remote_step(model, known.loss, client, verify_every=0)
    step(*batch)
    parameters, buffers, given = (
        sum(each.numel() * each.element_size() for each in tensors)
        for tensors in (model.parameters(), model.buffers(), batch)
    )
    up, down = step.sent_bytes, step.received_bytes
    assert down <= 1.05 * (parameters + buffers + 4)
    assert up <= 1.05 * (parameters + buffers + given) + 16_384
