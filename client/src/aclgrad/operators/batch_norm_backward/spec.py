"""aclnnBatchNormBackward: the gradients of batch normalisation.

`save_invstd` is the reciprocal 1 / sqrt(var + eps) for every product. Only the 950 reads it as that. All others read
the variance in its place, so the server computes it: see `VarianceRule`.

Devices take zeros and ones for statistics that are missing, and most of them do not compare the lengths of `save_mean`
and `save_invstd`, so both are checked before. The 950 rounds grad_weight to the dtype of `weight`, so it takes float32.
"""

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from aclgrad.errors import Violation
from aclgrad.operators.batch_axes import BatchAxes
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
from aclgrad.operators.tolerance import by_dtype, summed
from aclgrad.operators.values import VarianceRule
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType

_BFLOAT_PRODUCTS = (Product.ATLAS_A2, Product.ATLAS_A3, Product.ASCEND_950)
_DTYPES = {
    Product.ATLAS_TRAINING: ("float32", "float16"),
    **same_on(_BFLOAT_PRODUCTS, ("float32", "float16", "bfloat16")),
}
_FLOAT32: Final = same_on(tuple(_DTYPES), ("float32",))
_RANKS: Final = (2, 3, 4, 5, 6, 7, 8)
_LIMITS: Final = np.finfo(np.float32)
_BATCH: Final = ("save_mean", "save_invstd")
_RUNNING: Final = ("running_mean", "running_var")
_OF_CHANNELS: Final = ("weight", *_RUNNING, *_BATCH)


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    yield from first_problem(
        same_dtype(arguments, "grad_output", "input"),
        _check_statistics(arguments),
        _check_dtypes(arguments),
        _check_shapes(arguments),
    )


def _check_statistics(arguments: Arguments) -> Iterator[Violation]:
    training = arguments.attributes["training"]
    why = (
        "with training, the gradient uses the batch's statistics"
        if training
        else ("without training, the gradient uses the running statistics")
    )
    for name in _BATCH if training else _RUNNING:
        if name not in arguments.inputs:
            yield Violation(f"inputs[{name}]", "is missing", f"send it: {why}")


def _check_dtypes(arguments: Arguments) -> Iterator[Violation]:
    dtype = arguments.inputs["grad_output"].dtype
    for name in ("weight", *_RUNNING):
        given = arguments.inputs.get(name)
        if given is not None and given.dtype.name != "float32" and given.dtype is not dtype:
            problem = f"is {given.dtype}, but inputs[grad_output] is {dtype}"
            yield Violation(f"inputs[{name}].data_type", problem, "send it as float32")
    if all(name in arguments.inputs for name in _RUNNING):
        yield from same_dtype(arguments, *_RUNNING)


def _check_shapes(arguments: Arguments) -> Iterator[Violation]:
    shape = arguments.inputs["grad_output"].shape
    yield from equal_sizes("inputs[input].shape", arguments.inputs["input"].shape, "inputs[grad_output]", shape)
    for name in _OF_CHANNELS:
        if name in arguments.inputs:
            given, channels = arguments.inputs[name].shape, (shape[1],)
            yield from equal_sizes(f"inputs[{name}].shape", given, "the channel count of inputs[grad_output]", channels)


_ROUNDING: Final = {"float32": 1e-4, "float16": 1e-3, "bfloat16": 5e-3}
"""By how much a saved reciprocal may be too large: kernels save it in the dtype of the input or of the parameters."""


def variance_rule(arguments: Arguments, product: Product, input: str = "grad_output") -> VarianceRule:
    """Returns the rule of what a forward pass saves of inputs like this one."""
    eps = float(np.float32(arguments.attributes["eps"]))  # type: ignore[arg-type]
    return VarianceRule(eps, product is not Product.ASCEND_950, _ROUNDING[arguments.inputs[input].dtype.name])


def _variance_rule(arguments: Arguments, product: Product) -> VarianceRule | None:
    return variance_rule(arguments, product) if arguments.attributes["training"] else None


def _grad_input(arguments: Arguments) -> TensorType:
    return arguments.inputs["input"]


def _channel(arguments: Arguments) -> float:
    """Returns the elements of a channel."""
    batch, _, *sizes = arguments.inputs["input"].shape
    return float(math.prod((batch, *sizes)))


def _grad_of_channels(arguments: Arguments) -> TensorType:
    return TensorType(DTYPES["float32"], arguments.inputs["input"].shape[1:2])


_CHANNELS: Final = BatchAxes(1, dict.fromkeys((*_OF_CHANNELS, "grad_weight", "grad_bias"), 0), item="channel")
"""Statistics and sums go over all other axes."""


SPEC = OperatorSpec(
    name="batch_norm_backward",
    symbol="aclnnBatchNormBackward",
    summary="Computes the gradients of batch normalisation: of its input, its weight and its bias.",
    formula=(
        "With invstd = save_invstd and mean = save_mean when training, invstd = 1 / sqrt(running_var + eps) and mean = "
        "running_mean otherwise, xhat = (input - mean) * invstd, and sums over all but the channels: grad_bias = "
        "sum(grad_output), grad_weight = sum(grad_output * xhat), grad_input = weight * invstd * grad_output, and when "
        "training weight * invstd * (grad_output - (grad_bias + xhat * grad_weight) / n), with n elements in a channel "
        "(PyTorch: aten::native_batch_norm_backward)."
    ),
    inputs=(
        InputSpec("grad_output", "The gradient of the result, shape (N, C) or (N, C, ...).", _DTYPES, _RANKS),
        InputSpec("input", "The tensor that was normalised, shape of `grad_output`.", _DTYPES, _RANKS),
        InputSpec(
            "weight",
            "The factor of each channel, shape (C,), float32 or, but on the 950, of the input's dtype; left out: ones.",
            {**_DTYPES, Product.ASCEND_950: ("float32",)},
            (1,),
            is_optional=True,
        ),
        InputSpec(
            "running_mean",
            "The mean that was subtracted without `training`, shape (C,), float32 or of the input's dtype.",
            _DTYPES,
            (1,),
            is_optional=True,
        ),
        InputSpec(
            "running_var",
            "The variance that was divided by without `training`, with the shape and dtype of `running_mean`.",
            _DTYPES,
            (1,),
            is_optional=True,
        ),
        InputSpec(
            "save_mean",
            "The mean of each channel of the batch, shape (C,), as the forward pass with `training` saved it.",
            _FLOAT32,
            (1,),
            is_optional=True,
        ),
        InputSpec(
            "save_invstd",
            "The reciprocal 1 / sqrt(var + eps) of each channel of the batch, shape (C,), as PyTorch on a CPU saves "
            "it. On all products but the 950, CANN's own forward pass saves the variance under this name: do not send "
            "that.",
            _FLOAT32,
            (1,),
            values=_variance_rule,
            is_optional=True,
        ),
    ),
    attributes=(
        AttributeSpec(
            "training",
            "Whether the forward pass used the statistics of the batch, through which the gradient then also goes.",
            AttributeKind.BOOL,
        ),
        AttributeSpec(
            "eps",
            "What the forward pass added to the variance, as float32.",
            AttributeKind.DOUBLE,
            default=1e-5,
            minimum=float(_LIMITS.tiny),
            maximum=float(_LIMITS.max),
        ),
    ),
    outputs=(
        OutputSpec(
            "grad_input", "The gradient of `input`, with its shape and dtype.", _grad_input, "input", is_nullable=True
        ),
        OutputSpec(
            "grad_weight",
            "The gradient of `weight`, shape (C,), float32.",
            _grad_of_channels,
            "weight",
            is_nullable=True,
        ),
        OutputSpec(
            "grad_bias", "The gradient of the bias, shape (C,), float32.", _grad_of_channels, "bias", is_nullable=True
        ),
    ),
    check=_check,
    # float32 and its sums may have errors of some 1e-4 on a card; the others are rounded to their dtype.
    tolerance=summed(
        by_dtype(
            {
                "float32": Tolerance(relative=1e-4, absolute=1e-4),
                "float16": Tolerance(relative=1e-3, absolute=1e-3),
                "bfloat16": Tolerance(relative=8e-3, absolute=8e-3),
            }
        ),
        _channel,
        "grad_weight",
        "grad_bias",
    ),
    batch_axes=lambda _: _CHANNELS,
)
