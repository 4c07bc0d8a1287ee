"""Upsampling and its gradients. The operators of planes serve one axis and three axes, too."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch

from aclgrad.torch.aten.steps import Row, Steps, Value, cast, reshaped
from aclgrad.torch.calls import LocalError

aten: Final = torch.ops.aten
Sizes = Sequence[int]
Resized = Callable[[Steps, Value, Sizes], Value]
"""Resizes the last two axes of a tensor of planes to these sizes."""


def _check_scales(smaller: Sizes, larger: Sizes, scales: Sequence[float | None]) -> None:
    """Raises LocalError unless the scales follow from the sizes, as operators require."""
    for input, output, scale in zip(smaller, larger, scales, strict=False):
        if scale and np.float32(1 / scale) != np.float32(input) / np.float32(output):
            raise LocalError(f"no operator upsamples {input} cells to {output} by another scale, here {scale}")


def _resized(steps: Steps, self: Value, sizes: Sizes, resize: Resized, *, inner_first: bool) -> Value:
    """Resizes the axes of (N, C, ...): two at once, or one, or three as two and then one.

    Unchanged axes need no step.
    """
    batch, channels, *own = self.shape
    if len(own) == 1:
        made = _of_planes(steps, reshaped(steps, self, (batch, channels, 1, *own)), (1, *sizes), resize)
        return made.reshape((batch, channels, *sizes))
    if len(own) == 2:
        return _of_planes(steps, self, sizes, resize)
    made = self
    for is_inner in (inner_first, not inner_first):
        depth, height, width = made.shape[2:]
        if is_inner:
            planes, wanted = reshaped(steps, made, (batch, channels * depth, height, width)), sizes[1:]
            after = (depth, *wanted)
        else:
            planes, wanted = reshaped(steps, made, (batch, channels, depth, height * width)), (sizes[0], height * width)
            after = (sizes[0], height, width)
        made = reshaped(steps, _of_planes(steps, planes, wanted, resize), (batch, channels, *after))
    return made


def _of_planes(steps: Steps, self: Value, sizes: Sizes, resize: Resized) -> Value:
    return self if tuple(self.shape[2:]) == tuple(sizes) else resize(steps, self, sizes)


def _nearest_plane(steps: Steps, self: Value, sizes: Sizes) -> Value:
    return steps("upsample_nearest2d_v2", {"self": self}, output_size=sizes)


def _nearest_plane_backward(steps: Steps, gradient: Value, sizes: Sizes) -> Value:
    attributes = {"output_size": gradient.shape[2:], "input_size": (*gradient.shape[:2], *sizes)}
    return steps("upsample_nearest2d_backward", {"grad_output": gradient}, **attributes)


def _linear_plane(align_corners: bool) -> Resized:
    def resize(steps: Steps, self: Value, sizes: Sizes) -> Value:
        return steps("upsample_bilinear2d", {"self": self}, output_size=sizes, align_corners=align_corners)

    return resize


def _linear_plane_backward(align_corners: bool) -> Resized:
    def resize(steps: Steps, gradient: Value, sizes: Sizes) -> Value:
        attributes = {"output_size": gradient.shape[2:], "input_size": (*gradient.shape[:2], *sizes)}
        inputs = {"grad_output": gradient}
        return steps("upsample_bilinear2d_backward_v2", inputs, align_corners=align_corners, **attributes)

    return resize


def _nearest(steps: Steps, self: Value, output_size: Sizes, *scales: float | None) -> Value:
    _check_scales(self.shape[2:], output_size, scales)
    return _resized(steps, self, output_size, _nearest_plane, inner_first=True)


def _nearest_backward(
    steps: Steps, grad_output: Value, output_size: Sizes, input_size: Sizes, *scales: float | None
) -> Value:
    _check_scales(input_size[2:], output_size, scales)
    return _resized(steps, grad_output, input_size[2:], _nearest_plane_backward, inner_first=False)


def _linear(steps: Steps, self: Value, output_size: Sizes, align_corners: bool, *scales: float | None) -> Value:
    if not align_corners:
        _check_scales(self.shape[2:], output_size, scales)
    # For three axes, two steps would round twice.
    number = cast(steps, self, torch.float32) if len(output_size) > 2 else self
    made = _resized(steps, number, output_size, _linear_plane(align_corners), inner_first=True)
    return cast(steps, made, self.dtype)


def _linear_backward(
    steps: Steps,
    grad_output: Value,
    output_size: Sizes,
    input_size: Sizes,
    align_corners: bool,
    *scales: float | None,
) -> Value:
    if not align_corners:
        _check_scales(input_size[2:], output_size, scales)
    number = cast(steps, grad_output, torch.float32) if len(output_size) > 2 else grad_output
    made = _resized(steps, number, input_size[2:], _linear_plane_backward(align_corners), inner_first=False)
    return cast(steps, made, grad_output.dtype)


_LINEAR: Final = ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")

ROWS: Final[Mapping[Any, Row]] = {
    **{getattr(aten, f"upsample_nearest{axes}d").default: _nearest for axes in (1, 2, 3)},
    **{getattr(aten, f"upsample_nearest{axes}d_backward").default: _nearest_backward for axes in (1, 2, 3)},
    **{getattr(aten, name).default: _linear for name in _LINEAR},
    **{getattr(aten, f"{name}_backward").default: _linear_backward for name in _LINEAR},
}
