"""Calls of functions of one tensor: a row for each operator."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from aclgrad.operators.samples import PLANES, Arrays, Case, Integer, Samples, draw_sizes, long_planes
from aclgrad.products import Product
from aclgrad.wire.values import AttributeValue

Attributes = Mapping[str, AttributeValue]


def value_samples(
    pytorch: Callable[..., Any] | str,
    *,
    input: str = "self",
    attributes: Mapping[str, Attributes] | None = None,
    value: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]] | None = None,
) -> Samples:
    """Returns the samples of a function that PyTorch has by this name, or that `pytorch` computes.

    `attributes` has further cases by name, and the first is also that of all others. `value` makes legal values of
    standard normal ones.
    """
    every = dict(attributes or {"plain": {}})
    first = next(iter(every.values()))

    def sample(name: str, shape: tuple[int, ...], given: Attributes = first) -> Case:
        return Case(name, {input: shape}, given, {}, (), tuple(Product), in_pytorch=True)

    def draw(integer: Integer) -> Case:
        chosen = list(every.values())[integer(0, len(every) - 1)]
        return sample("drawn", draw_sizes(integer, integer(0, 4), 1, 9), chosen)

    def compute(tensors: Mapping[str, Any], given: Attributes) -> Any:
        import torch

        function = getattr(torch.ops.aten, pytorch) if isinstance(pytorch, str) else pytorch
        return function(tensors[input], **given)

    def values(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
        if value is None:
            return arrays
        own = arrays[input]
        return {input: np.asarray(value(own if own.dtype.kind in "iu" else own.astype(np.float64))).astype(own.dtype)}

    return Samples(
        draw=draw,
        rows=lambda length: (sample("rows", (length,)),),
        timed={size: sample("timed", shape) for size, shape in PLANES.items()},
        pytorch=compute,
        values=values,
        long=lambda cells: (sample(name, tuple(plane)) for name, *plane in long_planes(cells)),
        picture=sample("picture", (2, 4)),
        cases=(
            sample("row", (137,)),
            sample("scalar", ()),
            sample("eight_dimensions", (2, 1, 2, 1, 3, 1, 2, 2)),
            sample("nothing", (0, 3)),
            *(sample(name, (3, 40), given) for name, given in list(every.items())[1:]),
        ),
    )


def _positive(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if values.dtype.kind in "iu":
        return np.asarray(np.maximum(np.abs(values // 2), 1))
    return np.asarray(np.maximum(np.abs(values), 1 / 64))


def _not_zero(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.where(np.abs(values) < 1 / 64, 1, values)


def _small(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(values % 17 - 8 if values.dtype.kind in "iu" else values)


def _gelu(x: Any, approximate: str) -> Any:
    import torch

    return torch.ops.aten.gelu(x, approximate=approximate)


SAMPLES: Final[Mapping[str, Samples]] = {
    "neg": value_samples("neg"),
    "abs": value_samples("abs"),
    "exp": value_samples("exp", value=_small),
    "log": value_samples("log", value=_positive),
    "sqrt": value_samples("sqrt", value=_positive),
    "rsqrt": value_samples("rsqrt", value=_positive),
    "reciprocal": value_samples("reciprocal", value=_not_zero),
    "relu": value_samples("relu"),
    "gelu_v2": value_samples(
        _gelu, input="x", attributes={"exact": {"approximate": "none"}, "tanh": {"approximate": "tanh"}}
    ),
    "silu": value_samples("silu"),
    "sigmoid": value_samples("sigmoid"),
    "tanh": value_samples("tanh"),
    "hardswish": value_samples("hardswish"),
    "leaky_relu": value_samples(
        "leaky_relu", attributes={"tenth": {"negative_slope": 0.1}, "negative": {"negative_slope": -0.5}}
    ),
}
