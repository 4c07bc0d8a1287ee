"""Functions with one operator of ours for several of ATen's, by msprobe's names."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from aclgrad.judge.replay.fused_attention import fusion_attention_steps
from aclgrad.torch.aten import Row, Steps, Value


def _rms_norm(steps: Steps, input: Value, gamma: Value, epsilon: float = 1e-6) -> Any:
    return steps("rms_norm", {"x": input, "gamma": gamma}, epsilon=epsilon)


def _swiglu(steps: Steps, input: Value, dim: int = -1) -> Value:
    return steps("swi_glu", {"x": input}, dim=dim)


def _roi_align(
    steps: Steps,
    input: Value,
    boxes: Value | Sequence[Value],
    output_size: Sequence[int] | int,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Value:
    """Boxes may be a list with those of each image, whose number is then prepended."""
    height, width = (output_size, output_size) if isinstance(output_size, int) else output_size
    if isinstance(boxes, list | tuple):
        boxes = np.concatenate([np.insert(each, 0, image, 1) for image, each in enumerate(boxes)])
    return steps(
        "roi_align_v2",
        {"self": input, "boxes": boxes},
        pooled_height=height,
        pooled_width=width,
        spatial_scale=float(spatial_scale),
        sampling_ratio=max(sampling_ratio, 0),
        aligned=aligned,
    )


WHOLE: Final[Mapping[str, Row]] = {
    "NPU.npu_fusion_attention": fusion_attention_steps,
    "NPU.npu_rms_norm": _rms_norm,
    "NPU.npu_swiglu": _swiglu,
    "torchvision.ops.roi_align": _roi_align,
}
