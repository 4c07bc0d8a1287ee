"""Calls of gated units and of their gradients: a row for each operator."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from aclgrad.operators.families.halves.spec import ALIGNED_BYTES
from aclgrad.operators.samples import Case, Integer, Samples, case, draw_sizes
from aclgrad.products import Product

Sample = Callable[..., Case]
_WITHOUT_310P: Final = tuple(each for each in Product if each is not Product.ATLAS_INFERENCE)


def gradients_of(saved: str) -> Sample:
    """Returns what makes cases of a gradient that takes both halves as `saved`."""

    def sample(name: str, shape: tuple[int, ...], dim: int = -1) -> Case:
        axis = dim % len(shape)
        halved = (*shape[:axis], shape[axis] // 2, *shape[axis + 1 :])
        shapes = {"grad_output": halved, saved: shape}
        return Case(name, shapes, {"dim": dim}, {}, (), tuple(Product), in_pytorch=True)

    return sample


def _value(name: str, shape: tuple[int, ...], dim: int = -1) -> Case:
    """Float16 has half of the bytes, so what is aligned with it always is."""
    is_aligned = math.prod(shape[dim % len(shape) :]) % ALIGNED_BYTES == 0
    return case(name, {"dim": dim}, products=tuple(Product) if is_aligned else _WITHOUT_310P, x=shape)


def halves_samples(
    sample: Sample, pytorch: Callable[[Mapping[str, Any], Mapping[str, Any]], Any], *more: Case
) -> Samples:
    """Returns the samples of an operator whose cases `sample` makes, with these further ones."""

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
            *more,
        ),
    )


def _glu(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    return torch.ops.aten.glu_backward(tensors["grad_output"], tensors["self"], attributes["dim"])


def _value_of_swi_glu(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    a, b = tensors["x"].chunk(2, attributes["dim"])
    return torch.nn.functional.silu(a) * b


def _swi_glu(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    grad, (a, b) = tensors["grad_output"], tensors["x"].chunk(2, attributes["dim"])
    of_a = torch.ops.aten.silu_backward(grad * b, a)
    return torch.cat([of_a, grad * torch.nn.functional.silu(a)], attributes["dim"])


SAMPLES: Final[Mapping[str, Samples]] = {
    "glu_backward": halves_samples(gradients_of("self"), _glu),
    "swi_glu": halves_samples(_value, _value_of_swi_glu, _value("aligned", (2, 128)), _value("nothing", (0, 64))),
    "swi_glu_grad": halves_samples(gradients_of("x"), _swi_glu),
}
