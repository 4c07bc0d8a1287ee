"""What functions of each element have that others have not: they work in place, and on any shape."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

import aclgrad
import aclgrad.torch

from .conftest import RecordingClient

IN_PLACE = {name: getattr(functional, name) for name in ("hardswish", "leaky_relu", "relu", "silu")}


def in_place(function: Callable[..., Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns what is left in the argument, and the gradient of what it was made of."""
    leaf = torch.linspace(-4, 4, 20).reshape(4, 5).requires_grad_()
    changed = leaf * 1.5
    assert function(changed, inplace=True) is changed
    changed.backward(torch.linspace(-1, 2, 20).reshape(4, 5))
    assert leaf.grad is not None
    return changed.detach(), leaf.grad


@pytest.mark.parametrize("function", IN_PLACE.values(), ids=IN_PLACE)
def test_a_function_in_place(client: RecordingClient, function: Callable[..., Any]) -> None:
    expected = in_place(function)
    with aclgrad.torch.remote_backward(client):
        found = in_place(function)
    assert len(client.called) == 1
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs)


UNDERSCORED = {
    "sigmoid": (torch.sigmoid_, torch.Tensor.sigmoid_),
    "tanh": (torch.tanh_, torch.Tensor.tanh_),
    "relu": (torch.relu_, torch.Tensor.relu_, functional.relu_),
    "leaky_relu": (functional.leaky_relu_,),
}


@pytest.mark.parametrize("name", UNDERSCORED)
def test_a_name_with_an_underscore_is_in_place(client: RecordingClient, name: str) -> None:
    for function in UNDERSCORED[name]:

        def underscored(changed: torch.Tensor, inplace: bool, run: Callable[..., Any] = function) -> torch.Tensor:
            return run(changed)

        expected = in_place(underscored)
        with aclgrad.torch.remote_backward(client, strict=True):
            found = in_place(underscored)
        torch.testing.assert_close(found, expected)
    assert len(client.called) == len(UNDERSCORED[name])


def test_a_leaf_is_not_overwritten(client: RecordingClient) -> None:
    leaf = torch.ones(3, requires_grad=True)
    with aclgrad.torch.remote_backward(client), pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        functional.silu(leaf, inplace=True)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (1,) * 8, (2,) * 8])
def test_any_shape(client: RecordingClient, shape: tuple[int, ...]) -> None:
    input = torch.full(shape, 0.3, requires_grad=True)
    with aclgrad.torch.remote_backward(client):
        functional.silu(input).sum().backward()
    expected = torch.full(shape, 0.3, requires_grad=True)
    functional.silu(expected).sum().backward()
    torch.testing.assert_close(input.grad, expected.grad)


@pytest.mark.parametrize("rank", [2, 8])
def test_vmap_makes_one_call(client: RecordingClient, rank: int) -> None:
    batch = torch.linspace(-3, 3, 2**rank * 3).reshape(3, *(2,) * rank)
    with aclgrad.torch.remote_backward(client):
        found = torch.func.vmap(torch.func.grad(lambda x: functional.silu(x).sum()))(batch)
    assert client.called == ["silu_backward"]
    torch.testing.assert_close(found, torch.func.vmap(torch.func.grad(lambda x: functional.silu(x).sum()))(batch))


@pytest.mark.parametrize(("shape", "dim"), [((2, 6), -1), ((4, 3, 5), 0), ((2, 3, 4, 2), -2), ((2,) * 8, 0)])
def test_swiglu(client: RecordingClient, shape: tuple[int, ...], dim: int) -> None:
    def theirs(x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, dim)
        return functional.silu(a) * b

    def mine(x: torch.Tensor) -> torch.Tensor:
        return aclgrad.torch.swiglu(x, dim, client=client)

    batch = torch.randn(3, *shape, generator=torch.Generator().manual_seed(4))
    for transform in (lambda function: function, lambda function: torch.func.grad(lambda x: function(x).pow(3).sum())):
        torch.testing.assert_close(transform(mine)(batch[0]), transform(theirs)(batch[0]))
        torch.testing.assert_close(torch.vmap(transform(mine))(batch), torch.vmap(transform(theirs))(batch))
    assert client.called == ["swi_glu_grad"] * 2


def test_an_axis_without_halves_is_refused(client: RecordingClient) -> None:
    with pytest.raises(aclgrad.InvalidFieldError, match="no equal halves of 3"):
        aclgrad.torch.swiglu(torch.ones(2, 3), client=client)
