"""Attention within checkpoints, autocast, torch.func and torch.compile, and compared."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import aclgrad
import aclgrad.torch
from aclgrad.judge.findings.rows import Verdict
from aclgrad.torch._tensors import number_of

from .attention import (
    BIAS,
    EMPTY,
    GRADIENTS,
    IN_PARTS,
    KERNEL,
    LOWER,
    MATH,
    OF_BIAS,
    PLAIN,
    SOME,
    WIDE,
    close,
    operands,
    step,
)
from .conftest import RecordingClient
from .table import HALVES, grad_output_of


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("options", [{}, {"attn_mask": BIAS}, {"attn_mask": EMPTY}, {"dropout_p": 0.3}], ids=str)
def test_autocast(client: RecordingClient, half: torch.dtype, options: dict[str, Any]) -> None:
    given, found = operands(*PLAIN), []
    for within in (False, True):
        block = aclgrad.torch.remote_backward(client, strict=True) if within else torch.enable_grad()
        with torch.autocast("cpu", half), block:
            found.append(step(given, **options))
    assert found[1][0].dtype == half
    torch.testing.assert_close(found[1][0], found[0][0], rtol=0, atol=0)
    torch.testing.assert_close(found[1][1:], found[0][1:], rtol=HALVES[half], atol=HALVES[half])


@pytest.mark.parametrize("is_reentrant", [True, False], ids=["reentrant", "hooks"])
@pytest.mark.parametrize("is_within", [True, False], ids=["backward_within", "backward_after"])
@pytest.mark.parametrize("options", [{}, {"attn_mask": LOWER}, {"dropout_p": 0.3}], ids=["plain", "mask", "dropout"])
def test_checkpoints(client: RecordingClient, options: dict[str, Any], *, is_reentrant: bool, is_within: bool) -> None:
    given = operands(*PLAIN)
    expected = step(given, **options)
    torch.manual_seed(4)
    leaves = [each.clone().requires_grad_() for each in given]

    def attended(*each: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(*each, **options)

    with aclgrad.torch.remote_backward(client, strict=True):
        output = checkpoint(attended, *leaves, use_reentrant=is_reentrant)
        if is_within:
            output.backward(grad_output_of(output))
    if not is_within:
        output.backward(grad_output_of(output))
    close([output.detach(), *(each.grad for each in leaves)], expected)
    assert (GRADIENTS if "dropout_p" not in options else "dropout_do_mask") in client.called


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"attn_mask": SOME}, {"attn_mask": BIAS}], ids=str)
def test_gradients_of_each_sample(client: RecordingClient, options: dict[str, Any]) -> None:
    given = [torch.stack([each, each * 0.5, -each]) for each in operands(*PLAIN)]

    def loss(*each: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(*each, **options).pow(3).sum()

    gradients = torch.func.vmap(torch.func.grad(loss, (0, 1, 2)))
    expected = [torch.func.grad(loss, (0, 1, 2))(*each) for each in zip(*given, strict=True)]
    with aclgrad.torch.remote_backward(client, strict=True):
        found = gradients(*given)
    assert client.called == [OF_BIAS if options.get("attn_mask") is BIAS else GRADIENTS]
    for one, others in zip(found, zip(*expected, strict=True), strict=True):
        torch.testing.assert_close(one, torch.stack(others), rtol=1e-4, atol=1e-4)


def test_elements_with_masks_of_their_own(client: RecordingClient) -> None:
    query, key, value = operands(*PLAIN)
    masks = torch.stack([SOME[:, :1], EMPTY[:, :1]])

    def attended(query: Tensor, mask: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(query, key, value, mask).pow(3).sum()

    expected = torch.stack([torch.func.grad(attended)(query, mask) for mask in masks])
    with aclgrad.torch.remote_backward(client, strict=True):
        found = torch.func.vmap(torch.func.grad(attended), (None, 0))(query, masks)
    assert client.called == [GRADIENTS]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("name", ["causal", "mask of keys", "bias of all", "groups"])
def test_a_compiled_call(client: RecordingClient, name: str) -> None:
    shapes, options, operator = KERNEL[name]
    given = operands(*shapes)
    expected = step(given, **options)
    compiled = torch.compile(
        lambda *each: functional.scaled_dot_product_attention(*each, **options), backend="aot_eager", fullgraph=True
    )
    leaves = [each.clone().requires_grad_() for each in given]
    with aclgrad.torch.remote_backward(client, strict=True) as remote:
        output = compiled(*leaves)
        output.backward(grad_output_of(output))
    close([output.detach(), *(each.grad for each in leaves)], expected)
    assert client.called == [operator]
    assert {site.function for site in remote.account.calls} == {"scaled_dot_product_attention"}


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["wide values", "three axes"])
def test_a_compiled_math_path(client: RecordingClient, name: str, dtype: torch.dtype) -> None:
    shapes, options, _ = IN_PARTS[name]
    given = operands(*shapes, dtype=dtype)
    expected = step(given, **options)
    compiled = torch.compile(
        lambda *each: functional.scaled_dot_product_attention(*each, **options), backend="aot_eager", fullgraph=True
    )
    leaves = [each.clone().requires_grad_() for each in given]
    with aclgrad.torch.remote_backward(client, strict=True) as remote:
        output = compiled(*leaves)
        output.backward(grad_output_of(output))
    close([output.detach(), *(each.grad for each in leaves)], expected, dtype)
    assert client.called == MATH
    assert {site.function for site in remote.account.calls} == {"matmul", "softmax"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["plain", "bias of all", "groups, causal"])
def test_the_fake_kernel_has_the_types_of_the_kernel(client: RecordingClient, name: str, dtype: torch.dtype) -> None:
    shapes, options, _ = KERNEL[name]
    given, mask = operands(*shapes, dtype=dtype), options.get("attn_mask")
    values = *given, None if mask is None else mask.to(dtype), False, options.get("is_causal", False), None
    operation = torch.ops.aclgrad.scaled_dot_product_attention
    torch.library.opcheck(operation, (*values, number_of(client)), test_utils=("test_schema", "test_faketensor"))


def test_a_second_derivative_is_refused(client: RecordingClient) -> None:
    given = [each.requires_grad_() for each in operands(*PLAIN)]
    with aclgrad.torch.remote_backward(client):
        output = functional.scaled_dot_product_attention(*given)
        (gradient,) = torch.autograd.grad(output.pow(3).sum(), given[0], create_graph=True)
        with pytest.raises(aclgrad.InvalidFieldError, match="no second derivative"):
            gradient.sum().backward()


@pytest.mark.parametrize("name", ["mask of keys", "bias of heads", "groups, causal"])
def test_the_kernel_is_compared(client: RecordingClient, name: str) -> None:
    shapes, options, _ = KERNEL[name]
    with aclgrad.torch.compare_backward(client) as compared:
        step(operands(*shapes), **options)
    assert [row.verdict for row in compared.rows] == [Verdict.PASSED] * 3


def test_the_math_path_is_compared_but_for_dropout(client: RecordingClient) -> None:
    with aclgrad.torch.compare_backward(client) as compared:
        step(operands(*WIDE))
        step(operands(*PLAIN), dropout_p=0.3)
    assert [row.verdict for row in compared.rows] == [Verdict.PASSED] * 3 + [Verdict.SKIPPED]
    assert "it drops other weights each time" in str(compared)
