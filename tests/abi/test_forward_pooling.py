"""Max pooling: what is not finite, equal numbers, and masks, which the gradient of the same product reads."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from aclgrad import reference
from aclgrad.masks import MaskLayout, Pooling, mask_layout, mask_of_argmax
from aclgrad.operators.cases import TypedCase
from aclgrad.products import Product
from tests.call_file import written_types
from tools.abi.acl import Library

from .programs_in_forks import call_of
from .table_calls import abi_names
from .table_gradients import call, described, gradient_of, unwritten

NAN, INF = np.nan, np.inf


def pooled(name: str, shape: tuple[int, ...], kernel: int, stride: int, padding: int = 0) -> TypedCase:
    return call(name, self=shape, kernel_size=(kernel,), stride=(stride,), padding=(padding,))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_last_nan_is_the_maximum_and_else_the_first_of_equal_numbers(acl: Library, dtype: str) -> None:
    row = np.array([[[[1, NAN, 2, NAN, 0, -0.0, 0, 3, 3, -INF, -INF, -INF, INF]]]])
    typed = call("max_pool2d_with_indices", dtype, self=row.shape, kernel_size=(1, 3), stride=(1, 1))
    out, indices = gradient_of(acl, typed, self=row.astype(typed.arrays()["self"].dtype))
    np.testing.assert_array_equal(out[0, 0, 0].astype(float), [NAN] * 4 + [0, 3, 3, 3, 3, -INF, INF])
    assert indices[0, 0, 0].tolist() == [1, 3, 3, 3, 4, 7, 7, 7, 8, 9, 12]


def test_minus_infinity_is_found_inside_of_the_plane(acl: Library) -> None:
    typed = pooled("max_pool2d_with_indices", (1, 1, 3, 5), 3, 2, 1)
    out, indices = gradient_of(acl, typed, self=np.full((1, 1, 3, 5), -INF, np.float32))
    assert (out == -INF).all()
    assert indices[0, 0].tolist() == [[0, 1, 3], [5, 6, 8]]


MASKED = (
    ((2, 17, 9, 11), 3, 2, 1),
    ((3, 16, 8, 9), 2, 2, 0),
    ((5, 7, 21), 5, 1, 2),
    ((2, 33, 6, 7), 1, 2, 0),
    ((1, 2, 40, 41), 4, 3, 2),
)


def masks(acl: Library, product: Product) -> Iterator[tuple[TypedCase, np.ndarray, np.ndarray, np.ndarray]]:
    """Yields calls with their inputs, results and masks."""
    for number, given in enumerate(MASKED):
        typed = pooled("max_pool2d_with_mask", *given)
        shape = typed.case.shapes["self"]
        # Few integers, so that many are equal.
        self = np.random.default_rng(number).integers(-4, 4, shape).astype(np.float32)
        names = abi_names(typed.spec)
        memory = {names[name]: unwritten(type) for name, type in written_types(typed).items()} | {"self": self}
        with described(acl, typed, memory, product) as arguments:
            acl.run(typed.spec.symbol, *arguments)
        yield typed, self, memory["out"], memory["indices"]


def print_masks(acl: Library, name: str) -> None:
    """Prints what is wrong with masks, and with gradients by them."""
    product = Product(name)
    acl.call("aclInit", None)
    acl.call("aclrtSetDevice", 0)
    for typed, self, out, mask in masks(acl, product):
        attributes = typed.attributes
        truth, argmax = reference.max_pool2d_with_indices(self, **attributes)
        windows = {each: attributes[each] for each in ("kernel_size", "stride", "padding")}
        pooling = Pooling.of(self.shape[-2:], **windows)
        layout = mask_layout(product, pooling.kernel_size)
        made = mask_of_argmax(argmax.astype(np.int32), pooling, layout).reshape(-1)
        # Behind positions a device writes nothing.
        written = 4 * argmax.size if layout is MaskLayout.INT32_PREFIX else _bit_bytes(pooling, self.shape)
        if not (np.array_equal(out, truth) and np.array_equal(mask.reshape(-1)[:written], made[:written])):
            print("mask", typed.case, layout)
        if name == "310P":
            continue
        grad = np.arange(1.0, out.size + 1, dtype=np.float32).reshape(out.shape)
        backward = call(
            "max_pool2d_with_mask_backward", fixed={"indices": "int8"},
            grad_output=out.shape, self=self.shape, indices=mask.shape, **windows,
        )  # fmt: skip
        memory = {"gradOutput": grad, "self": self, "indices": mask, "gradInput": np.empty_like(self)}
        with described(acl, backward, memory, product) as arguments:
            acl.run(backward.spec.symbol, *arguments)
        expected = reference.max_pool2d_with_mask_backward(grad, self, argmax, **windows)
        if not np.allclose(memory["gradInput"], expected, rtol=1e-5):
            print("gradient", typed.case, layout)


def _bit_bytes(pooling: Pooling, shape: tuple[int, ...]) -> int:
    batch, channels = (1, *shape[:-2])[-2:]
    groups = -(-pooling.output_size[0] * pooling.output_size[1] // 16) + 1
    return 2 * batch * -(-channels // 16) * pooling.window_cells * groups * 16


@pytest.mark.parametrize("product", ["910B", "910_93", "910A", "310P"])
def test_masks_are_those_of_the_argmax_and_lead_the_gradient(
    run_program: Callable[..., list[str]], product: str
) -> None:
    assert run_program(call_of(print_masks, product), {"product": product, "threads": 3}) == []
