"""Convolutions, pooling, sampling and padding of planes, and matrix products."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.cube_math_type import HALVING
from aclgrad.torch.aten.steps import Row, Steps, Value

aten: Final = torch.ops.aten
_MAX_POOL2D: Final = ("max_pool2d_with_indices", "max_pool2d_with_mask")
"""Operators of max pooling: a product has one or both."""

Ints = Sequence[int] | int


def _convolution(
    steps: Steps,
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
) -> Value:
    return steps(
        "convolution",
        {"input": input, "weight": weight, "bias": bias},
        stride=stride,
        padding=padding,
        dilation=dilation,
        transposed=transposed,
        output_padding=output_padding,
        groups=groups,
    )


def _max_pool2d(
    steps: Steps,
    self: Value,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
) -> tuple[Value, Value]:
    """The indices are int32 or a product-specific mask, which the gradient takes unchanged."""
    with_indices, with_mask = _MAX_POOL2D
    has_indices = steps.product is None or steps.product in OPERATORS[with_indices].products
    made = steps(
        with_indices if has_indices else with_mask,
        {"self": self},
        kernel_size=kernel_size,
        stride=stride,
        padding=padding,
        dilation=dilation,
        ceil_mode=ceil_mode,
    )
    return made.out, made.indices


def _avg_pool2d(
    steps: Steps,
    self: Value,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:
    is_halved = steps.product in HALVING and self.dtype == "float32"
    return steps(
        "avg_pool2d",
        {"self": self},
        kernel_size=kernel_size,
        strides=stride,
        paddings=padding,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
        divisor_override=divisor_override,
        cube_math_type=int(is_halved),
    )


def _sampled(steps: Steps, input: Value, grid: Value, interpolation: int, padding: int, align_corners: bool) -> Value:
    how = {"interpolation_mode": interpolation, "padding_mode": padding, "align_corners": align_corners}
    return steps("grid_sampler2d", {"input": input, "grid": grid}, **how)


def _pad(operator: str) -> Row:
    return lambda steps, self, padding: steps(operator, {"self": self}, padding=padding)


def _pad_rows(operator: str) -> Row:
    """Returns the row of padding along one axis, with rows as planes of one row."""

    def add(steps: Steps, self: Value, padding: Sequence[int]) -> Value:
        made = steps(operator, {"self": self.reshape((*self.shape[:-1], 1, self.shape[-1]))}, padding=(*padding, 0, 0))
        return made.reshape((*made.shape[:-2], made.shape[-1]))

    return add


def _product(operator: str) -> Row:
    return lambda steps, self, mat2: steps(operator, {"self": self, "mat2": mat2})


def _addmm(steps: Steps, self: Value, mat1: Value, mat2: Value, beta: float = 1, alpha: float = 1) -> Value:
    inputs = {"self": self, "mat1": mat1, "mat2": mat2}
    return steps("addmm", inputs, beta=float(beta), alpha=float(alpha))


def _baddbmm(steps: Steps, self: Value, batch1: Value, batch2: Value, beta: float = 1, alpha: float = 1) -> Value:
    made = steps("batch_mat_mul", {"self": batch1, "mat2": batch2})
    scaled = made if alpha == 1 else steps("muls", {"self": made}, other=alpha)
    # A factor of 0 drops the addend, even NaN.
    return steps("add", {"self": scaled, "other": self}, alpha=beta) if beta else scaled


ROWS: Final[Mapping[Any, Row]] = {
    aten.convolution.default: _convolution,
    # The rest are settings of PyTorch's own kernels.
    aten._convolution.default: lambda steps, *arguments: _convolution(steps, *arguments[:9]),  # noqa: SLF001
    aten.max_pool2d_with_indices.default: _max_pool2d,
    aten.avg_pool2d.default: _avg_pool2d,
    aten._adaptive_avg_pool2d.default: lambda steps, self, output_size: steps(  # noqa: SLF001
        "adaptive_avg_pool2d", {"self": self}, output_size=output_size
    ),
    aten.grid_sampler_2d.default: _sampled,
    aten.replication_pad1d.default: _pad_rows("replication_pad2d"),
    aten.replication_pad2d.default: _pad("replication_pad2d"),
    aten.reflection_pad1d.default: _pad_rows("reflection_pad2d"),
    aten.reflection_pad2d.default: _pad("reflection_pad2d"),
    aten.mm.default: _product("mm"),
    aten.bmm.default: _product("batch_mat_mul"),
    **dict.fromkeys((aten.mv.default, aten.dot.default, aten.vdot.default), _product("matmul")),
    aten.addmm.default: _addmm,
    aten.baddbmm.default: _baddbmm,
}
