"""aclnnMaxUnpool3dBackward: the gradient of three-dimensional max unpooling."""

import math
from collections.abc import Iterator

from aclgrad.errors import Violation
from aclgrad.operators.rules import equal_sizes, same_dtype
from aclgrad.operators.spec import (
    Arguments,
    AttributeKind,
    AttributeSpec,
    InputSpec,
    OperatorSpec,
    OutputSpec,
    Tolerance,
    same_on,
)
from aclgrad.operators.tolerance import by_dtype
from aclgrad.operators.values import IndexRule
from aclgrad.products import Product
from aclgrad.tensors import TensorType

_PRODUCTS = (Product.ATLAS_TRAINING, Product.ATLAS_A2, Product.ATLAS_A3, Product.ASCEND_950)
_DTYPES = same_on(_PRODUCTS, ("float32", "float16", "float64", "int8", "int16", "int32", "int64", "uint8"))
_RANKS = (4, 5)
_SPATIAL = 3
_EXACT = Tolerance(relative=0.0, absolute=0.0)


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    grad_output, input = arguments.inputs["grad_output"], arguments.inputs["self"]
    output_size = arguments.ints("output_size")
    yield from same_dtype(arguments, "grad_output", "self")
    yield from equal_sizes("inputs[indices].shape", arguments.inputs["indices"].shape, "inputs[self]", input.shape)
    if 0 in input.shape[1:]:
        yield Violation("inputs[self].shape", f"is {input.shape}", "send sizes above 0 in all but the first dimension")
    expected = (*input.shape[:-_SPATIAL], *output_size)
    yield from equal_sizes("inputs[grad_output].shape", grad_output.shape, "inputs[self] with output_size", expected)
    if math.prod(output_size) < math.prod(input.shape[-_SPATIAL:]):
        problem = f"is {output_size}, with fewer cells than the {input.shape[-_SPATIAL:]} of inputs[self]"
        yield Violation("attributes[output_size]", problem, "give the size that the pooled tensor had")


def _index_rule(arguments: Arguments, product: Product) -> IndexRule:
    return IndexRule(bound=math.prod(arguments.ints("output_size")))


def _out(arguments: Arguments) -> TensorType:
    return arguments.inputs["self"]


SPEC = OperatorSpec(
    name="max_unpool3d_backward",
    symbol="aclnnMaxUnpool3dBackward",
    summary="Gathers the gradient of the cells that max unpooling wrote.",
    formula=(
        "out[b, i] = grad_output[b, indices[b, i]], with b over the leading dimensions and i and indices over the last "
        "three, flattened. Nothing is added up; integers are copied bit by bit (PyTorch: the gradient of "
        "torch.nn.functional.max_unpool3d)."
    ),
    inputs=(
        InputSpec(
            "grad_output",
            "The gradient of the unpooled tensor, shape (N, C, *output_size) or (N, *output_size).",
            _DTYPES,
            _RANKS,
        ),
        InputSpec(
            "self",
            "The tensor that was unpooled, shape (N, C, D, H, W) or (N, D, H, W); only its shape and dtype matter.",
            _DTYPES,
            _RANKS,
            unread_on=frozenset(_PRODUCTS),
        ),
        InputSpec(
            "indices",
            "Where each value went: positions in the flattened output_size, each at least 0, shape of `self`.",
            same_on(_PRODUCTS, ("int64",)),
            _RANKS,
            values=_index_rule,
        ),
    ),
    attributes=(
        AttributeSpec(
            "output_size", "Depth, height and width of the unpooled tensor.", AttributeKind.INTS, (3,), minimum=1
        ),
        AttributeSpec(
            "stride", "Checked by CANN and otherwise not used.", AttributeKind.INTS, (3,), default=(1, 1, 1), minimum=1
        ),
        AttributeSpec("padding", "Taken by CANN and not used.", AttributeKind.INTS, (3,), default=(0, 0, 0)),
    ),
    outputs=(OutputSpec("out", "The gradient of `self`, with its shape and dtype.", _out),),
    check=_check,
    tolerance=by_dtype(dict.fromkeys(_DTYPES[Product.ATLAS_A2], _EXACT)),
)
