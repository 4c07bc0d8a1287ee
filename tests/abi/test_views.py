"""Every operator on tensors that are views: of other strides, behind an offset, reversed, or repeated."""

from collections.abc import Callable
from contextlib import ExitStack

import numpy as np
import pytest

from aclgrad.operators.cases import TypedCase, first_cases
from aclgrad.operators.spec import InputSpec
from tests.bounds import assert_defined
from tests.call_file import PRODUCT
from tests.shared_cases import case
from tools.abi.acl import Library

from .table_calls import TABLED, abi_names, arguments_of
from .table_gradients import FILL, device_arrays, run

Shape = tuple[int, ...]

# For a shape, that of the storage which has the view; and the view.
VIEWS: dict[str, tuple[Callable[[Shape], Shape], Callable[[np.ndarray], np.ndarray]]] = {
    "transposed": (lambda shape: (*shape[:-2], shape[-1], shape[-2]), lambda a: a.swapaxes(-1, -2)),
    "batches and channels swapped": (lambda shape: (shape[1], shape[0], *shape[2:]), lambda a: a.swapaxes(0, 1)),
    "every second column": (lambda shape: (*shape[:-1], 2 * shape[-1]), lambda a: a[..., ::2]),
    "inner part": (lambda shape: tuple(size + 3 for size in shape), lambda a: a[(slice(1, -2),) * a.ndim]),
    "contiguous after an offset": (lambda shape: (shape[0] + 1, *shape[1:]), lambda a: a[1:]),
    "reversed": (lambda shape: shape, np.flip),
}
CONTIGUOUS = {"aclnnMaxUnpool3dBackward": {"out"}}
"""What CANN takes only as it lies in memory."""


def is_flat(typed: TypedCase, input: InputSpec) -> bool:
    """Whether the device does not read it as a view: a mask is memory of any form."""
    rule = input.values(typed.arguments, PRODUCT)
    return rule is not None and rule.device_type(typed.arguments.inputs[input.name]).dtype.name == "int8"


@pytest.mark.parametrize("name", TABLED)
def test_a_view(acl: Library, name: str) -> None:
    for typed in first_cases(PRODUCT, name, every_dtype=True):
        for view in VIEWS:
            with case(typed, view):
                assert_view(acl, typed, view)


def assert_view(acl: Library, typed: TypedCase, view: str) -> None:
    storage_of, seen = VIEWS[view]
    flat = {abi_names(typed.spec)[each.name] for each in typed.spec.inputs if is_flat(typed, each)}
    flat |= CONTIGUOUS.get(typed.spec.symbol, set())
    arrays = device_arrays(typed)
    # There is nothing to swap in a vector.
    flat |= {name for name, array in arrays.items() if array.ndim < 2}
    with ExitStack() as stack:
        tensors = {}
        for name, array in arrays.items():
            storage = array.copy() if name in flat else np.full(storage_of(array.shape), FILL, array.dtype)
            whole = storage if name in flat else seen(storage)
            whole[...] = array
            format_ = arguments_of(typed, PRODUCT)[name].format_
            tensors[name] = stack.enter_context(acl.tensor(storage, whole, format_))
        run(acl, typed, tensors)
        names = [abi_names(typed.spec)[each] for each in typed.outputs]
        storages = [tensors[name].read_storage() for name in names]
    gradients = [each if name in flat else seen(each) for name, each in zip(names, storages, strict=True)]
    assert_defined(typed, tuple(each.copy() for each in gradients), PRODUCT)
    for storage, gradient in zip(storages, gradients, strict=True):
        gradient[...] = FILL
        assert (storage == storage.dtype.type(FILL)).all()  # nothing outside of the view was written


def test_an_expanded_input(acl: Library) -> None:
    storage = np.array([[1, 2], [3, 4]], np.float32)
    with (
        acl.tensor(storage, np.broadcast_to(storage, (3, 4, 2, 2))) as grad,
        acl.tensor(np.full((3, 4, 4, 4), FILL, np.float32)) as out,
    ):
        acl.run("aclnnAdaptiveAvgPool2dBackward", grad.handle, out.handle, out.handle)
        expected = np.broadcast_to(storage.repeat(2, 0).repeat(2, 1) / 4, (3, 4, 4, 4))
        np.testing.assert_array_equal(out.read_storage(), expected)
