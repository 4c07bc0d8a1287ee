"""Calls that take or add elements by positions: a row for each operator."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from aclgrad.operators.samples import Arrays, Case, Integer, Samples, case, draw_sizes, long_rows
from aclgrad.wire.values import AttributeValue

Shape = tuple[int, ...]
Attributes = Mapping[str, AttributeValue]

_ROWS: Final = {"16 KB": (64, 64), "6 MB": (2048, 768), "100 MB": (32768, 768), "1 GB": (327680, 768)}


def _values(table: str, index: str) -> Callable[[np.random.Generator, Case, Arrays], Arrays]:
    """Returns what makes positions legal: along the axis of the table."""

    def values(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
        shape, given = arrays[table].shape, arrays[index]
        bound = shape[int(str(example.attributes.get("dim", 0)))] if shape else 1
        drawn = generator.integers(0, max(bound, 1), given.shape)
        return {**arrays, index: drawn.astype(given.dtype)}

    return values


def embedding_case(name: str, rows: int, columns: int, indices: Shape, dtype: str = "int64") -> Case:
    """Returns a case with indices of the dtype."""
    return case(name, fixed={"indices": dtype}, weight=(rows, columns), indices=indices)


def select_case(name: str, shape: Shape, count: int, dim: int, dtype: str = "int64", scalar: bool = False) -> Case:
    """Returns a case with so many positions, or with a scalar that is one."""
    return case(name, {"dim": dim}, fixed={"index": dtype}, self=shape, index=() if scalar else (count,))


def gather_case(name: str, shape: Shape, index: Shape, dim: int, dtype: str = "int64") -> Case:
    """Returns a case with an index of the shape."""
    return case(name, {"dim": dim}, fixed={"index": dtype}, self=shape, index=index)


def scatter_case(
    name: str, shape: Shape, index: Shape, dim: int, src: Shape | None = None, dtype: str = "int64"
) -> Case:
    """Returns a case whose src has the shape of the index, unless it has another."""
    added = index if src is None else src
    return case(name, {"dim": dim}, fixed={"index": dtype}, self=shape, index=index, src=added)


def add_case(name: str, shape: Shape, count: int, dim: int, alpha: float = 1, dtype: str = "int64") -> Case:
    """Returns a case with so many slices."""
    axis = dim % max(len(shape), 1)
    source = (*shape[:axis], count, *shape[axis + 1 :]) if shape else ()
    attributes: Attributes = {"dim": dim, "alpha": alpha}
    return case(name, attributes, fixed={"index": dtype}, self=shape, index=(count,), source=source)


def _dtype(integer: Integer) -> str:
    return "int64" if integer(0, 1) else "int32"


def _axis(integer: Integer, shape: Shape) -> int:
    return integer(-len(shape), len(shape) - 1) if shape else integer(-1, 0)


def _draw_embedding(integer: Integer) -> Case:
    indices = draw_sizes(integer, integer(0, 3), 0 if integer(0, 7) == 0 else 1, 6)
    return embedding_case("drawn", integer(1, 12), integer(1, 40), indices, _dtype(integer))


def _draw_select(integer: Integer) -> Case:
    shape = draw_sizes(integer, integer(0, 4), 1, 7)
    count = integer(0, 9) if shape else 1
    return select_case("drawn", shape, count, _axis(integer, shape), _dtype(integer), scalar=integer(0, 3) == 0)


def _smaller(integer: Integer, shape: Shape, dim: int) -> Shape:
    """Draws the shape of an index: of any size along the axis."""
    axis = dim % len(shape) if shape else 0
    return tuple(integer(1, 9) if each == axis else integer(1, size) for each, size in enumerate(shape))


def _draw_gather(integer: Integer) -> Case:
    shape = draw_sizes(integer, integer(0, 4), 1, 7)
    dim = _axis(integer, shape)
    return gather_case("drawn", shape, _smaller(integer, shape, dim), dim, _dtype(integer))


def _draw_scatter(integer: Integer) -> Case:
    shape = draw_sizes(integer, integer(0, 4), 1, 7)
    dim = _axis(integer, shape)
    index = _smaller(integer, shape, dim)
    src = tuple(size + integer(0, 2) for size in index)
    return scatter_case("drawn", shape, index, dim, src, dtype=_dtype(integer))


def _draw_add(integer: Integer) -> Case:
    shape = draw_sizes(integer, integer(0, 4), 1, 7)
    count = integer(1, 9) if shape else 1
    return add_case("drawn", shape, count, _axis(integer, shape), integer(-3, 3), dtype=_dtype(integer))


def _long(make: Callable[..., Case]) -> Callable[[int], Iterator[Case]]:
    """Few and many positions, and few and many elements for each."""

    def long(cells: int) -> Iterator[Case]:
        for name, rows, columns in long_rows(cells):
            yield make(f"{name}_to_few", rows, columns, 3)
            yield make(f"{name}_to_many", 3, columns, rows)
        yield make("of_both", cells, 1, cells)

    return long


def _long_elements(make: Callable[..., Case]) -> Callable[[int], Iterator[Case]]:
    def long(cells: int) -> Iterator[Case]:
        side = math.isqrt(cells)
        yield make("row", (cells,), (cells,), 0)
        yield make("to_few", (3, 2), (cells // 2, 2), 0)
        yield make("of_few", (cells, 1), (3, 1), 0)
        yield make("along", (side, side), (side, side), 1)
        yield make("across", (side, side), (side, side), 0)

    return long


def _aten(name: str, *inputs: str) -> Callable[[Mapping[str, Any], Attributes], Any]:
    def call(tensors: Mapping[str, Any], given: Attributes) -> Any:
        import torch

        index = tensors["index"].long()
        others = (tensors[each] for each in inputs)
        options = {"alpha": given["alpha"]} if "alpha" in given else {}
        return getattr(torch, name)(tensors["self"], given["dim"], index, *others, **options)

    return call


def _looked_up(tensors: Mapping[str, Any], given: Attributes) -> Any:
    import torch

    return torch.nn.functional.embedding(tensors["indices"].long(), tensors["weight"])


SAMPLES: Final[Mapping[str, Samples]] = {
    "embedding": Samples(
        draw=_draw_embedding,
        rows=lambda length: (embedding_case("rows", 4, length, (5,)),),
        timed={size: embedding_case("timed", *shape, (shape[0],)) for size, shape in _ROWS.items()},
        pytorch=_looked_up,
        values=_values("weight", "indices"),
        long=_long(lambda name, rows, columns, count: embedding_case(name, rows, columns, (count,))),
        picture=embedding_case("picture", 3, 4, (2,)),
        cases=(
            embedding_case("sentences", 10, 16, (3, 7)),
            embedding_case("int32", 10, 9, (3, 7), "int32"),
            embedding_case("one_column", 9, 1, (20,)),
            embedding_case("scalar", 4, 3, ()),
            embedding_case("eight_dimensions", 4, 3, (1, 2, 1, 2, 1, 2, 2)),
            embedding_case("nothing", 4, 5, (0, 3)),
        ),
    ),
    "gather": Samples(
        draw=_draw_gather,
        rows=lambda length: (
            gather_case("rows", (3, 7), (3, length), 1),
            gather_case("rows", (7, length), (5, length), 0),
        ),
        timed={size: gather_case("timed", shape, shape, 1) for size, shape in _ROWS.items()},
        pytorch=_aten("gather"),
        values=_values("self", "index"),
        long=_long_elements(gather_case),
        picture=gather_case("picture", (2, 4), (2, 3), 1),
        cases=(
            gather_case("rows", (4, 9), (4, 12), 1),
            gather_case("columns", (9, 40), (5, 33), 0, "int32"),
            gather_case("planes", (3, 4, 5), (2, 6, 5), -2),
            gather_case("scalar", (), (), -1),
            gather_case("eight_dimensions", (2, 1, 2, 3, 1, 2, 1, 2), (2, 1, 2, 4, 1, 2, 1, 1), 3),
            gather_case("nothing", (3, 4), (3, 0), 1),
        ),
    ),
    "index_add": Samples(
        draw=_draw_add,
        rows=lambda length: (add_case("rows", (4, length), 5, 0),),
        timed={size: add_case("timed", shape, shape[0], 0) for size, shape in _ROWS.items()},
        pytorch=_aten("index_add", "source"),
        values=_values("self", "index"),
        long=_long(lambda name, rows, columns, count: add_case(name, (rows, columns), count, 0)),
        has_signed_weights=True,
        picture=add_case("picture", (3, 4), 2, 0),
        cases=(
            add_case("rows", (6, 9), 5, 0),
            add_case("columns", (3, 7, 5), 20, 1, 2, "int32"),
            replace(add_case("negative", (4, 33), 9, -1, -0.5), only=("float32", "float16", "bfloat16")),
            add_case("scalar", (), 1, 0, 3),
            add_case("eight_dimensions", (2, 1, 2, 3, 1, 2, 1, 2), 4, 3),
            add_case("nothing", (0, 4), 3, 1),
        ),
    ),
    "index_select": Samples(
        draw=_draw_select,
        rows=lambda length: (select_case("rows", (4, length), 5, 0), select_case("rows", (3, 7), length, 1)),
        timed={size: select_case("timed", shape, shape[0], 0) for size, shape in _ROWS.items()},
        pytorch=_aten("index_select"),
        values=_values("self", "index"),
        long=_long(lambda name, rows, columns, count: select_case(name, (rows, columns), count, 0)),
        picture=select_case("picture", (2, 4), 3, 1),
        cases=(
            select_case("rows", (6, 9), 5, 0),
            select_case("columns", (3, 7, 5), 20, 1, "int32"),
            select_case("elements", (4, 33), 9, -1),
            select_case("scalar", (), 1, -1, scalar=True),
            select_case("eight_dimensions", (2, 1, 2, 3, 1, 2, 1, 2), 4, 3),
            select_case("nothing", (3, 4), 0, 1),
        ),
    ),
    "scatter_add": Samples(
        draw=_draw_scatter,
        rows=lambda length: (
            scatter_case("rows", (3, length), (3, 7), 1),
            scatter_case("rows", (7, length), (5, length), 0),
        ),
        timed={size: scatter_case("timed", shape, shape, 1) for size, shape in _ROWS.items()},
        pytorch=_aten("scatter_add", "src"),
        values=_values("self", "index"),
        long=_long_elements(scatter_case),
        has_signed_weights=True,
        picture=scatter_case("picture", (2, 4), (2, 3), 1),
        cases=(
            scatter_case("rows", (4, 9), (4, 12), 1),
            scatter_case("columns", (9, 40), (5, 33), 0, (6, 40), "int32"),
            scatter_case("planes", (3, 4, 5), (2, 6, 5), -2),
            scatter_case("scalar", (), (), -1),
            scatter_case("eight_dimensions", (2, 1, 2, 3, 1, 2, 1, 2), (2, 1, 2, 4, 1, 2, 1, 1), 3),
            scatter_case("nothing", (3, 4), (3, 0), 1),
        ),
    ),
}
