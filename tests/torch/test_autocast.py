"""Autocast: a block leaves the forward pass as PyTorch's lists make it, in dtype and bits, on any device."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

import aclgrad
import aclgrad.torch
from aclgrad.torch._account import LocalError
from aclgrad.torch._functions import rerouted

from .calls import CALLS, HALVES, call
from .conftest import RecordingClient
from .several import SEVERAL, random

CLASSES = torch.tensor([2, 0, 1, 1])
OTHERS = (
    call("softmax", "softmax_backward", (4, 5), 1),
    call("softmax", "softmax_backward", (4, 5), 1, dtype=torch.float16),
    call("log_softmax", "log_softmax_backward", (4, 5), -1),
    call("cross_entropy", "log_softmax_backward", (4, 5), CLASSES),
    call("cross_entropy", "log_softmax_backward", (4, 5), CLASSES, random(5).abs(), reduction="sum", ignore_index=1),
)
Function = Callable[..., Any]


def made(given: Any, dtype: torch.dtype, *, wide: bool = True) -> Any:
    """Returns an argument whose float tensors are leaves of a dtype, or of float32 if they are parameters."""
    if not isinstance(given, Tensor) or not given.is_floating_point():
        return given.clone() if isinstance(given, Tensor) else given
    return given.to(torch.float32 if wide else dtype).clone()


def _one_of_each() -> Iterator[Any]:
    """Yields the name of a function, its input and what makes its other arguments of a dtype."""
    for number, each in enumerate((*CALLS, *OTHERS)):
        yield pytest.param(
            each.function, random(*each.shape, seed=5), each.args, each.options, id=f"{each.function}-{number}"
        )
    for number, several in enumerate(SEVERAL):
        names, values = several.tensors[1:], several.values[1:]
        options = {**several.options, **dict(zip(names, values, strict=True))}
        yield pytest.param(several.function, several.values[0], (), options, id=f"{several.function}-{number}")
    yield pytest.param("embedding", torch.tensor([[1, 0], [3, 1]]), (random(4, 3),), {}, id="embedding")


ONE_OF_EACH = tuple(_one_of_each())


def outcome(function: Function, input: Tensor, args: Any, options: Any, dtypes: tuple[torch.dtype, bool]) -> Any:
    """Returns the result for an input of a dtype, or the error; `dtypes` also says whether parameters are float32."""
    dtype, wide = dtypes
    leaf = made(input, dtype, wide=False)
    leaf = leaf.requires_grad_() if leaf.is_floating_point() else leaf
    given = [made(each, dtype, wide=wide) for each in args]
    if not leaf.is_floating_point():
        given[0].requires_grad_()
    named = {name: made(each, dtype, wide=wide) for name, each in options.items()}
    try:
        return function(leaf, *given, **named)
    except RuntimeError as error:
        return error


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize(("name", "input", "args", "options"), ONE_OF_EACH)
def test_a_block_changes_no_forward_pass(
    client: RecordingClient, half: torch.dtype, name: str, input: Tensor, args: Any, options: Any
) -> None:
    function = getattr(functional, name)
    for dtypes in product((torch.float32, *HALVES, torch.float64), (True, False)):
        found = []
        for block in (nullcontext(), aclgrad.torch.remote_backward(client)):
            with torch.autocast("cpu", half), block:
                found.append(outcome(function, input, args, options, dtypes))
        expected, mine = found
        if isinstance(expected, RuntimeError):
            assert isinstance(mine, RuntimeError), dtypes
            continue
        assert mine.dtype == expected.dtype, dtypes
        torch.testing.assert_close(mine, expected, rtol=0, atol=0, equal_nan=True, msg=str(dtypes))
        mine.sum().backward()
    assert client.called


@contextmanager
def fake_autocast(device: str, half: torch.dtype) -> Iterator[None]:
    """Lets tensors be on a device that is not there, whose autocast picks dtypes all the same."""
    torch.set_autocast_dtype(device, half)
    torch.set_autocast_enabled(device, True)
    try:
        with FakeTensorMode():
            yield
    finally:
        torch.set_autocast_enabled(device, False)


def runs_on_fake_devices(name: str, input: Tensor, args: Any, options: Any) -> bool:
    """Says whether PyTorch's own function needs no kernel of the device even for fake tensors."""
    return (name, input.dim()) != ("grid_sample", 4) and not (
        options.get("training") and options["running_mean"] is not None
    )


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
@pytest.mark.parametrize("device", ["cuda", "mps"])
@pytest.mark.parametrize(
    ("name", "input", "args", "options"), [each for each in ONE_OF_EACH if runs_on_fake_devices(*each.values)]
)
def test_other_devices_have_their_own_lists(
    client: RecordingClient, device: str, name: str, input: Tensor, args: Any, options: Any
) -> None:
    theirs = getattr(functional, name)
    ours = partial(rerouted()[theirs], client=client)

    def placed(given: Any, dtype: torch.dtype) -> Any:
        if not isinstance(given, Tensor):
            return given
        return torch.empty(given.shape, dtype=dtype if given.is_floating_point() else given.dtype, device=device)

    for half, is_narrow, has_narrow_parameters in product(HALVES, (False, True), (False, True)):
        dtype, parameters = (half if each else torch.float32 for each in (is_narrow, has_narrow_parameters))
        with fake_autocast(device, half), suppress(LocalError):
            given = placed(input, dtype), *(placed(each, parameters) for each in args)
            named = {key: placed(each, parameters) for key, each in options.items()}
            found = ours(*given, **named)
            expected = theirs(*given, **named)
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape), (half, dtype, parameters)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize(
    "function",
    [
        lambda each: functional.adaptive_avg_pool3d(each[None, ..., None], 1),
        lambda each: functional.layer_norm(each, (5,), torch.ones(5)),
        lambda each: functional.cross_entropy(each[..., 0], CLASSES),
    ],
    ids=["adaptive_avg_pool3d", "layer_norm", "cross_entropy"],
)
def test_a_compiled_function_has_the_outputs_of_pytorch(
    client: RecordingClient, function: Callable[[Tensor], Tensor]
) -> None:
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    leaves = [random(4, 3, 5).bfloat16().requires_grad_() for _ in range(2)]
    with torch.autocast("cpu", torch.bfloat16):
        expected = function(leaves[0])
        with aclgrad.torch.remote_backward(client, strict=True):
            found = compiled(leaves[1])
    assert found.dtype == expected.dtype
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    found.sum().backward()
    assert len(client.called) == 1
