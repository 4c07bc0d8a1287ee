"""Attention: PyTorch's own outputs, with gradients of one operator, or of the parts of its math path."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

import aclgrad
import aclgrad.torch

from .attention import (
    BIAS,
    GRADIENTS,
    IN_PARTS,
    KERNEL,
    MATH,
    PLAIN,
    close,
    in_dtype,
    operands,
    step,
    wide,
)
from .conftest import RecordingClient
from .table import HALVES, random


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
@pytest.mark.parametrize("name", KERNEL)
def test_one_operator_has_all_gradients(client: RecordingClient, name: str, dtype: torch.dtype) -> None:
    shapes, options, operator = KERNEL[name]
    given, options = operands(*shapes, dtype=dtype), in_dtype(options, dtype)
    expected = step(given, **options)
    with aclgrad.torch.remote_backward(client, strict=True) as remote:
        found = step(given, **options)
    assert client.called == [operator]
    close(found, expected, dtype)
    assert [each.stride() for each in found] == [each.stride() for each in expected]
    exact = [each.to(dtype) for each in wide(given, **options)]
    torch.testing.assert_close(found[1:], exact[1:], rtol=HALVES.get(dtype, 1e-5), atol=HALVES.get(dtype, 1e-5) * 5)
    ((site, count),) = remote.account.calls.items()
    assert (site.function, site.because, site.part_of, count) == ("scaled_dot_product_attention", None, "", 1)
    assert "100.0% of " in str(remote).splitlines()[-1]


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
@pytest.mark.parametrize("name", IN_PARTS)
def test_the_math_path_has_gradients_of_its_parts(client: RecordingClient, name: str, dtype: torch.dtype) -> None:
    shapes, options, because = IN_PARTS[name]
    given = operands(*shapes, dtype=dtype)
    expected = step(given, **options)
    after = torch.rand(())
    with aclgrad.torch.remote_backward(client, strict=True) as remote:
        found = step(given, **options)
    torch.testing.assert_close(torch.rand(()), after, rtol=0, atol=0)
    close(found, expected, dtype)
    dropped = ["dropout_do_mask"] if "dropout_p" in options else []
    assert [each.replace("linear", "matmul") for each in client.called] == [MATH[0], *dropped, *MATH[1:]]
    assert {site.function for site in remote.account.calls} == {"matmul", "softmax", *(["dropout"] if dropped else [])}
    for site in remote.account.calls:
        assert site.part_of.startswith(f"part of scaled_dot_product_attention: {because}")
    assert because in str(remote)


def test_a_mask_that_wants_a_gradient_has_one(client: RecordingClient) -> None:
    given, found = operands(*PLAIN), []
    for within in (False, True):
        mask = BIAS[:, :1].clone().requires_grad_()
        with aclgrad.torch.remote_backward(client, strict=True) if within else torch.enable_grad():
            found.append([*step(given, attn_mask=mask), mask.grad])
    assert client.called == MATH
    close(found[1], found[0])


def saved_by(given: list[Tensor], **options: Any) -> list[Any]:
    saved: list[Any] = []

    def pack(tensor: Tensor) -> Tensor:
        saved.append((tuple(tensor.shape), tensor.dtype, tensor.stride()))
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        step(given, **options)
    return saved


@pytest.mark.parametrize("name", ["plain", "mask of positions", "bias of all", "groups, causal"])
def test_the_kernel_saves_what_pytorch_saves(client: RecordingClient, name: str) -> None:
    shapes, options, _ = KERNEL[name]
    expected = saved_by(operands(*shapes), **options)
    with aclgrad.torch.remote_backward(client, strict=True):
        assert saved_by(operands(*shapes), **options) == expected


@pytest.mark.parametrize("name", ["dropout", "three axes", "wide values", "narrow values"])
def test_the_math_path_saves_what_pytorch_saves(client: RecordingClient, name: str) -> None:
    shapes, options, _ = IN_PARTS[name]
    expected = saved_by(operands(*shapes), **options)
    with aclgrad.torch.remote_backward(client, strict=True):
        assert [each[:2] for each in saved_by(operands(*shapes), **options)] == [each[:2] for each in expected]


def test_only_the_gradients_that_are_needed_are_asked_for(client: RecordingClient) -> None:
    query, key, value = operands(*PLAIN)
    value.requires_grad_()
    with aclgrad.torch.remote_backward(client, strict=True):
        functional.scaled_dot_product_attention(query, key, value).sum().backward()
    assert client.wanted == [["dv"]]


def test_views_of_one_tensor(client: RecordingClient) -> None:
    """As models split a projection: heads are an inner axis, and query, key and value lie side by side."""
    found = []
    for within in (False, True):
        packed = random(2, 5, 3 * 4 * 8, seed=2).requires_grad_()
        parts = packed.unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        with aclgrad.torch.remote_backward(client, strict=True) if within else torch.enable_grad():
            output = functional.scaled_dot_product_attention(*parts, is_causal=True)
        output.transpose(1, 2).flatten(2).pow(3).sum().backward()
        found.append([output.detach(), packed.grad])
    assert client.called == [GRADIENTS]
    assert found[0][0].stride() == found[1][0].stride()
    close(found[1], found[0])


def test_other_strides_take_the_math_path_as_in_pytorch(client: RecordingClient) -> None:
    given = [each.mT.contiguous().mT for each in operands(*PLAIN)]
    expected = step(given)
    with aclgrad.torch.remote_backward(client, strict=True):
        found = step(given)
    close(found, expected)


def test_the_users_choice_of_a_path(client: RecordingClient) -> None:
    given = operands(*PLAIN)
    with aclgrad.torch.remote_backward(client, strict=True), sdpa_kernel(SDPBackend.MATH):
        found = step(given)
    assert client.called == MATH
    with sdpa_kernel(SDPBackend.MATH):
        close(found, step(given))


def test_a_function_takes_a_client(client: RecordingClient) -> None:
    shapes, options, operator = KERNEL["mask of all"]
    leaves = [each.requires_grad_() for each in operands(*shapes)]
    aclgrad.torch.scaled_dot_product_attention(*leaves, **options, client=client).sum().backward()
    assert client.called == [operator]
    wide = [each.detach().double().requires_grad_() for each in leaves]
    with pytest.raises(aclgrad.InvalidFieldError, match="no product takes float64"):
        aclgrad.torch.scaled_dot_product_attention(*wide, client=client)


@pytest.mark.parametrize(
    "change",
    [
        lambda query, key, value: (query, key[:, :2], value[:, :2]),
        lambda query, key, value: (query, key[..., :4], value),
        lambda query, key, value: (query, key, value.double()),
        lambda query, key, value: (query, key, value, torch.ones(5, 7, dtype=torch.int64)),
        lambda query, key, value: (query, key, value, torch.ones(4, 7)),
        lambda query, key, value: (query, key, value, torch.ones(7)),
        lambda query, key, value: (query, key, value, torch.ones(2, 1, 1, 1, 7), 0.1),
        lambda query, key, value: (query, key, value, None, -0.5),
    ],
    ids=["heads", "sizes", "dtypes", "integers", "another shape", "one axis", "five axes", "negative dropout"],
)
def test_what_pytorch_refuses(client: RecordingClient, change: Callable[..., Any]) -> None:
    given = change(*(each.requires_grad_() for each in operands(*PLAIN)))
    with pytest.raises((RuntimeError, IndexError)) as expected:
        functional.scaled_dot_product_attention(*given)
    with aclgrad.torch.remote_backward(client), pytest.raises((RuntimeError, IndexError)) as found:
        functional.scaled_dot_product_attention(*given)
    assert str(found.value) == str(expected.value)
    assert client.called == []


@pytest.mark.parametrize("dtype", HALVES)
def test_a_wider_mask_stays_here(client: RecordingClient, dtype: torch.dtype) -> None:
    """PyTorch adds it unrounded, and cards do not."""
    given = operands(*PLAIN, dtype=dtype)
    mask = 300 - torch.arange(PLAIN[1][2])[None] * 0.37
    expected = step(given, attn_mask=mask)
    with aclgrad.torch.remote_backward(client) as remote:
        found = step(given, attn_mask=mask)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert client.called == []
    assert "the mask is float32, and cards add it in the query's dtype" in " ".join(str(remote).split())


def test_heads_that_need_no_repeating_keep_their_strides(client: RecordingClient) -> None:
    keys, values = random(2, 7, 2, 3, 8).permute(2, 0, 3, 1, 4)
    query = operands(*PLAIN)[0]
    for _ in range(20):
        query = query.flip(2)
        torch.manual_seed(1)
        expected = functional.scaled_dot_product_attention(query, keys, values, dropout_p=0.1, enable_gqa=True)
        torch.manual_seed(1)
        with aclgrad.torch.remote_backward(client):
            found = functional.scaled_dot_product_attention(query, keys, values, dropout_p=0.1, enable_gqa=True)
        assert torch.equal(found, expected)


def test_what_is_no_number_gives_no_numbers(client: RecordingClient) -> None:
    given = operands(*PLAIN)
    with torch.no_grad():
        given[1][0, 0, 2, 1] = torch.nan
    expected = step(given)
    with aclgrad.torch.remote_backward(client):
        found = step(given)
    torch.testing.assert_close(found, expected, equal_nan=True)


def test_no_queries_and_no_sequences(client: RecordingClient) -> None:
    for shapes in (((2, 3, 0, 8), *PLAIN[1:]), ((0, 3, 5, 8),) * 3):
        given = operands(*shapes)
        expected = step(given)
        with aclgrad.torch.remote_backward(client):
            found = step(given)
        torch.testing.assert_close(found, expected)


class Model(nn.Module):
    """Attention of transformers that are written by hand."""

    def __init__(self, width: int = 24, heads: int = 3) -> None:
        super().__init__()
        self.heads = heads
        self.packed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, input: Tensor) -> Tensor:
        parts = self.packed(input).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*parts, is_causal=True)
        result: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return result


def test_the_account_names_the_layer(client: RecordingClient) -> None:
    torch.manual_seed(3)
    with aclgrad.torch.remote_backward(client, strict=True) as remote:
        nn.Sequential(Model(), Model())(random(2, 5, 24)).sum().backward()
    layers = {site.layer for site in remote.account.calls if site.function == "scaled_dot_product_attention"}
    assert layers == {"Sequential.0", "Sequential.1"}
