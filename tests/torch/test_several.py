"""Functions with gradients of several arguments: one call computes those that autograd needs."""

from collections.abc import Callable
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

from .calls import HALVES
from .conftest import RecordingClient
from .several import SEVERAL, Several, batch_norm, grid_sample, group_norm, layer_norm, random, rms_norm

ONE_OF_EACH = (
    layer_norm((2, 3, 5)), batch_norm((2, 3, 4), training=True, statistics=False), grid_sample(), rms_norm((2, 3, 5)),
    group_norm((2, 4, 5), 2),
)  # fmt: skip
NEEDED = tuple(each for each in product([True, False], repeat=3) if any(each))


@pytest.mark.parametrize("call", SEVERAL, ids=str)
def test_one_call_has_the_gradients_that_are_needed(client: RecordingClient, call: Several) -> None:
    given = [each is not None for each in call.values]
    for needed in {tuple(map(min, zip(each, given, strict=False))) for each in NEEDED}:
        if not any(needed):
            continue
        client.wanted.clear()
        expected = call.gradients(call.leaves(needed))
        with aclgrad.torch.remote_backward(client, strict=True):
            found = call.gradients(call.leaves(needed))
        assert client.wanted == [[name for name, is_needed in zip(call.outputs, needed, strict=True) if is_needed]]
        torch.testing.assert_close(found[0], expected[0], rtol=0, atol=0)
        for mine, theirs in zip(found[1:], expected[1:], strict=True):
            assert (mine is None) == (theirs is None)
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5) if mine is not None else None
    assert set(client.called) == {call.operator}


def drawn(seed: int) -> Several:
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
def test_random_calls_have_the_gradients_of_pytorch(client: RecordingClient, seed: int) -> None:
    call = drawn(seed)
    with aclgrad.torch.remote_backward(client, strict=True):
        found = call.gradients(call.leaves())
    assert client.called == [call.operator]
    expected = call.gradients(call.leaves(dtype=torch.float64), in_float64=True)
    for mine, theirs in zip(found, expected, strict=True):
        if mine is not None:
            torch.testing.assert_close(mine, theirs.float(), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("call", ONE_OF_EACH, ids=str)
def test_a_function_takes_a_client(client: RecordingClient, call: Several) -> None:
    function = getattr(aclgrad.torch, call.function)
    found = call.gradients(call.leaves(), lambda **given: function(**given, client=client))
    assert client.called == [call.operator]
    torch.testing.assert_close(found, call.gradients(call.leaves()), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
@pytest.mark.parametrize("dtype", HALVES, ids=str)
# PyTorch has no kernel for wide biases without weights.
@pytest.mark.parametrize(
    "call",
    [
        each
        for each in SEVERAL
        if each.function != "grid_sample" and (each.values[1] is not None or each.values[-1] is None)
    ],
    ids=str,
)
@pytest.mark.parametrize("is_wide", [True, False], ids=["wide_parameters", "narrow_parameters"])
def test_gradients_have_the_types_of_their_arguments(
    client: RecordingClient, call: Several, dtype: torch.dtype, is_wide: bool
) -> None:
    def leaves() -> list[Tensor | None]:
        narrow = call.leaves(dtype=dtype)
        return [narrow[0], *call.leaves()[1:]] if is_wide else narrow

    if not is_wide:
        kept = {name: each.to(dtype) if isinstance(each, Tensor) else each for name, each in call.options.items()}
        call = Several(call.function, call.operator, call.outputs, call.tensors, call.values, kept)
    with aclgrad.torch.remote_backward(client, strict=True):
        found = call.gradients(leaves())
    assert client.called == [call.operator]
    expected = call.gradients(leaves())
    torch.testing.assert_close(found[0], expected[0], rtol=0, atol=0)
    torch.testing.assert_close(found[1:], expected[1:], rtol=10 * HALVES[dtype], atol=10 * HALVES[dtype])


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_grids_of_other_types(client: RecordingClient, dtype: torch.dtype) -> None:
    call = grid_sample()
    with aclgrad.torch.remote_backward(client, strict=True):
        found = call.gradients(call.leaves(dtype=dtype))
    assert {each.dtype for each in found} == {dtype}
    # PyTorch's own kernel finds the places of float16 points in float16.
    rounded = [each.to(dtype).float() if dtype == torch.float16 else each.to(dtype) for each in call.leaves()]
    expected = call.gradients([each.detach().requires_grad_() for each in rounded])
    tolerance = 4e-3 if dtype == torch.float16 else 1e-9
    torch.testing.assert_close(found[1:], [each.to(dtype) for each in expected[1:]], rtol=tolerance, atol=tolerance)


# Of rms_norm, PyTorch's own parts save what they need.
@pytest.mark.parametrize(
    "call", [each for each in SEVERAL if each.values[0].numel() and each.function != "rms_norm"], ids=str
)
def test_what_is_saved_is_what_pytorch_saves(client: RecordingClient, call: Several) -> None:
    def saved() -> list[tuple[object, ...]]:
        found: list[tuple[object, ...]] = []

        def pack(tensor: Tensor) -> Tensor:
            found.append((tuple(tensor.shape), tensor.dtype))
            return tensor

        with saved_tensors_hooks(pack, lambda tensor: tensor):
            call.gradients(call.leaves())
        return found

    expected = saved()
    with aclgrad.torch.remote_backward(client):
        assert saved() == expected


def test_any_strides_will_do(client: RecordingClient) -> None:
    image = random(2, 6, 5, 3).permute(0, 3, 1, 2)[:, :, ::2]
    grid = (random(2, 2, 4, 3, seed=2) / 3).permute(0, 2, 3, 1)
    for function in (
        lambda each: functional.layer_norm(each, (5,)),
        lambda each: functional.batch_norm(each, None, None, training=True),
        lambda each: functional.batch_norm(each.to(memory_format=torch.channels_last), None, None, training=True),
        lambda each: functional.grid_sample(each, grid, align_corners=False),
    ):
        found, expected = image.clone().requires_grad_(), image.clone().requires_grad_()
        function(expected).pow(3).sum().backward()
        with aclgrad.torch.remote_backward(client, strict=True):
            function(found).pow(3).sum().backward()
        torch.testing.assert_close(found.grad, expected.grad, rtol=1e-4, atol=1e-4)
    assert len(client.called) == 4


@pytest.mark.parametrize("call", ONE_OF_EACH, ids=str)
def test_a_second_derivative_is_refused(client: RecordingClient, call: Several) -> None:
    """PyTorch's own functions have one, so a graph of it must not go on without."""
    with aclgrad.torch.remote_backward(client):
        leaves = call.leaves()
        (gradient,) = torch.autograd.grad(call.bound()(*leaves).pow(3).sum(), leaves[0], create_graph=True)
        with pytest.raises(
            aclgrad.InvalidFieldError, match=f"{call.function} has no second derivative .* PyTorch's own"
        ):
            gradient.sum().backward()
    function = call.bound(getattr(aclgrad.torch, call.function), client=client)

    def penalty(input: Tensor) -> Tensor:
        return torch.func.grad(lambda each: function(each, *call.values[1:]).pow(3).sum())(input).sum()

    with pytest.raises(aclgrad.InvalidFieldError, match="has no second derivative"):
        torch.func.grad(penalty)(call.values[0])


# Of layer_norm, gradients of parameters are sums over a call, and parameters are one for each.
CALLS_OF_VMAP = {
    ("layer_norm", (0,), (0, None, None)): 1,
    ("layer_norm", (0,), (1, 0, None)): 3,
    ("layer_norm", (0, 1, 2), (0, None, None)): 3,
    ("layer_norm", (1, 2), (None, 0, 0)): 3,
    ("batch_norm", (0,), (0, None, None)): 1,
    ("batch_norm", (0, 1, 2), (0, None, None)): 1,
    ("batch_norm", (0, 1, 2), (1, 0, 0)): 1,
    ("batch_norm", (1,), (None, 0, None)): 1,
    ("group_norm", (0, 1, 2), (0, None, None)): 3,
    ("group_norm", (0,), (1, 0, 0)): 3,
    ("rms_norm", (0,), (0, None)): 1,
    ("rms_norm", (0, 1), (0, None)): 3,
    ("rms_norm", (0,), (1, 0)): 3,
    ("grid_sample", (0, 1), (0, 0)): 1,
    ("grid_sample", (0, 1), (0, None)): 1,
    ("grid_sample", (1,), (None, 0)): 1,
}


@pytest.mark.parametrize(("function", "by", "in_dims"), CALLS_OF_VMAP, ids=str)
def test_vmap(client: RecordingClient, function: str, by: tuple[int, ...], in_dims: tuple[int | None, ...]) -> None:
    call = next(each for each in ONE_OF_EACH if each.function == function)
    mapped = [
        each if dim is None else torch.stack([each, each.flip(0), each * 0.9], dim)
        for each, dim in zip(call.values, in_dims, strict=True)
    ]
    remote = call.bound(getattr(aclgrad.torch, function), client=client)
    found, expected = (
        torch.vmap(torch.func.grad(lambda *each, f=f: f(*each).pow(3).sum(), by), in_dims)(*mapped)
        for f in (remote, call.bound())
    )
    assert len(client.called) == CALLS_OF_VMAP[function, by, in_dims]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    if function == "rms_norm":  # which has no empty rows
        return
    none = [each if dim is None else each.narrow(dim, 0, 0) for each, dim in zip(mapped, in_dims, strict=True)]
    gradients = torch.vmap(torch.func.grad(lambda *each: remote(*each).sum(), by), in_dims)(*none)
    assert [each.shape for each in gradients] == [(0, *call.values[each].shape) for each in by]


def test_jacobians(client: RecordingClient) -> None:
    call = layer_norm((2, 3))
    remote, input = call.bound(aclgrad.torch.layer_norm, client=client), call.values[0]

    def by_input(transform: Callable[..., Any], function: Callable[..., Tensor]) -> Any:
        return transform(lambda each: function(each, *call.values[1:]))(input)

    def of_autograd(function: Callable[..., Tensor]) -> Callable[..., Any]:
        return lambda each: torch.autograd.functional.jacobian(function, each, vectorize=True)

    expected = by_input(torch.func.jacrev, call.bound())
    torch.testing.assert_close(by_input(torch.func.jacrev, remote), expected, rtol=1e-4, atol=1e-5)
    assert client.called == [call.operator]
    torch.testing.assert_close(by_input(of_autograd, remote), expected, rtol=1e-4, atol=1e-5)


def test_autocast_gives_the_types_of_pytorch(client: RecordingClient) -> None:
    for call in ONE_OF_EACH:
        with torch.autocast("cpu", torch.bfloat16):
            expected = call.gradients(call.leaves(dtype=torch.bfloat16))
            with aclgrad.torch.remote_backward(client, strict=True):
                found = call.gradients(call.leaves(dtype=torch.bfloat16))
        assert [each.dtype for each in found] == [each.dtype for each in expected]
        torch.testing.assert_close(found[0], expected[0], rtol=0, atol=0)
    assert len(client.called) == len(ONE_OF_EACH)


def test_what_no_operator_samples_stays_local_and_says_why(client: RecordingClient) -> None:
    image, grid = random(1, 2, 4, 4).requires_grad_(), random(1, 2, 2, 2, seed=2)
    because = "no operator for the mode bicubic"
    with aclgrad.torch.remote_backward(client) as block:
        functional.grid_sample(image, grid, "bicubic", align_corners=False).sum().backward()
    assert because in next(iter(block.account.calls)).because
    with (
        aclgrad.torch.remote_backward(client, strict=True),
        pytest.raises(aclgrad.InvalidFieldError, match=because),
    ):
        functional.grid_sample(image, grid, "bicubic", align_corners=False)
    assert client.called == []


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("call", ONE_OF_EACH, ids=str)
def test_a_compiled_function(client: RecordingClient, call: Several) -> None:
    compiled = torch.compile(call.bound(), backend="aot_eager", fullgraph=True)
    leaves, expected = call.leaves((True, False, True)), call.leaves((True, False, True))
    with aclgrad.torch.remote_backward(client, strict=True) as block:
        compiled(*leaves).pow(3).sum().backward()
    call.bound()(*expected).pow(3).sum().backward()
    assert {place.function for place in block.account.calls} == {call.function}
    assert len(client.called) == 1
    for mine, theirs in zip(leaves, expected, strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-4) if theirs.requires_grad else None


@pytest.mark.parametrize("call", [each for each in SEVERAL if each.function != "grid_sample"], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_fake_kernels_have_the_types_of_the_kernels(
    client: RecordingClient, call: Several, dtype: torch.dtype
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
