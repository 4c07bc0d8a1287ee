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
    unread: Mapping[str, tuple[int, ...]] | None = None,
    call: Callable[[Any, Any, Attributes], Any] | None = None,
    **options: Any,
) -> Samples:
    """Returns the samples of an operator that takes `saved`, and is `aten` in PyTorch, with these options there.

    `attributes` has further cases by name, and the first is also that of all others. `value` makes legal values of
    standard normal ones: those that the forward function may return, and where small steps do not cross a kink.
    `unread` has the shapes of further inputs, and `call` is for a function that takes its arguments in another way.
    """
    every = dict(attributes or {"plain": {}})
    first = next(iter(every.values()))

    def sample(name: str, shape: tuple[int, ...], given: Attributes = first) -> Case:
        shapes = {"grad_output": shape, saved: shape, **(unread or {})}
        return Case(name, shapes, given, {}, (), tuple(Product), in_pytorch=True)

    def draw(integer: Integer) -> Case:
        chosen = list(every.values())[integer(0, len(every) - 1)]
        return sample("drawn", draw_sizes(integer, integer(0, 4), 1, 9), chosen)

    def pytorch(tensors: Mapping[str, Any], given: Attributes) -> Any:
        import torch

        if call is not None:
            return call(tensors["grad_output"], tensors[saved], given)
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


def _elu(grad_output: Any, saved: Any, given: Attributes) -> Any:
    import torch

    numbers = (given[name] for name in ("alpha", "scale", "input_scale", "is_result"))
    return torch.ops.aten.elu_backward(grad_output, *numbers, saved)


def _hardtanh(grad_output: Any, input: Any, given: Attributes) -> Any:
    import torch

    return torch.ops.aten.hardtanh_backward(grad_output, input, given["min"], given["max"])


def _log_sigmoid(grad_output: Any, input: Any, given: Attributes) -> Any:
    import torch

    _, buffer = torch.ops.aten.log_sigmoid_forward(input)
    return torch.ops.aten.log_sigmoid_backward(grad_output, input, buffer)


SAMPLES: Final[Mapping[str, Samples]] = {
    "elu_backward": elementwise_samples(
        "elu_backward",
        saved="self_or_result",
        attributes={
            "elu": {"alpha": 1.0, "scale": 1.0, "input_scale": 1.0},
            "selu": {"alpha": 1.6732632423543772, "scale": 1.0507009873554805, "input_scale": 1.0},
            "celu": {"alpha": 2.0, "scale": 1.0, "input_scale": 0.5},
            "of_the_result": {"alpha": 1.5, "scale": 2.0, "input_scale": 0.75, "is_result": True},
        },
        # A result is above -alpha * scale.
        value=lambda normal: away_from(0.0)(np.maximum(normal, -0.9)),
        call=_elu,
    ),
    "gelu_backward": elementwise_samples("gelu_backward", approximate="tanh"),
    "gelu_backward_v2": elementwise_samples(
        "gelu_backward", attributes={"exact": {"approximate": "none"}, "tangent": {"approximate": "tanh"}}
    ),
    "hardshrink_backward": elementwise_samples(
        "hardshrink_backward",
        attributes={"half": {"lambd": 0.5}, "of_nothing": {"lambd": 0.0}, "far": {"lambd": 1.25}},
        value=away_from(-1.25, -0.5, 0.0, 0.5, 1.25),
    ),
    "hardsigmoid_backward": elementwise_samples(
        "hardsigmoid_backward", value=lambda normal: away_from(-3.0, 3.0)(2 * normal)
    ),
    "hardswish_backward": elementwise_samples(
        "hardswish_backward", value=lambda normal: away_from(-3.0, 3.0)(2 * normal)
    ),
    "hardtanh_backward": elementwise_samples(
        "hardtanh_backward",
        attributes={
            "plain": {"min": -1.0, "max": 1.0},
            "relu6": {"min": 0.0, "max": 6.0},
            "no_room": {"min": 0.5, "max": 0.5},
        },
        value=lambda normal: away_from(-1.0, 0.0, 0.5, 1.0, 6.0)(2 * normal),
        call=_hardtanh,
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
    "log_sigmoid_backward": elementwise_samples("log_sigmoid_backward", unread={"buffer": (0,)}, call=_log_sigmoid),
    "mish_backward": elementwise_samples("mish_backward"),
    "sigmoid_backward": elementwise_samples("sigmoid_backward", saved="output", value=sigmoid),
    "silu_backward": elementwise_samples("silu_backward"),
    "softplus_backward": elementwise_samples(
        "softplus_backward",
        attributes={
            "plain": {"beta": 1.0, "threshold": 20.0},
            "steep": {"beta": 4.0, "threshold": 3.0},
            "negative": {"beta": -0.5, "threshold": 1.0},
        },
        value=away_from(-2.0, 0.75),
    ),
    "softshrink_backward": elementwise_samples(
        "softshrink_backward",
        attributes={"half": {"lambd": 0.5}, "of_nothing": {"lambd": 0.0}, "far": {"lambd": 1.25}},
        value=away_from(-1.25, -0.5, 0.0, 0.5, 1.25),
    ),
    "tanh_backward": elementwise_samples("tanh_backward", saved="output", value=np.tanh),
    "threshold_backward": elementwise_samples(
        "threshold_backward",
        attributes={"relu": {"threshold": 0.0}, "above": {"threshold": 0.3}, "below": {"threshold": -1.5}},
        value=away_from(0.0, 0.3, -1.5),
    ),
}
