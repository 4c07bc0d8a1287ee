"""Every row of the table, by name and in a block: output, gradients, dtypes, saved tensors, and torch.compile."""

import inspect
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional

import aclgrad
import aclgrad.torch
from aclgrad.bridges.rows import ROWS
from aclgrad.torch._rows import OPERATIONS
from aclgrad.torch._tensors import number_of
from aclgrad.torch.calls import operators_by_function

from . import losses, table
from .conftest import RecordingClient
from .convolutions import CONVOLUTIONS, OPERATOR
from .products import ALL as PRODUCTS
from .table import HALVES, LOCAL, OF_MODELS, STAY_LOCAL, Call, grad_output_of, grid_sample

CALLS = (*table.CALLS, *CONVOLUTIONS, *losses.CALLS)
SEVERAL = tuple(each for each in CALLS if each.outputs)
FIRST = tuple({each.function: each for each in reversed(CALLS)}.values())
INLINED = {"hardsigmoid", "hardswish", "pad", "sigmoid", "tanh"}
"""What torch.compile inlines, so that it stays local; test_graphs.py has what a block says of padding."""
OF_ONE_DTYPE = {"prelu", "scaled_dot_product_attention"}
"""Functions that take no parameters wider than their input."""
APART = {("mse_loss", "weight"), ("kl_div", "log_target")}
"""Functions and options of which PyTorch's parts save other tensors, so that they are local where those are kept."""
IN_PYTORCH = tuple(
    each
    for each in CALLS
    if each.function not in LOCAL and not APART.intersection((each.function, name) for name in each.options)
)
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
    """Yields the calls that a block sees, one of each function in each half, too, and with parameters of float32."""
    for call in IN_PYTORCH:
        yield pytest.param(call, torch.float32, id=str(call))
        is_left_out = "unpool" in call.function or call.function in ("ctc_loss", "grid_sample")
        # PyTorch has no kernel for wide biases without weights.
        if is_left_out or (len(call.values) > 2 and call.values[1] is None and call.values[2] is not None):
            continue
        if not any(call is each for each in FIRST):
            continue
        for dtype in HALVES:
            narrow = call.in_dtype(dtype)
            yield pytest.param(narrow, dtype, id=f"{call}-{dtype}")
            if call.outputs and call.function not in OF_ONE_DTYPE and call.operator != OPERATOR:
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
def test_calls_in_a_compiled_function(client: RecordingClient) -> None:
    calls = [each for each in FIRST if each.function not in {*LOCAL, *INLINED}]
    bound, needed = [each.bound() for each in calls], (True, False, True)

    def every(leaves: list[list[Any]]) -> list[Tensor]:
        return [function(*own) for function, own in zip(bound, leaves, strict=True)]

    compiled = torch.compile(every, backend="aot_eager", fullgraph=True)
    mine, theirs = ([each.leaves(needed) for each in calls] for _ in range(2))
    with aclgrad.torch.remote_backward(client, strict=True) as block:
        outputs = compiled(mine)
    assert {site.function for site in block.account.calls} == {each.function for each in calls}
    torch.autograd.backward(outputs, [grad_output_of(each) for each in outputs])
    assert sorted(client.called) == sorted(each.operator for each in calls)
    for call, output, leaves, own in zip(calls, outputs, mine, theirs, strict=True):
        found = [output.detach(), *[None if each is None else each.grad for each in leaves]]
        close(call, found, call.gradients(own))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "call", [each for each in FIRST if each.outputs and each.function not in {*OF_ONE_DTYPE, "grid_sample"}], ids=str
)
def test_the_fake_kernels_have_the_types_of_the_kernels(
    client: RecordingClient, call: Call, dtype: torch.dtype
) -> None:
    call = call.in_dtype(dtype) if call.operator == OPERATOR else call
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
    (site,) = remote.account.calls
    assert (site.function, site.whose) == (call.function, "local")
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


def test_every_row_of_the_bridges_is_a_function() -> None:
    assert OPERATIONS.keys() == ROWS.keys()
    products = {each.function for each in PRODUCTS}
    assert operators_by_function().keys() | products | OF_MODELS == set(aclgrad.torch.__all__)


@pytest.mark.parametrize("name", sorted(set(aclgrad.torch.__all__) - OF_MODELS))
def test_a_function_tells_its_arguments(name: str) -> None:
    signature = inspect.signature(getattr(aclgrad.torch, name))
    assert signature.parameters["client"].annotation is aclgrad.Client
    assert signature.parameters["client"].kind is inspect.Parameter.KEYWORD_ONLY
    assert getattr(aclgrad.torch, name).__doc__.endswith(".\n    ") or "\n" not in getattr(aclgrad.torch, name).__doc__
    with suppress(ValueError, AttributeError):  # avg_pool2d is a builtin, and torchvision has roi_align
        theirs = inspect.signature(getattr(functional, f"_{name}", getattr(functional, name)))
        assert [*signature.parameters] == [*theirs.parameters, "client"]
