"""Calls of losses: a row for each operator."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from aclgrad.operators.families.class_losses.samples import ROWS, drawn_targets
from aclgrad.operators.families.elementwise.definition import sigmoid
from aclgrad.operators.families.elementwise.samples import Attributes
from aclgrad.operators.families.losses.spec import MEAN, NONE, SUM
from aclgrad.operators.samples import PLANES, Arrays, Case, Integer, Samples, case, draw_sizes, long_planes, long_rows
from aclgrad.products import Product

Shape = tuple[int, ...]

_REDUCTIONS: Final = ("none", "mean", "sum")


def _draw_within(integer: Integer, shape: Shape) -> Shape:
    """Draws a shape that is broadcast to this one."""
    return tuple(size if integer(0, 2) else 1 for size in shape[integer(0, len(shape)) :])


def _loss_samples(
    name: str,
    *,
    weights: tuple[str, ...] = (),
    attributes: tuple[Attributes, ...] = ({},),
    is_cross_entropy: bool = False,
) -> Samples:
    """Returns the samples of a loss, which has this name in `torch.nn.functional`."""

    def sample(title: str, shape: Shape, reduction: int = MEAN, number: int = 0, **others: Shape) -> Case:
        shapes = {"self": shape, "target": shape, **others}
        given = {"reduction": reduction, **attributes[number]}
        return Case(title, shapes, given, {}, (), tuple(Product), in_pytorch=True)

    def draw(integer: Integer) -> Case:
        shape = draw_sizes(integer, integer(0, 4), 1, 9)
        others = {each: _draw_within(integer, shape) for each in weights if integer(0, 1)}
        if not is_cross_entropy:
            others["target"] = _draw_within(integer, shape)
        return sample("drawn", shape, integer(NONE, SUM), integer(0, len(attributes) - 1), **others)

    def values(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
        made = {each: np.asarray(np.abs(arrays[each])) for each in weights if each in arrays}
        if is_cross_entropy:
            target = arrays["target"]
            made["target"] = np.asarray(sigmoid(target.astype(np.float64))).astype(target.dtype)
        return {**arrays, **made}

    def pytorch(tensors: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        import torch

        options = {each: tensors[each] for each in weights if each in tensors}
        options |= {each: value for each, value in given.items() if each != "reduction"}
        target = tensors["target"].expand(tensors["self"].shape)
        function = getattr(torch.nn.functional, name)
        return function(tensors["self"], target, reduction=_REDUCTIONS[given["reduction"]], **options)

    more = [sample(f"attributes_{each}", (3, 40), NONE, each) for each in range(1, len(attributes))]
    if not is_cross_entropy:
        more.append(sample("broadcast", (2, 3, 4, 5), NONE, target=(4, 1)))
    if weights:
        more.append(sample("weighted", (2, 3, 4, 5), MEAN, 0, **dict(zip(weights, ((5,), (3, 1, 1)), strict=True))))
    return Samples(
        draw=draw,
        rows=lambda length: (sample("rows", (length,)), sample("rows", (3, length), NONE)),
        timed={size: sample("timed", shape) for size, shape in PLANES.items()},
        pytorch=pytorch,
        values=values,
        long=lambda cells: (sample(title, tuple(plane)) for title, *plane in long_planes(cells)),
        picture=sample("picture", (2, 4), NONE),
        cases=(
            sample("planes", (2, 3, 4, 5), NONE),
            sample("mean", (3, 131)),
            sample("sum", (3, 131), SUM),
            sample("scalar", ()),
            sample("nothing", (0, 3), SUM),
            *more,
        ),
    )


def _nll_case(name: str, shape: Shape, reduction: int = MEAN, ignored: int = -100, dtype: str = "int64") -> Case:
    attributes = {"reduction": reduction, "ignore_index": ignored}
    return case(name, attributes, fixed={"target": dtype}, self=shape, target=shape[:-1], weight=shape[-1:])


def _nll_values(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
    """The inputs are logarithms. The first target counts, so that the total is not 0."""
    target = drawn_targets(generator, example, arrays["target"], arrays["weight"].size)
    ignored = example.attributes["ignore_index"]
    first = target.reshape(-1)[:1]
    first[first == ignored] = 0 if ignored else 1
    return {"self": -np.abs(arrays["self"]), "target": target, "weight": np.abs(arrays["weight"])}


def _nll_pytorch(tensors: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    """Of one row PyTorch returns the total without a reduction, too."""
    import torch

    operands = (tensors["self"], tensors["target"].long(), tensors["weight"])
    out, total = torch.ops.aten.nll_loss_forward(*operands, given["reduction"], given["ignore_index"])
    return out, total if given["reduction"] else torch.zeros_like(total)


def _draw_nll(integer: Integer) -> Case:
    """With two classes at least, one is not ignored."""
    shape = (*((integer(1, 7),) if integer(0, 3) else ()), integer(2, 12))
    ignored = integer(0, 15) if integer(0, 1) else -100
    return _nll_case("drawn", shape, integer(NONE, SUM), ignored, ("int64", "int32", "uint8")[integer(0, 2)])


_NLL_LOSS: Final = Samples(
    draw=_draw_nll,
    rows=lambda length: (_nll_case("rows", (5, length + 1)),),
    timed={size: _nll_case("timed", shape) for size, shape in ROWS.items()},
    pytorch=_nll_pytorch,
    values=_nll_values,
    long=lambda cells: (_nll_case(name, (rows, columns)) for name, rows, columns in long_rows(cells)),
    picture=_nll_case("picture", (2, 3), NONE),
    cases=(
        _nll_case("rows", (6, 10), NONE),
        _nll_case("mean", (65, 131)),
        _nll_case("sum_of_int32", (6, 10), SUM, dtype="int32"),
        _nll_case("ignored_class", (6, 10), MEAN, 1, "uint8"),
        _nll_case("one_row", (7,), NONE),
        _nll_case("no_rows", (0, 4), SUM),
    ),
)

SAMPLES: Final[Mapping[str, Samples]] = {
    "binary_cross_entropy_with_logits": _loss_samples(
        "binary_cross_entropy_with_logits", weights=("weight", "pos_weight"), is_cross_entropy=True
    ),
    "mse_loss": _loss_samples("mse_loss"),
    "nll_loss": _NLL_LOSS,
    "smooth_l1_loss": _loss_samples("smooth_l1_loss", attributes=({"beta": 1.0}, {"beta": 0.125})),
}
