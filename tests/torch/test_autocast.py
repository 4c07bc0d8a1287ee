"""Autocast: a block leaves the forward pass as PyTorch's lists make it, in dtype and bits, on any device."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from itertools import cycle, product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

import aclgrad
import aclgrad.torch
from aclgrad.torch._account import LocalError
from aclgrad.torch._mode import rerouted

from . import losses, table
from .conftest import RecordingClient
from .convolutions import ONE_OF_EACH
from .table import HALVES, LOCAL, Call, call, random

CALLS = (*table.CALLS, *losses.CALLS)
OTHERS = (
    call("softmax", "softmax_backward", (4, 5), 1, dtype=torch.float16),
    call("cross_entropy", "log_softmax_backward", (4, 5), random(4, 5).softmax(1)),
    *ONE_OF_EACH,
)
KINDS = {
    (each.operator, *each.options, *(value is None for value in each.values)): each
    for each in CALLS
    if each.function not in LOCAL and not ("weight" in each.options and each.function in ("l1_loss", "mse_loss"))
}
"""Dtypes depend on the operator, and on which arguments there are. Weights of cells are multiplied by here."""
ROWS = (*KINDS.values(), *OTHERS)
Change = Callable[[Tensor], Tensor]


def changed(call: Call, first: Change, others: Change) -> tuple[list[Any], tuple[Any, ...], dict[str, Any]]:
    """Returns tensors, arguments and options of a call, of which the first tensor is changed unlike the others."""

    def each(value: Any) -> Any:
        return others(value) if isinstance(value, Tensor) else value

    values = [first(call.input), *map(each, call.values[1:])]
    return values, tuple(map(each, call.args)), {name: each(value) for name, value in call.options.items()}


def run(function: Callable[..., Any], call: Call, values: list[Any], args: tuple[Any, ...], options: Any) -> Any:
    if args:
        return function(*values, *args, **options)
    return function(**dict(zip(call.tensors, values, strict=True)), **options)


def outcome(call: Call, dtype: torch.dtype, others: torch.dtype) -> Any:
    """Returns the result for an input of a dtype and parameters of another one, or the error."""

    def made(tensor: Tensor, dtype: torch.dtype) -> Tensor:
        return tensor.to(dtype if tensor.is_floating_point() else tensor.dtype).clone()

    given = changed(call, lambda each: made(each, dtype).requires_grad_(), partial(made, dtype=others))
    try:
        return run(getattr(functional, call.function), call, *given)
    except RuntimeError as error:
        return error


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
@pytest.mark.parametrize(("half", "call"), list(zip(cycle(HALVES), ROWS, strict=False)), ids=str)
def test_a_block_changes_no_forward_pass(client: RecordingClient, half: torch.dtype, call: Call) -> None:
    for dtype, is_wide in product((torch.float32, half, torch.float64), (True, False)):
        found = []
        for block in (nullcontext(), aclgrad.torch.remote_backward(client)):
            with torch.autocast("cpu", half), block:
                found.append(outcome(call, dtype, torch.float32 if is_wide else dtype))
        expected, mine = found
        if isinstance(expected, RuntimeError):
            assert isinstance(mine, RuntimeError), (dtype, is_wide)
            continue
        assert mine.dtype == expected.dtype, (dtype, is_wide)
        torch.testing.assert_close(mine, expected, rtol=0, atol=0, equal_nan=True, msg=f"{dtype} {is_wide}")
        mine.sum().backward()
    assert client.called


@contextmanager
def fake_autocast(device: str, half: torch.dtype) -> Iterator[None]:
    """Lets tensors be on a device that is not there, whose autocast picks dtypes all the same."""
    before = torch.get_autocast_dtype(device)
    torch.set_autocast_dtype(device, half)
    torch.set_autocast_enabled(device, True)
    try:
        with FakeTensorMode():
            yield
    finally:
        torch.set_autocast_enabled(device, False)
        torch.set_autocast_dtype(device, before)


def runs_on_fake_devices(call: Call) -> bool:
    """Says whether PyTorch's own function needs no kernel of the device even for fake tensors."""
    has_kernel = call.options.get("training") and call.options["running_mean"] is not None
    return (call.function, call.input.dim()) != ("grid_sample", 4) and call.function != "ctc_loss" and not has_kernel


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
@pytest.mark.parametrize(("device", "half"), [("cuda", torch.bfloat16), ("mps", torch.float16)])
@pytest.mark.parametrize("call", list(filter(runs_on_fake_devices, ROWS)), ids=str)
def test_other_devices_have_their_own_lists(
    client: RecordingClient, device: str, half: torch.dtype, call: Call
) -> None:
    theirs = getattr(functional, call.function)
    ours = partial(rerouted()[theirs], client=client)

    def placed(given: Tensor, dtype: torch.dtype) -> Tensor:
        return torch.empty(given.shape, dtype=dtype if given.is_floating_point() else given.dtype, device=device)

    for is_narrow, has_narrow_parameters in product((False, True), repeat=2):
        dtype, parameters = (half if each else torch.float32 for each in (is_narrow, has_narrow_parameters))
        with fake_autocast(device, half), suppress(LocalError):
            given = changed(call, partial(placed, dtype=dtype), partial(placed, dtype=parameters))
            found, expected = (run(function, call, *given) for function in (ours, theirs))
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape), (half, dtype, parameters)
