"""Every operator on tensors that are views: of other strides, behind an offset, reversed, or repeated."""

from collections.abc import Callable
from contextlib import ExitStack

import numpy as np
import pytest

from aclgrad.operators.cases import TypedCase, first_cases
from tests.call_file import PRODUCT, device_array
from tools.abi.acl import Library

from .phase_one import Tensor
from .table_calls import abi_names, arguments_of
from .table_gradients import assert_defined

Shape = tuple[int, ...]
FILL = 7

# For a shape, that of the storage which has the view; and the view.
VIEWS: dict[str, tuple[Callable[[Shape], Shape], Callable[[np.ndarray], np.ndarray]]] = {
    "transposed": (lambda shape: (*shape[:-2], shape[-1], shape[-2]), lambda a: a.swapaxes(-1, -2)),
    "batches and channels swapped": (lambda shape: (shape[1], shape[0], *shape[2:]), lambda a: a.swapaxes(0, 1)),
    "every second column": (lambda shape: (*shape[:-1], 2 * shape[-1]), lambda a: a[..., ::2]),
    "inner part": (lambda shape: tuple(size + 3 for size in shape), lambda a: a[(slice(1, -2),) * a.ndim]),
    "contiguous after an offset": (lambda shape: (shape[0] + 1, *shape[1:]), lambda a: a[1:]),
    "reversed": (lambda shape: shape, lambda a: a[..., ::-1, ::-1]),
}
CONTIGUOUS = {"aclnnMaxUnpool3dBackward": {"out"}}
"""What CANN takes only as it lies in memory."""


def is_flat(typed: TypedCase, name: str) -> bool:
    """Whether the device does not read it as a view: a mask is memory of any form."""
    spec = next((each for each in typed.spec.inputs if each.name == name), None)
    rule = spec and spec.values(typed.arguments, PRODUCT)
    return bool(rule) and rule.device_type(typed.arguments.inputs[name]).dtype.name == "int8"


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("typed", list(first_cases(PRODUCT, every_dtype=True)), ids=str)
def test_a_view(acl: Library, typed: TypedCase, view: str) -> None:
    storage_of, seen = VIEWS[view]
    names = abi_names(typed.spec)
    output = typed.spec.output.infer(typed.arguments)
    arrays = {names[name]: device_array(typed, name, array) for name, array in typed.arrays().items()}
    arrays[names[typed.spec.output.name]] = np.full(output.shape, FILL, output.dtype.numpy)
    flat = {names[each.name] for each in typed.spec.inputs if is_flat(typed, each.name)}
    flat |= CONTIGUOUS.get(typed.spec.symbol, set())
    with ExitStack() as stack:
        given: list[object] = []
        for name, value in arguments_of(typed, PRODUCT).items():
            if isinstance(value, Tensor):
                array = arrays[name]
                storage = array.copy() if name in flat else np.full(storage_of(array.shape), FILL, array.dtype)
                whole = storage if name in flat else seen(storage)
                whole[...] = array
                out = stack.enter_context(acl.tensor(storage, whole, value.format_))
                given.append(out.handle)
            else:
                given.append(stack.enter_context(acl.int_array(value)) if isinstance(value, tuple) else value)
        acl.run(typed.spec.symbol, *given)
        result = out.read_storage()
    gradient = result if name in flat else seen(result)
    assert_defined(typed, gradient.copy())
    gradient[...] = FILL
    assert (result == FILL).all()  # nothing outside of the view was written


def test_an_expanded_input(acl: Library) -> None:
    storage = np.array([[1, 2], [3, 4]], np.float32)
    with (
        acl.tensor(storage, np.broadcast_to(storage, (3, 4, 2, 2))) as grad,
        acl.tensor(np.full((3, 4, 4, 4), FILL, np.float32)) as out,
    ):
        acl.run("aclnnAdaptiveAvgPool2dBackward", grad.handle, out.handle, out.handle)
        expected = np.broadcast_to(storage.repeat(2, 0).repeat(2, 1) / 4, (3, 4, 4, 4))
        np.testing.assert_array_equal(out.read_storage(), expected)
