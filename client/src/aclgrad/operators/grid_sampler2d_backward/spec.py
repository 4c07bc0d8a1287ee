"""aclnnGridSampler2DBackward: the gradients of sampling an image at the points of a grid.

Devices follow the definition but for three things. The 950 finds the places of float16 and bfloat16 points in their own
type, and adds up `input_grad` in it. Sums change their order from call to call, except for float64 and on Atlas
training products. A reflected place is anywhere if it was 2^31 or more images away, where float32 has no cells.

Grids may hold any numbers: the definition says what becomes of those that are not finite, as devices do. PyTorch's CPU
kernel crashes on some of them.

CANN has bicubic interpolation from 9.1 on. No device says whether its CANN has it, so it is refused.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import Final

from aclgrad.errors import Violation
from aclgrad.operators.rules import equal_sizes, first_problem, same_dtype
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

NEAREST: Final = 1
"""The interpolation mode that is not bilinear."""
_BICUBIC: Final = 2


class Padding(IntEnum):
    """What is outside the image."""

    ZEROS = 0
    BORDER = 1
    REFLECTION = 2


_DTYPES = {
    Product.ATLAS_TRAINING: ("float32", "float16", "float64"),
    **same_on((Product.ATLAS_A2, Product.ATLAS_A3, Product.ASCEND_950), ("float32", "float16", "bfloat16", "float64")),
}
_MOST_ON_950: Final = 2**32 - 101
"""Elements of a tensor: the 950 counts them in 32 bits, and one of the last numbers stands for none."""


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    if arguments.int("interpolation_mode") == _BICUBIC:
        problem = f"is {_BICUBIC}, bicubic, and no device says whether its CANN has that"
        yield Violation("attributes[interpolation_mode]", problem, f"send 0 for bilinear or {NEAREST} for nearest")
    yield from first_problem(
        same_dtype(arguments, "grad_output", "input", "grid"), _sizes(arguments), _counts(arguments, product)
    )


def _sizes(arguments: Arguments) -> Iterator[Violation]:
    images, channels, height, width = arguments.inputs["input"].shape
    grad_output = arguments.inputs["grad_output"].shape
    points = grad_output[2:]
    if not height or not width:
        problem = f"has a height of {height} and a width of {width}"
        yield Violation("inputs[input].shape", problem, "send at least one row and one column")
    expected = (images, channels, *points)
    yield from equal_sizes(
        "inputs[grad_output].shape", grad_output, "images and channels of inputs[input] with its own points", expected
    )
    grid = arguments.inputs["grid"].shape
    yield from equal_sizes(
        "inputs[grid].shape", grid, "one (x, y) for each point of inputs[grad_output]", (images, *points, 2)
    )


def _counts(arguments: Arguments, product: Product) -> Iterator[Violation]:
    if product is not Product.ASCEND_950:
        return
    for name, type in arguments.inputs.items():
        if type.element_count > _MOST_ON_950:
            problem = f"has {type.element_count} elements, and the 950 counts up to {_MOST_ON_950}"
            yield Violation(f"inputs[{name}].shape", problem, "send fewer images in a call")


def _work(arguments: Arguments) -> float:
    """A point adds to four cells and to both of its coordinates, in every channel."""
    points = arguments.inputs["grad_output"].element_count
    return arguments.inputs["input"].element_count + 8.0 * points


def _like(name: str) -> OutputSpec:
    def infer(arguments: Arguments) -> TensorType:
        return arguments.inputs[name]

    return OutputSpec(f"{name}_grad", f"The gradient of `{name}`, of its shape and dtype.", infer, of=name)


SPEC = OperatorSpec(
    name="grid_sampler2d_backward",
    symbol="aclnnGridSampler2DBackward",
    summary="Adds the gradient of every sample to the cells that it was taken from, and to the place of its point.",
    formula=(
        "A point (x, y) is at ((x + 1) W - 1) / 2, ((y + 1) H - 1) / 2 in cells, or with align_corners at "
        "(x + 1) / 2 (W - 1), (y + 1) / 2 (H - 1), then padded: border moves it to the nearest cell, reflection "
        "mirrors it at the edges. Its sample is the nearest cell (halves to even), or the mean of the four around it "
        "weighted bilinearly; cells outside are 0. The gradient of a point that was moved to the border is 0, as it is "
        "for nearest. A point that is not at a number is outside (PyTorch: aten::grid_sampler_2d_backward)."
    ),
    inputs=(
        InputSpec("grad_output", "The gradient of the samples, shape (N, C, oH, oW).", _DTYPES, (4,)),
        InputSpec("input", "The images that were sampled, shape (N, C, H, W).", _DTYPES, (4,)),
        InputSpec("grid", "The points, shape (N, oH, oW, 2): x and y, with the image between -1 and 1.", _DTYPES, (4,)),
    ),
    attributes=(
        AttributeSpec(
            "interpolation_mode",
            "0: bilinear, 1: nearest. 2, bicubic, exists from CANN 9.1 on and is not served.",
            AttributeKind.INT,
            minimum=0,
            maximum=_BICUBIC,
        ),
        AttributeSpec(
            "padding_mode",
            "0: zeros, 1: border, 2: reflection.",
            AttributeKind.INT,
            minimum=Padding.ZEROS,
            maximum=Padding.REFLECTION,
        ),
        AttributeSpec("align_corners", "-1 and 1 are the centres of the outer cells, not edges.", AttributeKind.BOOL),
    ),
    outputs=(_like("input"), _like("grid")),
    check=_check,
    tolerances={
        "float32": Tolerance(relative=1e-4, absolute=1e-4),
        "float16": Tolerance(relative=1e-3, absolute=1e-3),
        "bfloat16": Tolerance(relative=8e-3, absolute=8e-3),
        "float64": Tolerance(relative=1e-9, absolute=1e-9),
    },
    # A place in float16 is off by up to W / 2048, in bfloat16 by W / 256.
    coarse={
        (Product.ASCEND_950, "float16"): Tolerance(relative=0.1, absolute=0.5),
        (Product.ASCEND_950, "bfloat16"): Tolerance(relative=0.8, absolute=4.0),
    },
    work=_work,
)
