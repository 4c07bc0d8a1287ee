"""Calls of batch_norm."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from aclgrad.operators.samples import PLANES, Arrays, Case, Integer, Samples, draw_sizes
from aclgrad.products import Product
from aclgrad.wire.values import AttributeValue

_ALL: Final = "weight bias running_mean running_var"
_RUNNING: Final = "running_mean running_var"


def _values(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
    variance = arrays["running_var"]
    return {**arrays, "running_var": np.asarray(generator.uniform(0.3, 3.0, variance.shape)).astype(variance.dtype)}


def batch_norm_case(
    name: str, shape: tuple[int, ...], inputs: str = _ALL, *, fixed: str = _ALL, **attributes: AttributeValue
) -> Case:
    """Returns a case with these inputs beside the first one; `fixed` names what is float32."""
    shapes = {"input": shape} | {each: shape[1:2] for each in inputs.split()}
    types = {each: "float32" for each in fixed.split() if each in shapes}
    return Case(name, shapes, {"training": True, **attributes}, types, (), tuple(Product), in_pytorch=True)


def _draw(integer: Integer) -> Case:
    shape = (integer(2, 9), integer(1, 9), *draw_sizes(integer, integer(0, 4), 1, 4))
    inputs = (_ALL, f"weight {_RUNNING}", f"bias {_RUNNING}", _RUNNING)[integer(0, 3)]
    fixed = (_ALL, "", _RUNNING, "weight bias")[integer(0, 3)]
    momentum, eps = (0.1, 0.0, 1.0)[integer(0, 2)], (1e-5, 0.5)[integer(0, 1)]
    return batch_norm_case(
        "drawn", shape, inputs, fixed=fixed, training=bool(integer(0, 2)), momentum=momentum, eps=eps
    )


def _long(cells: int) -> Iterator[Case]:
    side = math.isqrt(cells)
    yield batch_norm_case("row", (1, 1, cells))
    yield batch_norm_case("column", (cells, 1))
    yield batch_norm_case("channels", (2, cells // 2))
    yield batch_norm_case("short_rows", (cells // 9, 3, 3))
    yield batch_norm_case("plane", (1, 1, side, side))


def _pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    input = tensors["input"]
    weight, bias, mean, variance = (
        None if tensors.get(name) is None else tensors[name].to(input.dtype)
        for name in ("weight", "bias", "running_mean", "running_var")
    )
    options = (attributes["training"], attributes["momentum"], attributes["eps"])
    operator = torch.ops.aten._native_batch_norm_legit_functional
    out, saved, _, new_mean, new_variance = operator(input, weight, bias, mean, variance, *options)
    return out, new_mean, new_variance, saved


SAMPLES = Samples(
    draw=_draw,
    rows=lambda length: (batch_norm_case("rows", (3, 2, length)), batch_norm_case("rows", (5, length))),
    timed={size: batch_norm_case("timed", shape) for size, shape in PLANES.items()},
    pytorch=_pytorch,
    long=_long,
    values=_values,
    picture=batch_norm_case("picture", (1, 1, 5, 6)),
    cases=(
        batch_norm_case("planes", (4, 3, 6, 7)),
        batch_norm_case("not_training", (4, 3, 2, 3, 7), training=False),
        batch_norm_case("no_parameters", (3, 5, 4, 12), _RUNNING, momentum=0.25, eps=0.5),
        batch_norm_case("of_the_dtype", (37, 19), fixed=""),
        batch_norm_case("long_rows", (2, 3, 9000), f"bias {_RUNNING}"),
        batch_norm_case("rank8", (2, 3, 2, 1, 2, 1, 2, 2), f"weight {_RUNNING}"),
    ),
)
