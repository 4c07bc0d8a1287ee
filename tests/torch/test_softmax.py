"""softmax and log_softmax, which models call as functions of three modules."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import aclgrad
import aclgrad.torch
from aclgrad.replay.apis import served_apis

from .calls import HALVES
from .conftest import RecordingClient
from .several import random

SHAPES = [((3, 5), 1), ((3, 5), 0), ((2, 3, 4), -2), ((7,), -1), ((), 0), ((2, 1, 3, 1, 2, 1, 2, 2), 2), ((0, 3), 1)]
NAMES = ("softmax", "log_softmax")


def spellings(name: str, dim: int) -> dict[str, Callable[[Tensor], Tensor]]:
    """Returns the function of an input by the ways to call it."""
    return {
        f"functional.{name}": lambda each: getattr(functional, name)(each, dim),
        f"torch.{name}": lambda each: getattr(torch, name)(each, dim),
        f"Tensor.{name}": lambda each: getattr(each, name)(dim=dim),
        "module": {"softmax": nn.Softmax, "log_softmax": nn.LogSoftmax}[name](dim),
    }


def gradient(function: Callable[[Tensor], Tensor], values: Tensor) -> list[Tensor]:
    """Returns the output and the gradient, for a gradient of the output that is not uniform."""
    leaf = values.clone().requires_grad_()
    output = function(leaf)
    (output * torch.linspace(-1, 2, output.numel()).reshape(output.shape)).sum().backward()
    assert leaf.grad is not None
    return [output.detach(), leaf.grad]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=str)
def test_every_spelling_is_remote(client: RecordingClient, name: str, shape: tuple[int, ...], dim: int) -> None:
    values = random(*shape)
    for function in spellings(name, dim).values():
        with aclgrad.torch.remote_backward(client, strict=True):
            found = gradient(function, values)
        torch.testing.assert_close(found, gradient(function, values), rtol=1e-5, atol=1e-6)
    assert client.called == [f"{name}_backward"] * 4
    served = served_apis()
    for api, function in {"Functional": functional, "Torch": torch, "Tensor": torch.Tensor}.items():
        assert served[f"{api}.{name}"].function is getattr(function, name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_types(client: RecordingClient, name: str, dtype: torch.dtype) -> None:
    values, function = random(4, 9).to(dtype), getattr(functional, name)
    for options in ({}, {"dtype": torch.float32}):
        with aclgrad.torch.remote_backward(client, strict=True):
            found = gradient(lambda each, given=options: function(each, 1, **given), values)
        expected = gradient(lambda each, given=options: function(each, 1, **given), values)
        assert [each.dtype for each in found] == [each.dtype for each in expected]
        torch.testing.assert_close(found, expected, rtol=HALVES[dtype], atol=HALVES[dtype])
    with torch.autocast("cpu", torch.bfloat16):
        expected = gradient(lambda each: function(each, 1), values)
        with aclgrad.torch.remote_backward(client, strict=True):
            found = gradient(lambda each: function(each, 1), values)
    assert [each.dtype for each in found] == [each.dtype for each in expected]
    assert client.called == [f"{name}_backward"] * 3


@pytest.mark.parametrize("name", NAMES)
def test_vmap_makes_one_call(client: RecordingClient, name: str) -> None:
    values = random(4, 3, 5)

    def per_element(function: Callable[..., Tensor], **more: Any) -> Callable[[Tensor], Tensor]:
        return torch.vmap(torch.func.grad(lambda each: function(each, 0, **more).pow(3).sum()))

    found = per_element(getattr(aclgrad.torch, name), client=client)(values)
    torch.testing.assert_close(found, per_element(getattr(functional, name))(values), rtol=1e-4, atol=1e-5)
    assert client.called == [f"{name}_backward"]
    most = values.reshape(4, 1, 3, 1, 5, 1, 1, 1, 1)
    found = per_element(getattr(aclgrad.torch, name), client=client)(most)
    torch.testing.assert_close(found, per_element(getattr(functional, name))(most), rtol=1e-4, atol=1e-5)
    assert len(client.called) == 5


@pytest.mark.parametrize("name", NAMES)
def test_vmap_keeps_scalars_apart(client: RecordingClient, name: str) -> None:
    def gradient_and_output(function: Callable[..., Tensor], **more: Any) -> Any:
        each = torch.func.grad_and_value(lambda scalar: function(scalar, 0, **more))
        return torch.vmap(each)(random(3)), torch.vmap(torch.vmap(each))(random(2, 3))

    found = gradient_and_output(getattr(aclgrad.torch, name), client=client)
    torch.testing.assert_close(found, gradient_and_output(getattr(functional, name)))
    assert client.called == [f"{name}_backward"] * 2


def test_attention_of_a_model(client: RecordingClient) -> None:
    values, keys = random(2, 5, 8), random(2, 6, 8, seed=2)

    def attend(each: Tensor) -> Tensor:
        return torch.softmax(each @ keys.transpose(-2, -1) / 8**0.5, -1) @ keys

    with aclgrad.torch.remote_backward(client, strict=True, allow=["matmul"]):
        found = gradient(attend, values)
    torch.testing.assert_close(found, gradient(attend, values), rtol=1e-4, atol=1e-5)
    assert client.called == ["softmax_backward"]


@pytest.mark.parametrize(("shape", "target"), [((4, 5), (4,)), ((2, 3, 4), (2, 4)), ((5,), ())], ids=str)
@pytest.mark.parametrize("options", [{}, {"reduction": "sum", "ignore_index": 1}], ids=str)
def test_cross_entropy(
    client: RecordingClient, shape: tuple[int, ...], target: tuple[int, ...], options: dict[str, Any]
) -> None:
    values, classes = random(*shape), torch.full(target, 2)

    def function(each: Tensor) -> Tensor:
        return functional.cross_entropy(each, classes, **options)

    with aclgrad.torch.remote_backward(client, strict=True, allow=["nll_loss"]):
        found = gradient(function, values)
    torch.testing.assert_close(found, gradient(function, values), rtol=1e-5, atol=1e-6)
    assert client.called == ["log_softmax_backward"]
    with aclgrad.torch.remote_backward(client) as block:
        functional.cross_entropy(values.requires_grad_(), classes, label_smoothing=0.1).backward()
    assert "without label_smoothing" in str(block)


@pytest.mark.parametrize("name", NAMES)
def test_what_stays_local(client: RecordingClient, name: str) -> None:
    function = getattr(functional, name)
    with aclgrad.torch.remote_backward(client) as block:
        gradient(lambda each: function(each, 1), random(2, 3).double())
        with pytest.warns(UserWarning, match="Implicit dimension"):
            gradient(function, random(2, 3))
        with pytest.raises(IndexError):
            function(random(2, 3).requires_grad_(), 2)
    because = [place.because for place in block.account.calls]
    assert because == [
        "no product takes float64", "the operator takes an axis, and dim is None"
    ]  # fmt: skip
    assert client.called == []


def test_a_second_derivative_is_refused(client: RecordingClient) -> None:
    leaf = random(2, 3).requires_grad_()
    output = aclgrad.torch.softmax(leaf, 1, client=client)
    (found,) = torch.autograd.grad(output.pow(2).sum(), leaf, create_graph=True)
    with pytest.raises(aclgrad.InvalidFieldError, match="softmax has no second derivative"):
        found.sum().backward()


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("name", NAMES)
def test_a_compiled_function(client: RecordingClient, name: str) -> None:
    def function(each: Tensor) -> Tensor:
        return getattr(functional, name)(each, 1)

    values = random(3, 5)
    with aclgrad.torch.remote_backward(client, strict=True):
        found = gradient(torch.compile(function, backend="aot_eager", fullgraph=True), values)
    torch.testing.assert_close(found, gradient(function, values), rtol=1e-5, atol=1e-6)
    assert len(client.called) == 1
