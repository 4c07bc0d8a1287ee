"""Calls of the gradients of elementwise functions."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from aclgrad.operators.samples import PLANES, Arrays, Case, Integer, Samples, draw_sizes, long_planes
from aclgrad.products import Product
from aclgrad.wire.messages import AttributeValue

Attributes = Mapping[str, AttributeValue]

_SHAPES: Final = {
    "planes": (2, 3, 4, 5),
    "row": (37,),
    "scalar": (),
    "many_rows": (9, 131),
    "eight_dimensions": (2, 1, 2, 1, 3, 1, 2, 2),
    "nothing": (0, 3),
}


def away_from(*kinks: float) -> Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    """Returns what moves values beside a kink of the function a little further, for differences of it."""

    def moved(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        for kink in kinks:
            values = np.where(np.abs(values - kink) < 0.01, kink + 0.01, values)
        return values

    return moved


def elementwise_samples(
    aten: str,
    *,
    saved: str = "self",
    attributes: Mapping[str, Attributes] | None = None,
    value: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]] = lambda normal: normal,
    **options: Any,
) -> Samples:
    """Returns the samples of an operator that takes `saved`, and is `aten` in PyTorch, with these options there.

    `attributes` has further cases by name, and the first is also that of all others. `value` makes legal values of
    standard normal ones: those that the forward function may return, and where small steps do not cross a kink.
    """
    every = dict(attributes or {"plain": {}})
    first = next(iter(every.values()))

    def sample(name: str, shape: tuple[int, ...], given: Attributes = first) -> Case:
        shapes = {"grad_output": shape, saved: shape}
        return Case(name, shapes, given, {}, (), tuple(Product), in_pytorch=True)

    def draw(integer: Integer) -> Case:
        chosen = list(every.values())[integer(0, len(every) - 1)]
        return sample("drawn", draw_sizes(integer, integer(0, 4), 1, 9), chosen)

    def pytorch(tensors: Mapping[str, Any], given: Attributes) -> Any:
        import torch

        return getattr(torch.ops.aten, aten)(tensors["grad_output"], tensors[saved], **given, **options)

    def values(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
        own = arrays[saved]
        return {**arrays, saved: np.asarray(value(own.astype(np.result_type(own.dtype, np.float32)))).astype(own.dtype)}

    return Samples(
        draw=draw,
        rows=lambda length: (sample("rows", (length,)),),
        timed={size: sample("timed", shape) for size, shape in PLANES.items()},
        pytorch=pytorch,
        long=lambda cells: (sample(name, tuple(plane)) for name, *plane in long_planes(cells)),
        values=values,
        picture=sample("picture", (2, 4)),
        cases=(
            *(sample(name, shape) for name, shape in _SHAPES.items()),
            *(sample(name, (3, 40), given) for name, given in list(every.items())[1:]),
        ),
    )
