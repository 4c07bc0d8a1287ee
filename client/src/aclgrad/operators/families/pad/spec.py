"""The rows of the operator table that are padding and its gradients."""

import math
from collections.abc import Iterator, Mapping
from typing import Final

from aclgrad.errors import Violation
from aclgrad.operators.rules import same_dtype, same_leading_sizes
from aclgrad.operators.spec import (
    Arguments,
    AttributeKind,
    AttributeSpec,
    InputSpec,
    OperatorKind,
    OperatorSpec,
    OutputSpec,
    Tolerance,
    same_on,
)
from aclgrad.operators.tolerance import by_dtype, summed
from aclgrad.products import Product
from aclgrad.tensors import TensorType

WITH_BFLOAT16 = (Product.ATLAS_A2, Product.ATLAS_A3, Product.ASCEND_950)
WITHOUT_BFLOAT16 = (Product.ATLAS_TRAINING, Product.ATLAS_INFERENCE)
PRODUCTS = (*WITHOUT_BFLOAT16, *WITH_BFLOAT16)
DTYPES = ("float32", "float16", "bfloat16", "float64", "complex64", "complex128")
_MAX_PADDING: Final = 2**31 - 1
"""Keeps the sum of a size and two paddings within 64 bits."""
_SIDES: Final = ("left", "right", "top", "bottom", "front", "back")
_AXES: Final = (("W", "left", "right"), ("H", "top", "bottom"), ("D", "front", "back"))

REPLICATION: Final = "replication"
REFLECTION: Final = "reflection"
_SUMMARIES: Final = {
    REPLICATION: "Adds the gradient of every padded cell to the edge cell that it is a copy of.",
    REFLECTION: "Adds the gradient of every padded cell to the cell that it mirrors.",
}
_COPIES: Final = {
    REPLICATION: "are copies of the nearest edge cell",
    REFLECTION: "are copies of the cells that they mirror",
}
_PLACES: Final = {
    REPLICATION: "clamp(p - before, 0, size - 1)",
    REFLECTION: "q = abs(p - before), or at 2 * (size - 1) - q where q is not below size",
}
_REAL: Final = Tolerance(relative=1e-5, absolute=1e-5)
_DOUBLE: Final = Tolerance(relative=1e-13, absolute=1e-13)
_TOLERANCES: Final = {
    "float32": _REAL,
    "complex64": _REAL,
    "float16": Tolerance(relative=1e-3, absolute=1e-3),
    "bfloat16": Tolerance(relative=8e-3, absolute=8e-3),
    "float64": _DOUBLE,
    "complex128": _DOUBLE,
}


def pad_spec(rule: str, axes: int, dtypes: Mapping[Product, tuple[str, ...]]) -> OperatorSpec:
    """Returns the row of `{rule}_pad{axes}d_backward`; over three axes no padding is negative."""
    ranks = (axes + 1, axes + 2)
    input = [size for size, *_ in reversed(_AXES[:axes])]
    padded = [f"{size} + {before} + {after}" for size, before, after in reversed(_AXES[:axes])]
    sides = f"{', '.join(_SIDES[: 2 * axes - 1])} and {_SIDES[2 * axes - 1]}"
    limit = ", each less than the size" if rule == REFLECTION else ""
    crops = "" if axes == 3 else "; negative padding crops, and cropped cells get 0"
    return OperatorSpec(
        name=f"{rule}_pad{axes}d_backward",
        symbol=f"aclnn{rule.capitalize()}Pad{axes}dBackward",
        summary=_SUMMARIES[rule],
        formula=(
            f"grad_output at position p of an axis is added to grad_input at {_PLACES[rule]}{crops} "
            f"(PyTorch: aten::{rule}_pad{axes}d_backward)."
        ),
        inputs=(
            InputSpec(
                "grad_output",
                f"The gradient of the padded tensor, shape (N, C, {', '.join(padded)}) or without N.",
                dtypes,
                ranks,
            ),
            InputSpec(
                "self",
                f"The tensor that was padded, shape (N, C, {', '.join(input)}) or (C, {', '.join(input)}); only its "
                "shape and dtype matter.",
                dtypes,
                ranks,
                unread_on=frozenset(dtypes),
            ),
        ),
        attributes=(
            AttributeSpec(
                "padding",
                f"Cells added at the {sides}{limit}.",
                AttributeKind.INTS,
                (2 * axes,),
                minimum=0 if axes == 3 else -_MAX_PADDING,
                maximum=_MAX_PADDING,
            ),
        ),
        outputs=(OutputSpec("grad_input", "The gradient of `self`, with its shape and dtype.", _grad_input),),
        check=lambda arguments, _: _check(rule, axes, arguments),
        tolerance=summed(by_dtype(_TOLERANCES), lambda arguments: _copies(rule, arguments)),
    )


def forward_spec(rule: str, dtypes: Mapping[Product, tuple[str, ...]]) -> OperatorSpec:
    """Returns the row of `{rule}_pad2d`.

    CANN accepts negative padding, which is refused: no device's kernel of this is written for it.
    """
    limit = ", each less than the size" if rule == REFLECTION else ""

    def check(arguments: Arguments, product: Product) -> Iterator[Violation]:
        yield from _check_empty(arguments, 3)
        yield from _check_reflection(arguments, 2) if rule == REFLECTION else ()

    return OperatorSpec(
        name=f"{rule}_pad2d",
        symbol=f"aclnn{rule.capitalize()}Pad2d",
        summary=f"Adds cells around planes, which {_COPIES[rule]}.",
        formula=f"out at position p of an axis is self at {_PLACES[rule]} (PyTorch: aten::{rule}_pad2d).",
        inputs=(InputSpec("self", "The tensor, shape (N, C, H, W) or (C, H, W).", dtypes, (3, 4)),),
        attributes=(
            AttributeSpec(
                "padding",
                f"Cells added at the left, right, top and bottom{limit}.",
                AttributeKind.INTS,
                (4,),
                minimum=0,
                maximum=_MAX_PADDING,
            ),
        ),
        outputs=(
            OutputSpec(
                "out", "The padded tensor, shape (N, C, H + top + bottom, W + left + right) or without N.", _padded
            ),
        ),
        check=check,
        tolerance=by_dtype(dict.fromkeys(DTYPES, Tolerance(0.0, 0.0))),
        kind=OperatorKind.VALUE,
    )


def _padded(arguments: Arguments) -> TensorType:
    left, right, top, bottom = arguments.ints("padding")
    type = arguments.inputs["self"]
    *leading, height, width = type.shape
    return TensorType(type.dtype, (*leading, height + top + bottom, width + left + right))


def _copies(rule: str, arguments: Arguments) -> float:
    """Returns how many cells may be copies of one: of an edge all of the padding, and 3 along an axis that mirrors."""
    padding = arguments.ints("padding")
    if rule == REFLECTION:
        return 3.0 ** (len(padding) // 2)
    return math.prod(1.0 + max(before, after, 0) for before, after in zip(padding[::2], padding[1::2], strict=True))


def _check(rule: str, axes: int, arguments: Arguments) -> Iterator[Violation]:
    yield from same_dtype(arguments, "grad_output", "self")
    yield from same_leading_sizes(arguments, "self", "grad_output", trailing=axes)
    yield from _check_sizes(arguments, axes)
    yield from _check_empty(arguments, axes + (rule == REPLICATION or axes == 3))
    padding = arguments.ints("padding")
    if rule == REFLECTION:
        yield from _check_reflection(arguments, axes)
    if arguments.inputs["self"].dtype.name == "bfloat16" and not sums_bfloat16(rule, padding):
        yield Violation("attributes[padding]", f"is {padding}", f"for bfloat16 send {_BFLOAT16[rule, axes]}")


def _check_sizes(arguments: Arguments, axes: int) -> Iterator[Violation]:
    input, grad_output = arguments.inputs["self"].shape, arguments.inputs["grad_output"].shape
    padding = arguments.ints("padding")
    both = [before + after for before, after in zip(padding[::2], padding[1::2], strict=True)]
    expected = tuple(size + more for size, more in zip(input[-axes:], reversed(both), strict=True))
    if grad_output[-axes:] != expected:
        problem = f"ends with {grad_output[-axes:]}, but inputs[self] with padding ends with {expected}"
        yield Violation("inputs[grad_output].shape", problem, "send the gradient of the padded tensor")


def _check_empty(arguments: Arguments, rank: int) -> Iterator[Violation]:
    """Above this rank, CANN accepts an empty first dimension, and padding that crops everything."""
    input = arguments.inputs["self"].shape
    first = 1 if len(input) > rank else 0
    if 0 in input[first:]:
        yield Violation("inputs[self].shape", f"is {input}", f"send sizes above 0 from dimension {first} on")
    for name, type in arguments.inputs.items():
        if name != "self" and first == 0 and 0 not in input and 0 in type.shape:
            yield Violation(f"inputs[{name}].shape", f"is {type.shape}", "send sizes above 0")


def _check_reflection(arguments: Arguments, axes: int) -> Iterator[Violation]:
    padding, sizes = arguments.ints("padding"), arguments.inputs["self"].shape[-axes:]
    if any(each >= sizes[-1 - side // 2] for side, each in enumerate(padding)):
        problem = f"is {padding} for inputs[self] of sizes {sizes}"
        yield Violation("attributes[padding]", problem, "send less than the size of the axis on each side")


def sums_bfloat16(rule: str, padding: tuple[int, ...]) -> bool:
    """Says whether devices can add up bfloat16 for this padding. Their AI CPU, which does the rest, cannot."""
    if len(padding) == 2:
        return min(padding) >= 0 and (rule == REPLICATION or max(padding) <= _MAX_BFLOAT16_REFLECTION)
    if len(padding) == 4:
        return min(padding) >= 0 and (padding[2:] == (0, 0) or max(padding) <= _MAX_BFLOAT16_PADDING)
    return True


_MAX_BFLOAT16_PADDING: Final = 7
_MAX_BFLOAT16_REFLECTION: Final = 3000
_PLANE: Final = f"no negative padding, and none above {_MAX_BFLOAT16_PADDING} unless top = bottom = 0"
_BFLOAT16: Final = {
    (REPLICATION, 1): "no negative padding",
    (REFLECTION, 1): f"padding from 0 to {_MAX_BFLOAT16_REFLECTION}",
    (REPLICATION, 2): _PLANE,
    (REFLECTION, 2): _PLANE,
}


def _grad_input(arguments: Arguments) -> TensorType:
    return arguments.inputs["self"]


ON_ALL = same_on(PRODUCTS, DTYPES)
"""Over one and two axes every product sums bfloat16, in float32."""
BFLOAT16_ON_SOME = {
    **same_on(WITHOUT_BFLOAT16, tuple(name for name in DTYPES if name != "bfloat16")),
    **same_on(WITH_BFLOAT16, DTYPES),
}

WITHOUT_COMPLEX_ON_SOME = {
    **same_on(WITHOUT_BFLOAT16, ("float32", "float16", "float64")),
    **same_on(WITH_BFLOAT16, DTYPES),
}

SPECS: Final = (
    forward_spec(REFLECTION, WITHOUT_COMPLEX_ON_SOME),
    forward_spec(REPLICATION, BFLOAT16_ON_SOME),
    # Devices add up bfloat16 only for padding from 0 to 3000.
    pad_spec(REFLECTION, 1, ON_ALL),
    # Devices add up bfloat16 in one kernel, which takes no negative padding, and large padding only within rows.
    pad_spec(REFLECTION, 2, ON_ALL),
    # Negative padding, which CANN accepts, is refused: the kernels of Atlas A2 and A3 are not written for it, and that
    # of replication reads it as unsigned. The products without bfloat16 compute on the AI CPU.
    pad_spec(REFLECTION, 3, BFLOAT16_ON_SOME),
    # Devices add up bfloat16 only without negative padding.
    pad_spec(REPLICATION, 1, ON_ALL),
    pad_spec(REPLICATION, 2, ON_ALL),
    pad_spec(REPLICATION, 3, BFLOAT16_ON_SOME),
)
