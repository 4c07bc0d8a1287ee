"""Calls of dropout_do_mask."""

import math
from collections.abc import Mapping
from typing import Any

from aclgrad.operators.dropout_do_mask.spec import mask_bytes
from aclgrad.operators.samples import PLANES, Case, Integer, Samples, case, draw_sizes, long_planes


def dropout_case(name: str, shape: tuple[int, ...], prob: float = 0.5) -> Case:
    mask = (mask_bytes(math.prod(shape)),)
    return case(name, {"prob": prob}, fixed={"mask": "uint8"}, self=shape, mask=mask)


def _draw(integer: Integer) -> Case:
    return dropout_case("drawn", draw_sizes(integer, integer(0, 4), 1, 9), integer(0, 10) / 10)


def _pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    input, prob = tensors["self"], attributes["prob"]
    if prob == 0:
        return input
    bits = torch.bitwise_right_shift(tensors["mask"][:, None], torch.arange(8, dtype=torch.uint8)) & 1
    is_kept = bits.reshape(-1)[: input.numel()].reshape(input.shape).bool()
    scale = 1 / float(torch.tensor(1 - prob, dtype=input.dtype)) if prob < 1 else 0.0
    return torch.ops.aten.native_dropout_backward(input, is_kept, scale)


SAMPLES = Samples(
    draw=_draw,
    rows=lambda length: (dropout_case("rows", (3, length), 0.1),),
    timed={size: dropout_case("timed", shape) for size, shape in PLANES.items()},
    pytorch=_pytorch,
    long=lambda cells: (dropout_case(name, tuple(plane)) for name, *plane in long_planes(cells)),
    picture=dropout_case("picture", (2, 4)),
    cases=(
        dropout_case("planes", (2, 3, 4, 5)),
        dropout_case("a_tenth", (9, 131), 0.1),
        dropout_case("most", (37,), 0.9),
        dropout_case("128_elements", (128,), 0.25),
        dropout_case("scalar", ()),
        dropout_case("none_dropped", (3, 40), 0.0),
        dropout_case("all_dropped", (3, 40), 1.0),
        dropout_case("eight_dimensions", (2, 1, 2, 1, 3, 1, 2, 2)),
        dropout_case("nothing", (0, 3)),
    ),
)
