"""Calls of rms_norm_grad."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from aclgrad.operators.rms_norm_grad.definition import EPSILON
from aclgrad.operators.rms_norm_grad.spec import LEAST_BYTES
from aclgrad.operators.samples import Arrays, Case, Integer, Samples, draw_sizes, long_rows
from aclgrad.products import Product

_ON_950: Final = (Product.ASCEND_950,)
_WITHOUT_310P: Final = (Product.ATLAS_A2, Product.ATLAS_A3, Product.ASCEND_950)


def _values(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
    """The deviation is that of the input's rows."""
    rstd = arrays["rstd"]
    if not rstd.size:
        return arrays
    squares = np.square(arrays["input"].astype(np.float64)).reshape(rstd.size, -1).mean(1)
    return arrays | {"rstd": (1 / np.sqrt(squares + EPSILON)).reshape(rstd.shape).astype(rstd.dtype)}


def rms_norm_case(
    name: str,
    leading: Sequence[int],
    normalized: Sequence[int],
    *,
    saved: tuple[int, ...] | None = None,
    fixed: str = "rstd",
    products: tuple[Product, ...] = (),
) -> Case:
    """Returns a case; `saved` is the shape of rstd, and `fixed` names what is float32."""
    shape = (*leading, *normalized)
    rows = (*leading, *(1 for _ in normalized)) if saved is None else saved
    is_on_310p = shape[-1] * 2 >= LEAST_BYTES and fixed == "rstd"
    return Case(
        name=name,
        shapes={"grad_output": shape, "input": shape, "rstd": rows, "gamma": tuple(normalized)},
        attributes={},
        fixed=dict.fromkeys(fixed.split(), "float32"),
        only=(),
        products=products or (tuple(Product) if is_on_310p else _WITHOUT_310P),
        in_pytorch=True,
    )


def _draw(integer: Integer) -> Case:
    leading = draw_sizes(integer, integer(0, 3), 1, 6)
    return rms_norm_case("drawn", leading, draw_sizes(integer, integer(1, 2), 1, 40))


def _pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    """PyTorch's own operator has no kernel for a CPU, where the gradients are those of the parts."""
    import torch

    leaves = [tensors[name].detach().requires_grad_() for name in ("input", "gamma")]
    normalised = torch.nn.functional.rms_norm(leaves[0], leaves[1].shape, leaves[1], EPSILON)
    return torch.autograd.grad(normalised, leaves, tensors["grad_output"].to(normalised.dtype))


SAMPLES = Samples(
    draw=_draw,
    rows=lambda length: (rms_norm_case("rows", (5,), (length,)), rms_norm_case("rows", (2, 3), (2, length))),
    timed={
        "16 KB": rms_norm_case("timed", (16,), (256,)),
        "6 MB": rms_norm_case("timed", (2048,), (768,)),
        "100 MB": rms_norm_case("timed", (32768,), (768,)),
        "1 GB": rms_norm_case("timed", (327680,), (768,)),
    },
    pytorch=_pytorch,
    long=lambda cells: (rms_norm_case(name, (rows,), (columns,)) for name, rows, columns in long_rows(cells)),
    values=_values,
    has_signed_weights=True,
    picture=rms_norm_case("picture", (2,), (4,)),
    cases=(
        rms_norm_case("rows", (2, 3), (40,)),
        rms_norm_case("rows_of_planes", (2, 3), (4, 25)),
        rms_norm_case("one_row", (), (33,)),
        rms_norm_case("one_row_without_axes", (), (33,), saved=()),
        rms_norm_case("one_column", (9,), (1,)),
        rms_norm_case("one_cell", (1, 1), (1,)),
        rms_norm_case("many_rows", (200,), (6,)),
        rms_norm_case("wide_rows", (3,), (300,)),
        rms_norm_case("eight_dimensions", (2, 1, 2, 1, 2), (1, 3, 4)),
        rms_norm_case("saved_without_axes_of_one", (2, 3), (8,), saved=(2, 3)),
        rms_norm_case("float32_gamma", (4,), (12,), fixed="rstd gamma"),
        rms_norm_case("no_rows", (0, 3), (4,), products=_ON_950),
    ),
)
