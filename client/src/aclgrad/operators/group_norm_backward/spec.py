"""aclnnGroupNormBackward: the gradients of group normalisation.

Devices count elements alone, and look at no sign of the sizes. For empty tensors they write nothing, also where the
gradients of the parameters are sums of nothing: the server answers zeros.
"""

import math
from collections.abc import Iterator
from typing import Final

from aclgrad.errors import Violation
from aclgrad.operators.batch_axes import BatchAxes
from aclgrad.operators.rules import equal_sizes, first_problem, one_value_each, same_dtype
from aclgrad.operators.spec import (
    Arguments,
    AttributeKind,
    AttributeSpec,
    InputSpec,
    OperatorSpec,
    OutputSpec,
    Tolerance,
)
from aclgrad.operators.tolerance import by_dtype, summed
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType

_DTYPES: Final = {
    Product.ATLAS_TRAINING: ("float32", "float16"),
    **dict.fromkeys((Product.ATLAS_A2, Product.ATLAS_A3, Product.ASCEND_950), ("float32", "float16", "bfloat16")),
}
_RANKS: Final = tuple(range(2, 9))
_ANY_RANKS: Final = tuple(range(1, 9))
_MOST: Final = 2**31 - 1
"""Of each size, which keeps their products within 128 bits."""
_LIMITED: Final = (Product.ATLAS_A2, Product.ATLAS_A3)
_MOST_CHANNELS: Final = 240_000
_MOST_OF_GROUP: Final = 8_000


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    yield from same_dtype(arguments, "grad_output", "input")
    mean = arguments.inputs["mean"].dtype
    if product is not Product.ASCEND_950 or mean is not DTYPES["float32"]:
        yield from same_dtype(arguments, "input", "mean")
    yield from same_dtype(arguments, "mean", "rstd", *(["gamma"] if "gamma" in arguments.inputs else []))
    yield from first_problem(_check_sizes(arguments, product), _check_shapes(arguments))


def _check_sizes(arguments: Arguments, product: Product) -> Iterator[Violation]:
    shape = arguments.inputs["input"].shape
    sizes = {"n": shape[0], "c": shape[1], "hxw": math.prod(shape[2:])}
    for name, size in sizes.items():
        if arguments.int(name) != size:
            problem = f"is {arguments.int(name)}, but inputs[input] has the shape {shape}"
            yield Violation(f"attributes[{name}]", problem, f"send {size}")
    channels, groups = shape[1], arguments.int("group")
    if channels % groups:
        yield Violation("attributes[group]", f"is {groups} for {channels} channels", "send a divisor")
    elif product in _LIMITED and (channels > _MOST_CHANNELS or channels // groups > _MOST_OF_GROUP):
        remedy = f"send at most {_MOST_OF_GROUP} channels in a group, and {_MOST_CHANNELS} in all"
        yield Violation("attributes[group]", f"is {groups} for {channels} channels", remedy)


def _check_shapes(arguments: Arguments) -> Iterator[Violation]:
    inputs, groups = arguments.inputs, arguments.int("group")
    shape = inputs["input"].shape
    yield from equal_sizes("inputs[grad_output].shape", inputs["grad_output"].shape, "inputs[input].shape", shape)
    for name in ("mean", "rstd"):
        yield from one_value_each(arguments, name, (shape[0], groups), f"{groups} groups")
    if "gamma" in inputs:
        yield from equal_sizes("inputs[gamma].shape", inputs["gamma"].shape, "the channels", shape[1:2])


def _parameter(arguments: Arguments) -> TensorType:
    return TensorType(arguments.inputs["mean"].dtype, arguments.inputs["input"].shape[1:2])


def _size(name: str, summary: str, least: int = 0) -> AttributeSpec:
    return AttributeSpec(name, summary, AttributeKind.INT, minimum=least, maximum=_MOST)


_COARSE: Final = {(Product.ATLAS_TRAINING, "float16"): Tolerance(relative=2e-2, absolute=2e-2)}
"""It goes by way of batch normalisation in the tensor's dtype, and takes the variance back from rstd with eps 1e-5."""

SPEC = OperatorSpec(
    name="group_norm_backward",
    symbol="aclnnGroupNormBackward",
    summary="Gives the gradients of group normalisation: of the input, the weight and the bias.",
    formula=(
        "With x = (input - mean) * rstd and g = grad_output * gamma: grad_input = rstd * (g - mean(g) - x * "
        "mean(g * x)), where mean() is over the channels of a group; grad_gamma is the sum of grad_output * x over "
        "all but the channels, and grad_beta that of grad_output (PyTorch: aten::native_group_norm_backward)."
    ),
    inputs=(
        InputSpec("grad_output", "The gradient of the normalised tensor, with its shape and dtype.", _DTYPES, _RANKS),
        InputSpec("input", "The tensor that was normalised, shape (N, C, ...).", _DTYPES, _RANKS),
        InputSpec(
            "mean",
            "The mean of each group, shape (N, group) or (N * group,): the dtype of input; on the 950 float32 will do, "
            "too.",
            _DTYPES,
            _ANY_RANKS,
        ),
        InputSpec(
            "rstd",
            "1 / sqrt(variance + eps) of each group, with a shape that mean may have and its dtype.",
            _DTYPES,
            _ANY_RANKS,
        ),
        InputSpec(
            "gamma",
            "What the channels were multiplied by, shape (C,), with the dtype of mean. Left out: ones.",
            _DTYPES,
            (1,),
            is_optional=True,
        ),
    ),
    attributes=(
        _size("n", "N of the shape of input."),
        _size("c", "C of the shape of input."),
        _size("hxw", "The product of all further sizes of input."),
        _size("group", "The groups of channels, which divide C.", 1),
    ),
    outputs=(
        OutputSpec(
            "grad_input",
            "The gradient of input, with its shape and dtype.",
            lambda arguments: arguments.inputs["input"],
            of="input",
            is_nullable=True,
        ),
        OutputSpec(
            "grad_gamma", "The gradient of gamma, shape (C,), with the dtype of mean.", _parameter, "gamma", True
        ),
        OutputSpec(
            "grad_beta", "The gradient of the bias, shape (C,), with the dtype of mean.", _parameter, "bias", True
        ),
    ),
    check=_check,
    tolerance=summed(
        by_dtype(
            {
                "float32": Tolerance(relative=1e-4, absolute=1e-4),
                "float16": Tolerance(relative=2e-3, absolute=2e-3),
                "bfloat16": Tolerance(relative=1.6e-2, absolute=1.6e-2),
            },
            _COARSE,
        ),
        lambda arguments: arguments.int("n") * arguments.int("hxw"),
        "grad_gamma",
        "grad_beta",
    ),
    is_spatial=False,
    batch_axes=lambda _: BatchAxes(others=dict.fromkeys(("gamma", "grad_gamma", "grad_beta")), counts=("n",)),
)
