"""What the table of calls has not: functions in place, losses with a softmax in them, and arguments that do not fit."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import aclgrad
import aclgrad.torch

from .conftest import RecordingClient
from .table import gradients, random


def test_a_leaf_is_not_overwritten(client: RecordingClient) -> None:
    leaf = torch.ones(3, requires_grad=True)
    with aclgrad.torch.remote_backward(client), pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        functional.silu(leaf, inplace=True)


@pytest.mark.parametrize(("shape", "target"), [((4, 5), (4,)), ((2, 3, 4), (2, 4)), ((5,), ())], ids=str)
@pytest.mark.parametrize("options", [{}, {"reduction": "sum", "ignore_index": 1}], ids=str)
def test_cross_entropy(
    client: RecordingClient, shape: tuple[int, ...], target: tuple[int, ...], options: dict[str, Any]
) -> None:
    values, classes = random(*shape).requires_grad_(), torch.full(target, 2)

    def function(each: Tensor) -> Tensor:
        return functional.cross_entropy(each, classes, **options)

    with aclgrad.torch.remote_backward(client, strict=True, allow=["nll_loss"]):
        found = gradients(function, [values.detach().requires_grad_()])
    torch.testing.assert_close(found, gradients(function, [values]), rtol=1e-5, atol=1e-6)
    assert client.called == ["log_softmax_backward"]
    with aclgrad.torch.remote_backward(client) as block:
        functional.cross_entropy(values, classes, label_smoothing=0.1).backward()
    assert "without label_smoothing" in str(block)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_what_softmax_leaves_local(client: RecordingClient, name: str) -> None:
    function, rows = getattr(functional, name), random(2, 3).requires_grad_()
    with aclgrad.torch.remote_backward(client) as block:
        function(rows.double(), 1).sum().backward()
        with pytest.warns(UserWarning, match="Implicit dimension"):
            function(rows).sum().backward()
    because = {place.because for place in block.account.calls if place.function == name}
    assert because == {"no product takes float64", "the operator takes an axis, and dim is None"}
    assert client.called == []


def test_places_that_there_are_not_are_refused_as_by_pytorch(client: RecordingClient) -> None:
    rows = random(4, 5).requires_grad_()
    with aclgrad.torch.remote_backward(client):
        for function in (functional.softmax, functional.log_softmax):
            with pytest.raises(IndexError):
                function(rows, 2)
        with pytest.raises(IndexError):
            functional.embedding(torch.tensor([9]), rows)
    assert client.called == []


def test_an_axis_without_halves_is_refused(client: RecordingClient) -> None:
    with pytest.raises(aclgrad.InvalidFieldError, match="no equal halves of 3"):
        aclgrad.torch.swiglu(torch.ones(2, 3), client=client)
