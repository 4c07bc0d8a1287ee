"""aclnnReduceSum: the sum over axes.

Devices take a list without axes for all of them, and null for no dtype: so the server names that of self.
"""

import math
from collections.abc import Iterator
from typing import Final

from aclgrad.errors import Violation
from aclgrad.operators.batch_axes import BatchAxes
from aclgrad.operators.families.elementwise.spec import floats, tolerances_of
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
from aclgrad.operators.tolerance import of_products
from aclgrad.products import Product
from aclgrad.tensors import DType, TensorType

_DTYPES: Final = floats()
_MOST: Final = 8
_RANKS: Final = tuple(range(_MOST + 1))


def _dtype(arguments: Arguments) -> DType:
    given = arguments.attributes["dtype"]
    return given if isinstance(given, DType) else arguments.inputs["self"].dtype


def _axes(arguments: Arguments) -> frozenset[int]:
    rank = arguments.inputs["self"].rank
    return frozenset(axis % max(rank, 1) for axis in arguments.ints("dims")) or frozenset(range(rank))


def _out(arguments: Arguments) -> TensorType:
    axes, keeps = _axes(arguments), arguments.attributes["keep_dims"]
    shape = arguments.inputs["self"].shape
    sizes = (1 if axis in axes else size for axis, size in enumerate(shape) if keeps or axis not in axes)
    return TensorType(_dtype(arguments), tuple(sizes))


def _terms(arguments: Arguments) -> int:
    shape = arguments.inputs["self"].shape
    return math.prod(shape[axis] for axis in _axes(arguments)) if shape else 1


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    shape, dims = arguments.inputs["self"].shape, arguments.ints("dims")
    rank = max(len(shape), 1)  # a scalar has one axis here, as in PyTorch
    for position, axis in enumerate(dims):
        field = f"attributes[dims][{position}]"
        if not -rank <= axis < rank:
            problem = f"is {axis}, and inputs[self] has the shape {shape}"
            yield Violation(field, problem, f"send {-rank} to {rank - 1}")
        elif axis % rank in [each % rank for each in dims[:position] if -rank <= each < rank]:
            yield Violation(field, f"is {axis}, an axis that is there already", "send each axis once")
    if (dtype := _dtype(arguments).name) not in _DTYPES[product]:
        remedy = f"send {' or '.join(_DTYPES[product])}, or leave it out"
        yield Violation("attributes[dtype]", f"is {dtype}, which product {product} lacks", remedy)


def _tolerance(arguments: Arguments, product: Product, dtype: str) -> Tolerance:
    return _of_sums(arguments, product, _dtype(arguments).name)


_of_sums: Final = of_products(_terms, ("self",), lambda *_: FLOAT32)

SPEC = OperatorSpec(
    name="reduce_sum",
    symbol="aclnnReduceSum",
    summary="Adds up a tensor along some of its axes.",
    formula="out = the sum of self along dims (PyTorch: aten::sum.dim_IntList).",
    inputs=(InputSpec("self", "The tensor. Any shape.", _DTYPES, _RANKS),),
    attributes=(
        AttributeSpec(
            "dims",
            "The axes, each once; a negative one counts from the last. An empty list for all.",
            AttributeKind.INTS,
            lengths=tuple(range(_MOST + 1)),
            default=(),
            minimum=-_MOST,
            maximum=_MOST - 1,
        ),
        AttributeSpec("keep_dims", "Keeps the axes, with a size of 1.", AttributeKind.BOOL, default=False),
        AttributeSpec(
            "dtype",
            "The data type of out; that of self if it is left out.",
            AttributeKind.DATA_TYPE,
            choices=tuple(tolerances_of(_DTYPES)),
            is_optional=True,
            read_as=lambda arguments, _: _dtype(arguments),
        ),
    ),
    outputs=(OutputSpec("out", "The sums: self without the axes, or with a size of 1 for each.", _out),),
    check=_check,
    tolerance=_tolerance,
    kind=OperatorKind.VALUE,
    is_spatial=False,
    batch_axes=lambda arguments: BatchAxes() if arguments.inputs["self"].rank and 0 not in _axes(arguments) else None,
)
