"""The rows of the operator table that are losses."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from aclgrad.errors import Violation
from aclgrad.operators.batch_axes import BatchAxes
from aclgrad.operators.families.class_losses.spec import IGNORE_INDEX, classes_of
from aclgrad.operators.families.elementwise.spec import LARGEST, RANKS, Check, floats, tolerances_of
from aclgrad.operators.families.losses.spec import LEAST_BETA, MEAN, NONE, REDUCTION, SUM, check_logits
from aclgrad.operators.rules import broadcasts, equal_sizes, first_problem, same_dtype
from aclgrad.operators.spec import (
    Arguments,
    AttributeKind,
    AttributeSpec,
    InputSpec,
    OperatorKind,
    OperatorSpec,
    OutputSpec,
    Tolerance,
)
from aclgrad.operators.tolerance import Rule, by_dtype, summed
from aclgrad.tensors import TensorType

_DTYPES: Final = floats()
_TARGETS: Final = dict.fromkeys(_DTYPES, ("int64", "int32", "uint8"))


def of_reduction(rule: Rule, losses: Callable[[Arguments], int]) -> Rule:
    """Returns the rule of losses, of the sum of so many, which has a size of their number in samples, or of a mean."""

    def terms(arguments: Arguments) -> float:
        return 1.0 if arguments.int("reduction") == NONE else float(max(losses(arguments), 1))

    return summed(rule, terms, weight=lambda given: terms(given) ** (0.5 if given.int("reduction") == SUM else -0.5))


def _loss_axes(arguments: Arguments) -> BatchAxes | None:
    """The first axis of what has it, of losses that are not reduced; calls share the rest."""
    shape = arguments.inputs["self"].shape
    if not shape or arguments.int("reduction") != NONE:
        return None
    shared = [name for name, each in arguments.inputs.items() if each.shape[:1] != shape[:1] or each.rank < len(shape)]
    return BatchAxes(others=dict.fromkeys(shared))


def loss_value_spec(
    name: str,
    summary: str,
    formula: str,
    *,
    output: str = "out",
    target: str = "The target, broadcast to self.",
    weights: Mapping[str, str] | None = None,
    attributes: tuple[AttributeSpec, ...] = (),
    check: Check = lambda *_: iter(()),
    tolerances: Mapping[str, Tolerance] | None = None,
) -> OperatorSpec:
    """Returns the row of a loss of `self` and a target, with these further inputs, which are optional."""
    names = ("target", *(weights or {}))

    def checked(arguments: Arguments, _: object) -> Iterator[Violation]:
        shape = arguments.inputs["self"].shape
        given = [each for each in names if each in arguments.inputs]
        yield from same_dtype(arguments, "self", *given)
        for each in given:
            have = arguments.inputs[each].shape
            if not broadcasts(have, shape):
                problem = f"is {have}, which cannot be broadcast to inputs[self].shape, {shape}"
                yield Violation(f"inputs[{each}].shape", problem, f"send {shape}, or sizes of 1 in it")

    def infer(arguments: Arguments) -> TensorType:
        self = arguments.inputs["self"]
        return self if arguments.int("reduction") == NONE else TensorType(self.dtype, ())

    return OperatorSpec(
        name=name,
        symbol=f"aclnn{''.join(map(str.capitalize, name.split('_')))}",
        summary=summary,
        formula=f"{formula}; then the mean if the reduction is 1, or the sum if it is 2 (PyTorch: aten::{name}).",
        inputs=(
            InputSpec("self", "What is compared with the target. Any shape.", _DTYPES, RANKS),
            InputSpec("target", target, _DTYPES, RANKS),
            *(InputSpec(each, words, _DTYPES, RANKS, is_optional=True) for each, words in (weights or {}).items()),
        ),
        attributes=(REDUCTION, *attributes),
        outputs=(
            OutputSpec(
                output, "The losses, with the shape and dtype of self; their mean or sum has the shape ().", infer
            ),
        ),
        check=lambda arguments, product: first_problem(checked(arguments, product), check(arguments, product)),
        tolerance=of_reduction(
            by_dtype(tolerances or tolerances_of(_DTYPES)), lambda given: given.inputs["self"].element_count
        ),
        kind=OperatorKind.VALUE,
        # Of nothing, the mean is NaN, as in PyTorch, and the sum 0.
        runs_on_nothing=lambda arguments: arguments.int("reduction") == MEAN,
        is_spatial=False,
        batch_axes=_loss_axes,
    )


# The negative log likelihood of classes.


def _check_nll(arguments: Arguments, _: object) -> Iterator[Violation]:
    yield from same_dtype(arguments, "self", "weight")
    shapes = {name: each.shape for name, each in arguments.inputs.items()}
    shape, field = shapes["self"], "inputs[self].shape"
    yield from equal_sizes("inputs[target].shape", shapes["target"], f"{field} without classes", shape[:-1])
    yield from equal_sizes("inputs[weight].shape", shapes["weight"], f"the number of classes in {field}", shape[-1:])
    if shape[-1] == 0 and arguments.inputs["target"].element_count:
        yield Violation(field, f"is {shape}", "send at least one class")


def _nll_out(arguments: Arguments) -> TensorType:
    self = arguments.inputs["self"]
    return TensorType(self.dtype, self.shape[:-1] if arguments.int("reduction") == NONE else ())


def _nll_axes(arguments: Arguments) -> BatchAxes | None:
    is_joined = arguments.int("reduction") == NONE and arguments.inputs["self"].rank > 1
    return BatchAxes(others=dict.fromkeys(("weight", "total_weight_out"))) if is_joined else None


_NLL_LOSS: Final = OperatorSpec(
    name="nll_loss",
    symbol="aclnnNLLLoss",
    summary="Gives the negative log likelihood of a class for each row.",
    formula=(
        "out = -weight[target] * self[target], and 0 where the target is ignore_index; then the sum if the reduction "
        "is 2, or that divided by total_weight_out if it is 1 (PyTorch: aten::nll_loss_forward)."
    ),
    inputs=(
        InputSpec("self", "The logarithms of probabilities, (N, C) or (C).", _DTYPES, (1, 2)),
        InputSpec(
            "target",
            "The class of each row, (N) or (): 0 to C - 1, or ignore_index.",
            _TARGETS,
            (0, 1),
            values=classes_of("self"),
        ),
        InputSpec("weight", "The weight of each class, (C).", _DTYPES, (1,)),
    ),
    attributes=(
        REDUCTION,
        replace(IGNORE_INDEX, summary="The target of rows that do not count; it need not be a class."),
    ),
    outputs=(
        OutputSpec("out", "The losses, with the shape of target; their mean or sum has the shape ().", _nll_out),
        OutputSpec(
            "total_weight_out",
            "The sum of the weights of all targets, shape (); 0 (NaN of a device) without a reduction.",
            lambda arguments: TensorType(arguments.inputs["self"].dtype, ()),
        ),
    ),
    check=_check_nll,
    tolerance=of_reduction(by_dtype(tolerances_of(_DTYPES)), lambda given: given.inputs["target"].element_count),
    kind=OperatorKind.VALUE,
    runs_on_nothing=lambda arguments: arguments.int("reduction") == MEAN,
    is_spatial=False,
    batch_axes=_nll_axes,
)

SPECS: Final = (
    # Its logarithm is not that of the highest precision on every device.
    loss_value_spec(
        "binary_cross_entropy_with_logits",
        "Gives the binary cross entropy of logits.",
        "With p = pos_weight: out = weight * (p * target * log(1 + exp(-self)) + (1 - target) * log(1 + exp(self)))",
        target="The targets, from 0 to 1, with the shape of self.",
        weights={
            "weight": "The weight of each element, broadcast to self; 1 without it.",
            "pos_weight": "The weight of positive targets, broadcast to self; 1 without it.",
        },
        check=check_logits,
        tolerances={
            "float32": Tolerance(relative=1e-5, absolute=1e-5),
            "float16": Tolerance(relative=1e-3, absolute=1e-5),
            "bfloat16": Tolerance(relative=8e-3, absolute=1e-5),
        },
    ),
    loss_value_spec("mse_loss", "Gives the squared difference.", "out = (self - target)^2"),
    _NLL_LOSS,
    loss_value_spec(
        "smooth_l1_loss",
        "Gives the absolute difference, which is squared near 0.",
        "With d = |self - target|: result = d^2 / (2 * beta) where d < beta, else d - beta / 2",
        output="result",
        attributes=(
            AttributeSpec(
                "beta",
                "The size of differences below which they are squared; rounded to float32.",
                AttributeKind.DOUBLE,
                default=1.0,
                minimum=LEAST_BETA,
                maximum=LARGEST,
            ),
        ),
    ),
)
