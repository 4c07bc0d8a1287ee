"""The rows of the operator table that take elements of a tensor, or add to them, by positions along an axis.

No device looks whether a position is in range: one that is not is read or written out of bounds. The server does.
"""

from collections.abc import Callable, Iterator
from typing import Final

from aclgrad.errors import Violation
from aclgrad.operators.batch_axes import BatchAxes
from aclgrad.operators.families.elementwise.spec import RANKS, floats
from aclgrad.operators.promotion import category, holds
from aclgrad.operators.routes import FLOAT32
from aclgrad.operators.rules import axis_in_range, equal_sizes, first_problem, same_dtype
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
from aclgrad.operators.values import IndexRule
from aclgrad.products import Product
from aclgrad.tensors import TensorType

_DTYPES: Final = floats("int32", "int64")
_SINCE_A2: Final = floats("int32", "int64", without=(Product.ATLAS_TRAINING, Product.ATLAS_INFERENCE))
_MOST: Final = max(RANKS)

Check = Callable[[Arguments, Product], Iterator[Violation]]


def _type(arguments: Arguments, name: str = "self") -> TensorType:
    return arguments.inputs[name]


def _axis(arguments: Arguments) -> int:
    return arguments.int("dim") % max(_type(arguments).rank, 1)


def _positions(arguments: Arguments) -> int:
    shape = _type(arguments).shape
    return shape[_axis(arguments)] if shape else 1


def _dim(of: str = "self") -> AttributeSpec:
    summary = f"The axis of {of}; a negative one counts from the last."
    return AttributeSpec("dim", summary, AttributeKind.INT, minimum=-_MOST, maximum=_MOST - 1)


def _index(summary: str, ranks: tuple[int, ...], is_old: bool = True) -> InputSpec:
    products = _DTYPES if is_old else _SINCE_A2
    return InputSpec(
        "index",
        f"{summary} From 0 to the size of the axis.",
        dict.fromkeys(products, ("int32", "int64")),
        ranks,
        values=lambda arguments, _: IndexRule(_positions(arguments)),
    )


def _same_rank(arguments: Arguments, *names: str) -> Iterator[Violation]:
    want = _type(arguments).rank
    for name in names:
        if (have := _type(arguments, name).rank) != want:
            problem = f"has {have} dimensions, and inputs[self] has {want}"
            yield Violation(f"inputs[{name}].shape", problem, f"send {want} sizes")


def _at_most(arguments: Arguments, other: str, *, but_dim: bool) -> Iterator[Violation]:
    """The index is no larger than the other tensor, whatever it is along the axis of positions."""
    have, most = _type(arguments, "index").shape, _type(arguments, other).shape
    checked = [axis for axis in range(len(have)) if not (but_dim and axis == _axis(arguments))]
    if any(have[axis] > most[axis] for axis in checked):
        axes = f", but for axis {_axis(arguments)}" if but_dim else ""
        problem = f"is {have}, and inputs[{other}] is {most}"
        yield Violation("inputs[index].shape", problem, f"send no larger size than that{axes}")


def _has_positions(arguments: Arguments, index: str, positions: int) -> Iterator[Violation]:
    if positions == 0 and _type(arguments, index).element_count:
        yield Violation(f"inputs[{index}].shape", "has elements, and there are no positions", "send an empty one")


def _check_embedding(arguments: Arguments, product: Product) -> Iterator[Violation]:
    yield from _has_positions(arguments, "indices", _type(arguments, "weight").shape[0])


def _check_select(arguments: Arguments, product: Product) -> Iterator[Violation]:
    yield from first_problem(axis_in_range(arguments, "dim", "self"), _check_selected(arguments))


def _check_selected(arguments: Arguments) -> Iterator[Violation]:
    yield from _has_positions(arguments, "index", _positions(arguments))
    yield from _one_of_scalar(arguments, _type(arguments, "index").element_count)


def _one_of_scalar(arguments: Arguments, count: int) -> Iterator[Violation]:
    if _type(arguments).rank == 0 and count != 1:
        yield Violation("inputs[index].shape", f"has {count} elements, and inputs[self] is a scalar", "send one")


def _check_gather(arguments: Arguments, product: Product) -> Iterator[Violation]:
    yield from first_problem(
        axis_in_range(arguments, "dim", "self"),
        _same_rank(arguments, "index"),
        _at_most(arguments, "self", but_dim=True),
        _has_positions(arguments, "index", _positions(arguments) if _type(arguments).rank else 1),
    )


def _check_scatter(arguments: Arguments, product: Product) -> Iterator[Violation]:
    yield from first_problem(
        axis_in_range(arguments, "dim", "self"),
        same_dtype(arguments, "self", "src"),
        _same_rank(arguments, "index", "src"),
        _at_most(arguments, "src", but_dim=False),
        _at_most(arguments, "self", but_dim=True),
        _has_positions(arguments, "index", _positions(arguments) if _type(arguments).rank else 1),
    )


def _check_add(arguments: Arguments, product: Product) -> Iterator[Violation]:
    yield from first_problem(
        axis_in_range(arguments, "dim", "self"),
        same_dtype(arguments, "self", "source"),
        _check_slices(arguments),
        _check_alpha(arguments),
    )


def _check_slices(arguments: Arguments) -> Iterator[Violation]:
    shape, count = _type(arguments).shape, _type(arguments, "index").element_count
    axis = _axis(arguments)
    want = (*shape[:axis], count, *shape[axis + 1 :]) if shape else ()
    yield from equal_sizes("inputs[source].shape", _type(arguments, "source").shape, "what inputs[index] needs", want)
    yield from _one_of_scalar(arguments, count)
    yield from _has_positions(arguments, "index", _positions(arguments))
    if _type(arguments).element_count and not _type(arguments, "source").element_count:
        problem = "has no elements, with which devices write nothing"
        yield Violation("inputs[source].shape", problem, "take self for the result, or send some")


def _check_alpha(arguments: Arguments) -> Iterator[Violation]:
    alpha, dtype = arguments.scalar("alpha"), _type(arguments).dtype
    if dtype.name != "float32" and not holds(dtype, alpha):
        kind = "an integer" if category(dtype) < 2 else "a number"
        yield Violation(
            "attributes[alpha]", f"is {alpha}, which devices round to {dtype}", f"send {kind} that it holds"
        )


def _tolerance(terms: Callable[[Arguments], int], *inputs: str) -> Callable[[Arguments, Product, str], Tolerance]:
    of_sums = of_products(terms, inputs, lambda *_: FLOAT32)
    return lambda arguments, product, dtype: (
        EXACT if category(_type(arguments).dtype) < 2 else of_sums(arguments, product, dtype)
    )


def _scattered_terms(arguments: Arguments) -> int:
    shape = _type(arguments, "index").shape
    return 1 + (shape[_axis(arguments)] if shape else 1)


def _row(
    name: str,
    symbol: str,
    summary: str,
    formula: str,
    inputs: tuple[InputSpec, ...],
    out: OutputSpec,
    check: Check,
    *,
    attributes: tuple[AttributeSpec, ...] = (),
    tolerance: Callable[[Arguments, Product, str], Tolerance] = lambda *_: EXACT,
    runs_on_nothing: Callable[[Arguments], bool] = lambda _: False,
    batch_axes: Callable[[Arguments], BatchAxes | None] = lambda _: None,
) -> OperatorSpec:
    return OperatorSpec(
        name=name,
        symbol=symbol,
        summary=summary,
        formula=formula,
        inputs=inputs,
        attributes=attributes,
        outputs=(out,),
        check=check,
        tolerance=tolerance,
        kind=OperatorKind.VALUE,
        runs_on_nothing=runs_on_nothing,
        is_spatial=False,
        batch_axes=batch_axes,
    )


def _selected(arguments: Arguments) -> TensorType:
    self, axis = _type(arguments), _axis(arguments)
    shape = (*self.shape[:axis], _type(arguments, "index").element_count, *self.shape[axis + 1 :])
    return TensorType(self.dtype, shape if self.shape else ())


def _beside(arguments: Arguments) -> BatchAxes | None:
    """The first axis that positions are not along; all calls have the same positions."""
    rank = _type(arguments).rank
    return BatchAxes(int(_axis(arguments) == 0), {"index": None}) if rank > 1 else None


SPECS: Final = (
    _row(
        "embedding",
        "aclnnEmbedding",
        "Looks up rows of a weight.",
        "out[i] = weight[indices[i]] (PyTorch: aten::embedding).",
        (
            InputSpec("weight", "The rows, shape (rows, columns).", _DTYPES, (2,)),
            InputSpec(
                "indices",
                "The rows that are looked up, from 0 to rows - 1. Any shape.",
                dict.fromkeys(_DTYPES, ("int32", "int64")),
                RANKS[:-1],
                values=lambda arguments, _: IndexRule(_type(arguments, "weight").shape[0]),
            ),
        ),
        OutputSpec(
            "out",
            "The rows: the shape of indices, and a last axis of columns.",
            lambda arguments: TensorType(
                _type(arguments, "weight").dtype,
                (*_type(arguments, "indices").shape, _type(arguments, "weight").shape[1]),
            ),
        ),
        _check_embedding,
        batch_axes=lambda arguments: BatchAxes(0, {"weight": None}) if _type(arguments, "indices").rank else None,
    ),
    _row(
        "gather",
        "aclnnGather",
        "Takes elements of a tensor, each at a position of its own along one axis.",
        "Along the axis, out[i] = self[index[i]]; along others, out and self have the same place "
        "(PyTorch: aten::gather).",
        (
            InputSpec("self", "The tensor. Any shape.", _SINCE_A2, RANKS),
            _index("The positions; at most as large as self in all other axes.", RANKS, is_old=False),
        ),
        OutputSpec(
            "out",
            "The elements, in the shape of index.",
            lambda arguments: TensorType(_type(arguments).dtype, _type(arguments, "index").shape),
        ),
        _check_gather,
        attributes=(_dim(),),
    ),
    _row(
        "index_add",
        "aclnnIndexAdd",
        "Adds slices to those of a tensor, by their positions along one axis.",
        "out = self, and along the axis out[index[i]] += alpha * source[i]; integers wrap around "
        "(PyTorch: aten::index_add).",
        (
            InputSpec("self", "The tensor. Any shape.", _SINCE_A2, RANKS),
            _index("The position of each slice.", (0, 1), is_old=False),
            InputSpec("source", "The slices, with the dtype of self and its sizes along others.", _SINCE_A2, RANKS),
        ),
        OutputSpec("out", "The sums, with the shape and dtype of self.", _type),
        _check_add,
        attributes=(
            _dim(),
            AttributeSpec("alpha", "What source is multiplied by.", AttributeKind.SCALAR, default=1),
        ),
        tolerance=_tolerance(lambda arguments: 1 + _type(arguments, "index").element_count, "self", "source"),
        batch_axes=_beside,
    ),
    _row(
        "index_select",
        "aclnnIndexSelect",
        "Takes slices of a tensor, by their positions along one axis.",
        "Along the axis, out[i] = self[index[i]] (PyTorch: aten::index_select).",
        (
            InputSpec("self", "The tensor. Any shape.", _DTYPES, RANKS),
            _index("The position of each slice.", (0, 1)),
        ),
        OutputSpec("out", "The slices: self, with as many along the axis as index has.", _selected),
        _check_select,
        attributes=(_dim(),),
        batch_axes=_beside,
    ),
    _row(
        "scatter_add",
        "aclnnScatterAdd",
        "Adds elements to those of a tensor, each at a position of its own along one axis.",
        "out = self, and along the axis out[index[i]] += src[i]; along others, all have the same place. Integers wrap "
        "around (PyTorch: aten::scatter_add).",
        (
            InputSpec("self", "The tensor. Any shape.", _SINCE_A2, RANKS),
            _index("The positions; at most as large as self in all other axes.", RANKS, is_old=False),
            InputSpec("src", "The elements, with the dtype of self; at least as large as index.", _SINCE_A2, RANKS),
        ),
        OutputSpec("out", "The sums, with the shape and dtype of self.", _type),
        _check_scatter,
        attributes=(_dim(),),
        tolerance=_tolerance(_scattered_terms, "self", "src"),
        runs_on_nothing=lambda arguments: _type(arguments).element_count > 0,
    ),
)
