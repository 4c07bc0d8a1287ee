"""The rows of the operator table that are normalisations.

The saved statistics have the types and shapes that the operators of the gradients take.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from aclgrad.errors import Violation
from aclgrad.operators.batch_axes import BatchAxes
from aclgrad.operators.families.elementwise.spec import floats
from aclgrad.operators.families.normalisation.parts import (
    CENTRED,
    FLOAT32,
    TOLERANCES,
    check_parameters,
    eps_spec,
    parameters_of,
)
from aclgrad.operators.rms_norm_grad.spec import LEAST_BYTES
from aclgrad.operators.rules import first_problem, same_dtype
from aclgrad.operators.spec import (
    Arguments,
    AttributeKind,
    AttributeSpec,
    InputSpec,
    OperatorKind,
    OperatorSpec,
    OutputSpec,
    Tolerance,
)
from aclgrad.operators.tolerance import Rule, by_dtype
from aclgrad.products import Product
from aclgrad.tensors import TensorType

RANKS: Final = tuple(range(1, 9))
_MOST: Final = 2**31 - 1


def with_statistics(statistics: Callable[[Arguments, Product, str], Tolerance], *outputs: str) -> Rule:
    """Returns the rule of results that are rounded to the dtype, and of these outputs."""
    of_results = by_dtype(CENTRED)

    def rule(arguments: Arguments, product: Product, dtype: str) -> Tolerance:
        found = statistics(arguments, product, dtype)
        return replace(of_results(arguments, product, dtype), outputs=dict.fromkeys(outputs, found))

    return rule


def _given(arguments: Arguments, *names: str) -> list[str]:
    return [name for name in names if name in arguments.inputs]


def _out(input: str, name: str = "out") -> OutputSpec:
    rule = f"The normalised tensor, with the shape and dtype of {input}."
    return OutputSpec(name, rule, lambda arguments: arguments.inputs[input])


# Layer normalisation.


def _layer_sizes(arguments: Arguments) -> Iterator[Violation]:
    sizes, shape = arguments.ints("normalized_shape"), arguments.inputs["input"].shape
    if sizes != shape[-len(sizes) :]:
        problem = f"is {sizes}, but inputs[input] has the shape {shape}"
        yield Violation("attributes[normalized_shape]", problem, "send the last sizes of that shape")


def _check_layers(arguments: Arguments, product: Product) -> Iterator[Violation]:
    sizes, names = arguments.ints("normalized_shape"), ("weight", "bias")
    yield from first_problem(
        _layer_sizes(arguments),
        check_parameters(arguments, "input", sizes, "normalized_shape", *names, wide=True),
        same_dtype(arguments, *_given(arguments, *names)) if _given(arguments, *names) else iter(()),
    )


def _rows(arguments: Arguments, input: str, normalised: int) -> TensorType:
    """Returns the type of one float32 for each row."""
    shape = arguments.inputs[input].shape
    return TensorType(FLOAT32, (*shape[: len(shape) - normalised], *(1 for _ in range(normalised))))


def _layer_rows(arguments: Arguments) -> TensorType:
    return _rows(arguments, "input", len(arguments.ints("normalized_shape")))


def _layer_statistics(arguments: Arguments, product: Product, dtype: str) -> Tolerance:
    """Products but the 950 make them in the dtype of the parameters, which is that of input without them."""
    types = {arguments.inputs[name].dtype.name for name in _given(arguments, "weight", "bias")} or {dtype}
    return TOLERANCES["float32" if product is Product.ASCEND_950 else types.pop()]


def _layer_axes(arguments: Arguments) -> BatchAxes | None:
    rows = arguments.inputs["input"].rank - len(arguments.ints("normalized_shape"))
    return BatchAxes(others=dict.fromkeys(("weight", "bias"))) if rows else None


def _layer_norm() -> OperatorSpec:
    dtypes = floats(without=(Product.ATLAS_INFERENCE,))
    return OperatorSpec(
        name="layer_norm",
        symbol="aclnnLayerNorm",
        summary="Normalises the elements of each row by their mean and deviation.",
        formula=(
            "out = (input - mean_out) * rstd_out * weight + bias, where mean_out is the mean over normalized_shape and "
            "rstd_out = 1 / sqrt(variance + eps) (PyTorch: aten::native_layer_norm)."
        ),
        inputs=(
            InputSpec("input", "The tensor, whose last sizes are normalized_shape.", dtypes, RANKS),
            *parameters_of(
                dtypes, RANKS, "of normalized_shape: float32, or the dtype of input, as the other", "weight", "bias"
            ),
        ),
        attributes=(
            AttributeSpec(
                "normalized_shape",
                "The last sizes of input, over which each row is normalised.",
                AttributeKind.INTS,
                RANKS,
                minimum=0,
            ),
            eps_spec(1e-5, 0),
        ),
        outputs=(
            _out("input"),
            OutputSpec(
                "mean_out",
                "The mean of each row, float32 or rounded; the sizes of input before normalized_shape, then ones.",
                _layer_rows,
            ),
            OutputSpec("rstd_out", "1 / sqrt(variance + eps) of each row, in the same way.", _layer_rows),
        ),
        check=_check_layers,
        tolerance=with_statistics(_layer_statistics, "mean_out", "rstd_out"),
        kind=OperatorKind.VALUE,
        # Rows of nothing have the mean 0 and the reciprocal NaN, as in PyTorch.
        runs_on_nothing=lambda arguments: _layer_rows(arguments).element_count > 0,
        is_spatial=False,
        batch_axes=_layer_axes,
    )


# Root mean square normalisation.


def _check_roots(arguments: Arguments, product: Product) -> Iterator[Violation]:
    type, gamma = arguments.inputs["x"], arguments.inputs["gamma"]
    if gamma.shape != type.shape[-gamma.rank :]:
        problem = f"is {gamma.shape}, but inputs[x] has the shape {type.shape}"
        yield Violation("inputs[gamma].shape", problem, "send the last sizes of that shape")
        return
    wide = product is not Product.ATLAS_INFERENCE
    yield from check_parameters(arguments, "x", gamma.shape, "itself", "gamma", wide=wide)
    if gamma.element_count == 0:
        yield Violation("inputs[gamma].shape", f"is {gamma.shape}", "send sizes above 0")
    elif product is Product.ATLAS_INFERENCE and type.shape[-1] * type.dtype.itemsize < LEAST_BYTES:
        problem = f"is {type.shape}, and this product takes a last size of {LEAST_BYTES} bytes"
        remedy = f"send a last size of at least {LEAST_BYTES // type.dtype.itemsize}"
        yield Violation("inputs[x].shape", problem, remedy)


def _rms_norm() -> OperatorSpec:
    dtypes = floats(without=(Product.ATLAS_TRAINING,))
    return OperatorSpec(
        name="rms_norm",
        symbol="aclnnRmsNorm",
        summary="Normalises the elements of each row by the root of their mean square.",
        formula=(
            "y_out = x * rstd_out * gamma, where rstd_out = 1 / sqrt(mean(x^2) + epsilon) over the sizes of gamma "
            "(PyTorch: aten::_fused_rms_norm)."
        ),
        inputs=(
            InputSpec("x", "The tensor, whose last sizes are those of gamma.", dtypes, RANKS),
            InputSpec(
                "gamma",
                "What the normalised rows are multiplied by: float32 (not on 310P), or the dtype of x.",
                dtypes,
                RANKS,
            ),
        ),
        attributes=(eps_spec(1e-6, 0, "epsilon", "mean square"),),
        outputs=(
            _out("x", "y_out"),
            OutputSpec(
                "rstd_out",
                "1 / sqrt(mean square + epsilon) of each row, float32; the sizes of x before gamma's, then ones.",
                lambda arguments: _rows(arguments, "x", arguments.inputs["gamma"].rank),
            ),
        ),
        check=_check_roots,
        # Devices round x * rstd before they multiply.
        tolerance=by_dtype(
            {
                name: replace(
                    TOLERANCES[name],
                    relative=(1 if name == "float32" else 2) * TOLERANCES[name].relative,
                    outputs={"rstd_out": TOLERANCES["float32"]},
                )
                for name in TOLERANCES
            }
        ),
        kind=OperatorKind.VALUE,
        is_spatial=False,
        batch_axes=lambda given: (
            BatchAxes(others={"gamma": None}) if given.inputs["x"].rank > given.inputs["gamma"].rank else None
        ),
    )


# Group normalisation.


def _check_groups(arguments: Arguments, product: Product) -> Iterator[Violation]:
    shape = arguments.inputs["self"].shape
    yield from check_parameters(arguments, "self", shape[1:2], "the channels of inputs[self]", "gamma", "beta")
    for name, size in (("n", shape[0]), ("c", shape[1]), ("hxw", math.prod(shape[2:]))):
        if arguments.int(name) != size:
            problem = f"is {arguments.int(name)}, but inputs[self] has the shape {shape}"
            yield Violation(f"attributes[{name}]", problem, f"send {size}")
    if shape[1] % arguments.int("group"):
        problem = f"is {arguments.int('group')} for {shape[1]} channels"
        yield Violation("attributes[group]", problem, "send a divisor")
    # A device asks for no memory for the statistics of nothing, and needs some.
    if shape[0] and 0 in shape:
        yield Violation("inputs[self].shape", f"is {shape}", "send sizes above 0, or no samples")


def _groups(arguments: Arguments) -> TensorType:
    self = arguments.inputs["self"]
    return TensorType(self.dtype, (self.shape[0], arguments.int("group")))


def _group_norm() -> OperatorSpec:
    dtypes = floats()
    sizes = {"n": "N of the shape of self.", "c": "C of the shape of self.", "hxw": "The product of its other sizes."}
    return OperatorSpec(
        name="group_norm",
        symbol="aclnnGroupNorm",
        summary="Normalises groups of the channels of each sample by their mean and deviation.",
        formula=(
            "out = (self - mean_out) * rstd_out * gamma + beta, where mean_out is the mean of a group and rstd_out = "
            "1 / sqrt(variance + eps) (PyTorch: aten::native_group_norm)."
        ),
        inputs=(
            InputSpec("self", "The tensor, shape (N, C, ...).", dtypes, RANKS[1:]),
            *parameters_of(dtypes, (1,), "shape (C,), with the dtype of self", "gamma", "beta"),
        ),
        attributes=(
            *(AttributeSpec(name, each, AttributeKind.INT, minimum=0, maximum=_MOST) for name, each in sizes.items()),
            AttributeSpec(
                "group", "The groups of channels, which divide C.", AttributeKind.INT, minimum=1, maximum=_MOST
            ),
            eps_spec(1e-5, float(np.finfo(np.float32).tiny)),
        ),
        outputs=(
            _out("self"),
            OutputSpec("mean_out", "The mean of each group, shape (N, group), with the dtype of self.", _groups),
            OutputSpec("rstd_out", "1 / sqrt(variance + eps) of each group, in the same way.", _groups),
        ),
        check=_check_groups,
        tolerance=with_statistics(lambda _, __, dtype: TOLERANCES[dtype], "mean_out", "rstd_out"),
        kind=OperatorKind.VALUE,
        is_spatial=False,
        batch_axes=lambda _: BatchAxes(others=dict.fromkeys(("gamma", "beta")), counts=("n",)),
    )


SPECS: Final = (_group_norm(), _layer_norm(), _rms_norm())
