"""Every row of the table, by name and in a block: output, gradients, dtypes, saved tensors, and torch.compile."""

import inspect
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional

import aclgrad
import aclgrad.torch
from aclgrad.torch._clients import number_of
from aclgrad.torch._operations import OPERATIONS

from .conftest import RecordingClient
from .table import (
    CALLS,
    FIRST,
    HALVES,
    LOCAL,
    SEVERAL,
    STAY_LOCAL,
    Call,
    batch_norm,
    gradients,
    grid_sample,
    group_norm,
    layer_norm,
    rms_norm,
)

INLINED = {"hardswish", "pad", "sigmoid", "tanh"}
"""What torch.compile inlines, so that it stays local; test_graphs.py has what a block says of padding."""
IN_PYTORCH = tuple(each for each in CALLS if each.function not in LOCAL)
NEEDED = tuple(each for each in product([True, False], repeat=3) if any(each))
Found = list[Tensor | None]


def close(call: Call, found: Found, expected: Found, dtype: torch.dtype = torch.float32) -> None:
    """The outputs have the same bits, the gradients their dtypes and values as near as sums in those can be."""
    torch.testing.assert_close(found[0], expected[0], rtol=0, atol=0)
    error = HALVES[dtype] * (10 if call.outputs else 1) if dtype in HALVES else 1e-5
    rtol = 1e-4 if call.outputs and dtype not in HALVES else error
    torch.testing.assert_close(found[1:], expected[1:], rtol=rtol, atol=error)


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_a_function_takes_a_client(client: RecordingClient, call: Call) -> None:
    found = call.gradients(call.leaves(), partial(getattr(aclgrad.torch, call.function), client=client))
    assert client.called == [call.operator]
    close(call, found, call.gradients(call.leaves()))


def in_dtypes() -> Iterator[Any]:
    """Yields the calls that a block sees in each dtype; those of several tensors also with parameters of float32."""
    for call in IN_PYTORCH:
        yield pytest.param(call, torch.float32, id=str(call))
        is_left_out = "unpool" in call.function or call.function == "grid_sample"
        # PyTorch has no kernel for wide biases without weights.
        if is_left_out or (len(call.values) > 2 and call.values[1] is None and call.values[2] is not None):
            continue
        for dtype in HALVES:
            narrow = call.in_dtype(dtype)
            yield pytest.param(narrow, dtype, id=f"{call}-{dtype}")
            if call.outputs:
                wide = replace(call, values=(narrow.input, *call.values[1:]))
                yield pytest.param(wide, dtype, id=f"{call}-{dtype}-wide")


def recorded(call: Call) -> tuple[Found, list[Any]]:
    """Returns output and gradients of PyTorch's function, and what its forward pass saves for them."""
    saved: list[Any] = []

    def pack(tensor: Tensor) -> Tensor:
        saved.append((tuple(tensor.shape), tensor.dtype, tensor.device))
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        return call.gradients(call.leaves()), saved


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
@pytest.mark.parametrize(("call", "dtype"), list(in_dtypes()))
def test_a_call_in_a_block(client: RecordingClient, call: Call, dtype: torch.dtype) -> None:
    """A checkpoint that computes it again outside of the block finds the same saved tensors."""
    expected, theirs = recorded(call)
    with aclgrad.torch.remote_backward(client, strict=True):
        found, mine = recorded(call)
    assert client.called == [call.operator]
    close(call, found, expected, dtype)
    # Of rms_norm, PyTorch's own parts save what they need.
    if call.function != "rms_norm" and call.input.numel():
        assert mine == theirs


@pytest.mark.parametrize("call", SEVERAL, ids=str)
def test_only_the_gradients_that_are_needed_are_asked_for(client: RecordingClient, call: Call) -> None:
    given = [each is not None for each in call.values]
    for needed in {tuple(map(min, zip(each, given, strict=False))) for each in NEEDED}:
        if not any(needed):
            continue
        client.wanted.clear()
        with aclgrad.torch.remote_backward(client, strict=True):
            found = call.gradients(call.leaves(needed))
        assert client.wanted == [[name for name, is_needed in zip(call.outputs, needed, strict=True) if is_needed]]
        close(call, found, call.gradients(call.leaves(needed)))


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("call", [each for each in FIRST if each.function not in {*LOCAL, *INLINED}], ids=str)
def test_a_call_in_a_compiled_function(client: RecordingClient, call: Call) -> None:
    compiled = torch.compile(call.bound(), backend="aot_eager", fullgraph=True)
    needed = (True, False, True)
    with aclgrad.torch.remote_backward(client, strict=True) as block:
        found = gradients(compiled, call.leaves(needed))
    assert {place.function for place in block.account.calls} == {call.function}
    assert client.called == [call.operator]
    close(call, found, call.gradients(call.leaves(needed)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("call", [each for each in SEVERAL if each.function != "grid_sample"], ids=str)
def test_the_fake_kernels_have_the_types_of_the_kernels(
    client: RecordingClient, call: Call, dtype: torch.dtype
) -> None:
    given = {**dict(zip(call.tensors, call.values, strict=True)), **call.options, "eps": 1e-5}
    given["gamma"] = given.get("weight")
    if call.function == "rms_norm" and given["weight"] is None:
        given["gamma"] = given["input"].new_ones(given["normalized_shape"])
    for input in (given["input"].to(dtype), given["input"].to(dtype).transpose(0, -1).contiguous().transpose(0, -1)):
        values = [{**given, "input": input}[name] for name in OPERATIONS[call.function].names]
        values = [list(each) if isinstance(each, tuple) else each for each in values]
        tests = ("test_schema", "test_faketensor")
        operation = getattr(torch.ops.aclgrad, call.function)
        torch.library.opcheck(operation, (*values, number_of(client)), test_utils=tests)


def drawn(seed: int) -> Call:
    """Returns a call of random sizes and options."""
    draw = Random(seed)
    shape = tuple(draw.randint(1, 6) for _ in range(draw.randint(1, 5)))
    function = draw.choice(["layer_norm", "batch_norm", "grid_sample", "group_norm", "rms_norm"])
    if function == "layer_norm":
        weight = draw.random() < 0.7
        return layer_norm(shape, draw.randint(1, len(shape)), weight=weight, bias=draw.random() < 0.7)
    if function == "group_norm":
        groups = draw.randint(1, 3)
        # Without a weight alone, PyTorch's own backward pass fails.
        return group_norm((shape[0], groups * draw.randint(1, 4), *shape[1:]), groups, bias=draw.random() < 0.7)
    if function == "rms_norm":
        return rms_norm(shape, draw.randint(1, len(shape)), weight=draw.random() < 0.7)
    if function == "batch_norm":
        training, affine = draw.random() < 0.5, {name: draw.random() < 0.7 for name in ("weight", "bias")}
        return batch_norm((draw.randint(2, 5), *shape[:4]), training=training, **affine)
    mode, padding_mode = draw.choice(["bilinear", "nearest"]), draw.choice(["zeros", "border", "reflection"])
    return grid_sample(mode, padding_mode, align_corners=draw.random() < 0.5, seed=seed, axes=draw.choice([2, 3]))


@pytest.mark.parametrize("seed", range(40))
def test_random_calls_have_the_gradients_of_pytorch_in_float64(client: RecordingClient, seed: int) -> None:
    call = drawn(seed)
    with aclgrad.torch.remote_backward(client, strict=True):
        found = call.gradients(call.leaves())
    assert client.called == [call.operator]
    wide = call.in_dtype(torch.float64)
    expected = [None if each is None else each.float() for each in wide.gradients(wide.leaves())]
    torch.testing.assert_close(found, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_grids_of_other_types(client: RecordingClient, dtype: torch.dtype) -> None:
    call = grid_sample().in_dtype(dtype)
    with aclgrad.torch.remote_backward(client, strict=True):
        found = call.gradients(call.leaves())
    # PyTorch's own kernel finds the places of float16 points in float16.
    exact = call.in_dtype(torch.float32) if dtype is torch.float16 else call
    expected = [each.to(dtype) for each in exact.gradients(exact.leaves())]
    tolerance = 4e-3 if dtype == torch.float16 else 1e-9
    torch.testing.assert_close(found[1:], expected[1:], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("call", STAY_LOCAL, ids=str)
def test_what_no_operator_computes_stays_local(client: RecordingClient, call: Call) -> None:
    with aclgrad.torch.remote_backward(client) as remote:
        found = call.gradients(call.leaves())
    assert client.called == []
    torch.testing.assert_close(found, call.gradients(call.leaves()))
    (place,) = remote.account.calls
    assert (place.function, place.whose) == (call.function, "local")
    strict = aclgrad.torch.remote_backward(client, strict=True)
    with strict, pytest.raises(aclgrad.InvalidFieldError, match=f"{call.function} would stay local: .+ outside of the"):
        call.gradients(call.leaves())
    function = partial(getattr(aclgrad.torch, call.function), client=client)
    with pytest.raises(aclgrad.InvalidFieldError, match=f"{call.function} has .* call PyTorch's own function"):
        call.gradients(call.leaves(), function)


def test_calls_without_gradients_stay_local(client: RecordingClient) -> None:
    input = torch.ones(1, 1, 4, 4, requires_grad=True)
    with aclgrad.torch.remote_backward(client):
        assert functional.max_pool2d(input.detach(), 2).grad_fn is None
        with torch.no_grad():
            assert functional.max_pool2d(input, 2).grad_fn is None


def test_pooling_can_return_its_indices(client: RecordingClient) -> None:
    input = torch.randn(2, 3, 8, 8, requires_grad=True)
    expected = functional.max_pool2d(input, 2, return_indices=True)
    with aclgrad.torch.remote_backward(client):
        rerouted = functional.max_pool2d(input, 2, return_indices=True), functional.max_pool2d_with_indices(input, 2)
    for found in (*rerouted, aclgrad.torch.max_pool2d(input, 2, return_indices=True, client=client)):
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
        assert not found[1].requires_grad
        found[0].sum().backward()
    assert client.called == ["max_pool2d_with_mask_backward"] * 3


@pytest.mark.parametrize("name", [name for name in aclgrad.torch.__all__ if not name.endswith("_backward")])
def test_a_function_tells_its_arguments(name: str) -> None:
    signature = inspect.signature(getattr(aclgrad.torch, name))
    assert signature.parameters["client"].annotation is aclgrad.Client
    assert signature.parameters["client"].kind is inspect.Parameter.KEYWORD_ONLY
    assert getattr(aclgrad.torch, name).__doc__.endswith(".\n    ") or "\n" not in getattr(aclgrad.torch, name).__doc__
    with suppress(ValueError, AttributeError):  # avg_pool2d is a builtin, and torchvision has roi_align
        theirs = inspect.signature(getattr(functional, f"_{name}", getattr(functional, name)))
        assert [*signature.parameters] == [*theirs.parameters, "client"]
