"""Calls of the gradients of losses of each element by itself: a row for each operator."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from aclgrad.operators.families.elementwise.definition import sigmoid
from aclgrad.operators.families.elementwise.samples import Attributes, away_from
from aclgrad.operators.families.losses.spec import BATCH_MEAN, MEAN, NONE, SUM
from aclgrad.operators.samples import PLANES, Arrays, Case, Integer, Samples, draw_sizes, long_planes
from aclgrad.products import Product

Shape = tuple[int, ...]
Formula = Callable[[Mapping[str, Any], Attributes], Any]

_SHAPE: Final = (2, 3, 4, 5)
_WEIGHTS: Final[Mapping[str, Shape]] = {"weight": (5,), "pos_weight": (3, 1, 1)}
"""Shapes that are broadcast to planes."""


def _draw_within(integer: Integer, shape: Shape) -> Shape:
    """Draws a shape that is broadcast to this one."""
    return tuple(size if integer(0, 2) else 1 for size in shape[integer(0, len(shape)) :])


def loss_samples(
    formula: Formula,
    *,
    weights: tuple[str, ...] = (),
    attributes: Mapping[str, Attributes] | None = None,
    reductions: tuple[int, ...] = (MEAN, NONE, SUM),
    value: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]] = lambda normal: normal,
    target: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]] = lambda normal: normal,
    differs: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]] | None = None,
    is_broadcast: bool = True,
) -> Samples:
    """Returns the samples of an operator, of which PyTorch has this `formula` of each element.

    `value` and `target` make legal values of standard normal ones, and `differs` moves the differences of both from a
    kink. A target is also broadcast, if it `is_broadcast`.
    """
    every = dict(attributes or {"plain": {}})
    first = next(iter(every.values()))

    def sample(
        name: str,
        shape: Shape,
        reduction: int = MEAN,
        others: Mapping[str, Shape] | None = None,
        given: Attributes = first,
    ) -> Case:
        grad = shape if reduction == NONE else ()
        shapes = {"grad_output": grad, "self": shape, "target": shape, **(others or {})}
        return Case(name, shapes, {"reduction": reduction, **given}, {}, (), tuple(Product), in_pytorch=True)

    def draw(integer: Integer) -> Case:
        shape = draw_sizes(integer, integer(0, 4), 1, 9)
        chosen = list(every.values())[integer(0, len(every) - 1)]
        others = {each: _draw_within(integer, shape) for each in weights if integer(0, 1)}
        others["grad_output"] = _draw_within(integer, shape)
        others["target"] = _draw_within(integer, shape) if is_broadcast else shape
        return sample("drawn", shape, reductions[integer(0, len(reductions) - 1)], others, chosen)

    def values(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
        made = {**arrays, "self": value(_wide(arrays["self"])), "target": target(_wide(arrays["target"]))}
        made |= {each: np.abs(_wide(arrays[each])) for each in weights if each in arrays}
        if differs is not None:
            made["self"] = made["target"] + differs(made["self"] - made["target"])
        return {name: np.asarray(array).astype(arrays[name].dtype) for name, array in made.items()}

    def more() -> Iterator[Case]:
        for reduction, name in ((NONE, "none"), (SUM, "sum"), (BATCH_MEAN, "batch_mean")):
            if reduction in reductions:
                yield sample(name, _SHAPE, reduction)
        if is_broadcast:
            yield sample("broadcast", _SHAPE, NONE, {"grad_output": (3, 1, 5), "target": (4, 1)})
        yield sample("rows_of_gradients", (9, 131), SUM, {"grad_output": (9, 1)})
        for count in range(1, len(weights) + 1):
            given = {each: _WEIGHTS[each] for each in weights[:count]}
            yield sample(f"with_{'_'.join(given)}", _SHAPE, others=given)
            yield sample(f"with_{'_'.join(given)}_of_planes", (6, 40), NONE, dict.fromkeys(given, (6, 40)))
        if len(weights) > 1:
            yield sample(f"with_{weights[-1]}", _SHAPE, SUM, {weights[-1]: _WEIGHTS[weights[-1]]})

    return Samples(
        draw=draw,
        rows=lambda length: (
            sample("rows", (length,)),
            sample("rows_of_gradients", (3, length), NONE, {"grad_output": (3, 1)}),
        ),
        timed={size: sample("timed", shape) for size, shape in PLANES.items()},
        pytorch=formula,
        long=lambda cells: (sample(name, tuple(plane)) for name, *plane in long_planes(cells)),
        values=values,
        picture=sample("picture", (2, 4)),
        cases=(
            sample("planes", _SHAPE),
            sample("scalar", ()),
            sample("row", (37,)),
            sample("eight_dimensions", (2, 1, 2, 1, 3, 1, 2, 2)),
            sample("nothing", (0, 3)),
            *more(),
            *(sample(name, (3, 40), given=given) for name, given in list(every.items())[1:]),
        ),
    )


def _wide(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.astype(np.result_type(array.dtype, np.float32))


def _aten(name: str) -> Formula:
    def formula(tensors: Mapping[str, Any], given: Attributes) -> Any:
        import torch

        input = tensors["self"]
        weight = [tensors["weight"].expand(input.shape) if "weight" in tensors else None] if "cross" in name else []
        grad, target = (tensors[each].expand(input.shape) for each in ("grad_output", "target"))
        return getattr(torch.ops.aten, name)(grad, input, target, *weight, *given.values())

    return formula


def _reduced(slope: Any, tensors: Mapping[str, Any], given: Attributes) -> Any:
    shape = tensors["self"].shape
    gradient = slope * tensors["grad_output"]
    counts = {MEAN: shape.numel(), BATCH_MEAN: shape[0] if len(shape) else 1}
    return (gradient / counts.get(int(str(given["reduction"])), 1)).expand(shape)


def _l1(tensors: Mapping[str, Any], given: Attributes) -> Any:
    return _reduced((tensors["self"] - tensors["target"]).sgn(), tensors, given)


def _kl_div(tensors: Mapping[str, Any], given: Attributes) -> Any:
    target = tensors["target"]
    return _reduced(-(target.exp() if given["log_target"] else target), tensors, given)


def _with_logits(tensors: Mapping[str, Any], given: Attributes) -> Any:
    """As PyTorch's own derivative."""
    target, sigmoid = tensors["target"], tensors["self"].sigmoid()
    if "pos_weight" in tensors:
        positive = tensors["pos_weight"] * target
        slope = (positive + 1 - target) * sigmoid - positive
    else:
        slope = sigmoid - target
    return _reduced(slope * tensors.get("weight", 1), tensors, given)


def _probabilities(normal: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Between 0.02 and 0.98, so that float16 holds the distance to 1."""
    return 0.02 + 0.96 * sigmoid(normal)


SAMPLES: Final[Mapping[str, Samples]] = {
    "binary_cross_entropy_backward": loss_samples(
        _aten("binary_cross_entropy_backward"), weights=("weight",), value=_probabilities, target=sigmoid
    ),
    "binary_cross_entropy_with_logits_backward": loss_samples(
        _with_logits, weights=("weight", "pos_weight"), target=sigmoid, is_broadcast=False
    ),
    "kl_div_backward": loss_samples(
        _kl_div,
        attributes={"probabilities": {"log_target": False}, "logarithms": {"log_target": True}},
        reductions=(MEAN, NONE, SUM, BATCH_MEAN),
    ),
    "l1_loss_backward": loss_samples(_l1, differs=away_from(0.0)),
    "mse_loss_backward": loss_samples(_aten("mse_loss_backward")),
    "smooth_l1_loss_backward": loss_samples(
        _aten("smooth_l1_loss_backward"),
        attributes={"plain": {"beta": 1.0}, "narrow": {"beta": 0.125}, "wide": {"beta": 3.0}},
        differs=away_from(-3.0, -1.0, -0.125, 0.125, 1.0, 3.0),
    ),
}
