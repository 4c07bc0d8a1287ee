"""Calls of functions of two tensors: a row for each operator."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from aclgrad.operators.samples import PLANES, Arrays, Case, Integer, Samples, draw_sizes, long_planes
from aclgrad.products import Product
from aclgrad.wire.values import AttributeValue

Attributes = Mapping[str, AttributeValue]
Shape = tuple[int, ...]
_FLOATS: Final = ("float32", "float16", "bfloat16")


def _draw_partner(integer: Integer, shape: Shape) -> Shape:
    """Draws a shape that broadcasts with the other one."""
    sizes = tuple(1 if integer(0, 3) == 0 else size for size in shape)
    return sizes[integer(0, len(sizes)) :] if integer(0, 1) else sizes


def _samples(aten: str, *, attributes: Attributes | None = None, condition: bool = False) -> Samples:
    """Returns the samples of an operator that is `aten` in PyTorch; `attributes` are those of some cases."""
    plain: Attributes = {}
    some = attributes or plain

    def sample(name: str, first: Shape, second: Shape, given: Attributes = plain, kind: str = "") -> Case:
        shapes = {"self": first, "other": second}
        fixed = {"other": kind} if kind else {}
        if condition:
            shapes = {"condition": np.broadcast_shapes(first, second)[-1:], **shapes}
            fixed["condition"] = "bool"
        only = _FLOATS if isinstance(given.get("alpha"), float) else ()
        return Case(name, shapes, given, fixed, only, tuple(Product), in_pytorch=True)

    def draw(integer: Integer) -> Case:
        shape = draw_sizes(integer, integer(0, 4), 1, 9)
        partner, given = _draw_partner(integer, shape), some if integer(0, 1) else plain
        return sample("drawn", shape, partner, given) if integer(0, 1) else sample("drawn", partner, shape, given)

    def pytorch(tensors: Mapping[str, Any], given: Attributes) -> Any:
        import torch

        return getattr(torch, aten)(*tensors.values(), **given)

    def values(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
        """Some elements are equal, and none of those that are divided by is 0."""
        one, other = arrays["self"], arrays["other"]
        if aten in ("eq", "gt") and one.shape == other.shape and one.dtype == other.dtype:
            return {**arrays, "other": np.where(generator.integers(0, 2, one.shape) == 1, one, other).astype(one.dtype)}
        return {**arrays, "other": np.where(other == 0, 1, other).astype(other.dtype)} if aten == "div" else arrays

    return Samples(
        draw=draw,
        rows=lambda length: (sample("rows", (3, length), (length,)),),
        timed={size: sample("timed", shape, shape) for size, shape in PLANES.items()},
        pytorch=pytorch,
        values=values,
        long=lambda cells: (sample(name, tuple(plane), tuple(plane)) for name, *plane in long_planes(cells)),
        picture=sample("picture", (2, 4), (2, 4), some),
        cases=(
            sample("planes", (2, 3, 40), (2, 3, 40)),
            sample("bias", (5, 37), (37,), some),
            sample("outer", (9, 1), (1, 7)),
            sample("by_a_scalar", (3, 5), (), kind="float32"),
            sample("eight_dimensions", (2, 1, 2, 1, 3, 1, 2, 2), (2, 2)),
            sample("nothing", (0, 3), (1, 3)),
        ),
    )


SAMPLES: Final[Mapping[str, Samples]] = {
    "add": _samples("add", attributes={"alpha": -1.5}),
    "sub": _samples("sub", attributes={"alpha": 2}),
    "mul": _samples("mul"),
    "div": _samples("div"),
    "maximum": _samples("maximum"),
    "minimum": _samples("minimum"),
    "s_where": _samples("where", condition=True),
    "eq_tensor": _samples("eq"),
    "gt_tensor": _samples("gt"),
}
