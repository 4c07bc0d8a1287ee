"""aclnnUpsampleNearest2dBackward: the gradient of nearest-neighbour upsampling over the last two dimensions.

Devices have three rules for the row that an output row is taken from, all in float32. Atlas A2 and A3 divide by the
scale if they are given one, and multiply by H / oH otherwise; the 950 multiplies by the reciprocal of the scale; the
others ignore scales. The definition is the rule without scales, which is PyTorch's. A scale is refused unless it is
oH / H and all three rules agree on these sizes. The format NHWC, which some products misread, is not used.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from aclgrad.errors import Violation
from aclgrad.operators.batch_axes import BatchAxes
from aclgrad.operators.rules import equal_sizes
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
from aclgrad.operators.tolerance import by_dtype, summed
from aclgrad.products import Product
from aclgrad.tensors import TensorType

_DTYPES = {
    **same_on((Product.ATLAS_INFERENCE, Product.ATLAS_TRAINING), ("float32", "float16")),
    **same_on((Product.ATLAS_A2, Product.ATLAS_A3, Product.ASCEND_950), ("float32", "float16", "bfloat16")),
}
_MAX_SCALED: Final = 8192
"""The most rows or columns for which the rules are compared, one by one: that takes 0.2 ms of the event loop."""


def nearest(output: int, input: int) -> np.ndarray[Any, Any]:
    """Returns the cell that each output cell is a copy of, by PyTorch's rule in float32."""
    ratio = np.float32(input) / np.float32(output)
    cells = np.floor(np.arange(output, dtype=np.float32) * ratio).astype(np.int64)
    clamped: np.ndarray[Any, Any] = np.minimum(cells, input - 1)
    return clamped


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    output_size, input_size = arguments.ints("output_size"), arguments.ints("input_size")
    expected = (*input_size[:2], *output_size)
    have = arguments.inputs["grad_output"].shape
    yield from equal_sizes(
        "inputs[grad_output].shape", have, "attributes[input_size] with attributes[output_size]", expected
    )
    yield from check_scales(arguments, output_size, input_size[2:])


def check_scales(arguments: Arguments, outputs: Sequence[int], inputs: Sequence[int]) -> Iterator[Violation]:
    """Scales are those of the sizes, for which all devices have one rule."""
    scales = {name: arguments.double(name) for name in ("scales_h", "scales_w")}
    if any(scales.values()):
        for name, output, input in zip(scales, outputs, inputs, strict=True):
            yield from _check_scale(name, scales[name], output, input)


def _check_scale(name: str, scale: float, output: int, input: int) -> Iterator[Violation]:
    ratio = np.float32(output) / np.float32(input)
    with np.errstate(over="ignore"):
        is_other = bool(scale) and np.float32(scale) != ratio
    if is_other:
        problem = f"is {scale}, and the sizes have the ratio {output / input}"
        yield Violation(f"attributes[{name}]", problem, "send 0, which stands for the ratio of the sizes")
    elif max(output, input) > _MAX_SCALED or not _rules_agree(output, input, ratio):
        problem = f"is {scale}, and devices disagree on the cells of {output} over {input} if one scale is given"
        yield Violation(f"attributes[{name}]", problem, "send 0 for both scales")


def _rules_agree(output: int, input: int, ratio: np.float32) -> bool:
    cells = np.arange(output, dtype=np.float32)
    expected = nearest(output, input)
    by_reciprocal = np.minimum(np.floor(cells * (np.float32(1) / ratio)), input - 1)
    # Cell i has the outputs from ceil(i * ratio) up to the first output of cell i + 1.
    begins = np.ceil(np.arange(input + 1, dtype=np.float32) * ratio)
    by_scale = np.searchsorted(begins, cells, side="right") - 1
    return bool((by_reciprocal == expected).all() and (by_scale == expected).all())


def _copies(arguments: Arguments) -> float:
    """Returns how many outputs may be copies of one cell."""
    sizes = zip(arguments.ints("output_size"), arguments.ints("input_size")[2:], strict=True)
    return float(math.prod(max(-(-output // max(input, 1)), 1) for output, input in sizes))


def _grad_input(arguments: Arguments) -> TensorType:
    return TensorType(arguments.inputs["grad_output"].dtype, arguments.ints("input_size"))


_SCALE = "The scale of {} as the forward call was given it: {}; 0 for the ratio of the sizes."

SPEC = OperatorSpec(
    name="upsample_nearest2d_backward",
    symbol="aclnnUpsampleNearest2dBackward",
    summary="Adds the gradient of every upsampled cell to the cell that it is a copy of.",
    formula=(
        "grad_output[y, x] is added to grad_input[min(floor(y * (H / oH)), H - 1), min(floor(x * (W / oW)), W - 1)], "
        "with the ratio and the product in float32; other cells are 0 (PyTorch: aten::upsample_nearest2d_backward)."
    ),
    inputs=(InputSpec("grad_output", "The gradient of the upsampled tensor, shape (N, C, oH, oW).", _DTYPES, (4,)),),
    attributes=(
        AttributeSpec("output_size", "oH and oW, the upsampled size.", AttributeKind.INTS, (2,), minimum=1),
        AttributeSpec(
            "input_size", "N, C, H and W, the shape of the result.", AttributeKind.INTS, (4,), minimum=(0, 0, 1, 1)
        ),
        AttributeSpec("scales_h", _SCALE.format("rows", "oH / H"), AttributeKind.DOUBLE, default=0.0, minimum=0),
        AttributeSpec("scales_w", _SCALE.format("columns", "oW / W"), AttributeKind.DOUBLE, default=0.0, minimum=0),
    ),
    outputs=(
        OutputSpec("grad_input", "The gradient, of shape `input_size` and the dtype of `grad_output`.", _grad_input),
    ),
    check=_check,
    tolerance=summed(
        by_dtype(
            {
                "float32": Tolerance(relative=1e-5, absolute=1e-5),
                "float16": Tolerance(relative=1e-3, absolute=1e-3),
                "bfloat16": Tolerance(relative=8e-3, absolute=8e-3),
            }
        ),
        _copies,
    ),
    batch_axes=lambda _: BatchAxes(counts=("input_size",)),
)
