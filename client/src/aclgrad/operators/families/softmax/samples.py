"""Calls of softmax and of its logarithm, and of their gradients."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from aclgrad.operators.definitions import Array
from aclgrad.operators.families.softmax.definition import log_softmax, softmax
from aclgrad.operators.samples import Arrays, Case, Integer, Samples, case, draw_sizes, long_rows

_CASES: Final = {
    "rows": ((2, 3, 40), -1),
    "columns": ((3, 40, 5), 1),
    "first_axis": ((33, 70), 0),
    "counted_from_the_last": ((4, 9, 6), -3),
    "row": ((37,), 0),
    "scalar": ((), -1),
    "one_each": ((5, 1), 1),
    "pairs": ((200, 2), 1),
    "long_row": ((2, 9000), 1),
    "long_columns": ((1, 2100, 3), 1),
    "wide_columns": ((2, 3, 1100), 1),
    "eight_dimensions": ((2, 1, 2, 3, 2, 1, 2, 2), 3),
    "nothing": ((0, 3), 1),
    "no_elements_in_a_row": ((3, 0), 1),
}
_TIMED: Final = {"16 KB": (16, 256), "6 MB": (2048, 768), "100 MB": (32768, 768), "1 GB": (327680, 768)}


def softmax_case(name: str, shape: tuple[int, ...], dim: int) -> Case:
    """Returns a case along the axis."""
    return case(name, {"dim": dim}, grad_output=shape, output=shape)


def _long(cells: int) -> Iterator[Case]:
    for name, *plane in long_rows(cells):
        for dim in (0, 1):
            yield softmax_case(f"{name}_along_{dim}", tuple(plane), dim)


def softmax_samples(function: Callable[[Array, int], Array], operator: str) -> Samples:
    """Returns the samples of an operator: what the function returns is legal. `operator` is that of PyTorch."""

    def values(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
        output = arrays["output"]
        axis = int(str(example.attributes["dim"]))
        return {**arrays, "output": np.asarray(function(3 * output.astype(np.float64), axis)).astype(output.dtype)}

    def pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
        import torch

        grad_output = tensors["grad_output"]
        backward = getattr(torch.ops.aten, operator)
        return backward(grad_output, tensors["output"], attributes["dim"], grad_output.dtype)

    def draw(integer: Integer) -> Case:
        shape = draw_sizes(integer, integer(1, 4), 1, 12)
        return softmax_case("drawn", shape, integer(-len(shape), len(shape) - 1))

    return Samples(
        draw=draw,
        rows=lambda length: (softmax_case("rows", (3, length), -1), softmax_case("rows", (2, 4, length), 1)),
        timed={size: softmax_case("timed", shape, -1) for size, shape in _TIMED.items()},
        pytorch=pytorch,
        long=_long,
        values=values,
        has_signed_weights=True,
        picture=softmax_case("picture", (2, 4), -1),
        cases=tuple(softmax_case(name, *given) for name, given in _CASES.items()),
    )


_VALUE_CASES: Final = {
    "rows": ((2, 3, 40), -1),
    "columns": ((3, 40, 5), 1),
    "scalar": ((), 0),
    "eight_dimensions": ((2, 1, 2, 3, 2, 1, 2, 2), 3),
    "long_rows": ((2, 9000), 1),
    "nothing": ((0, 3), 1),
}


def _logits(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
    logits = arrays["self"]
    return {"self": np.asarray(3 * logits).astype(logits.dtype)}


def value_samples(aten: str) -> Samples:
    """Returns the samples of a function, which is `aten` in PyTorch."""

    def sample(name: str, shape: tuple[int, ...], dim: int) -> Case:
        return case(name, {"dim": dim}, self=shape)

    def draw(integer: Integer) -> Case:
        shape = draw_sizes(integer, integer(0, 4), 1, 12)
        rank = max(len(shape), 1)
        return sample("drawn", shape, integer(-rank, rank - 1))

    def pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
        import torch

        return getattr(torch, aten)(tensors["self"], attributes["dim"])

    return Samples(
        draw=draw,
        rows=lambda length: (sample("rows", (3, length), -1), sample("rows", (2, 4, length), 1)),
        timed={size: sample("timed", shape, -1) for size, shape in _TIMED.items()},
        pytorch=pytorch,
        long=lambda cells: (
            sample(f"{name}_along_{dim}", tuple(plane), dim) for name, *plane in long_rows(cells) for dim in (0, 1)
        ),
        values=_logits,
        picture=sample("picture", (2, 4), -1),
        cases=tuple(sample(name, *given) for name, given in _VALUE_CASES.items()),
    )


SAMPLES: Final[Mapping[str, Samples]] = {
    "log_softmax": value_samples("log_softmax"),
    "log_softmax_backward": softmax_samples(log_softmax, "_log_softmax_backward_data"),
    "softmax": value_samples("softmax"),
    "softmax_backward": softmax_samples(softmax, "_softmax_backward_data"),
}
