"""The long calls of every operator: what a kernel takes beside its tensors must not grow with their shapes."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, assert_never

import numpy as np

from aclgrad.masks import Pooling
from aclgrad.operators.cases import TypedCase, served_dtypes
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.parts import samples_of
from aclgrad.operators.samples import Arrays
from aclgrad.operators.values import ArgmaxRule, BoxRule, IndexRule, ValueRule, VarianceRule, WindowRule
from aclgrad.products import Product
from aclgrad.tensors import TensorType

MAX_OF_TENSORS: Final = 1.3
"""What a call may take in all: this part of the bytes of its tensors, and so much beside them."""
MAX_BESIDE_BYTES: Final = 4 * 2**20


def long_calls(product: Product, cells: int) -> Iterator[TypedCase]:
    """Yields the calls that the product serves, with every dtype; the larger tensor of each has about so many cells."""
    for spec in OPERATORS.values():
        for each in samples_of(spec.name).long(cells):
            named = replace(each, products=tuple(Product), only=())
            for dtype in served_dtypes(spec, named, product):
                typed = TypedCase(spec, named, dtype)
                if not list(spec.check(typed.arguments, product)):
                    yield typed


def long_arrays(typed: TypedCase, product: Product) -> Arrays:
    """Returns legal inputs that are made quickly: ones, the first cell of each window, and large boxes."""
    arguments = typed.arguments
    rules = {
        each.name: each.values(arguments, product)
        for each in typed.spec.inputs_of(arguments.inputs)
        if each.name in arguments.inputs
    }
    output = next(iter(typed.outputs.values()))
    return {name: _values(rule, arguments.inputs[name], output) for name, rule in rules.items()}


def _values(rule: ValueRule | None, type: TensorType, output: TensorType) -> np.ndarray:
    match rule:
        case None | VarianceRule():
            return np.ones(type.shape, type.dtype.numpy)
        case IndexRule():
            return np.zeros(type.shape, type.dtype.numpy)
        case ArgmaxRule() | WindowRule():
            return np.resize(_first_cells(rule.pooling), type.shape).astype(type.dtype.numpy)
        case BoxRule():
            return _boxes(rule, type, rule.images or output.shape[0])
        case _:
            assert_never(rule)


def _first_cells(pooling: Pooling) -> np.ndarray:
    """Returns the first cell of each window that is none of the padding."""
    rows, columns = (
        np.maximum(np.arange(count) * stride - padding, 0)
        for count, stride, padding in zip(pooling.output_size, pooling.stride, pooling.padding, strict=True)
    )
    return rows[:, None] * pooling.input_size[1] + columns


def _boxes(rule: BoxRule, type: TensorType, images: int) -> np.ndarray:
    """Boxes of most of an image, of one image after the other."""
    boxes = np.zeros(type.shape, type.dtype.numpy)
    boxes[:, 0] = np.arange(len(boxes)) % images
    sizes = 0.1 * rule.width, 0.1 * rule.height, 0.9 * rule.width, 0.9 * rule.height
    boxes[:, 1:] = np.minimum(sizes, float(np.finfo(type.dtype.numpy).max))
    return boxes
