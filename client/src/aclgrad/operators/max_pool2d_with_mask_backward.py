"""aclnnMaxPool2dWithMaskBackward: the gradient of two-dimensional max pooling."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from aclgrad.errors import Violation
from aclgrad.masks import MaskLayout, Pooling, argmax_of_input, mask_layout, mask_of_argmax, pair
from aclgrad.operators.rules import equal_sizes, same_dtype
from aclgrad.operators.spec import (
    Arguments,
    Arrays,
    AttributeKind,
    AttributeSpec,
    Case,
    InputSpec,
    OperatorSpec,
    OutputSpec,
    Tolerance,
    case,
    same_on,
)
from aclgrad.operators.values import ArgmaxRule
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType

_PRODUCTS = (Product.ATLAS_TRAINING, Product.ATLAS_A2, Product.ATLAS_A3)
_DTYPES = {
    Product.ATLAS_TRAINING: ("float32", "float16"),
    **same_on((Product.ATLAS_A2, Product.ATLAS_A3), ("float32", "float16", "bfloat16")),
}
_RANKS = (3, 4)
_MASK: Final = "int8"
_MAX_CELLS: Final = 2**31 - 1
"""Cells of a plane: the device counts them in int32."""


def pooling_of(arguments: Arguments) -> Pooling:
    """Returns the geometry that the arguments describe."""
    height, width = arguments.inputs["self"].shape[-2:]
    return Pooling.of(
        (height, width),
        arguments.ints("kernel_size"),
        arguments.ints("stride"),
        arguments.ints("padding"),
        bool(arguments.attributes["ceil_mode"]),
    )


def _check(arguments: Arguments) -> Iterator[Violation]:
    yield from same_dtype(arguments, "grad_output", "self")
    input = arguments.inputs["self"].shape
    pooling = pooling_of(arguments)
    for padding, kernel in zip(pooling.padding, pooling.kernel_size, strict=True):
        if padding > kernel // 2:
            problem = f"is {arguments.ints('padding')} for kernel_size {pooling.kernel_size}"
            yield Violation("attributes[padding]", problem, "send at most half the kernel, rounded down")
            return
    if 0 in input[-3:]:
        yield Violation("inputs[self].shape", f"is {input}", "send a channel, height and width above 0")
    elif min(pooling.output_size) <= 0:
        problem = f"is {pooling.kernel_size}, larger than the padded {pooling.input_size} of inputs[self]"
        yield Violation("attributes[kernel_size]", problem, "send a kernel that fits")
    elif pooling.input_size[0] * pooling.input_size[1] > _MAX_CELLS:
        yield Violation("inputs[self].shape", f"has planes of more than {_MAX_CELLS} cells", "send smaller planes")
    else:
        yield from _check_shapes(arguments, pooling)


def _check_shapes(arguments: Arguments, pooling: Pooling) -> Iterator[Violation]:
    leading = arguments.inputs["self"].shape[:-2]
    pooled = (*leading, *pooling.output_size)
    yield from equal_sizes(
        "inputs[grad_output].shape", arguments.inputs["grad_output"].shape, "the pooled inputs[self]", pooled
    )
    indices = arguments.inputs["indices"]
    if indices.dtype.name == _MASK:
        yield from equal_sizes("inputs[indices].shape", indices.shape, "the mask", pooling.mask_shape(leading))
    else:
        yield from equal_sizes("inputs[indices].shape", indices.shape, "the argmax", pooled)


def _argmax_rule(arguments: Arguments, product: Product) -> ArgmaxRule:
    pooling = pooling_of(arguments)
    mask = TensorType(DTYPES[_MASK], pooling.mask_shape(arguments.inputs["self"].shape[:-2]))
    return ArgmaxRule(pooling, mask_layout(product, pooling.kernel_size), mask)


def _has_one_cell_windows(arguments: Arguments) -> bool:
    return pair(arguments.ints("kernel_size")) == (1, 1)


def _grad_input(arguments: Arguments) -> TensorType:
    return arguments.inputs["self"]


def _sample(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
    """Pools random values, so that every index is one that a forward pass would have chosen."""
    pooling = _case_pooling(example)
    _, argmax = argmax_of_input(generator.standard_normal(example.shapes["self"]), pooling)
    if example.fixed["indices"] == _MASK:
        return {**arrays, "indices": mask_of_argmax(argmax, pooling, MaskLayout.INT32_PREFIX)}
    return {**arrays, "indices": argmax.astype(example.fixed["indices"])}


def _case_pooling(example: Case) -> Pooling:
    given = {"stride": (), "padding": (0,), "ceil_mode": False, **example.attributes}
    height, width = example.shapes["self"][-2:]
    return Pooling.of((height, width), **given)  # type: ignore[arg-type]


def _cases(name: str, input: tuple[int, ...], **attributes: tuple[int, ...] | bool) -> tuple[Case, ...]:
    """Returns the case with each form of the indices; a mask only where INT32_PREFIX is what the A2 reads."""
    height, width = input[-2:]
    pooling = Pooling.of((height, width), **{"stride": (), "padding": (0,), **attributes})  # type: ignore[arg-type]
    leading = input[:-2]
    pooled = (*leading, *pooling.output_size)
    forms: list[tuple[str, tuple[int, ...], tuple[Product, ...]]]
    forms = [("int64", pooled, _PRODUCTS), ("int32", pooled, _PRODUCTS)]
    if pooling.window_cells > 1:
        forms.append((_MASK, pooling.mask_shape(leading), (Product.ATLAS_A2, Product.ATLAS_A3)))
    return tuple(
        case(
            f"{name}_{form}",
            attributes,
            fixed={"indices": form},
            products=products,
            grad_output=pooled,
            input=input,
            indices=shape,
        )
        for form, shape, products in forms
    )


_HALF = Tolerance(relative=1e-3, absolute=1e-3)

SPEC = OperatorSpec(
    name="max_pool2d_with_mask_backward",
    symbol="aclnnMaxPool2dWithMaskBackward",
    summary="Adds the gradient of every pooled cell to the cell that it was taken from.",
    formula=(
        "grad_input[n, c, indices[n, c, oh, ow]] += grad_output[n, c, oh, ow], every other cell is 0; an index counts "
        "ih * W + iw in the unpadded plane (PyTorch: aten::max_pool2d_with_indices_backward)."
    ),
    inputs=(
        InputSpec(
            "grad_output", "The gradient of the pooled tensor, shape (N, C, oH, oW) or (C, oH, oW).", _DTYPES, _RANKS
        ),
        InputSpec(
            "self",
            "The tensor that was pooled, shape (N, C, H, W) or (C, H, W); only its shape and dtype matter.",
            _DTYPES,
            _RANKS,
            unread_on=frozenset({Product.ATLAS_A2, Product.ATLAS_A3}),
            read_for=_has_one_cell_windows,
        ),
        InputSpec(
            "indices",
            "The argmax of the shape of `grad_output`, as PyTorch returns it (int32, int64), or the device's own int8 "
            "mask of shape (N, C, kH * kW, (ceil(oH * oW / 16) + 1) * 32); `aclgrad.masks` converts.",
            same_on(_PRODUCTS, ("int64", "int32", _MASK)),
            _RANKS,
            values=_argmax_rule,
        ),
    ),
    attributes=(
        AttributeSpec("kernel_size", "Height and width of a window.", AttributeKind.INTS, (1, 2), minimum=1),
        AttributeSpec(
            "stride",
            "Distance of the windows; empty for the size of the kernel.",
            AttributeKind.INTS,
            (0, 1, 2),
            default=(),
            minimum=1,
        ),
        AttributeSpec(
            "padding",
            "Cells added on both sides, at most half the kernel.",
            AttributeKind.INTS,
            (1, 2),
            default=(0,),
            minimum=0,
        ),
        AttributeSpec("dilation", "Always 1.", AttributeKind.INTS, (1, 2), default=(1,), minimum=1, maximum=1),
        AttributeSpec(
            "ceil_mode",
            "Rounds the pooled size up, so that a last window may reach beyond the padded plane.",
            AttributeKind.BOOL,
            default=False,
        ),
    ),
    output=OutputSpec("grad_input", "The gradient of `self`, with its shape and dtype.", _grad_input),
    check=_check,
    sample=_sample,
    tolerances={
        "float32": Tolerance(relative=1e-5, absolute=1e-6),
        "float16": _HALF,
        "bfloat16": Tolerance(relative=8e-3, absolute=8e-3),
    },
    # The chip casts to half for the whole computation.
    coarse={(Product.ATLAS_TRAINING, "float32"): _HALF},
    cases=(
        *_cases("overlapping", (2, 3, 9, 10), kernel_size=(3, 3), stride=(2, 2), padding=(1, 1)),
        *_cases("stride_of_kernel", (2, 3, 8, 8), kernel_size=(2,)),
        *_cases("rank3", (5, 7, 9), kernel_size=(3, 2), stride=(2, 1)),
        *_cases("ceil_mode", (1, 4, 7, 8), kernel_size=(3, 3), stride=(2, 2), padding=(1, 0), ceil_mode=True),
        *_cases("ceil_mode_beyond_padding", (1, 2, 5, 5), kernel_size=(2,), stride=(3,), padding=(1,), ceil_mode=True),
        *_cases("dense", (1, 2, 6, 5), kernel_size=(3,), stride=(1,), padding=(1,)),
        *_cases("one_cell_windows", (2, 3, 4, 5), kernel_size=(1,), stride=(2,)),
        *_cases("global", (2, 3, 5, 6), kernel_size=(5, 6)),
        *_cases("gaps", (1, 3, 11, 13), kernel_size=(2, 2), stride=(4, 5)),
        *_cases("many_channels", (1, 35, 6, 6), kernel_size=(2, 2), stride=(2, 2)),
        *_cases("one_row", (2, 2, 1, 17), kernel_size=(1, 3), stride=(1, 2), padding=(0, 1)),
        *_cases("empty_batch", (0, 3, 6, 6), kernel_size=(2,)),
    ),
)
