"""The rows of the operator table that reduce a tensor along some of its axes.

Devices take a list without axes for all of them, and null for no dtype: so the server names that of self.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from aclgrad.errors import Violation
from aclgrad.operators.batch_axes import BatchAxes
from aclgrad.operators.families.elementwise.spec import RANKS, floats
from aclgrad.operators.routes import FLOAT32
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
from aclgrad.operators.tolerance import EXACT, of_products
from aclgrad.products import Product
from aclgrad.tensors import DType, TensorType

_DTYPES: Final = floats()
_NUMBERS: Final = floats("int32", "int64")
_MOST: Final = max(RANKS)

Rule = Callable[[Arguments, Product, str], Tolerance]


def _dtype(arguments: Arguments) -> DType:
    given = arguments.attributes.get("dtype")
    return given if isinstance(given, DType) else arguments.inputs["self"].dtype


def _axes(arguments: Arguments) -> frozenset[int]:
    rank = arguments.inputs["self"].rank
    dims = arguments.ints("dims" if "dims" in arguments.attributes else "dim")
    return frozenset(axis % max(rank, 1) for axis in dims) or frozenset(range(rank))


def _out(arguments: Arguments) -> TensorType:
    axes, names = _axes(arguments), arguments.attributes
    keeps = names["keep_dims" if "keep_dims" in names else "keep_dim"]
    shape = arguments.inputs["self"].shape
    sizes = (1 if axis in axes else size for axis, size in enumerate(shape) if keeps or axis not in axes)
    return TensorType(_dtype(arguments), tuple(sizes))


def _terms(arguments: Arguments) -> int:
    shape = arguments.inputs["self"].shape
    return math.prod(shape[axis] for axis in _axes(arguments)) if shape else 1


def _check_axes(arguments: Arguments, name: str) -> Iterator[Violation]:
    shape, dims = arguments.inputs["self"].shape, arguments.ints(name)
    rank = max(len(shape), 1)  # a scalar has one axis here, as in PyTorch
    for position, axis in enumerate(dims):
        field = f"attributes[{name}][{position}]"
        if not -rank <= axis < rank:
            problem = f"is {axis}, and inputs[self] has the shape {shape}"
            yield Violation(field, problem, f"send {-rank} to {rank - 1}")
        elif axis % rank in [each % rank for each in dims[:position] if -rank <= each < rank]:
            yield Violation(field, f"is {axis}, an axis that is there already", "send each axis once")


def _check_dtype(arguments: Arguments, product: Product) -> Iterator[Violation]:
    if (dtype := _dtype(arguments).name) not in _DTYPES[product]:
        remedy = f"send {' or '.join(_DTYPES[product])}, or leave it out"
        yield Violation("attributes[dtype]", f"is {dtype}, which product {product} lacks", remedy)


def _check_elements(arguments: Arguments) -> Iterator[Violation]:
    shape = arguments.inputs["self"].shape
    axes = [axis for axis in _axes(arguments) if axis < len(shape)]
    if any(shape[axis] == 0 for axis in axes):
        yield Violation("inputs[self].shape", f"is {shape}, without elements to compare", "send some for each result")


_of_sums: Final = of_products(_terms, ("self",), lambda *_: FLOAT32)


def _sum_tolerance(arguments: Arguments, product: Product, dtype: str) -> Tolerance:
    return _of_sums(arguments, product, _dtype(arguments).name)


def _mean_tolerance(arguments: Arguments, product: Product, dtype: str) -> Tolerance:
    """That of sums, which are divided; a quotient is rounded once more."""
    sums = _sum_tolerance(arguments, product, dtype)
    return replace(sums, absolute=sums.absolute / max(_terms(arguments), 1))


def reduction(
    name: str,
    symbol: str,
    summary: str,
    formula: str,
    tolerance: Rule,
    *,
    axes: str = "dim",
    keeps: str = "keep_dim",
    has_dtype: bool = True,
    runs_on_nothing: Callable[[Arguments], bool] = lambda _: False,
) -> OperatorSpec:
    """Returns the row of a reduction, whose attributes have these names. Without a dtype, integers are reduced too."""

    def check(arguments: Arguments, product: Product) -> Iterator[Violation]:
        problems = tuple(_check_axes(arguments, axes))
        yield from problems
        if has_dtype:
            yield from _check_dtype(arguments, product)
        elif not problems:
            yield from _check_elements(arguments)

    dtype = AttributeSpec(
        "dtype",
        "The data type of out; that of self if it is left out.",
        AttributeKind.DATA_TYPE,
        choices=tuple(dict.fromkeys(sum(_DTYPES.values(), ()))),
        is_optional=True,
        read_as=lambda arguments, _: _dtype(arguments),
    )
    return OperatorSpec(
        name=name,
        symbol=symbol,
        summary=summary,
        formula=formula,
        inputs=(InputSpec("self", "The tensor. Any shape.", _DTYPES if has_dtype else _NUMBERS, RANKS),),
        attributes=(
            AttributeSpec(
                axes,
                "The axes, each once; a negative one counts from the last. An empty list for all.",
                AttributeKind.INTS,
                lengths=RANKS,
                default=(),
                minimum=-_MOST,
                maximum=_MOST - 1,
            ),
            AttributeSpec(keeps, "Keeps the axes, with a size of 1.", AttributeKind.BOOL, default=False),
            *((dtype,) if has_dtype else ()),
        ),
        outputs=(OutputSpec("out", "The results: self without the axes, or with a size of 1 for each.", _out),),
        check=check,
        tolerance=tolerance,
        kind=OperatorKind.VALUE,
        runs_on_nothing=runs_on_nothing,
        is_spatial=False,
        batch_axes=lambda arguments: (
            BatchAxes() if arguments.inputs["self"].rank and 0 not in _axes(arguments) else None
        ),
    )


SPECS: Final = (
    reduction(
        "amax",
        "aclnnAmax",
        "Gives the largest elements of a tensor along some of its axes.",
        "out = the largest element of self along dim, NaN if there is one (PyTorch: aten::amax).",
        lambda *_: EXACT,
        has_dtype=False,
    ),
    reduction(
        "mean",
        "aclnnMean",
        "Averages a tensor along some of its axes.",
        "out = the sum of self along dim, divided by the number of its terms (PyTorch: aten::mean.dim).",
        _mean_tolerance,
        # What has no elements has no means: they are NaN.
        runs_on_nothing=lambda arguments: _out(arguments).element_count > 0,
    ),
    reduction(
        "reduce_sum",
        "aclnnReduceSum",
        "Adds up a tensor along some of its axes.",
        "out = the sum of self along dims (PyTorch: aten::sum.dim_IntList).",
        _sum_tolerance,
        axes="dims",
        keeps="keep_dims",
    ),
)
