"""torch.func and derivatives of derivatives, against those of PyTorch's own functions in float64."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import aclgrad
import aclgrad.torch

from .calls import CALLS, Call
from .conftest import RecordingClient

BOXES = torch.tensor([[0, 1.0, 1, 6, 6], [1, 0, 0, 3, 3.5], [1, 2, 2, 7, 7], [5, 1, 1, 4, 4]])
TRANSFORMED = [call for call in CALLS if call.shape[0] == 2]
"""One for a batch, so that the mapped axis meets another."""


def remote(call: Call, client: aclgrad.Client) -> Callable[[Tensor], Tensor]:
    function = getattr(aclgrad.torch, call.function)
    return lambda input: function(input, *call.args, **call.options, client=client)


def local(call: Call) -> Callable[[Tensor], Tensor]:
    function = getattr(functional, call.function)
    return lambda input: function(input, *call.args, **call.options)


def random(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def weighted(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Returns a loss that is cubic in the output, so that its second derivative is not constant."""

    def loss(input: Tensor) -> Tensor:
        output = function(input)
        return (output**3 * torch.linspace(0.5, 2, output.numel()).reshape(output.shape).to(output.dtype)).sum()

    return loss


@pytest.mark.parametrize("call", TRANSFORMED, ids=str)
def test_func_grad_and_second_derivatives_are_those_of_pytorch(client: RecordingClient, call: Call) -> None:
    def second(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        return torch.func.grad(lambda input: torch.func.grad(weighted(function))(input).pow(2).sum())

    input = random(*call.shape)
    for transform, calls in ((lambda each: torch.func.grad(weighted(each)), 1), (second, 3)):
        client.called.clear()
        found = transform(remote(call, client))(input)
        assert set(client.called) == {call.operator}
        assert len(client.called) in {calls, 2}
        torch.testing.assert_close(found, transform(local(call))(input), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("call", TRANSFORMED, ids=str)
def test_vmap_makes_one_call(client: RecordingClient, call: Call) -> None:
    batches = random(3, *call.shape)
    expected = torch.stack([torch.func.grad(weighted(local(call)))(each) for each in batches])
    found = torch.vmap(torch.func.grad(weighted(remote(call, client))))(batches)
    assert client.called == [call.operator]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("call", [each for each in CALLS if each.shape[0] == 3], ids=str)
def test_the_elements_of_vmap_may_have_no_batch(client: RecordingClient, call: Call) -> None:
    images = random(*call.shape[:1], 4, *call.shape[1:], seed=2).requires_grad_()
    with aclgrad.torch.remote_backward(client) as block:
        torch.vmap(local(call), in_dims=1, out_dims=1)(images).square().sum().backward()
    expected = images.detach().requires_grad_()
    torch.stack([local(call)(each) for each in expected.unbind(1)]).square().sum().backward()
    assert client.called == [call.operator]
    assert block.account.calls.total() == 1
    torch.testing.assert_close(images.grad, expected.grad)


@pytest.mark.parametrize("call", [each for each in CALLS if each.function != "adaptive_avg_pool3d"], ids=str)
def test_vmap_over_no_elements_has_the_shape_of_their_results(client: RecordingClient, call: Call) -> None:
    """PyTorch's own functions fail here, so the expected shape is that of one element."""
    for transform in (lambda each: each, lambda each: torch.func.grad(lambda input: each(input).sum())):
        expected = transform(local(call))(random(*call.shape)).shape
        assert torch.vmap(transform(remote(call, client)))(torch.empty(0, *call.shape)).shape == (0, *expected)


def test_vmap_over_no_elements_is_refused_by_an_operator_that_takes_no_empty_batch(client: RecordingClient) -> None:
    with pytest.raises(aclgrad.InvalidFieldError, match=r"inputs\[self\].*send sizes above 0"):
        torch.vmap(lambda input: aclgrad.torch.adaptive_avg_pool3d(input, 2, client=client))(torch.empty(0, 3, 4, 4, 4))


def test_vmap_over_no_images_and_boxes_has_the_shape_of_their_elements(client: RecordingClient) -> None:
    def pooled(images: Tensor, boxes: Tensor) -> Tensor:
        return aclgrad.torch.roi_align(images, boxes, 2, sampling_ratio=2, client=client)

    images, boxes = torch.empty(0, 2, 3, 8, 8), torch.empty(0, 4, 5)
    assert torch.vmap(pooled)(images, boxes).shape == (0, 4, 3, 2, 2)
    gradient = torch.func.grad(lambda *each: pooled(*each).sum())
    assert torch.vmap(gradient)(images, boxes).shape == images.shape


def test_jacrev_makes_one_call(client: RecordingClient) -> None:
    call = next(each for each in CALLS if each.function == "avg_pool2d")
    input = random(1, 2, 6, 6)
    found = torch.func.jacrev(remote(call, client))(input)
    assert client.called == [call.operator]
    torch.testing.assert_close(found, torch.func.jacrev(local(call))(input))


@pytest.mark.parametrize("call", [each for each in TRANSFORMED if len(each.shape) == 4], ids=str)
def test_a_vectorized_hessian_is_that_of_pytorch(client: RecordingClient, call: Call) -> None:
    """It uses the vmap of autograd itself, which knows fewer operations."""
    input = random(*call.shape)
    hessian = partial(torch.autograd.functional.hessian, vectorize=True)
    with aclgrad.torch.remote_backward(client, strict=True, allow=[f"{call.function}_backward"]):
        found = hessian(weighted(local(call)), input)
    assert set(client.called) == {call.operator}
    expected = torch.autograd.functional.hessian(weighted(local(call)), input)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_vmap_keeps_boxes_with_their_images(client: RecordingClient) -> None:
    def pooled(images: Tensor, boxes: Tensor) -> Tensor:
        return aclgrad.torch.roi_align(images, boxes, 2, sampling_ratio=2, client=client)

    images, boxes = random(3, 2, 3, 8, 8), torch.stack([BOXES, BOXES.flip(0), BOXES + torch.tensor([0, 0, 0, 1, 1])])
    for in_dims in ((0, 0), (0, None), (None, 0)):
        given = [each if dim == 0 else each[1] for each, dim in zip((images, boxes), in_dims, strict=True)]
        gradient = torch.func.grad(lambda *each: weighted(lambda image: pooled(image, each[1]))(each[0]))
        client.called.clear()
        found = torch.vmap(gradient, in_dims)(*given)
        assert len(client.called) == 1
        pairs = [[each[k] if dim == 0 else each for each, dim in zip(given, in_dims, strict=True)] for k in range(3)]
        torch.testing.assert_close(found, torch.stack([gradient(*pair) for pair in pairs]))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
@pytest.mark.parametrize("transform", [torch.func.jacfwd, lambda f: lambda x: torch.func.jvp(f, (x,), (x,))])
def test_forward_mode_is_refused_and_in_a_block_local(client: RecordingClient, transform: Any) -> None:
    call = next(each for each in CALLS if each.function == "avg_pool2d")
    input = random(1, 1, 4, 4)
    with pytest.raises(aclgrad.InvalidFieldError, match=r"forward-mode derivatives.*use reverse mode"):
        transform(remote(call, client))(input)
    leaf = input.clone().requires_grad_()
    with aclgrad.torch.remote_backward(client) as block:
        found = transform(local(call))(leaf)
    torch.testing.assert_close(found, transform(local(call))(leaf))
    assert all("forward-mode" in (place.because or "") for place in block.account.calls)
    assert client.called == []


def test_the_critic_of_a_wgan_gp_trains(client: RecordingClient) -> None:
    """Its penalty is the norm of a gradient with respect to the input, and has a gradient itself."""

    def losses() -> list[float]:
        torch.manual_seed(4)
        critic = nn.Sequential(
            nn.ReflectionPad2d(1), nn.Conv2d(1, 4, 3), nn.Tanh(), nn.AvgPool2d(2), nn.Upsample(scale_factor=2),
            nn.Conv2d(4, 4, 3), nn.Tanh(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 1),
        )  # fmt: skip
        optimizer = torch.optim.SGD(critic.parameters(), lr=0.05)
        found = []
        for step in range(5):
            real, fake = random(4, 1, 8, 8, seed=step), random(4, 1, 8, 8, seed=100 + step) * 0.5
            mixed = (real + fake).div(2).requires_grad_()
            (gradient,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
            penalty = (gradient.flatten(1).norm(2, dim=1) - 1).square().mean()
            loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    expected = losses()
    with aclgrad.torch.remote_backward(client) as block:
        found = losses()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert {place.function for place in block.account.calls if place.because is None} == {
        "pad", "avg_pool2d", "interpolate", "max_pool2d", "adaptive_avg_pool2d", "tanh"
    }  # fmt: skip
