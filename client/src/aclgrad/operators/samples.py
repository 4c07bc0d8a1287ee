"""The samples of an operator for tests, benchmarks and checks: calls with legal values, and PyTorch's equivalent."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from aclgrad.operators.spec import Arguments, OperatorSpec
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType
from aclgrad.wire.values import AttributeValue

Arrays = dict[str, np.ndarray[Any, Any]]
Integer = Callable[[int, int], int]
"""Draws an integer from the first to the second, both included: hypothesis in a test, a random generator elsewhere."""

PLANES: Final = {
    "16 KB": (1, 16, 16, 16),
    "6 MB": (8, 64, 56, 56),
    "100 MB": (32, 256, 56, 56),
    "1 GB": (320, 256, 56, 56),
}
"""The sizes at which kernels are timed, as the shape of a float32 tensor of planes."""


@dataclass(frozen=True, slots=True)
class Case:
    """One example of an operator: shapes and attributes.

    It runs with every dtype of the operator, or those of `only`, and on the given products. `fixed` has the dtypes of
    inputs that do not follow the operator's. `in_pytorch` is false if PyTorch has no such call.
    """

    name: str
    shapes: Mapping[str, tuple[int, ...]]
    attributes: Mapping[str, AttributeValue]
    fixed: Mapping[str, str]
    only: tuple[str, ...]
    products: tuple[Product, ...]
    in_pytorch: bool

    def arguments(self, spec: OperatorSpec, dtype: str) -> Arguments:
        """Returns the types of the inputs with this dtype of the operator, and all attributes."""
        types = {name: TensorType(DTYPES[self.fixed.get(name, dtype)], shape) for name, shape in self.shapes.items()}
        return Arguments(types, {**spec.defaults, **self.attributes})


def case(
    name: str,
    attributes: Mapping[str, AttributeValue] | None = None,
    *,
    fixed: Mapping[str, str] | None = None,
    only: tuple[str, ...] = (),
    products: tuple[Product, ...] = tuple(Product),
    in_pytorch: bool = True,
    **shapes: tuple[int, ...],
) -> Case:
    """Returns a case; shapes are given by the inputs' names on the wire, such as `self`."""
    return Case(name, shapes, attributes or {}, fixed or {}, only, products, in_pytorch)


def _no_cases(size: int) -> tuple[Case, ...]:
    return ()


def _any_values(generator: np.random.Generator, case: Case, arrays: Arrays) -> Arrays:
    return arrays


@dataclass(frozen=True, slots=True)
class Samples:
    """The calls of one operator.

    `draw` makes a random legal case, and `timed` has one for each size of `PLANES`. `pytorch` computes the gradient of
    tensors and complete attributes by their wire names; it imports PyTorch itself, so nothing else needs PyTorch.
    `values` replaces the standard normal values of a case by legal ones. If the forward operator is not linear, it also
    sets `self` to an input that these values belong to, where small steps do not change them. With
    `has_signed_weights`, an element of a gradient sums many products of both signs, so its error is judged by the
    largest element. `rows` returns cases whose rows have the given number of elements; define it if the kernel uses
    vectors. `long` makes cases whose larger tensor has about the given number of elements: a row, a column, a plane,
    and overlapping windows. They show a kernel's memory beside its tensors. `picture` is a case of one small plane or
    volume, with leading sizes of 1, which the documentation draws; without one, it shows the first case. Everything
    that tests, benchmarks and tools need about an operator is here or in its spec, and in no other table.
    """

    cases: tuple[Case, ...]
    draw: Callable[[Integer], Case]
    timed: Mapping[str, Case]
    pytorch: Callable[[Mapping[str, Any], Mapping[str, Any]], Any]
    values: Callable[[np.random.Generator, Case, Arrays], Arrays] = field(default=_any_values)
    rows: Callable[[int], Iterable[Case]] = field(default=_no_cases)
    long: Callable[[int], Iterable[Case]] = field(default=_no_cases)
    has_signed_weights: bool = False
    picture: Case | None = None

    @property
    def example(self) -> Case:
        """The case that shows how to call the operator: the picture, else the first one."""
        return self.picture or self.cases[0]


def long_planes(cells: int) -> Iterator[tuple[str, int, int]]:
    """Yields a name, rows and columns of a long row, a long column and a large plane."""
    side = math.isqrt(cells)
    yield "row", 1, cells
    yield "column", cells, 1
    yield "plane", side, side


def long_rows(cells: int) -> Iterator[tuple[str, int, int]]:
    """Yields the sizes of `long_planes`, and few long and many short rows, for kernels that reduce rows."""
    yield from long_planes(cells)
    yield "few_long_rows", 40, cells // 40
    yield "many_short_rows", cells // 7, 7


def both_ways(name: str) -> Iterator[tuple[str, Callable[[int, int], tuple[int, ...]]]]:
    """Yields names and functions that place the sizes along a long axis and across it."""
    yield f"row_{name}", lambda along, across: (across, along)
    yield f"column_{name}", lambda along, across: (along, across)


def draw_sizes(integer: Integer, count: int, least: int, most: int) -> tuple[int, ...]:
    """Draws several sizes within the same bounds."""
    return tuple(integer(least, most) for _ in range(count))


def draw_leading(integer: Integer) -> tuple[int, ...]:
    """Draws (N, C) or (C,); the batch may be empty."""
    channels = integer(1, 18)
    return (integer(0, 3), channels) if integer(0, 1) else (channels,)
