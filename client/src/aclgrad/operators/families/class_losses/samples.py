"""Calls of the gradients of losses of classes: a row for each operator."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from aclgrad.operators.families.elementwise.samples import Attributes
from aclgrad.operators.families.losses.spec import MEAN, NONE, SUM
from aclgrad.operators.samples import PLANES, Arrays, Case, Integer, Samples, draw_sizes, long_planes, long_rows
from aclgrad.products import Product

Shape = tuple[int, ...]

ROWS: Final = {"16 KB": (32, 128), "6 MB": (1536, 1000), "100 MB": (512, 50257), "1 GB": (5120, 50257)}


def drawn_targets(
    generator: np.random.Generator, example: Case, like: np.ndarray[Any, Any], classes: int
) -> np.ndarray[Any, Any]:
    """Returns classes, of which some are ignored, or all in the case that has that in its name."""
    drawn = generator.integers(0, max(classes, 1), like.shape)
    ignored = int(str(example.attributes["ignore_index"]))
    is_ignored = generator.random(like.shape) < (1.0 if "all_ignored" in example.name else 0.2)
    return np.where(is_ignored & (ignored == np.array(ignored).astype(like.dtype)), ignored, drawn).astype(like.dtype)


def nll_case(name: str, shape: Shape, reduction: int = MEAN, ignored: int = -100, dtype: str = "int64") -> Case:
    """Returns a case with targets of the dtype."""
    target = shape[:1] + shape[2:] if len(shape) > 1 else ()
    shapes = {"grad_output": target if reduction == NONE else (), "self": shape, "target": target}
    shapes |= {"weight": shape[1:2] if len(shape) > 1 else shape, "total_weight": ()}
    attributes = {"reduction": reduction, "ignore_index": ignored}
    return Case(name, shapes, attributes, {"target": dtype}, (), tuple(Product), in_pytorch=True)


def _nll_values(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
    """The inputs are logarithms, and the total is that of the weights."""
    input, weight = arrays["self"], np.abs(arrays["weight"])
    target = drawn_targets(generator, example, arrays["target"], weight.size)
    used = target[target != example.attributes["ignore_index"]].astype(np.int64)
    total = weight[used].astype(np.float64).sum() if weight.size else 0.0
    changed = {"self": -np.abs(input), "target": target, "weight": weight}
    return {**arrays, **changed, "total_weight": np.array(total).astype(weight.dtype)}


def _nll_pytorch(name: str) -> Callable[[Mapping[str, Any], Mapping[str, Any]], Any]:
    def gradient(tensors: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        import torch

        grad, input, target, weight = (tensors[each] for each in ("grad_output", "self", "target", "weight"))
        given_grad = grad if given["reduction"] == NONE and target.dim() else grad.reshape(())
        total = tensors["total_weight"].reshape(())
        reduction, ignored = given["reduction"], given["ignore_index"]
        return getattr(torch.ops.aten, name)(given_grad, input, target.long(), weight, reduction, ignored, total)

    return gradient


def _nll_samples(
    name: str, sizes: Mapping[str, Shape], timed: Mapping[str, Shape], long: Callable[[int], Iterator[Shape]]
) -> Samples:
    def draw(integer: Integer) -> Case:
        shape = tuple(size if axis == 1 else integer(1, 7) for axis, size in enumerate(next(iter(sizes.values()))))
        drawn = (shape[0], integer(1, 12), *shape[2:])
        dtype = ("int64", "int32", "uint8")[integer(0, 2)]
        return nll_case("drawn", drawn, integer(NONE, SUM), integer(0, 15) if integer(0, 1) else -100, dtype)

    plain, *others = sizes.items()
    return Samples(
        draw=draw,
        rows=lambda length: (nll_case("rows", tuple(5 if axis == 0 else length for axis in range(2)) + plain[1][2:]),),
        timed={size: nll_case("timed", shape) for size, shape in timed.items()},
        pytorch=_nll_pytorch(name),
        values=_nll_values,
        long=lambda cells: (nll_case(f"long_{number}", shape) for number, shape in enumerate(long(cells))),
        picture=nll_case("picture", tuple(2 + axis % 2 for axis in range(len(plain[1])))),
        cases=(
            nll_case(*plain),
            nll_case("none", plain[1], NONE),
            nll_case("sum", plain[1], SUM),
            nll_case("ignored_class", plain[1], MEAN, 1),
            nll_case("all_ignored", plain[1]),
            nll_case("int32", plain[1], NONE, dtype="int32"),
            nll_case("uint8", plain[1], MEAN, 255, dtype="uint8"),
            *(nll_case(each, shape) for each, shape in others),
            *(nll_case(f"{each}_none", shape, NONE) for each, shape in others if len(shape) == 1),
        ),
    )


def cross_case(
    name: str,
    rows: int,
    classes: int,
    reduction: str = "mean",
    smoothing: float = 0.0,
    ignored: int = -100,
    **shapes: Shape,
) -> Case:
    """Returns a case of cross entropy with int64 targets."""
    attributes: Attributes = {"reduction": reduction, "ignore_index": ignored, "label_smoothing": smoothing}
    grad = (rows,) if reduction == "none" else ()
    given = {"grad_output": grad, "log_prob": (rows, classes), "target": (rows,), **shapes}
    fixed = {"target": "int64", "weight": "float32"}
    return Case(name, given, attributes, fixed, (), tuple(Product), in_pytorch=True)


def _cross_values(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
    logits = arrays["log_prob"].astype(np.float64)
    logarithms = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True, initial=-np.inf)
    target = drawn_targets(generator, example, arrays["target"], logits.shape[1])
    weight = {"weight": np.abs(arrays["weight"])} if "weight" in arrays else {}
    return {**arrays, **weight, "log_prob": logarithms.astype(arrays["log_prob"].dtype), "target": target}


def _cross_pytorch(tensors: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    import torch

    logits = tensors["log_prob"].detach().requires_grad_()
    weight = tensors["weight"].to(logits.dtype) if "weight" in tensors else None
    options = {name: given[name] for name in ("reduction", "ignore_index", "label_smoothing")}
    loss = torch.nn.functional.cross_entropy(logits, tensors["target"].long(), weight, **options)
    (gradient,) = torch.autograd.grad(loss, logits, tensors["grad_output"].reshape(loss.shape))
    return gradient


def _draw_cross(integer: Integer) -> Case:
    rows, classes = draw_sizes(integer, 2, 1, 12)
    reduction = ("mean", "sum", "none")[integer(0, 2)]
    weight: dict[str, Shape] = {"weight": (classes,)} if integer(0, 1) else {}
    return cross_case("drawn", rows, classes, reduction, integer(0, 4) / 4, integer(-1, classes), **weight)


SAMPLES: Final[Mapping[str, Samples]] = {
    "cross_entropy_loss_grad": Samples(
        draw=_draw_cross,
        rows=lambda length: (cross_case("rows", 5, length, smoothing=0.25, weight=(length,)),),
        timed={size: cross_case("timed", shape[0], shape[1]) for size, shape in ROWS.items()},
        pytorch=_cross_pytorch,
        values=_cross_values,
        long=lambda cells: (cross_case(name, rows, classes) for name, rows, classes in long_rows(cells)),
        picture=cross_case("picture", 2, 4),
        cases=(
            cross_case("rows", 6, 10),
            cross_case("none", 6, 10, "none"),
            cross_case("sum", 6, 10, "sum"),
            cross_case("weighted", 6, 10, weight=(10,)),
            cross_case("smoothed", 6, 10, smoothing=0.125),
            cross_case("smoothed_and_weighted", 16, 131, "none", 0.25, 3, weight=(131,)),
            cross_case("only_smoothed", 5, 7, "sum", 1.0, weight=(7,)),
            cross_case("one_class", 4, 1),
            cross_case("all_ignored_sum", 4, 6, "sum", 0.5),
            cross_case("no_rows", 0, 5, "sum"),
        ),
    ),
    "nll_loss2d_backward": _nll_samples(
        "nll_loss2d_backward",
        {
            "pixels": (2, 5, 4, 6),
            "one_pixel": (3, 4, 1, 1),
            "one_class": (2, 1, 3, 3),
            "large": (1, 21, 33, 47),
            "no_images": (0, 3, 2, 2),
        },
        PLANES,
        lambda cells: ((1, 2, rows // 2 or 1, columns) for _, rows, columns in long_planes(cells)),
    ),
    "nll_loss_backward": _nll_samples(
        "nll_loss_backward",
        {
            "rows": (6, 10),
            "one_row": (1, 300),
            "of_a_row": (7,),
            "one_class": (5, 1),
            "large": (65, 131),
            "no_rows": (0, 4),
        },
        ROWS,
        lambda cells: ((rows, columns) for _, rows, columns in long_rows(cells)),
    ),
}
