"""Calls of the gradients of elementwise functions: a row for each operator."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from aclgrad.operators.families.elementwise.definition import sigmoid
from aclgrad.operators.samples import PLANES, Arrays, Case, Integer, Samples, draw_sizes, long_planes
from aclgrad.products import Product
from aclgrad.wire.values import AttributeValue

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


SAMPLES: Final[Mapping[str, Samples]] = {
    "gelu_backward": elementwise_samples("gelu_backward", approximate="tanh"),
    "gelu_backward_v2": elementwise_samples(
        "gelu_backward", attributes={"exact": {"approximate": "none"}, "tangent": {"approximate": "tanh"}}
    ),
    "hardswish_backward": elementwise_samples(
        "hardswish_backward", value=lambda normal: away_from(-3.0, 3.0)(2 * normal)
    ),
    "leaky_relu_backward": elementwise_samples(
        "leaky_relu_backward",
        attributes={
            "slope": {"negative_slope": 0.125},
            "negative_slope": {"negative_slope": -0.5},
            "of_the_result": {"negative_slope": 0.25, "self_is_result": True},
        },
        value=away_from(0.0),
    ),
    "sigmoid_backward": elementwise_samples("sigmoid_backward", saved="output", value=sigmoid),
    "silu_backward": elementwise_samples("silu_backward"),
    "tanh_backward": elementwise_samples("tanh_backward", saved="output", value=np.tanh),
    "threshold_backward": elementwise_samples(
        "threshold_backward",
        attributes={"relu": {"threshold": 0.0}, "above": {"threshold": 0.3}, "below": {"threshold": -1.5}},
        value=away_from(0.0, 0.3, -1.5),
    ),
}
