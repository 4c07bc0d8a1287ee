"""aclnnReplicationPad2dBackward: the gradient of padding the last two dimensions with copies of the edge."""

from collections.abc import Iterator

from aclgrad.errors import Violation
from aclgrad.operators.rules import same_dtype, same_leading_sizes
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
from aclgrad.products import Product
from aclgrad.tensors import TensorType

_PRODUCTS = (
    Product.ATLAS_TRAINING,
    Product.ATLAS_A2,
    Product.ATLAS_A3,
    Product.ATLAS_INFERENCE,
    Product.ASCEND_950,
)
_DTYPES = same_on(_PRODUCTS, ("float32", "float16", "bfloat16", "float64", "complex64", "complex128"))
_RANKS = (3, 4)
MAX_BFLOAT16_PADDING = 7
_MAX_PADDING = 2**31 - 1
"""So that no sum of a size and two paddings leaves 64 bits."""


def _check(arguments: Arguments) -> Iterator[Violation]:
    yield from same_dtype(arguments, "grad_output", "self")
    yield from same_leading_sizes(arguments, "self", "grad_output", trailing=2)
    yield from _check_sizes(arguments)
    if arguments.inputs["self"].dtype.name == "bfloat16":
        yield from _check_bfloat16_padding(arguments.ints("padding"))


def _check_sizes(arguments: Arguments) -> Iterator[Violation]:
    input, grad_output = arguments.inputs["self"].shape, arguments.inputs["grad_output"].shape
    left, right, top, bottom = padding = arguments.ints("padding")
    if any(abs(each) > _MAX_PADDING for each in padding):
        yield Violation("attributes[padding]", f"is {padding}", f"send at most {_MAX_PADDING} on each side")
    expected = (input[-2] + top + bottom, input[-1] + left + right)
    if grad_output[-2:] != expected:
        problem = f"ends with {grad_output[-2:]} where inputs[self] with padding ends with {expected}"
        yield Violation("inputs[grad_output].shape", problem, "send the gradient of the padded tensor")
    # CANN takes an empty batch of rank 4 and no other empty tensor.
    first = 1 if len(input) == 4 else 0
    if 0 in input[first:]:
        yield Violation("inputs[self].shape", f"is {input}", f"send sizes above 0 from dimension {first} on")


def _check_bfloat16_padding(padding: tuple[int, ...]) -> Iterator[Violation]:
    *_, top, bottom = padding
    if min(padding) < 0 or ((top or bottom) and max(padding) > MAX_BFLOAT16_PADDING):
        remedy = f"for bfloat16 send no negative padding, and none above {MAX_BFLOAT16_PADDING} unless top = bottom = 0"
        yield Violation("attributes[padding]", f"is {padding}", remedy)


def _grad_input(arguments: Arguments) -> TensorType:
    return arguments.inputs["self"]


_REAL = Tolerance(relative=1e-5, absolute=1e-5)
_DOUBLE = Tolerance(relative=1e-13, absolute=1e-13)

SPEC = OperatorSpec(
    name="replication_pad2d_backward",
    symbol="aclnnReplicationPad2dBackward",
    summary="Adds the gradient of every padded cell to the edge cell that it is a copy of.",
    formula=(
        "grad_output[y, x] is added to grad_input[clamp(y - top, 0, H - 1), clamp(x - left, 0, W - 1)]; negative "
        "padding crops, and cropped cells get 0 (PyTorch: aten::replication_pad2d_backward)."
    ),
    inputs=(
        InputSpec(
            "grad_output",
            "The gradient of the padded tensor, shape (N, C, H + top + bottom, W + left + right) or without N.",
            _DTYPES,
            _RANKS,
        ),
        InputSpec(
            "self",
            "The tensor that was padded, shape (N, C, H, W) or (C, H, W); only its shape and dtype matter.",
            _DTYPES,
            _RANKS,
            unread_on=frozenset(_PRODUCTS),
        ),
    ),
    attributes=(AttributeSpec("padding", "Cells added at the left, right, top and bottom.", AttributeKind.INTS, (4,)),),
    output=OutputSpec("grad_input", "The gradient of `self`, with its shape and dtype.", _grad_input),
    check=_check,
    tolerances={
        "float32": _REAL,
        "complex64": _REAL,
        "float16": Tolerance(relative=1e-3, absolute=1e-3),
        "bfloat16": Tolerance(relative=8e-3, absolute=8e-3),
        "float64": _DOUBLE,
        "complex128": _DOUBLE,
    },
)
