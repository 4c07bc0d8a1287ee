"""Random legal calls of every operator: inputs and attributes by wire name."""

from typing import Any

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from aclgrad.masks import Pooling, argmax_of_input
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from aclgrad.tensors import DTYPES

Call = tuple[dict[str, Any], dict[str, Any]]


@st.composite
def legal_calls(draw: st.DrawFn, name: str) -> Call:
    """Draws a legal call of the operator."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from(OPERATORS[name].inputs[0].dtypes[Product.ATLAS_A2]))
    inputs, attributes = _DRAWN[name](draw, generator)
    grad_output = inputs["grad_output"]
    if dtype in ("int8", "int16", "int32", "int64", "uint8"):
        inputs["grad_output"] = generator.integers(0, 100, grad_output.shape).astype(dtype)
    elif dtype.startswith("complex"):
        inputs["grad_output"] = (grad_output + 1j * generator.standard_normal(grad_output.shape)).astype(dtype)
    else:
        inputs["grad_output"] = grad_output.astype(numpy_dtype(dtype))
    if isinstance(inputs.get("self"), np.ndarray):
        inputs["self"] = inputs["self"].astype(inputs["grad_output"].dtype)
    return inputs, attributes


def numpy_dtype(name: str) -> np.dtype[Any]:
    return DTYPES[name].numpy


def _sizes(draw: st.DrawFn, count: int, least: int, most: int) -> tuple[int, ...]:
    return tuple(draw(st.lists(st.integers(least, most), min_size=count, max_size=count)))


def _leading(draw: st.DrawFn, rank4: bool) -> tuple[int, ...]:
    channels = draw(st.integers(1, 18))
    return (draw(st.integers(0, 3)), channels) if rank4 else (channels,)


def _adaptive_avg_pool2d(draw: st.DrawFn, generator: np.random.Generator) -> Call:
    outer = _leading(draw, draw(st.booleans()))
    pooled, size = _sizes(draw, 2, 0, 14), _sizes(draw, 2, 0, 14)
    return {"grad_output": generator.standard_normal((*outer, *pooled)), "self": (*outer, *size)}, {}


def _max_unpool3d(draw: st.DrawFn, generator: np.random.Generator) -> Call:
    outer = _leading(draw, draw(st.booleans()))
    size, output_size = _sizes(draw, 3, 1, 5), _sizes(draw, 3, 1, 7)
    assume(np.prod(output_size) >= np.prod(size))
    inputs = {
        "grad_output": generator.standard_normal((*outer, *output_size)),
        "self": (*outer, *size),
        "indices": generator.integers(0, np.prod(output_size), (*outer, *size)),
    }
    return inputs, {"output_size": output_size, "stride": _sizes(draw, 3, 1, 3), "padding": _sizes(draw, 3, -2, 2)}


def _replication_pad2d(draw: st.DrawFn, generator: np.random.Generator) -> Call:
    outer = _leading(draw, draw(st.booleans()))
    height, width = _sizes(draw, 2, 1, 12)
    # What bfloat16 takes as well: up to 7 around, or any number left and right.
    left, right = _sizes(draw, 2, 0, 7)
    top, bottom = _sizes(draw, 2, 0, 7)
    inputs = {
        "grad_output": generator.standard_normal((*outer, height + top + bottom, width + left + right)),
        "self": (*outer, height, width),
    }
    return inputs, {"padding": (left, right, top, bottom)}


def _max_pool2d(draw: st.DrawFn, generator: np.random.Generator) -> Call:
    outer = _leading(draw, draw(st.booleans()))
    size = _sizes(draw, 2, 1, 14)
    kernel = (draw(st.integers(1, min(5, size[0]))), draw(st.integers(1, min(5, size[1]))))
    attributes = {
        "kernel_size": kernel,
        "stride": _sizes(draw, 2, 1, 5),
        "padding": (draw(st.integers(0, kernel[0] // 2)), draw(st.integers(0, kernel[1] // 2))),
        "ceil_mode": draw(st.booleans()),
    }
    pooled, argmax = argmax_of_input(generator.standard_normal((*outer, *size)), Pooling.of(size, **attributes))
    kind = draw(st.sampled_from([np.int32, np.int64]))
    # A device may read self for a 1x1 kernel.
    input = np.zeros((*outer, *size)) if kernel == (1, 1) else (*outer, *size)
    inputs = {"grad_output": generator.standard_normal(pooled.shape), "self": input, "indices": argmax.astype(kind)}
    return inputs, attributes


def _roi_align(draw: st.DrawFn, generator: np.random.Generator) -> Call:
    images, channels, height, width = input_shape = (*_sizes(draw, 2, 1, 4), *_sizes(draw, 2, 1, 12))
    count, bins = draw(st.integers(0, 6)), _sizes(draw, 2, 1, 5)
    corners = np.sort(generator.uniform(-0.4, 1.4, (count, 2, 2)), axis=1) * (width, height)
    boxes = np.column_stack([generator.integers(-1, images + 1, count), corners.reshape(count, 4)])
    attributes = {
        "input_shape": input_shape,
        "pooled_height": bins[0],
        "pooled_width": bins[1],
        "spatial_scale": draw(st.sampled_from([1.0, 0.5, 0.3])),
        "sampling_ratio": draw(st.integers(0, 4)),
        "aligned": draw(st.booleans()),
    }
    return {"grad_output": generator.standard_normal((count, channels, *bins)), "boxes": boxes.astype("f4")}, attributes


_DRAWN = {
    "adaptive_avg_pool2d_backward": _adaptive_avg_pool2d,
    "max_unpool3d_backward": _max_unpool3d,
    "replication_pad2d_backward": _replication_pad2d,
    "max_pool2d_with_mask_backward": _max_pool2d,
    "roi_align_v2_backward": _roi_align,
}
