"""Calls of replication_pad2d_backward."""

from collections.abc import Mapping
from typing import Any, Final

from aclgrad.operators.replication_pad2d_backward.spec import MAX_BFLOAT16_PADDING, SPEC
from aclgrad.operators.samples import PLANES, Case, Integer, Samples, case, draw_leading, draw_sizes

_CROPPED: Final = tuple(name for name in SPEC.tolerances if name != "bfloat16")
"""The dtypes whose padding may be negative, or large above and below."""


def _case(name: str, input: tuple[int, ...], *padding: int, only: tuple[str, ...] = ()) -> Case:
    left, right, top, bottom = padding
    grad_output = (*input[:-2], input[-2] + top + bottom, input[-1] + left + right)
    return case(name, {"padding": padding}, only=only, grad_output=grad_output, input=input)


def _draw(integer: Integer) -> Case:
    input = (*draw_leading(integer), *draw_sizes(integer, 2, 1, 12))
    if integer(0, 1):
        return _case("drawn", input, *draw_sizes(integer, 4, 0, MAX_BFLOAT16_PADDING))
    padding = [integer(-min(size - 1, 3), 20) for size in (input[-1], input[-2]) for _ in range(2)]
    # Both sides together leave at least one cell.
    padding[1], padding[3] = max(padding[1], 1 - input[-1] - padding[0]), max(padding[3], 1 - input[-2] - padding[2])
    return _case("drawn", input, *padding, only=_CROPPED)


def _pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    padding = list(attributes["padding"])
    return torch.ops.aten.replication_pad2d_backward(tensors["grad_output"], tensors["self"], padding)


SAMPLES = Samples(
    draw=_draw,
    timed={size: _case("timed", shape, 2, 2, 2, 2) for size, shape in PLANES.items()},
    pytorch=_pytorch,
    cases=(
        _case("two_around", (2, 3, 8, 9), 2, 2, 2, 2),
        _case("rank3", (4, 6, 5), 1, 2, 3, 4),
        _case("no_padding", (2, 3, 4, 5), 0, 0, 0, 0),
        _case("left_only", (1, 2, 5, 4), 3, 0, 0, 0),
        _case("right_only", (1, 2, 5, 4), 0, 5, 0, 0),
        _case("top_only", (1, 2, 5, 4), 0, 0, 4, 0),
        _case("bottom_only", (1, 2, 5, 4), 0, 0, 0, 7),
        _case("wide_rows", (1, 2, 3, 40), 30, 21, 0, 0),
        _case("larger_than_self", (2, 2, 2, 3), 7, 6, 5, 7),
        _case("rank3_one_column", (3, 5, 1), 0, 2, 1, 0),
        _case("one_cell", (1, 1, 1, 1), 3, 2, 1, 4),
        _case("one_row", (2, 3, 1, 9), 2, 1, 3, 3),
        _case("one_column", (2, 3, 9, 1), 2, 1, 3, 3),
        _case("prime_sizes", (1, 13, 17, 19), 3, 5, 2, 7),
        _case("empty_batch", (0, 3, 4, 4), 1, 1, 1, 1),
        _case("cropped", (2, 3, 8, 9), -1, -2, -2, -1, only=_CROPPED),
        _case("cropped_and_padded", (2, 3, 5, 7), -2, 3, 4, -1, only=_CROPPED),
        _case("cropped_to_one_cell", (2, 6, 6), -2, -3, -5, 0, only=_CROPPED),
        _case("cropped_to_nothing", (1, 2, 3, 4), -2, -2, 1, 1, only=_CROPPED),
        _case("tall_padding", (1, 2, 4, 4), 8, 9, 12, 10, only=_CROPPED),
    ),
)
