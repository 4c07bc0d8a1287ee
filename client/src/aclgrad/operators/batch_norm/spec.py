"""aclnnBatchNorm: batch normalisation.

CANN writes the running statistics in their place, and here they are outputs that begin as copies. Off the 950,
`save_invstd` is the variance, which the operator of the gradient takes in this place: so only a program may pass it on.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from aclgrad.errors import Violation
from aclgrad.operators.batch_axes import BatchAxes
from aclgrad.operators.batch_norm_backward.spec import variance_rule
from aclgrad.operators.families.elementwise.spec import floats
from aclgrad.operators.families.normalisation.parts import (
    CENTRED,
    FLOAT32,
    TOLERANCES,
    check_parameters,
    eps_spec,
    parameters_of,
)
from aclgrad.operators.rules import first_problem, same_dtype
from aclgrad.operators.spec import (
    Arguments,
    AttributeKind,
    AttributeSpec,
    InputSpec,
    OperatorKind,
    OperatorSpec,
    OutputSpec,
)
from aclgrad.operators.tolerance import by_dtype
from aclgrad.products import Product
from aclgrad.tensors import TensorType

_DTYPES: Final = floats()
_RUNNING: Final = ("running_mean", "running_var")
_PARAMETERS: Final = ("weight", "bias")
_SAVED: Final = ("new_running_mean", "new_running_var", "save_mean", "save_invstd")


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    yield from first_problem(
        check_parameters(
            arguments, "input", arguments.inputs["input"].shape[1:2], "the channels", *_PARAMETERS, *_RUNNING, wide=True
        ),
        same_dtype(arguments, *_RUNNING),
        _check_elements(arguments),
    )


def _check_elements(arguments: Arguments) -> Iterator[Violation]:
    shape = arguments.inputs["input"].shape
    if 0 in shape:
        yield Violation("inputs[input].shape", f"is {shape}", "send sizes above 0")
    elif arguments.attributes["training"] and math.prod(shape) == shape[1]:
        problem = f"is {shape}, which has no variance of the one value of each channel"
        yield Violation("inputs[input].shape", problem, "send more, or training as false")


def _saved(arguments: Arguments) -> TensorType:
    channels = arguments.inputs["input"].shape[1:2]
    return TensorType(FLOAT32, channels if arguments.attributes["training"] else (0,))


def _running(name: str, statistic: str) -> OutputSpec:
    return OutputSpec(
        f"new_{name}",
        f"{name} * (1 - momentum) + {statistic} * momentum; {name} without training.",
        lambda arguments: arguments.inputs[name],
        begins_as=name,
    )


def _batch_axes(arguments: Arguments) -> BatchAxes | None:
    """Channels; without training there is nothing saved that could be joined."""
    if not arguments.attributes["training"]:
        return None
    return BatchAxes(1, dict.fromkeys((*_PARAMETERS, *_RUNNING, *_SAVED), 0), item="channel")


SPEC = OperatorSpec(
    name="batch_norm",
    symbol="aclnnBatchNorm",
    summary="Normalises the channels of a batch by their mean and deviation.",
    formula=(
        "output = (input - mean) / sqrt(var + eps) * weight + bias, with the mean and the variance of each channel of "
        "the batch when training, running_mean and running_var otherwise (PyTorch: "
        "aten::_native_batch_norm_legit_functional)."
    ),
    inputs=(
        InputSpec("input", "The tensor, shape (N, C) or (N, C, ...).", _DTYPES, tuple(range(2, 9))),
        *parameters_of(_DTYPES, (1,), "shape (C,): float32, or the dtype of input", *_PARAMETERS),
        InputSpec("running_mean", "The mean so far, shape (C,): float32, or the dtype of input.", _DTYPES, (1,)),
        InputSpec("running_var", "The variance so far, with the shape and dtype of running_mean.", _DTYPES, (1,)),
    ),
    attributes=(
        AttributeSpec("training", "Whether the statistics are those of the batch.", AttributeKind.BOOL),
        AttributeSpec(
            "momentum",
            "The share of the batch in the new running statistics; rounded to float32.",
            AttributeKind.DOUBLE,
            default=0.1,
            minimum=0,
            maximum=1,
        ),
        eps_spec(1e-5, float(np.finfo(np.float32).tiny)),
    ),
    outputs=(
        OutputSpec(
            "output", "The normalised tensor, with the shape and dtype of input.", lambda given: given.inputs["input"]
        ),
        _running("running_mean", "mean"),
        _running("running_var", "unbiased variance"),
        OutputSpec(
            "save_mean", "The mean of each channel of the batch, shape (C,), float32; (0,) without training.", _saved
        ),
        OutputSpec(
            "save_invstd",
            "What batch_norm_backward takes in a later step of a program, and nobody else gets.",
            _saved,
            guarantees=lambda arguments, product: variance_rule(arguments, product, "input"),
            stays_inside=True,
        ),
    ),
    check=_check,
    tolerance=by_dtype(
        {
            name: replace(
                each,
                outputs={
                    "save_mean": TOLERANCES["float32"],
                    **dict.fromkeys(("new_running_mean", "new_running_var"), TOLERANCES[name]),
                },
            )
            for name, each in CENTRED.items()
        }
    ),
    kind=OperatorKind.VALUE,
    batch_axes=_batch_axes,
)
