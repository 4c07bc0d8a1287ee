"""The rows of the operator table that are gradients of losses of classes.

The 950 writes at a target that is no class, wherever that is; other products take it for one that is ignored.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from aclgrad.errors import Violation
from aclgrad.operators.batch_axes import BatchAxes
from aclgrad.operators.families.elementwise.spec import floats
from aclgrad.operators.families.losses.spec import NONE, REDUCTION, reduced
from aclgrad.operators.rules import equal_sizes, same_dtype
from aclgrad.operators.spec import (
    Arguments,
    AttributeKind,
    AttributeSpec,
    InputSpec,
    OperatorSpec,
    OutputSpec,
    Tolerance,
)
from aclgrad.operators.tolerance import by_dtype
from aclgrad.operators.values import IndexRule
from aclgrad.products import Product

_DTYPES: Final = floats(without=(Product.ATLAS_INFERENCE,))
_TARGETS: Final = dict.fromkeys(_DTYPES, ("int64", "int32", "uint8"))
_CROSS_DTYPES: Final = floats(without=(Product.ATLAS_INFERENCE, Product.ATLAS_TRAINING))
_CROSS_TARGETS: Final = {
    each: ("int64", "int32") if each is Product.ASCEND_950 else ("int64",) for each in _CROSS_DTYPES
}
_FLOAT32: Final = dict.fromkeys(_CROSS_DTYPES, ("float32",))
_TOLERANCES: Final = {
    "float32": Tolerance(relative=4e-6, absolute=2.0**-126),
    "float16": Tolerance(relative=1e-3, absolute=2.0**-24),
    "bfloat16": Tolerance(relative=8e-3, absolute=2.0**-126),
}
IGNORE_INDEX: Final = AttributeSpec(
    "ignore_index",
    "The target whose gradient is 0; it need not be a class.",
    AttributeKind.INT,
    default=-100,
    minimum=-(2**31),
    maximum=2**31 - 1,
)


def classes_of(name: str) -> Callable[[Arguments, Product], IndexRule]:
    """Returns the function to the rule of targets that are classes of this input."""

    def rule(arguments: Arguments, product: Product) -> IndexRule:
        shape = arguments.inputs[name].shape
        return IndexRule(shape[0] if len(shape) == 1 else shape[1], arguments.int("ignore_index"))

    return rule


def _one_value(arguments: Arguments, name: str) -> Iterator[Violation]:
    shape = arguments.inputs[name].shape
    if shape not in ((), (1,)):
        yield Violation(f"inputs[{name}].shape", f"is {shape}", "send one value, of the shape ()")


def _check_nll(arguments: Arguments, product: Product) -> Iterator[Violation]:
    yield from same_dtype(arguments, "self", "grad_output", "weight", "total_weight")
    shapes = {name: each.shape for name, each in arguments.inputs.items()}
    shape, field = shapes["self"], "inputs[self].shape"
    targets = shape[:1] + shape[2:] if len(shape) > 1 else ()
    yield from equal_sizes("inputs[target].shape", shapes["target"], f"{field} without classes", targets)
    classes = shape[1:2] if len(shape) > 1 else shape
    yield from equal_sizes("inputs[weight].shape", shapes["weight"], f"the number of classes in {field}", classes)
    yield from _one_value(arguments, "total_weight")
    if arguments.int("reduction") == NONE and targets:
        yield from equal_sizes("inputs[grad_output].shape", shapes["grad_output"], "inputs[target].shape", targets)
    else:
        yield from _one_value(arguments, "grad_output")


def _rows(arguments: Arguments) -> BatchAxes | None:
    """Samples; calls share the weights, and the gradient of what is added up."""
    if len(arguments.inputs["self"].shape) == 1:
        return None
    shared = ["weight", "total_weight"] + ["grad_output"] * (arguments.int("reduction") != NONE)
    return BatchAxes(others=dict.fromkeys(shared))


def nll_spec(
    name: str, symbol: str, summary: str, ranks: Mapping[str, tuple[int, ...]], shapes: tuple[str, str]
) -> OperatorSpec:
    """Returns the row of the negative log likelihood of inputs of these ranks, with their shape and the targets'."""
    of_self, of_targets = shapes
    return OperatorSpec(
        name=name,
        symbol=symbol,
        summary=summary,
        formula=(
            "out = -grad_output * weight[target] at the target's class, divided by total_weight if the reduction is 1; "
            f"0 at other classes, and where the target is ignore_index (PyTorch: aten::{name})."
        ),
        inputs=(
            InputSpec(
                "grad_output",
                f"The gradient of the loss: one value, or {of_targets} if nothing was reduced.",
                _DTYPES,
                ranks["grad_output"],
            ),
            InputSpec("self", f"The logarithms of probabilities, {of_self}.", _DTYPES, ranks["self"]),
            InputSpec(
                "target",
                f"The class of each, {of_targets}: 0 to C - 1, or ignore_index.",
                _TARGETS,
                ranks["target"],
                values=classes_of("self"),
            ),
            InputSpec("weight", "The weight of each class, (C).", _DTYPES, (1,)),
            InputSpec(
                "total_weight",
                "The sum of the weights of all targets, which the forward pass returned.",
                _DTYPES,
                (0, 1),
            ),
        ),
        attributes=(REDUCTION, IGNORE_INDEX),
        outputs=(
            OutputSpec("out", "The gradient of self, with its shape and dtype.", lambda given: given.inputs["self"]),
        ),
        check=_check_nll,
        tolerance=by_dtype(_TOLERANCES),
        is_spatial=False,
        batch_axes=_rows,
    )


def _check_cross_entropy(arguments: Arguments, product: Product) -> Iterator[Violation]:
    yield from same_dtype(arguments, "log_prob", "grad_output")
    for name in ("grad_zloss", "lse_for_zloss"):
        if name in arguments.inputs:
            yield Violation(f"inputs[{name}]", "is given, and devices ignore it", "leave it out")
    shapes = {name: each.shape for name, each in arguments.inputs.items()}
    rows, classes = shapes["log_prob"]
    yield from equal_sizes(
        "inputs[target].shape", shapes["target"], "the number of rows in inputs[log_prob].shape", (rows,)
    )
    if "weight" in shapes:
        of = "the number of classes in inputs[log_prob].shape"
        yield from equal_sizes("inputs[weight].shape", shapes["weight"], of, (classes,))
    if arguments.attributes["reduction"] == "none":
        yield from equal_sizes("inputs[grad_output].shape", shapes["grad_output"], "inputs[target].shape", (rows,))
    else:
        yield from _one_value(arguments, "grad_output")


def _cross_rows(arguments: Arguments) -> BatchAxes | None:
    if arguments.attributes["reduction"] == "mean":
        return None
    shared = ["weight"] + ["grad_output"] * (arguments.attributes["reduction"] != "none")
    return BatchAxes(others=dict.fromkeys(shared))


def _mean_of_rows(arguments: Arguments) -> int:
    return arguments.inputs["log_prob"].shape[0] if arguments.attributes["reduction"] == "mean" else 1


_CROSS_ENTROPY: Final = OperatorSpec(
    name="cross_entropy_loss_grad",
    symbol="aclnnCrossEntropyLossGrad",
    summary="Gives the gradient of the cross entropy of logits and classes.",
    formula=(
        "With p = exp(log_prob), w = weight[target], e = label_smoothing, C classes, and D, the sum of w with the mean "
        "and else 1: g = grad_output / D, a = g * (1 - e) * w, s = g * e / C * weight: out = p * (a + sum(s)) - s, and "
        "at the target a less; 0 where the target is ignore_index (PyTorch: the gradient of aten::cross_entropy_loss)."
    ),
    inputs=(
        InputSpec(
            "grad_output", "The gradient of the loss: one value, or (N) if nothing was reduced.", _CROSS_DTYPES, (0, 1)
        ),
        InputSpec("log_prob", "The logarithms of the softmax of the logits, (N, C).", _CROSS_DTYPES, (2,)),
        InputSpec(
            "target",
            "The class of each row, (N): 0 to C - 1, or ignore_index.",
            _CROSS_TARGETS,
            (1,),
            values=classes_of("log_prob"),
        ),
        InputSpec("weight", "The weight of each class, (C), float32; 1 without it.", _FLOAT32, (1,), is_optional=True),
        InputSpec("grad_zloss", "Is refused: devices ignore it.", _CROSS_DTYPES, (0, 1), is_optional=True),
        InputSpec("lse_for_zloss", "Is refused: devices ignore it.", _CROSS_DTYPES, (1,), is_optional=True),
    ),
    attributes=(
        AttributeSpec(
            "reduction",
            "What the loss was made of the rows' losses.",
            AttributeKind.TEXT,
            default="mean",
            choices=("mean", "sum", "none"),
        ),
        IGNORE_INDEX,
        AttributeSpec(
            "label_smoothing",
            "The share of all classes in a target.",
            AttributeKind.DOUBLE,
            default=0.0,
            minimum=0,
            maximum=1,
        ),
        AttributeSpec(
            "lse_square_scale_for_zloss",
            "Is 0: devices ignore it.",
            AttributeKind.DOUBLE,
            default=0.0,
            minimum=0,
            maximum=0,
        ),
    ),
    outputs=(
        OutputSpec(
            "out",
            "The gradient of the logits, with the shape and dtype of log_prob.",
            lambda given: given.inputs["log_prob"],
            of="input",
        ),
    ),
    check=_check_cross_entropy,
    tolerance=reduced(
        by_dtype(
            {
                "float32": Tolerance(relative=1e-5, absolute=1e-5),
                "float16": Tolerance(relative=1e-3, absolute=1e-5),
                "bfloat16": Tolerance(relative=8e-3, absolute=1e-5),
            }
        ),
        _mean_of_rows,
    ),
    is_spatial=False,
    batch_axes=_cross_rows,
)

SPECS: Final = (
    _CROSS_ENTROPY,
    nll_spec(
        "nll_loss2d_backward",
        "aclnnNLLLoss2dBackward",
        "Gives the gradient of the negative log likelihood of a class for each pixel.",
        {"grad_output": (0, 1, 3), "self": (4,), "target": (3,)},
        ("(N, C, H, W)", "(N, H, W)"),
    ),
    nll_spec(
        "nll_loss_backward",
        "aclnnNLLLossBackward",
        "Gives the gradient of the negative log likelihood of a class for each row.",
        {"grad_output": (0, 1), "self": (1, 2), "target": (0, 1)},
        ("(N, C) or (C)", "(N) or ()"),
    ),
)
