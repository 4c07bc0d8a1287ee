"""Calls of prelu_backward."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from aclgrad.operators.families.elementwise.samples import away_from
from aclgrad.operators.samples import PLANES, Arrays, Case, Integer, Samples, case, draw_sizes, long_rows


def prelu_case(name: str, shape: tuple[int, ...], weight: tuple[int, ...] = (1,)) -> Case:
    return case(name, grad_output=shape, self=shape, weight=weight)


def _draw(integer: Integer) -> Case:
    shape = draw_sizes(integer, integer(0, 4), 1, 9)
    return prelu_case("drawn", shape, shape[1:2] if len(shape) > 1 and integer(0, 1) else (1,))


def _values(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
    input = arrays["self"]
    moved = away_from(0.0)(input.astype(np.result_type(input.dtype, np.float32)))
    return {**arrays, "self": np.asarray(moved).astype(input.dtype)}


def _pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    grad, input, weight = (tensors[name] for name in ("grad_output", "self", "weight"))
    shaped = weight.reshape((-1, *(1,) * (input.dim() - 2)) if weight.numel() > 1 else (1,) * input.dim())
    of_input, of_weight = torch.ops.aten._prelu_kernel_backward(grad, input, shaped)
    return of_input, of_weight.sum_to_size(shaped.shape).reshape(weight.shape)


SAMPLES = Samples(
    draw=_draw,
    rows=lambda length: (prelu_case("rows", (5, length)), prelu_case("channels", (5, 3, length), (3,))),
    timed={size: prelu_case("timed", shape, shape[1:2]) for size, shape in PLANES.items()},
    pytorch=_pytorch,
    long=lambda cells: (
        prelu_case(f"{name}_of_{weight}", (rows, columns), (columns if weight == "channels" else 1,))
        for name, rows, columns in long_rows(cells)
        for weight in ("one", "channels")
    ),
    values=_values,
    has_signed_weights=True,
    picture=prelu_case("picture", (2, 4), (4,)),
    cases=(
        prelu_case("planes", (2, 3, 4, 5), (3,)),
        prelu_case("one_weight", (2, 3, 4, 5)),
        prelu_case("rows", (9, 131), (131,)),
        prelu_case("row", (37,)),
        prelu_case("scalar", (), ()),
        prelu_case("one_channel", (6, 1, 7), (1,)),
        prelu_case("many_channels", (3, 300, 2), (300,)),
        prelu_case("large_planes", (2, 3, 70, 41), (3,)),
        prelu_case("eight_dimensions", (2, 2, 2, 1, 3, 1, 2, 2), (2,)),
        prelu_case("nothing", (0, 3), (3,)),
    ),
)
