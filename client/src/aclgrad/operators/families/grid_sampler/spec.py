"""The rows of the operator table that sample planes at the points of a grid, and gradients of that, also of volumes.

Devices follow the definition but for three things, of which the first two concern gradients. The 950 finds the places
of float16 and bfloat16 points in their own type, and adds up `input_grad` in it; of volumes unless there are 128
channels or more. Sums change their order from call to call, except for float64, of volumes above 2048 channels (A2,
A3), and on Atlas training products. A reflected place is anywhere if it was 2^31 or more images away, where float32 has
no cells.

Grids may hold any numbers: the definition says what becomes of those that are not finite, as devices do. PyTorch's CPU
kernel of planes crashes on some of them.
"""

import math
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

from aclgrad.errors import Violation
from aclgrad.operators.families.elementwise.spec import floats
from aclgrad.operators.rules import equal_sizes, first_problem, same_dtype
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

NEAREST: Final = 1
"""The interpolation mode that is not linear along each axis."""


_BICUBIC: Final = 2


class Padding(IntEnum):
    """What is outside the image."""

    ZEROS = 0
    BORDER = 1
    REFLECTION = 2


_DTYPES: Final = {
    Product.ATLAS_TRAINING: ("float32", "float16", "float64"),
    **same_on((Product.ATLAS_A2, Product.ATLAS_A3, Product.ASCEND_950), ("float32", "float16", "bfloat16", "float64")),
}
_MOST: Final = {
    # Counted with signs in 32 bits; of planes the channels and cells of one image, of volumes those of all.
    Product.ATLAS_A2: 2**31 - 1,
    Product.ATLAS_A3: 2**31 - 1,
    # Without signs; one of the last numbers stands for none.
    Product.ASCEND_950: 2**32 - 101,
}
"""Elements of a tensor that products can count."""
_TOLERANCES: Final = {
    "float32": Tolerance(relative=1e-4, absolute=1e-4),
    "float16": Tolerance(relative=1e-3, absolute=1e-3),
    "bfloat16": Tolerance(relative=8e-3, absolute=8e-3),
    "float64": Tolerance(relative=1e-9, absolute=1e-9),
}
_COARSE: Final = {
    (Product.ASCEND_950, "float16"): Tolerance(relative=0.1, absolute=0.5),
    (Product.ASCEND_950, "bfloat16"): Tolerance(relative=0.8, absolute=4.0),
}
"""A place in float16 is off by up to W / 2048, in bfloat16 by W / 256."""
_MOST_CELLS: Final = 2**31 - 1
_FORWARD_DTYPES: Final = floats("float64")
_AXES: Final = (("x", "W"), ("y", "H"), ("z", "D"))


def grid_sampler_spec(axes: int, refused_mode: int | None = None) -> OperatorSpec:
    """Returns the row of `grid_sampler{axes}d_backward`.

    The refused mode is one that only some releases have.
    """
    image, linear, around = {2: ("image", "bilinear", "four"), 3: ("volume", "trilinear", "eight")}[axes]
    point = ", ".join(at for at, _ in _AXES[:axes])
    coordinates = f"{point[:-3]} and {point[-1]}"
    sizes = ", ".join(size for _, size in reversed(_AXES[:axes]))
    points = ", ".join(f"o{size}" for _, size in reversed(_AXES[:axes]))
    edges = ", ".join(f"(({at} + 1) {size} - 1) / 2" for at, size in _AXES[:axes])
    centres = ", ".join(f"({at} + 1) / 2 ({size} - 1)" for at, size in _AXES[:axes])
    some_have = f" {refused_mode}, bicubic, exists from CANN 9.1 on and is not served." if refused_mode else ""
    ranks = (axes + 2,)

    def check(arguments: Arguments, product: Product) -> Iterator[Violation]:
        if refused_mode and arguments.int("interpolation_mode") == refused_mode:
            problem = f"is {refused_mode}, bicubic, and no device says whether its CANN has that"
            yield Violation("attributes[interpolation_mode]", problem, f"send 0 for {linear} or {NEAREST} for nearest")
        yield from first_problem(
            same_dtype(arguments, "grad_output", "input", "grid"),
            _sizes(arguments, point),
            _counts(arguments, _MOST.get(product)),
        )

    def operations(arguments: Arguments) -> float:
        """A point adds to the cells around it and to all of its coordinates, in every channel."""
        samples = arguments.inputs["grad_output"].element_count
        return arguments.inputs["input"].element_count + float(samples << (axes + 1))

    return OperatorSpec(
        name=f"grid_sampler{axes}d_backward",
        symbol=f"aclnnGridSampler{axes}DBackward",
        summary="Adds the gradient of every sample to the cells that it was taken from, and to the place of its point.",
        formula=(
            f"A point ({point}) is at {edges} in cells, or with align_corners at {centres}, then padded: border moves "
            "it to the nearest cell, reflection mirrors it at the edges. Its sample is the nearest cell (halves to "
            f"even), or the mean of the {around} around it weighted {linear}ly; cells outside are 0. The gradient of a "
            "point that was moved to the border is 0, as it is for nearest. A point that is not at a number is outside "
            f"(PyTorch: aten::grid_sampler_{axes}d_backward)."
        ),
        inputs=(
            InputSpec("grad_output", f"The gradient of the samples, shape (N, C, {points}).", _DTYPES, ranks),
            InputSpec("input", f"The {image}s that were sampled, shape (N, C, {sizes}).", _DTYPES, ranks),
            InputSpec(
                "grid",
                f"The points, shape (N, {points}, {axes}): {coordinates}, with the {image} between -1 and 1.",
                _DTYPES,
                ranks,
            ),
        ),
        attributes=_attributes(f"0: {linear}, 1: nearest.{some_have}", refused_mode or NEAREST),
        outputs=(_like("input"), _like("grid")),
        check=check,
        tolerance=summed(
            summed(by_dtype(_TOLERANCES, _COARSE), _points, "input_grad"),
            lambda arguments: arguments.inputs["input"].shape[1] * 2.0**axes,
            "grid_grad",
        ),
        operations=operations,
    )


def _attributes(modes: str, most: int) -> tuple[AttributeSpec, ...]:
    return (
        AttributeSpec("interpolation_mode", modes, AttributeKind.INT, default=0, minimum=0, maximum=most),
        AttributeSpec(
            "padding_mode",
            "0: zeros, 1: border, 2: reflection.",
            AttributeKind.INT,
            default=0,
            minimum=Padding.ZEROS,
            maximum=Padding.REFLECTION,
        ),
        AttributeSpec(
            "align_corners",
            "-1 and 1 are the centres of the outer cells, not edges.",
            AttributeKind.BOOL,
            default=False,
        ),
    )


def _check_forward(arguments: Arguments, product: Product) -> Iterator[Violation]:
    yield from same_dtype(arguments, "input", "grid")
    images, _, *sizes = arguments.inputs["input"].shape
    grid = arguments.inputs["grid"].shape
    yield from _cells(tuple(sizes))
    yield from equal_sizes(
        "inputs[grid].shape",
        grid,
        "one (x, y) for each point, and the images of inputs[input]",
        (images, *grid[1:3], 2),
    )
    if math.prod(sizes) > _MOST_CELLS:
        problem = f"ends with {tuple(sizes)}, and devices count the cells of a plane in 31 bits"
        yield Violation("inputs[input].shape", problem, f"send planes of at most {_MOST_CELLS} cells")


def _cells(sizes: tuple[int, ...]) -> Iterator[Violation]:
    if 0 in sizes:
        yield Violation("inputs[input].shape", f"ends with {sizes}", "send at least one cell along each axis")


def _samples(arguments: Arguments) -> TensorType:
    input, grid = arguments.inputs["input"], arguments.inputs["grid"]
    return TensorType(input.dtype, (*input.shape[:2], *grid.shape[1:3]))


def _points(arguments: Arguments) -> float:
    """Returns how many samples of an image may have a cell in common."""
    return float(math.prod(arguments.inputs["grad_output"].shape[2:]))


def _sizes(arguments: Arguments, point: str) -> Iterator[Violation]:
    images, channels, *sizes = arguments.inputs["input"].shape
    grad_output = arguments.inputs["grad_output"].shape
    points = grad_output[2:]
    yield from _cells(tuple(sizes))
    expected = (images, channels, *points)
    yield from equal_sizes(
        "inputs[grad_output].shape", grad_output, "images and channels of inputs[input] with its own points", expected
    )
    grid = arguments.inputs["grid"].shape
    expected = (images, *points, len(points))
    yield from equal_sizes("inputs[grid].shape", grid, f"one ({point}) for each point of inputs[grad_output]", expected)


def _counts(arguments: Arguments, most: int | None) -> Iterator[Violation]:
    for name, type in arguments.inputs.items():
        if most is not None and type.element_count > most:
            problem = f"has {type.element_count} elements, and the device counts up to {most}"
            yield Violation(f"inputs[{name}].shape", problem, "send fewer images in a call")


def _like(name: str) -> OutputSpec:
    def infer(arguments: Arguments) -> TensorType:
        return arguments.inputs[name]

    return OutputSpec(f"{name}_grad", f"The gradient of `{name}`, of its shape and dtype.", infer, of=name)


_FORWARD: Final = OperatorSpec(
    name="grid_sampler2d",
    symbol="aclnnGridSampler2D",
    summary="Samples planes at the points of a grid.",
    formula=(
        "A point (x, y) is at ((x + 1) W - 1) / 2, ((y + 1) H - 1) / 2 in cells, or with align_corners at "
        "(x + 1) / 2 (W - 1), (y + 1) / 2 (H - 1), then padded: border moves it to the nearest cell, reflection "
        "mirrors it at the edges. Its sample is the nearest cell (halves to even), or the mean of the four around it "
        "weighted bilinearly; cells outside are 0. A point that is not at a number is outside "
        "(PyTorch: aten::grid_sampler_2d)."
    ),
    inputs=(
        InputSpec("input", "The images, shape (N, C, H, W).", _FORWARD_DTYPES, (4,)),
        InputSpec(
            "grid",
            "The points, shape (N, oH, oW, 2): x and y, with the image between -1 and 1.",
            _FORWARD_DTYPES,
            (4,),
        ),
    ),
    attributes=_attributes("0: bilinear, 1: nearest.", NEAREST),
    outputs=(OutputSpec("out", "The samples, shape (N, C, oH, oW).", _samples),),
    check=_check_forward,
    tolerance=by_dtype(_TOLERANCES),
    kind=OperatorKind.VALUE,
    operations=lambda arguments: 8.0 * _samples(arguments).element_count,
)

SPECS: Final = (
    _FORWARD,
    # CANN has bicubic interpolation from 9.1 on. No device says whether its CANN has it, so it is refused.
    grid_sampler_spec(2, refused_mode=_BICUBIC),
    grid_sampler_spec(3),
)
