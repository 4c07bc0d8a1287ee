"""aclnnUpsampleBilinear2dBackwardV2: the gradient of bilinear upsampling over the last two dimensions.

Some routes of devices ignore scales, and those that do not have other rules for one scale than for two. So a scale is
refused unless it is oH / H, which makes no difference. The places between cells are computed in float32, so that their
errors grow with the sizes.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from aclgrad.errors import Violation
from aclgrad.operators.batch_axes import BatchAxes
from aclgrad.operators.families.elementwise.spec import floats
from aclgrad.operators.rules import equal_sizes
from aclgrad.operators.spec import (
    Arguments,
    AttributeKind,
    AttributeSpec,
    InputSpec,
    OperatorSpec,
    OutputSpec,
    Tolerance,
)
from aclgrad.operators.tolerance import Rule, by_dtype, grown, summed
from aclgrad.products import Product
from aclgrad.tensors import TensorType

_DTYPES: Final = floats()
_LARGEST: Final = 2**31 - 1
_COPIES_NOTHING: Final = (Product.ATLAS_TRAINING, Product.ATLAS_INFERENCE)


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    output_size, input_size = arguments.ints("output_size"), arguments.ints("input_size")
    expected = (*input_size[:2], *output_size)
    have = arguments.inputs["grad_output"].shape
    of = "attributes[input_size] with attributes[output_size]"
    yield from equal_sizes("inputs[grad_output].shape", have, of, expected)
    if output_size == input_size[2:] and product in _COPIES_NOTHING:
        problem = f"is {output_size}, the size of the input, and this product returns nothing then"
        yield Violation("attributes[output_size]", problem, "take grad_output, which is the gradient")
    yield from check_scales(arguments, output_size, input_size[2:])


def check_scales(arguments: Arguments, outputs: Sequence[int], inputs: Sequence[int]) -> Iterator[Violation]:
    """A scale is that of the sizes."""
    for name, output, input in zip(("scales_h", "scales_w"), outputs, inputs, strict=True):
        scale = arguments.double(name)
        if scale and np.float32(1 / scale) != np.float32(input / output):
            problem = f"is {scale}, and the sizes have the ratio {output / input}"
            yield Violation(f"attributes[{name}]", problem, "send 0, which stands for the ratio of the sizes")


def _terms(arguments: Arguments) -> float:
    """Returns how many outputs may lie beside one cell."""
    sizes = zip(arguments.ints("output_size"), arguments.ints("input_size")[2:], strict=True)
    return float(math.prod(2 * -(-output // max(input, 1)) + 2 for output, input in sizes))


TOLERANCES: Final = {
    "float32": Tolerance(relative=1e-5, absolute=1e-5),
    "float16": Tolerance(relative=1e-3, absolute=1e-3),
    "bfloat16": Tolerance(relative=8e-3, absolute=8e-3),
}


def placed(rule: Rule, terms: Callable[[Arguments], float], sizes: Callable[[Arguments], Sequence[int]]) -> Rule:
    """Returns the rule with what the weights of far cells may be off by: an error of places in float32."""

    def by_place(arguments: Arguments, product: Product, dtype: str) -> Tolerance:
        error = 2.0**-22 * max(sizes(arguments))
        many = max(terms(arguments), (error * 2.0**23) ** 2)
        return grown(rule(arguments, product, dtype), dtype, many, 1.0)

    return by_place


def _out(arguments: Arguments) -> TensorType:
    return TensorType(arguments.inputs["grad_output"].dtype, arguments.ints("input_size"))


_SCALE: Final = "The scale of {} as the forward call was given it: {}; 0 for the ratio of the sizes."

SPEC = OperatorSpec(
    name="upsample_bilinear2d_backward_v2",
    symbol="aclnnUpsampleBilinear2dBackwardV2",
    summary="Gives the gradient of every upsampled cell to the four cells around its place, by its distances.",
    formula=(
        "Along each axis of n cells and o outputs, output i lies at x = max((i + 0.5) * n / o - 0.5, 0), or with "
        "align_corners at i * (n - 1) / (o - 1); it gives 1 - f of its gradient to cell floor(x), and f, the fraction "
        "of x, to the next one, or to the last (PyTorch: aten::upsample_bilinear2d_backward)."
    ),
    inputs=(InputSpec("grad_output", "The gradient of the upsampled tensor, shape (N, C, oH, oW).", _DTYPES, (4,)),),
    attributes=(
        AttributeSpec(
            "output_size", "oH and oW, the upsampled size.", AttributeKind.INTS, (2,), minimum=1, maximum=_LARGEST
        ),
        AttributeSpec(
            "input_size",
            "N, C, H and W, the shape of the result.",
            AttributeKind.INTS,
            (4,),
            minimum=(0, 0, 1, 1),
            maximum=_LARGEST,
        ),
        AttributeSpec(
            "align_corners",
            "Whether the corners of both tensors lie on each other.",
            AttributeKind.BOOL,
            default=False,
        ),
        AttributeSpec("scales_h", _SCALE.format("rows", "oH / H"), AttributeKind.DOUBLE, default=0.0, minimum=0),
        AttributeSpec("scales_w", _SCALE.format("columns", "oW / W"), AttributeKind.DOUBLE, default=0.0, minimum=0),
    ),
    outputs=(OutputSpec("out", "The gradient, of shape `input_size` and the dtype of `grad_output`.", _out),),
    check=_check,
    tolerance=placed(summed(by_dtype(TOLERANCES), _terms), _terms, lambda arguments: arguments.ints("input_size")[2:]),
    batch_axes=lambda _: BatchAxes(counts=("input_size",)),
)
