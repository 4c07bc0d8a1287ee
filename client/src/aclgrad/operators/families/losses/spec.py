"""The rows of the operator table that are gradients of losses of each element by itself."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from aclgrad.errors import Violation
from aclgrad.operators.batch_axes import BatchAxes
from aclgrad.operators.families.elementwise.spec import LARGEST, RANKS, Check, floats, tolerances_of
from aclgrad.operators.rules import broadcasts, equal_sizes, same_dtype
from aclgrad.operators.spec import (
    Arguments,
    AttributeKind,
    AttributeSpec,
    InputSpec,
    OperatorSpec,
    OutputSpec,
    Tolerance,
)
from aclgrad.operators.tolerance import Rule, by_dtype
from aclgrad.products import Product

NONE, MEAN, SUM, BATCH_MEAN = range(4)
"""CANN's codes of reductions; the last one divides by the first size."""
LEAST_BETA: Final = 1e-6
"""A 950 returns NaN for a smaller one, and others add this number to it."""
_MOST_HALVES: Final = 2**17
"""Of more elements, the mean's factor loses bits in float16."""
_SMALLEST: Final = {"float32": 2.0**-149, "float16": 2.0**-24, "bfloat16": 2.0**-133}

REDUCTION: Final = AttributeSpec(
    "reduction",
    "What the loss was made of its elements: 0 nothing, 1 their mean, 2 their sum.",
    AttributeKind.INT,
    default=MEAN,
    minimum=NONE,
    maximum=SUM,
)


def divisor(arguments: Arguments) -> int:
    """Returns what the reduction divides by."""
    shape, reduction = arguments.inputs["self"].shape, arguments.int("reduction")
    return max({MEAN: math.prod(shape), BATCH_MEAN: shape[0] if shape else 1}.get(reduction, 1), 1)


def reduced(rule: Rule, divides_by: Callable[[Arguments], int] = divisor) -> Rule:
    """Returns the rule of results that the reduction makes smaller, down to the smallest number of the dtype."""

    def by_reduction(arguments: Arguments, product: Product, dtype: str) -> Tolerance:
        plain = rule(arguments, product, dtype)
        absolute = max(plain.absolute / max(divides_by(arguments), 1), _SMALLEST[dtype])
        return replace(plain, absolute=absolute, share=plain.absolute)

    return by_reduction


def _batch_axes(arguments: Arguments) -> BatchAxes | None:
    """The first axis of what has it; calls share the rest. A mean depends on how many there are."""
    shape = arguments.inputs["self"].shape
    if not shape or arguments.int("reduction") in (MEAN, BATCH_MEAN):
        return None
    shared = {
        name: None
        for name, each in arguments.inputs.items()
        if each.shape[:1] != shape[:1] or len(each.shape) < len(shape)
    }
    return BatchAxes(others=shared)


def loss_spec(
    name: str,
    summary: str,
    formula: str,
    dtypes: Mapping[Product, tuple[str, ...]],
    *,
    output: str = "out",
    weights: Mapping[str, str] | None = None,
    reduction: AttributeSpec = REDUCTION,
    attributes: tuple[AttributeSpec, ...] = (),
    check: Check = lambda *_: iter(()),
    tolerance: Rule | None = None,
) -> OperatorSpec:
    """Returns the row of an operator of `self` and a target, with these further inputs, which are optional.

    All tensors have one dtype. `self` has the shape of the result, and the others are broadcast to it.
    """
    names = ("grad_output", "target", *(weights or {}))

    def checked(arguments: Arguments, product: Product) -> Iterator[Violation]:
        shape = arguments.inputs["self"].shape
        given = [each for each in names if each in arguments.inputs]
        yield from same_dtype(arguments, "self", *given)
        for each in given:
            have = arguments.inputs[each].shape
            if not broadcasts(have, shape):
                problem = f"is {have}, which cannot be broadcast to inputs[self].shape, {shape}"
                yield Violation(f"inputs[{each}].shape", problem, f"send {shape}, or sizes of 1 in it")
        yield from check(arguments, product)

    return OperatorSpec(
        name=name,
        symbol=f"aclnn{''.join(map(str.capitalize, name.split('_')))}",
        summary=summary,
        formula=f"{formula}; divided by the number of elements of self if the reduction is 1",
        inputs=(
            InputSpec(
                "grad_output", "The gradient of the loss, broadcast to self: one element, or more.", dtypes, RANKS
            ),
            InputSpec("self", "What the loss was computed of, of any shape.", dtypes, RANKS),
            InputSpec("target", "The target, broadcast to self.", dtypes, RANKS),
            *(InputSpec(each, words, dtypes, RANKS, is_optional=True) for each, words in (weights or {}).items()),
        ),
        attributes=(reduction, *attributes),
        outputs=(
            OutputSpec(
                output,
                "The gradient of self, with its shape and dtype.",
                lambda arguments: arguments.inputs["self"],
            ),
        ),
        check=checked,
        tolerance=reduced(tolerance or by_dtype(tolerances_of(dtypes))),
        is_spatial=False,
        batch_axes=_batch_axes,
    )


def check_logits(arguments: Arguments, product: Product) -> Iterator[Violation]:
    target, shape = (arguments.inputs[name].shape for name in ("target", "self"))
    yield from equal_sizes("inputs[target].shape", target, "inputs[self].shape", shape)


def _check_halves(arguments: Arguments, product: Product) -> Iterator[Violation]:
    is_half = arguments.inputs["self"].dtype.name == "float16" and product is not Product.ASCEND_950
    if is_half and divisor(arguments) > _MOST_HALVES:
        problem = f"divides by {divisor(arguments)}, and this product does so in float16"
        yield Violation("attributes[reduction]", problem, "send 2 for the sum, and divide")


def _kl_tolerance(arguments: Arguments, product: Product, dtype: str) -> Tolerance:
    """Products but the 950 compute float16 in float16, and its exponential and factor."""
    plain = tolerances_of(_KL_DTYPES)[dtype]
    if dtype != "float16" or product is Product.ASCEND_950:
        return plain
    return replace(plain, relative=4e-3 + divisor(arguments) * 2.0**-25)


def _smooth_tolerance(arguments: Arguments, product: Product, dtype: str) -> Tolerance:
    plain = tolerances_of(floats())[dtype]
    less = 0 if product is Product.ASCEND_950 else LEAST_BETA / arguments.double("beta")
    return replace(plain, relative=plain.relative + less)


_KL_DTYPES: Final = floats(without=(Product.ATLAS_TRAINING, Product.ATLAS_INFERENCE))

SPECS: Final = (
    loss_spec(
        "binary_cross_entropy_backward",
        "Gives the gradient of the binary cross entropy of probabilities.",
        "out = grad_output * weight * (self - target) / max(self * (1 - self), 1e-12) "
        "(PyTorch: aten::binary_cross_entropy_backward)",
        floats(),
        weights={"weight": "The weight of each element, broadcast to self; 1 without it."},
    ),
    # The difference of two numbers near 1 has the error of these.
    loss_spec(
        "binary_cross_entropy_with_logits_backward",
        "Gives the gradient of the binary cross entropy of logits.",
        "With p = pos_weight: out = grad_output * weight * ((p * target + 1 - target) * sigmoid(self) - p * target) "
        "(PyTorch: the gradient of aten::binary_cross_entropy_with_logits)",
        floats(),
        weights={
            "weight": "The weight of each element, broadcast to self; 1 without it.",
            "pos_weight": "The weight of positive targets, broadcast to self; 1 without it.",
        },
        check=check_logits,
        tolerance=by_dtype({each: replace(plain, absolute=1e-5) for each, plain in tolerances_of(floats()).items()}),
    ),
    # The gradient of the target is not the operator's.
    loss_spec(
        "kl_div_backward",
        "Gives the gradient of the divergence of Kullback and Leibler by the logarithms of probabilities.",
        "out = -target * grad_output, with log_target -exp(target) * grad_output, and divided by the first size of "
        "self if the reduction is 3 (PyTorch: the gradient of aten::kl_div)",
        _KL_DTYPES,
        reduction=AttributeSpec(
            "reduction",
            "What the loss was made of its elements: 0 nothing, 1 their mean, 2 their sum, 3 the mean of the batch.",
            AttributeKind.INT,
            default=MEAN,
            minimum=NONE,
            maximum=BATCH_MEAN,
        ),
        attributes=(
            AttributeSpec("log_target", "Whether the target is a logarithm, too.", AttributeKind.BOOL, default=False),
        ),
        check=_check_halves,
        tolerance=_kl_tolerance,
    ),
    # Where self or target is NaN, the 950 returns 0, and others -grad_output.
    loss_spec(
        "l1_loss_backward",
        "Gives the gradient of the absolute difference.",
        "grad_input = grad_output * sign(self - target), which is 0 where both are equal (PyTorch: the gradient of "
        "aten::l1_loss)",
        floats(),
        output="grad_input",
    ),
    loss_spec(
        "mse_loss_backward",
        "Gives the gradient of the squared difference.",
        "out = 2 * grad_output * (self - target) (PyTorch: aten::mse_loss_backward)",
        floats(without=(Product.ATLAS_TRAINING,)),
    ),
    # All products but the 950 divide by beta + 1e-6.
    loss_spec(
        "smooth_l1_loss_backward",
        "Gives the gradient of the absolute difference, which is squared near 0.",
        "With d = self - target: grad_input = grad_output * d / beta where |d| < beta, else grad_output * sign(d) "
        "(PyTorch: aten::smooth_l1_loss_backward)",
        floats(),
        output="grad_input",
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
        tolerance=_smooth_tolerance,
    ),
)
