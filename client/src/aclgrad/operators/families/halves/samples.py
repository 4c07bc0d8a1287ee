"""Calls of the gradients of gated units: a row for each operator."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from aclgrad.operators.samples import Case, Integer, Samples, draw_sizes
from aclgrad.products import Product


def halves_samples(saved: str, pytorch: Callable[[Mapping[str, Any], Mapping[str, Any]], Any]) -> Samples:
    """Returns the samples of an operator that takes both halves as `saved`."""

    def sample(name: str, shape: tuple[int, ...], dim: int = -1) -> Case:
        axis = dim % len(shape)
        halved = (*shape[:axis], shape[axis] // 2, *shape[axis + 1 :])
        shapes = {"grad_output": halved, saved: shape}
        return Case(name, shapes, {"dim": dim}, {}, (), tuple(Product), in_pytorch=True)

    def draw(integer: Integer) -> Case:
        sizes = list(draw_sizes(integer, integer(1, 4), 1, 9))
        dim = integer(-len(sizes), len(sizes) - 1)
        sizes[dim] *= 2
        return sample("drawn", tuple(sizes), dim)

    def long(cells: int) -> Iterator[Case]:
        side = math.isqrt(cells)
        yield sample("row", (1, cells))
        yield sample("column", (cells, 2))
        yield sample("plane", (side, side + side % 2))
        yield sample("halves", (2, cells // 2), 0)

    return Samples(
        draw=draw,
        rows=lambda length: (sample("rows", (3, 2 * length)),),
        timed={
            "16 KB": sample("timed", (16, 256)),
            "6 MB": sample("timed", (1024, 1536)),
            "100 MB": sample("timed", (8192, 3072)),
            "1 GB": sample("timed", (81920, 3072)),
        },
        pytorch=pytorch,
        long=long,
        picture=sample("picture", (2, 4)),
        cases=(
            sample("rows", (2, 3, 40)),
            sample("first_axis", (4, 3, 5), 0),
            sample("middle_axis", (2, 6, 5), -2),
            sample("one_row", (74,)),
            sample("pairs", (131, 2)),
            sample("long_rows", (2, 4100)),
            sample("eight_dimensions", (2, 1, 2, 1, 3, 1, 2, 2), 2),
        ),
    )


def _glu(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    return torch.ops.aten.glu_backward(tensors["grad_output"], tensors["self"], attributes["dim"])


def _swi_glu(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    grad, (a, b) = tensors["grad_output"], tensors["x"].chunk(2, attributes["dim"])
    of_a = torch.ops.aten.silu_backward(grad * b, a)
    return torch.cat([of_a, grad * torch.nn.functional.silu(a)], attributes["dim"])


SAMPLES: Final[Mapping[str, Samples]] = {
    "glu_backward": halves_samples("self", _glu),
    "swi_glu_grad": halves_samples("x", _swi_glu),
}
