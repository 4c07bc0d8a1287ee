"""Calls of matrix products: a row for each operator."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from aclgrad.operators.samples import Case, Integer, Samples, case, draw_sizes
from aclgrad.wire.values import AttributeValue

Shape = tuple[int, ...]
Form = Callable[..., Case]
"""Makes a case of a name, batch, rows, the length of sums, and columns."""

_SIZES: Final = {
    "plain": (5, 7, 6),
    "blocks": (67, 130, 35),
    "row": (1, 300, 40),
    "column": (40, 300, 1),
    "one_sum": (1, 1030, 1),
    "outer": (37, 1, 19),
    "nothing_to_add": (4, 0, 3),
    "no_rows": (0, 3, 4),
}
_TIMED: Final = {
    "16 KB": (32, 32, 32),
    "6 MB": (512, 512, 512),
    "100 MB": (2048, 2048, 2048),
    "1 GB": (8192, 8192, 8192),
}


def _matrices(name: str, rows: int, terms: int, columns: int, **attributes: AttributeValue) -> Case:
    return case(name, attributes, self=(rows, terms), mat2=(terms, columns))


def _batches(name: str, rows: int, terms: int, columns: int, one: int = 2, other: int = 2) -> Case:
    return case(name, self=(one, rows, terms), mat2=(other, terms, columns))


def _of(name: str, one: Shape, other: Shape) -> Case:
    return case(name, self=one, mat2=other)


def _with_addend(
    name: str, rows: int, terms: int, columns: int, addend: Shape | None = None, **attributes: AttributeValue
) -> Case:
    own = (rows, columns) if addend is None else addend
    return case(name, attributes, self=own, mat1=(rows, terms), mat2=(terms, columns))


def _long(form: Form) -> Callable[[int], Iterator[Case]]:
    def cases(cells: int) -> Iterator[Case]:
        side = math.isqrt(cells)
        yield form("rows", cells // 8, 8, 8)
        yield form("columns", 8, 8, cells // 8)
        yield form("sums", 4, cells // 4, 4)
        yield form("squares", side // 2, side // 2, side // 2)

    return cases


def _pytorch(name: str, *tensors: str) -> Callable[[Mapping[str, Any], Mapping[str, Any]], Any]:
    def call(given: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
        import torch

        factors = {each: attributes[each] for each in ("alpha", "beta") if each in attributes}
        return getattr(torch, name)(*(given[each] for each in tensors), **factors)

    return call


def _samples(form: Form, draw: Callable[[Integer], Case], pytorch: str, *tensors: str, more: Iterable[Case]) -> Samples:
    return Samples(
        draw=draw,
        rows=lambda length: (form("rows", 3, 5, length), form("rows", 3, length, 5)),
        timed={name: form("timed", *sizes) for name, sizes in _TIMED.items()},
        pytorch=_pytorch(pytorch, *tensors),
        long=_long(form),
        has_signed_weights=True,
        picture=form("picture", 2, 3, 4),
        cases=(*(form(name, *sizes) for name, sizes in _SIZES.items()), *more),
    )


def _draw_matrices(integer: Integer) -> Case:
    return _matrices("drawn", *draw_sizes(integer, 3, 0 if integer(0, 7) == 0 else 1, 40))


def _draw_batches(integer: Integer) -> Case:
    one, other = ((1, 3), (3, 1), (3, 3), (0, 0))[integer(0, 3)]
    rows, terms, columns = draw_sizes(integer, 3, 1, 20)
    return _batches("drawn", rows, terms, columns, one, other)


def _draw_product(integer: Integer) -> Case:
    rows, terms, columns = draw_sizes(integer, 3, 1, 9)
    batch = draw_sizes(integer, integer(0, 4), 1, 3)

    def operand(*own: int) -> Shape:
        kept = batch[integer(0, len(batch)) :]
        return (*(1 if integer(0, 3) == 0 else size for size in kept), *own)

    one = (terms,) if integer(0, 5) == 0 else operand(rows, terms)
    other = (terms,) if integer(0, 5) == 0 else operand(terms, columns)
    return _of("drawn", one, other)


def _draw_addmm(integer: Integer) -> Case:
    rows, terms, columns = draw_sizes(integer, 3, 0 if integer(0, 7) == 0 else 1, 20)
    addends = ((rows, columns), (columns,), (1,), (rows, 1), (1, columns), (1, 1))
    factors = {"alpha": (1.0, 0.5, 0.0, -2.0)[integer(0, 3)], "beta": (1.0, 0.25, 0.0, -1.5)[integer(0, 3)]}
    return _with_addend("drawn", rows, terms, columns, addends[integer(0, 5)], **factors)


SAMPLES: Final[Mapping[str, Samples]] = {
    "addmm": _samples(
        _with_addend,
        _draw_addmm,
        "addmm",
        "self",
        "mat1",
        "mat2",
        more=(
            _with_addend("bias", 9, 16, 33, (33,)),
            _with_addend("column_of_addends", 9, 16, 33, (9, 1)),
            _with_addend("scaled", 9, 16, 33, (1,), alpha=-0.5, beta=2.0),
            _with_addend("product_alone", 9, 16, 33, alpha=3.0, beta=0.0),
            _with_addend("addend_alone", 9, 16, 33, alpha=0.0, beta=0.5),
            _with_addend("scaled_addend", 4, 0, 3, beta=-2.0),
        ),
    ),
    "batch_mat_mul": _samples(
        _batches,
        _draw_batches,
        "matmul",
        "self",
        "mat2",
        more=(
            _batches("many", 3, 4, 5, 300, 300),
            _batches("left_is_shared", 6, 7, 8, 1, 5),
            _batches("right_is_shared", 6, 7, 8, 5, 1),
            _batches("no_batch", 6, 7, 8, 0, 0),
        ),
    ),
    "matmul": _samples(
        _matrices,
        _draw_product,
        "matmul",
        "self",
        "mat2",
        more=(
            _of("dot", (300,), (300,)),
            _of("vector_by_matrix", (30,), (30, 7)),
            _of("matrix_by_vector", (7, 30), (30,)),
            _of("batch_by_vector", (2, 3, 5, 8), (8,)),
            _of("vector_by_batch", (8,), (2, 3, 8, 5)),
            _of("batch_by_matrix", (2, 3, 5, 8), (8, 6)),
            _of("heads", (2, 4, 9, 16), (2, 4, 16, 9)),
            _of("broadcast", (2, 1, 5, 8), (3, 8, 6)),
            _of("six_dimensions", (2, 1, 2, 1, 5, 8), (1, 3, 1, 2, 8, 6)),
        ),
    ),
    "mm": _samples(_matrices, _draw_matrices, "mm", "self", "mat2", more=()),
}
