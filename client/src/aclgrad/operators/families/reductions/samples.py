"""Calls of reductions: a row for each operator."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from aclgrad.operators.samples import Case, Integer, Samples, case, draw_sizes
from aclgrad.tensors import DTYPES

Shape = tuple[int, ...]

_TIMED: Final = {"16 KB": (32, 128), "6 MB": (2048, 768), "100 MB": (32768, 768), "1 GB": (327680, 768)}


def sum_case(name: str, shape: Shape, *dims: int, **attributes: Any) -> Case:
    """Returns a case of the sum along the axes."""
    return case(name, {"dims": dims, **attributes}, self=shape)


def mean_case(name: str, shape: Shape, *dim: int, **attributes: Any) -> Case:
    """Returns a case of the mean, or of the largest elements, along the axes."""
    return case(name, {"dim": dim, **attributes}, self=shape)


def _drawn(make: Callable[..., Case], keeps: str, reduces_nothing: bool) -> Callable[[Integer], Case]:
    def draw(integer: Integer) -> Case:
        shape = draw_sizes(integer, integer(0, 5), 0 if reduces_nothing and integer(0, 7) == 0 else 1, 7)
        axes = [axis - len(shape) * integer(0, 1) for axis in range(len(shape)) if integer(0, 1)]
        return make("drawn", shape, *axes[:: 1 - 2 * integer(0, 1)], **{keeps: bool(integer(0, 1))})

    return draw


def _long(make: Callable[..., Case]) -> Callable[[int], Iterator[Case]]:
    def long(cells: int) -> Iterator[Case]:
        side = math.isqrt(cells)
        yield make("row", (cells,))
        yield make("column", (cells, 1), 0)
        yield make("plane_of_rows", (side, side), 1)
        yield make("plane_of_columns", (side, side), 0)
        yield make("few_columns", (cells // 7, 7), 0)

    return long


def _samples(
    make: Callable[..., Case],
    pytorch: Callable[[Mapping[str, Any], Mapping[str, Any]], Any],
    cases: tuple[Case, ...],
    *,
    keeps: str = "keep_dim",
    reduces_nothing: bool = True,
    has_signed_weights: bool = True,
) -> Samples:
    return Samples(
        draw=_drawn(make, keeps, reduces_nothing),
        rows=lambda length: (make("rows", (3, length), 1), make("rows", (3, length), 0)),
        timed={size: make("timed", shape, 0) for size, shape in _TIMED.items()},
        pytorch=pytorch,
        long=_long(make),
        has_signed_weights=has_signed_weights,
        picture=make("picture", (3, 4), 0),
        cases=(make("columns", (7, 40), 0), make("rows", (7, 131), -1), *cases),
    )


def _pytorch(aten: str, axes: str, keeps: str) -> Callable[[Mapping[str, Any], Mapping[str, Any]], Any]:
    def reduced(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
        import torch

        dtype = attributes["dtype"]
        wanted = None if dtype is None else getattr(torch, dtype.name)
        return getattr(torch, aten)(tensors["self"], list(attributes[axes]), attributes[keeps], dtype=wanted)

    return reduced


def _largest(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    return torch.amax(tensors["self"], list(attributes["dim"]), attributes["keep_dim"])


SAMPLES: Final[Mapping[str, Samples]] = {
    "amax": _samples(
        mean_case,
        _largest,
        (
            mean_case("kept", (2, 3, 4, 5), -1, 0, keep_dim=True),
            mean_case("everything", (3, 4, 5)),
            mean_case("scalar", ()),
            mean_case("eight_dimensions", (2, 1, 2, 3, 1, 2, 1, 2), 0, 3, 7),
            mean_case("nothing", (3, 0, 2), 0),
        ),
        reduces_nothing=False,
        has_signed_weights=False,
    ),
    "mean": _samples(
        mean_case,
        _pytorch("mean", "dim", "keep_dim"),
        (
            mean_case("kept", (2, 3, 4, 5), -1, 0, keep_dim=True),
            mean_case("everything", (3, 4, 5)),
            mean_case("scalar", ()),
            mean_case("eight_dimensions", (2, 1, 2, 3, 1, 2, 1, 2), 0, 3, 7),
            mean_case("nothing", (3, 0, 2), 1),
            mean_case("in_float32", (9, 33), 0, dtype=DTYPES["float32"]),
        ),
    ),
    "reduce_sum": _samples(
        sum_case,
        _pytorch("sum", "dims", "keep_dims"),
        (
            sum_case("planes", (2, 3, 4, 5), 1, 3),
            sum_case("kept", (2, 3, 4, 5), -1, 0, keep_dims=True),
            sum_case("everything", (3, 4, 5)),
            sum_case("scalar", ()),
            sum_case("axis_of_a_scalar", (), -1, keep_dims=True),
            sum_case("long", (4100,), 0),
            sum_case("many_rows", (2049, 3), 0),
            sum_case("eight_dimensions", (2, 1, 2, 3, 1, 2, 1, 2), 0, 3, 7),
            sum_case("nothing", (3, 0, 2), 1),
            sum_case("in_float32", (9, 33), 0, dtype=DTYPES["float32"]),
        ),
        keeps="keep_dims",
    ),
}
