"""Gradients of convolutions, pooling, sampling and padding."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.cube_math_type import HALVING
from aclgrad.products import Product
from aclgrad.torch.aten.steps import Row, Steps, Value, cast
from aclgrad.torch.aten.windows import Ints

aten: Final = torch.ops.aten
_MASK: Final = "int8"


def _convolution_backward(
    steps: Steps,
    grad_output: Value,
    input: Value,
    weight: Value,
    bias_sizes: Sequence[int] | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Value | None, ...]:
    return steps.masked(
        "convolution_backward",
        {"grad_output": grad_output, "input": input, "weight": weight},
        output_mask,
        # PyTorch gives sizes even without a bias.
        bias_sizes=bias_sizes if output_mask[2] else None,
        stride=stride,
        padding=padding,
        dilation=dilation,
        transposed=transposed,
        output_padding=output_padding,
        groups=groups,
    )


def _max_pool2d_backward(
    steps: Steps,
    grad_output: Value,
    self: Value,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
    indices: Value,
) -> Value:
    """Takes the indices from the forward row: a product-specific mask, or positions."""
    window = {"kernel_size": kernel_size, "stride": stride, "padding": padding, "dilation": dilation}
    with_indices, with_mask = "max_pool2d_with_indices_backward", "max_pool2d_with_mask_backward"
    is_masked = indices.dtype == _MASK or steps.product not in (None, *OPERATORS[with_indices].products)
    # On other products, the kernel with indices takes float32 only.
    has_halves = is_masked or steps.product is Product.ASCEND_950
    gradient, input = (each if has_halves else cast(steps, each, torch.float32) for each in (grad_output, self))
    inputs = {"grad_output": gradient, "self": input, "indices": indices}
    made = steps(with_mask if is_masked else with_indices, inputs, ceil_mode=ceil_mode, **window)
    return cast(steps, made, grad_output.dtype)


def _avg_pool2d_backward(
    steps: Steps,
    grad_output: Value,
    self: Value,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Value:
    is_halved = steps.product in HALVING and self.dtype == "float32"
    return steps(
        "avg_pool2d_backward",
        {"grad_output": grad_output, "self": self},
        kernel_size=kernel_size,
        stride=stride,
        padding=padding,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
        divisor_override=divisor_override,
        cube_math_type=int(is_halved),
    )


def _sampler_backward(operator: str) -> Row:
    def add(
        steps: Steps,
        grad_output: Value,
        input: Value,
        grid: Value,
        interpolation: int,
        padding: int,
        align_corners: bool,
        output_mask: Sequence[bool],
    ) -> tuple[Value | None, ...]:
        inputs = {"grad_output": grad_output, "input": input, "grid": grid}
        how = {"interpolation_mode": interpolation, "padding_mode": padding, "align_corners": align_corners}
        return steps.masked(operator, inputs, output_mask, **how)

    return add


def _of_input(operator: str) -> Row:
    return lambda steps, grad_output, self: steps(operator, {"grad_output": grad_output, "self": self})


def _pad_backward(operator: str) -> Row:
    def add(steps: Steps, grad_output: Value, self: Value, padding: Sequence[int]) -> Value:
        return steps(operator, {"grad_output": grad_output, "self": self}, padding=padding)

    return add


ROWS: Final[Mapping[Any, Row]] = {
    aten.convolution_backward.default: _convolution_backward,
    aten.max_pool2d_with_indices_backward.default: _max_pool2d_backward,
    aten.avg_pool2d_backward.default: _avg_pool2d_backward,
    aten._adaptive_avg_pool2d_backward.default: _of_input("adaptive_avg_pool2d_backward"),  # noqa: SLF001 - ATen's name
    aten._adaptive_avg_pool3d_backward.default: _of_input("adaptive_avg_pool3d_backward"),  # noqa: SLF001
    **{
        getattr(aten, f"grid_sampler_{axes}d_backward").default: _sampler_backward(f"grid_sampler{axes}d_backward")
        for axes in (2, 3)
    },
    **{
        getattr(aten, f"{rule}_pad{axes}d_backward").default: _pad_backward(f"{rule}_pad{axes}d_backward")
        for rule in ("replication", "reflection")
        for axes in (1, 2, 3)
    },
}
