"""Calls of normalisations: a row for each operator."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from aclgrad.operators.rms_norm_grad.spec import LEAST_BYTES
from aclgrad.operators.samples import PLANES, Case, Integer, Samples, case, draw_sizes, long_rows
from aclgrad.products import Product

Shape = tuple[int, ...]

_WITHOUT_310P: Final = tuple(each for each in Product if each is not Product.ATLAS_INFERENCE)
_TIMED: Final = {"16 KB": (16, 256), "6 MB": (2048, 768), "100 MB": (32768, 768), "1 GB": (327680, 768)}


def _layer_case(
    name: str, leading: Sequence[int], sizes: Shape, parameters: str = "weight bias", fixed: str = "weight bias"
) -> Case:
    """Returns a case with these parameters; `fixed` names what is float32."""
    shapes = {"input": (*leading, *sizes)} | {each: sizes for each in parameters.split()}
    types = {each: "float32" for each in fixed.split() if each in shapes}
    return Case(name, shapes, {"normalized_shape": sizes}, types, (), tuple(Product), in_pytorch=True)


def _draw_layers(integer: Integer) -> Case:
    leading, sizes = draw_sizes(integer, integer(0, 3), 1, 6), draw_sizes(integer, integer(1, 2), 1, 40)
    parameters = ("weight bias", "weight", "bias", "")[integer(0, 3)]
    return _layer_case("drawn", leading, sizes, parameters, ("weight bias", "")[integer(0, 1)])


def _layer_pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    input, sizes = tensors["input"], list(attributes["normalized_shape"])
    parameters = [None if tensors.get(each) is None else tensors[each].to(input.dtype) for each in ("weight", "bias")]
    return torch.ops.aten.native_layer_norm(input, sizes, *parameters, attributes["eps"])


_LAYER_NORM: Final = Samples(
    draw=_draw_layers,
    rows=lambda length: (_layer_case("rows", (5,), (length,)), _layer_case("rows", (2, 3), (2, length), "")),
    timed={size: _layer_case("timed", shape[:1], shape[1:]) for size, shape in _TIMED.items()},
    pytorch=_layer_pytorch,
    long=lambda cells: (_layer_case(name, (rows,), (columns,)) for name, rows, columns in long_rows(cells)),
    picture=_layer_case("picture", (2,), (4,)),
    cases=(
        _layer_case("rows", (2, 3), (40,)),
        _layer_case("planes_of_the_dtype", (2, 3), (4, 5), fixed=""),
        _layer_case("no_parameters", (4, 3), (7,), ""),
        _layer_case("no_weight", (2, 1, 2, 1, 2), (1, 3, 4), "bias"),
        _layer_case("long_rows", (2,), (9000,), "weight"),
        _layer_case("no_rows", (0, 3), (4,)),
    ),
)


def _root_case(name: str, leading: Sequence[int], sizes: Shape, fixed: str = "") -> Case:
    is_on_310p = sizes[-1] * 2 >= LEAST_BYTES and not fixed
    types = dict.fromkeys(fixed.split(), "float32")
    products = tuple(Product) if is_on_310p else _WITHOUT_310P
    return case(name, {}, fixed=types, products=products, x=(*leading, *sizes), gamma=sizes)


def _draw_roots(integer: Integer) -> Case:
    leading, sizes = draw_sizes(integer, integer(0, 3), 1, 6), draw_sizes(integer, integer(1, 2), 1, 40)
    return _root_case("drawn", leading, sizes, ("", "gamma")[integer(0, 1)])


def _root_pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    """PyTorch's own operator has no kernel for a CPU."""
    import torch

    x, gamma = tensors["x"], tensors["gamma"].to(tensors["x"].dtype)
    axes = tuple(range(x.dim() - gamma.dim(), x.dim()))
    rstd = torch.rsqrt(x.square().mean(axes, keepdim=True) + attributes["epsilon"])
    return torch.nn.functional.rms_norm(x, gamma.shape, gamma, attributes["epsilon"]), rstd


_RMS_NORM: Final = Samples(
    draw=_draw_roots,
    rows=lambda length: (_root_case("rows", (5,), (length,)), _root_case("rows", (2, 3), (2, length))),
    timed={size: _root_case("timed", shape[:1], shape[1:]) for size, shape in _TIMED.items()},
    pytorch=_root_pytorch,
    long=lambda cells: (_root_case(name, (rows,), (columns,)) for name, rows, columns in long_rows(cells)),
    picture=_root_case("picture", (2,), (4,)),
    cases=(
        _root_case("rows", (2, 3), (40,)),
        _root_case("rows_of_planes", (2, 3), (4, 25)),
        _root_case("float32_gamma", (4,), (12,), "gamma"),
        _root_case("one_row", (), (9000,)),
        _root_case("eight_dimensions", (2, 1, 2, 1, 2), (1, 3, 4)),
        _root_case("no_rows", (0, 3), (16,)),
    ),
)


def _group_case(name: str, shape: Shape, group: int, parameters: str = "gamma beta") -> Case:
    shapes = {"self": shape} | {each: shape[1:2] for each in parameters.split()}
    sizes = {"n": shape[0], "c": shape[1], "hxw": math.prod(shape[2:]), "group": group}
    return Case(name, shapes, sizes, {}, (), tuple(Product), in_pytorch=True)


def _draw_groups(integer: Integer) -> Case:
    group = integer(1, 4)
    shape = (integer(1, 3), group * integer(1, 4), *draw_sizes(integer, integer(0, 2), 1, 12))
    return _group_case("drawn", shape, group, ("gamma beta", "gamma", "beta", "")[integer(0, 3)])


def _long_groups(cells: int) -> Iterator[Case]:
    for name, rows, columns in long_rows(cells):
        yield _group_case(f"{name}_of_channels", (1, rows, columns), 1)
        yield _group_case(f"{name}_of_samples", (rows, 1, columns), 1)


def _group_pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    given = (attributes[each] for each in ("n", "c", "hxw", "group", "eps"))
    return torch.ops.aten.native_group_norm(tensors["self"], tensors.get("gamma"), tensors.get("beta"), *given)


_GROUP_NORM: Final = Samples(
    draw=_draw_groups,
    rows=lambda length: (_group_case("rows", (2, 4, length), 2), _group_case("rows", (3, 6, length), 3)),
    timed={size: _group_case("timed", shape, 8) for size, shape in PLANES.items()},
    pytorch=_group_pytorch,
    long=_long_groups,
    picture=_group_case("picture", (1, 2, 2, 3), 1),
    cases=(
        _group_case("planes", (2, 6, 5, 7), 3),
        _group_case("no_parameters", (2, 4, 9), 2, ""),
        _group_case("no_gamma", (2, 3, 41), 3, "beta"),
        _group_case("samples_of_one_element", (7, 48), 2, "gamma"),
        _group_case("large_channels", (1, 2, 9000), 1),
        _group_case("eight_dimensions", (2, 4, 1, 2, 1, 3, 1, 2), 2),
        _group_case("no_samples", (0, 4, 3), 2),
    ),
)

SAMPLES: Final[Mapping[str, Samples]] = {
    "group_norm": _GROUP_NORM,
    "layer_norm": _LAYER_NORM,
    "rms_norm": _RMS_NORM,
}
