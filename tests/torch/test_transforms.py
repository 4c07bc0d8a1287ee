"""torch.func and derivatives of derivatives, against those of PyTorch's own functions."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import aclgrad
import aclgrad.torch

from . import losses, table
from .conftest import RecordingClient
from .table import CALLS_OF_VMAP, LINEAR, LOCAL, Call, call, random

BOXES = torch.tensor([[0, 1.0, 1, 6, 6], [1, 0, 0, 3, 3.5], [1, 2, 2, 7, 7], [5, 1, 1, 4, 4]])
CALLS = (*table.CALLS, *losses.CALLS)
FIRST = tuple({each.function: each for each in reversed(CALLS)}.values())
OF_ONE = tuple(each for each in CALLS if not each.outputs)
NO_SECOND = (
    "batch_norm", "cross_entropy", "ctc_loss", "grid_sample", "group_norm", "layer_norm", "log_softmax", "rms_norm",
    "softmax",
)  # fmt: skip
TWICE = tuple(
    each
    for each in (*LINEAR, *table.ACTIVATIONS, *losses.CALLS)
    if each.input.shape[:1] == (2,) and not each.outputs and each.function not in {*LOCAL, *NO_SECOND}
)
"""Those that have a second derivative, one for a batch, so that the mapped axis meets another."""
AVERAGE = call("avg_pool2d", "avg_pool2d_backward", (1, 2, 6, 6), 2)
Function = Callable[..., Tensor]


def remote(call: Call, client: aclgrad.Client) -> Function:
    return call.bound(getattr(aclgrad.torch, call.function), client=client)


def weighted(function: Function) -> Function:
    """Returns a loss that is cubic in the output, so that its second derivative is not constant."""

    def loss(*tensors: Tensor) -> Tensor:
        output = function(*tensors)
        return (output**3 * torch.linspace(0.5, 2, output.numel()).reshape(output.shape).to(output.dtype)).sum()

    return loss


@pytest.mark.parametrize("call", TWICE, ids=str)
def test_func_grad_and_second_derivatives_are_those_of_pytorch(client: RecordingClient, call: Call) -> None:
    def second(function: Function) -> Function:
        return torch.func.grad(lambda input: torch.func.grad(weighted(function))(input).pow(2).sum())

    for transform, calls in ((lambda each: torch.func.grad(weighted(each)), 1), (second, 3)):
        client.called.clear()
        found = transform(remote(call, client))(call.input)
        assert set(client.called) == {call.operator}
        assert len(client.called) in {calls, 2}
        torch.testing.assert_close(found, transform(call.bound())(call.input), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("call", [each for each in FIRST if each.function in NO_SECOND], ids=str)
def test_a_second_derivative_is_refused(client: RecordingClient, call: Call) -> None:
    """PyTorch's own functions have one, so a graph of it must not go on without."""
    with aclgrad.torch.remote_backward(client):
        leaves = call.leaves()
        (gradient,) = torch.autograd.grad(call.bound()(*leaves).pow(3).sum(), leaves[0], create_graph=True)
        with pytest.raises(
            aclgrad.InvalidFieldError, match=f"{call.function} has no second derivative .* PyTorch's own"
        ):
            gradient.sum().backward()
    function = remote(call, client)

    def penalty(input: Tensor) -> Tensor:
        return torch.func.grad(lambda each: function(each, *call.values[1:]).pow(3).sum())(input).sum()

    with pytest.raises(aclgrad.InvalidFieldError, match="has no second derivative"):
        torch.func.grad(penalty)(call.input)


@pytest.mark.parametrize("call", OF_ONE, ids=str)
def test_vmap_makes_one_call(client: RecordingClient, call: Call) -> None:
    """But of embeddings, whose gradients are sums over a call, of CTC, and of softmax if all axes are taken."""
    batches = torch.stack([call.input, call.input.flip(0) if call.input.dim() else -call.input, call.input * 0.9])
    function, own = (torch.func.grad(weighted(each)) for each in (remote(call, client), call.bound()))
    found = torch.vmap(function)(batches)
    is_apart = call.function in ("ctc_loss", "embedding") or ("softmax" in call.function and call.input.dim() == 8)
    assert client.called == [call.operator] * (3 if is_apart else 1)
    expected = torch.stack([own(each) for each in batches])
    largest = float(expected.abs().max()) if expected.numel() else 0.0
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=max(1e-4, 1e-6 * largest))


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # of PyTorch's own kernel of attention
@pytest.mark.parametrize(("function", "by", "in_dims"), CALLS_OF_VMAP, ids=str)
def test_vmap_by_several_arguments(
    client: RecordingClient, function: str, by: tuple[int, ...], in_dims: tuple[int | None, ...]
) -> None:
    call = next(each for each in FIRST if each.function == function)
    mapped = [
        each if dim is None else torch.stack([each, each.flip(0), each * 0.9], dim)
        for each, dim in zip(call.values, in_dims, strict=True)
    ]
    found, expected = (
        torch.vmap(torch.func.grad(lambda *each, f=f: f(*each).pow(3).sum(), by), in_dims)(*mapped)
        for f in (remote(call, client), call.bound())
    )
    assert len(client.called) == CALLS_OF_VMAP[function, by, in_dims]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    if function == "rms_norm":  # which has no empty rows
        return
    none = [each if dim is None else each.narrow(dim, 0, 0) for each, dim in zip(mapped, in_dims, strict=True)]
    gradients = torch.vmap(torch.func.grad(lambda *each: remote(call, client)(*each).sum(), by), in_dims)(*none)
    assert [each.shape for each in gradients] == [(0, *call.values[each].shape) for each in by]


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_vmap_keeps_scalars_apart(client: RecordingClient, name: str) -> None:
    def gradient_and_output(function: Function, **more: Any) -> Any:
        each = torch.func.grad_and_value(lambda scalar: function(scalar, 0, **more))
        return torch.vmap(each)(random(3)), torch.vmap(torch.vmap(each))(random(2, 3))

    found = gradient_and_output(getattr(aclgrad.torch, name), client=client)
    torch.testing.assert_close(found, gradient_and_output(getattr(functional, name)))
    assert client.called == [f"{name}_backward"] * 2


@pytest.mark.parametrize("call", [each for each in LINEAR if each.input.shape[0] == 3], ids=str)
def test_the_elements_of_vmap_may_have_no_batch(client: RecordingClient, call: Call) -> None:
    shape = call.input.shape
    images = random(shape[0], 4, *shape[1:], seed=2).requires_grad_()
    with aclgrad.torch.remote_backward(client) as block:
        torch.vmap(call.bound(), in_dims=1, out_dims=1)(images).square().sum().backward()
    expected = images.detach().requires_grad_()
    torch.stack([call.bound()(each) for each in expected.unbind(1)]).square().sum().backward()
    assert client.called == [call.operator]
    assert block.account.calls.total() == 1
    torch.testing.assert_close(images.grad, expected.grad)


def divides_here(call: Call) -> bool:
    """Says whether PyTorch divides outside of the function, which vmap over no elements fails to do."""
    return call.options.get("reduction") == "batchmean" or (call.function, "weight" in call.options) == (
        "mse_loss",
        True,
    )


@pytest.mark.parametrize(
    "call",
    [each for each in OF_ONE if each.function not in {*LOCAL, "adaptive_avg_pool3d"} and not divides_here(each)],
    ids=str,
)
def test_vmap_over_no_elements_has_the_shape_of_their_results(client: RecordingClient, call: Call) -> None:
    """PyTorch's own functions fail here, so the expected shape is that of one element."""
    for transform in (lambda each: each, lambda each: torch.func.grad(lambda input: each(input).sum())):
        expected = transform(call.bound())(call.input).shape
        assert torch.vmap(transform(remote(call, client)))(torch.empty(0, *call.input.shape)).shape == (0, *expected)


@pytest.mark.parametrize("call", [each for each in TWICE if each.function in {"avg_pool2d", "max_pool2d"}], ids=str)
def test_a_vectorized_hessian_is_that_of_pytorch(client: RecordingClient, call: Call) -> None:
    """It uses the vmap of autograd itself, which knows fewer operations."""
    hessian = partial(torch.autograd.functional.hessian, vectorize=True)
    with aclgrad.torch.remote_backward(client, strict=True, allow=[f"{call.function}_backward"]):
        found = hessian(weighted(call.bound()), call.input)
    assert set(client.called) == {call.operator}
    expected = torch.autograd.functional.hessian(weighted(call.bound()), call.input)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_vmap_keeps_boxes_with_their_images(client: RecordingClient) -> None:
    def pooled(images: Tensor, boxes: Tensor) -> Tensor:
        return aclgrad.torch.roi_align(images, boxes, 2, sampling_ratio=2, client=client)

    images, boxes = random(3, 2, 3, 8, 8), torch.stack([BOXES, BOXES.flip(0), BOXES + torch.tensor([0, 0, 0, 1, 1])])
    gradient = torch.func.grad(weighted(pooled))
    for in_dims in ((0, 0), (0, None), (None, 0)):
        given = [each if dim == 0 else each[1] for each, dim in zip((images, boxes), in_dims, strict=True)]
        client.called.clear()
        found = torch.vmap(gradient, in_dims)(*given)
        assert len(client.called) == 1
        pairs = [[each[k] if dim == 0 else each for each, dim in zip(given, in_dims, strict=True)] for k in range(3)]
        torch.testing.assert_close(found, torch.stack([gradient(*pair) for pair in pairs]))
    none = torch.empty(0, 2, 3, 8, 8), torch.empty(0, 4, 5)
    assert torch.vmap(pooled)(*none).shape == (0, 4, 3, 2, 2)
    assert torch.vmap(gradient)(*none).shape == none[0].shape


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
@pytest.mark.parametrize("transform", [torch.func.jacfwd, lambda f: lambda x: torch.func.jvp(f, (x,), (x,))])
def test_forward_mode_is_refused_and_in_a_block_local(client: RecordingClient, transform: Any) -> None:
    with pytest.raises(aclgrad.InvalidFieldError, match=r"forward-mode derivatives.*use reverse mode"):
        transform(remote(AVERAGE, client))(AVERAGE.input)
    (leaf,) = AVERAGE.leaves()
    with aclgrad.torch.remote_backward(client) as block:
        found = transform(AVERAGE.bound())(leaf)
    torch.testing.assert_close(found, transform(AVERAGE.bound())(leaf))
    assert all("forward-mode" in (site.because or "") for site in block.account.calls)
    assert client.called == []


def test_a_penalty_on_a_gradient_in_a_block_has_the_gradients_of_pytorch(client: RecordingClient) -> None:
    """The critic of a WGAN-GP: the norm of a gradient with respect to the input has a gradient itself."""
    torch.manual_seed(4)
    critic = nn.Sequential(
        nn.ReflectionPad2d(1), nn.Conv2d(1, 4, 3), nn.Tanh(), nn.AvgPool2d(2), nn.Upsample(scale_factor=2),
        nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 1),
    )  # fmt: skip
    images = random(4, 1, 8, 8).requires_grad_()

    def gradients() -> tuple[Tensor, ...]:
        (gradient,) = torch.autograd.grad(critic(images).sum(), images, create_graph=True)
        return torch.autograd.grad((gradient.flatten(1).norm(2, dim=1) - 1).square().mean(), critic[1].weight)

    with aclgrad.torch.remote_backward(client) as block:
        found = gradients()
    torch.testing.assert_close(found, gradients(), rtol=1e-4, atol=1e-4)
    assert {site.function for site in block.account.calls if site.because is None} == {
        "pad", "avg_pool2d", "interpolate", "max_pool2d", "adaptive_avg_pool2d", "tanh", "conv2d", "conv2d_backward",
        "linear", "linear_backward",
    }  # fmt: skip


SHARES = random(5, seed=3).sigmoid()
SAMPLES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mse_loss": lambda out, label: functional.mse_loss(out, label.expand(5) * 0.5),
    "binary_cross_entropy_with_logits": lambda out, label: functional.binary_cross_entropy_with_logits(
        out, label.expand(5) * 0.2, SHARES
    ),
    "cross_entropy": lambda out, label: functional.cross_entropy(out, label.long(), label_smoothing=0.1),
    "weighted cross_entropy": lambda out, label: functional.cross_entropy(out[None], label.long()[None], SHARES),
    "nll_loss": lambda out, label: functional.nll_loss(out.log_softmax(-1), label.long(), SHARES, ignore_index=2),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_gradients_of_each_sample_take_one_call(client: RecordingClient, name: str) -> None:
    layer, rows, labels = nn.Linear(5, 5), random(4, 5), torch.tensor([1.0, 0.0, 2.0, 4.0])
    parameters = {name: each.detach() for name, each in layer.named_parameters()}

    def loss(parameters: dict[str, Tensor], row: Tensor, label: Tensor) -> Tensor:
        return SAMPLES[name](torch.func.functional_call(layer, parameters, (row,)), label)

    def of_rows(rows: Tensor) -> Tensor:
        return torch.vmap(loss, (None, 0, 0))(parameters, rows, labels).square().sum()

    gradient = torch.func.grad(loss)
    with aclgrad.torch.remote_backward(client):
        found = torch.vmap(gradient, (None, 0, 0))(parameters, rows, labels)
        # The layer is one; of a likelihood its logarithms are another.
        assert len(client.called) == (3 if name == "nll_loss" else 2)
        client.called.clear()
        found_rows = torch.func.grad(of_rows)(rows)
        assert len(client.called) == (3 if name == "nll_loss" else 2)
    expected = [gradient(parameters, *each) for each in zip(rows, labels, strict=True)]
    for each, whole in found.items():
        torch.testing.assert_close(whole, torch.stack([one[each] for one in expected]), rtol=1e-4, atol=1e-5)

    def own(rows: Tensor) -> Tensor:
        return sum(loss(parameters, row, label).square() for row, label in zip(rows, labels, strict=True))

    torch.testing.assert_close(found_rows, torch.func.grad(own)(rows), rtol=1e-4, atol=1e-5)
