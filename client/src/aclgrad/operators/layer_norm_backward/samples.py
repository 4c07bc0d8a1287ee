"""Calls of layer_norm_backward."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aclgrad.operators.layer_norm_backward.definition import EPSILON
from aclgrad.operators.samples import Arrays, Case, Integer, Samples, draw_sizes, long_rows
from aclgrad.products import Product

_SAVED = "mean rstd"
_ALL_FLOAT32 = "mean rstd weight bias"


def _values(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
    """The mean and the deviation are those of the input's rows."""
    mean, input = arrays["mean"], arrays["input"]
    if not input.size:
        return arrays
    rows = input.reshape(mean.size, -1).astype(np.float64)
    saved = {"mean": rows.mean(1), "rstd": 1 / np.sqrt(rows.var(1) + EPSILON)}
    return arrays | {name: each.reshape(mean.shape).astype(mean.dtype) for name, each in saved.items()}


def layer_norm_case(
    name: str,
    leading: Sequence[int],
    normalized: Sequence[int],
    parameters: str = "weight bias",
    *,
    saved: tuple[int, ...] | None = None,
    fixed: str = _SAVED,
) -> Case:
    """Returns a case; `saved` is the shape of mean and rstd, and `fixed` names what is float32."""
    shape = (*leading, *normalized)
    rows = saved or (*leading, *(1 for _ in normalized))
    shapes = {"grad_output": shape, "input": shape, "mean": rows, "rstd": rows}
    shapes |= {each: tuple(normalized) for each in parameters.split()}
    return Case(
        name=name,
        shapes=shapes,
        attributes={"normalized_shape": tuple(normalized)},
        fixed={each: "float32" for each in fixed.split() if each in shapes},
        only=(),
        products=tuple(Product),
        in_pytorch=True,
    )


def _draw(integer: Integer) -> Case:
    parameters = ("weight bias", "weight", "")[integer(0, 2)]
    leading = draw_sizes(integer, integer(0, 3), 1, 6)
    return layer_norm_case("drawn", leading, draw_sizes(integer, integer(1, 2), 1, 40), parameters)


def _rows(length: int) -> tuple[Case, ...]:
    return layer_norm_case("rows", (5,), (length,)), layer_norm_case("rows", (2, 3), (2, length), "")


def _pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    """PyTorch's CPU kernel takes parameters of the dtype of mean, and needs them for their gradients."""
    import torch

    input, sizes = tensors["input"], list(attributes["normalized_shape"])
    one_each = (*input.shape[: input.ndim - len(sizes)], *(1 for _ in sizes))
    mean, rstd = (tensors[name].reshape(one_each) for name in ("mean", "rstd"))
    weight, bias = (
        tensors.get(name, torch.full(sizes, value)).to(mean.dtype) for name, value in (("weight", 1.0), ("bias", 0.0))
    )
    return torch.ops.aten.native_layer_norm_backward(
        tensors["grad_output"], input, sizes, mean, rstd, weight, bias, [True, True, True]
    )


SAMPLES = Samples(
    draw=_draw,
    rows=_rows,
    timed={
        "16 KB": layer_norm_case("timed", (16,), (256,)),
        "6 MB": layer_norm_case("timed", (2048,), (768,)),
        "100 MB": layer_norm_case("timed", (32768,), (768,)),
        "1 GB": layer_norm_case("timed", (327680,), (768,)),
    },
    pytorch=_pytorch,
    long=lambda cells: (layer_norm_case(name, (rows,), (columns,)) for name, rows, columns in long_rows(cells)),
    values=_values,
    has_signed_weights=True,
    picture=layer_norm_case("picture", (2,), (4,)),
    cases=(
        layer_norm_case("rows", (2, 3), (40,)),
        layer_norm_case("rows_of_planes", (2, 3), (4, 5)),
        layer_norm_case("no_weight", (4, 3), (7,), ""),
        layer_norm_case("no_bias", (3,), (17,), "weight"),
        layer_norm_case("no_weight_with_bias", (3,), (9,), "bias"),
        layer_norm_case("one_row", (), (33,)),
        layer_norm_case("one_row_of_volumes", (1,), (3, 4, 5)),
        layer_norm_case("one_column", (9,), (1,)),
        layer_norm_case("one_cell", (1, 1), (1,)),
        layer_norm_case("many_rows", (200,), (6,)),
        layer_norm_case("wide_rows", (3,), (300,)),
        layer_norm_case("eight_dimensions", (2, 1, 2, 1, 2), (1, 3, 4)),
        layer_norm_case("all_dimensions", (), (2, 1, 2, 1, 2, 1, 2, 3)),
        layer_norm_case("saved_as_a_list", (2, 3), (8,), saved=(6,)),
        layer_norm_case("float32_parameters", (4,), (12,), fixed=_ALL_FLOAT32),
        layer_norm_case("saved_like_input", (4,), (12,), fixed=""),
        layer_norm_case("no_rows", (0, 3), (4,)),
        layer_norm_case("no_columns", (2, 3), (0,)),
        layer_norm_case("nothing", (0,), (0, 2)),
    ),
)
