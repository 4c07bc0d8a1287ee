"""aclnnMaxUnpool2dBackward: the gradient of two-dimensional max unpooling.

No device checks the indices, and the 950 adds them to an address, so the server checks them. It does not serve CANN's
BOOL, or an output of another dtype than the gradient's.
"""

import math
from collections.abc import Iterator

from aclgrad.errors import Violation
from aclgrad.operators.rules import equal_sizes, same_dtype, same_leading_sizes
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
_DTYPES = same_on(_PRODUCTS, ("float32", "float16", "int8", "int16", "int32", "int64", "uint8"))
_RANKS = (3, 4)


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    grad_output, input = arguments.inputs["grad_output"].shape, arguments.inputs["self"].shape
    yield from same_dtype(arguments, "grad_output", "self")
    yield from equal_sizes("inputs[indices].shape", arguments.inputs["indices"].shape, "inputs[self]", input)
    yield from same_leading_sizes(arguments, "self", "grad_output", trailing=2)
    yield from equal_sizes(
        "attributes[output_size]",
        arguments.ints("output_size"),
        "the last two sizes of inputs[grad_output]",
        grad_output[-2:],
    )
    if 0 in grad_output and 0 not in input:
        yield Violation("inputs[grad_output].shape", f"is {grad_output}", "send the gradient of the unpooled tensor")


def _index_rule(arguments: Arguments, product: Product) -> IndexRule:
    return IndexRule(bound=math.prod(arguments.ints("output_size")))


def _out(arguments: Arguments) -> TensorType:
    return arguments.inputs["self"]


SPEC = OperatorSpec(
    name="max_unpool2d_backward",
    symbol="aclnnMaxUnpool2dBackward",
    summary="Gathers the gradient of the cells that max unpooling wrote.",
    formula=(
        "out[b, i] = grad_output[b, indices[b, i]], with b over the leading dimensions and i and indices over the last "
        "two, flattened. Nothing is added up; integers are copied bit by bit (PyTorch: the gradient of "
        "torch.nn.functional.max_unpool2d)."
    ),
    inputs=(
        InputSpec(
            "grad_output",
            "The gradient of the unpooled tensor, shape (N, C, *output_size) or (C, *output_size).",
            _DTYPES,
            _RANKS,
        ),
        InputSpec(
            "self",
            "The tensor that was unpooled, shape (N, C, H, W) or (C, H, W); only its shape and dtype matter.",
            _DTYPES,
            _RANKS,
            unread_on=frozenset(_PRODUCTS),
        ),
        InputSpec(
            "indices",
            "Where each value went: positions in the flattened output_size, each at least 0, shape of `self`.",
            same_on(_PRODUCTS, ("int64", "int32")),
            _RANKS,
            values=_index_rule,
        ),
    ),
    attributes=(
        AttributeSpec("output_size", "Height and width of the unpooled tensor.", AttributeKind.INTS, (2,), minimum=0),
    ),
    outputs=(OutputSpec("out", "The gradient of `self`, with its shape and dtype.", _out),),
    check=_check,
    tolerance=by_dtype(dict.fromkeys(_DTYPES[Product.ATLAS_A2], Tolerance(relative=0.0, absolute=0.0))),
)
