"""Calls of batch_norm_backward."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from aclgrad.operators.samples import PLANES, Arrays, Case, Integer, Samples, draw_sizes
from aclgrad.products import Product
from aclgrad.wire.values import AttributeValue

_BATCH = ("save_mean", "save_invstd")
_RUNNING = ("running_mean", "running_var")
_HALVES = ("float16", "bfloat16")
_NOT_950 = tuple(product for product in Product if product is not Product.ASCEND_950)


def _values(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
    """Statistics as a forward pass saves them: of this input, and of others like it."""
    input = arrays["input"]
    changed: Arrays = {}
    if "save_invstd" in arrays:
        attributes: Mapping[str, Any] = example.attributes
        wide: Any = input.astype(np.float64) if input.size else np.zeros((1, *input.shape[1:2]))
        axes = (0, *range(2, wide.ndim))
        changed["save_mean"] = np.asarray(wide.mean(axes))
        variance: Any = wide.var(axes)
        changed["save_invstd"] = np.asarray(1 / np.sqrt(variance + float(np.float32(attributes["eps"]))))
    if "running_var" in arrays:
        changed["running_var"] = np.asarray(generator.uniform(0.3, 3.0, arrays["running_var"].shape))
    return {**arrays, **{name: values.astype(arrays[name].dtype) for name, values in changed.items()}}


def batch_norm_case(
    name: str,
    shape: tuple[int, ...],
    inputs: tuple[str, ...] = ("weight", *_BATCH),
    *,
    training: bool = True,
    eps: float = 1e-5,
    same_dtype: bool = False,
) -> Case:
    """A case with these optional inputs, of float32 or, but for the saved ones, of the input's dtype."""
    shapes = {
        "grad_output": shape,
        "input": shape,
        **{each: shape[1:2] for each in ("weight", *_RUNNING, *_BATCH) if each in inputs},
    }
    float32 = [each for each in inputs if each in _BATCH or not same_dtype]
    only, products = (_HALVES, _NOT_950) if same_dtype else ((), tuple(Product))
    attributes: dict[str, AttributeValue] = {"training": training, "eps": eps}
    return Case(name, shapes, attributes, dict.fromkeys(float32, "float32"), only, products, in_pytorch=True)


def _draw(integer: Integer) -> Case:
    shape = (*draw_sizes(integer, 2, 1, 9), *draw_sizes(integer, integer(0, 4), 1, 4))
    training = bool(integer(0, 1))
    if training and not any(size > 1 for size in (shape[0], *shape[2:])):
        # PyTorch refuses channels of one value: their variance is 0, and all of the gradient is rounding.
        shape = (2, *shape[1:])
    weight = ("weight",) if integer(0, 1) else ()
    unused = (_RUNNING if training else _BATCH) if integer(0, 1) else ()
    used = _BATCH if training else _RUNNING
    return batch_norm_case(
        "drawn", shape, (*weight, *used, *unused), training=training, eps=(1e-5, 1e-3, 0.5)[integer(0, 2)]
    )


def _rows(length: int) -> tuple[Case, ...]:
    """Vectors hold elements of a row, or channels."""
    return batch_norm_case("rows", (3, 2, length)), batch_norm_case("rows", (5, length))


def _timed(shape: tuple[int, ...]) -> Case:
    return batch_norm_case("timed", shape)


def _long(cells: int) -> Iterator[Case]:
    side = math.isqrt(cells)
    yield batch_norm_case("row", (1, 1, cells))
    yield batch_norm_case("column", (cells, 1))
    yield batch_norm_case("channels", (2, cells // 2))
    yield batch_norm_case("short_rows", (cells // 9, 3, 3))
    yield batch_norm_case("plane", (1, 1, side, side))
    yield batch_norm_case("samples", (side, side))


def _pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    names = ("grad_output", "input", "weight", *_RUNNING, *_BATCH)
    given = [tensors.get(name) for name in names]
    return torch.ops.aten.native_batch_norm_backward(*given, attributes["training"], attributes["eps"], [True] * 3)


SAMPLES = Samples(
    draw=_draw,
    rows=_rows,
    timed={size: _timed(shape) for size, shape in PLANES.items()},
    pytorch=_pytorch,
    long=_long,
    values=_values,
    has_signed_weights=True,
    picture=batch_norm_case("picture", (1, 1, 5, 6)),
    cases=(
        batch_norm_case("planes", (4, 3, 6, 7)),
        batch_norm_case("not_training", (4, 3, 6, 7), ("weight", *_RUNNING), training=False),
        batch_norm_case("no_weight", (3, 5, 4, 4), _BATCH),
        batch_norm_case("no_weight_not_training", (3, 5, 4, 4), _RUNNING, training=False),
        batch_norm_case("all_inputs", (2, 4, 5, 5), ("weight", *_RUNNING, *_BATCH)),
        batch_norm_case("all_inputs_not_training", (2, 4, 5, 5), ("weight", *_RUNNING, *_BATCH), training=False),
        batch_norm_case("half_weight", (4, 3, 6, 7), ("weight", *_BATCH), same_dtype=True),
        batch_norm_case("half_running", (4, 3, 6, 7), ("weight", *_RUNNING), training=False, same_dtype=True),
        batch_norm_case("large_eps", (4, 3, 6, 7), eps=1.0),
        batch_norm_case("small_eps", (4, 3, 6, 7), eps=1e-12),
        batch_norm_case("rank2", (37, 19)),
        batch_norm_case("rank2_many_samples", (200, 5)),
        batch_norm_case("rank2_many_channels", (6, 600)),
        batch_norm_case("rank2_not_training", (37, 19), ("weight", *_RUNNING), training=False),
        batch_norm_case("rank3", (5, 6, 11)),
        batch_norm_case("rank5", (2, 3, 3, 4, 5)),
        batch_norm_case("rank6", (2, 3, 2, 2, 3, 2)),
        batch_norm_case("rank8", (2, 3, 2, 1, 2, 1, 2, 2)),
        batch_norm_case("one_channel", (2, 1, 65, 67)),
        batch_norm_case("one_sample", (1, 2, 60, 77)),
        batch_norm_case("short_rows", (150, 70, 3)),
        batch_norm_case("long_rows", (2, 3, 4100)),
        batch_norm_case("empty_batch", (0, 3, 4, 4)),
        batch_norm_case("empty_rows", (2, 3, 0, 4)),
        batch_norm_case("no_channels", (2, 0, 4)),
    ),
)
