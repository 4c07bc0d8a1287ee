"""embedding: the gradient of its weight."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import aclgrad
import aclgrad.torch

from .calls import HALVES
from .conftest import RecordingClient
from .several import random

INDICES = torch.tensor([[1, 0, 3], [1, 2, 1]])


def gradient(indices: Tensor, weight: Tensor, function: Any = None, **options: Any) -> list[Tensor]:
    leaf = weight.clone().requires_grad_()
    output = (function or functional.embedding)(indices, leaf, **options)
    (output * torch.linspace(-1, 2, output.numel()).reshape(output.shape).to(output.dtype)).sum().backward()
    assert leaf.grad is not None
    return [output.detach(), leaf.grad]


@pytest.mark.parametrize(
    "options", [{}, {"padding_idx": 1}, {"padding_idx": -4}, {"scale_grad_by_freq": True}], ids=str
)
@pytest.mark.parametrize(
    "indices", [INDICES, INDICES.int(), INDICES[0, 0:1], INDICES[:0]], ids=lambda each: str(each.shape)
)
def test_the_gradient_of_pytorch(client: RecordingClient, indices: Tensor, options: dict[str, Any]) -> None:
    weight = random(4, 5)
    with aclgrad.torch.remote_backward(client, strict=True):
        found = gradient(indices, weight, **options)
    torch.testing.assert_close(found, gradient(indices, weight, **options), rtol=1e-5, atol=1e-6)
    remote = gradient(indices, weight, aclgrad.torch.embedding, client=client, **options)
    torch.testing.assert_close(found, remote, rtol=0, atol=0)
    assert client.called == ["embedding_dense_backward"] * 2


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_types(client: RecordingClient, dtype: torch.dtype) -> None:
    weight = random(4, 5).to(dtype)
    with aclgrad.torch.remote_backward(client, strict=True):
        found = gradient(INDICES, weight)
    torch.testing.assert_close(found, gradient(INDICES, weight), rtol=HALVES[dtype], atol=HALVES[dtype])
    assert client.called == ["embedding_dense_backward"]


def test_a_module_and_vmap(client: RecordingClient) -> None:
    layer = nn.Embedding(6, 3, padding_idx=2)
    with aclgrad.torch.remote_backward(client, strict=True):
        layer(INDICES).pow(3).sum().backward()
    found, layer.weight.grad = layer.weight.grad, None
    layer(INDICES).pow(3).sum().backward()
    torch.testing.assert_close(found, layer.weight.grad, rtol=1e-5, atol=1e-6)
    weights = random(3, 4, 5)

    def loss(weight: Tensor) -> Tensor:
        return aclgrad.torch.embedding(INDICES, weight, client=client).pow(3).sum()

    def local(weight: Tensor) -> Tensor:
        return functional.embedding(INDICES, weight).pow(3).sum()

    expected = torch.vmap(torch.func.grad(local))(weights)
    torch.testing.assert_close(torch.vmap(torch.func.grad(loss))(weights), expected, rtol=1e-5, atol=1e-5)
    assert len(client.called) == 4


@pytest.mark.parametrize("options", [{"max_norm": 1.0}, {"sparse": True}], ids=str)
def test_what_stays_local(client: RecordingClient, options: dict[str, Any]) -> None:
    with aclgrad.torch.remote_backward(client) as block:
        found = functional.embedding(INDICES, random(4, 5).requires_grad_(not options.get("max_norm")), **options)
        weight = random(4, 5).requires_grad_()
        with pytest.raises(IndexError):
            functional.embedding(INDICES + 9, weight)
    assert found.shape == (*INDICES.shape, 5)
    assert options.get("max_norm") or "neither max_norm nor sparse" in str(block)
    with pytest.raises(aclgrad.InvalidFieldError, match="neither max_norm nor sparse"):
        aclgrad.torch.embedding(INDICES, weight, client=client, **options)
    assert client.called == []
