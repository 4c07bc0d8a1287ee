"""aclnnCtcLossBackward: the gradient of connectionist temporal classification.

Devices do not look at the values of targets. CANN's operator also takes float16 and bfloat16, which hold too few bits
of log_alpha, and targets of other dtypes; those are not served.
"""

from collections.abc import Iterator
from typing import Final

from aclgrad.errors import Violation
from aclgrad.operators.families.elementwise.spec import floats
from aclgrad.operators.rules import equal_sizes, first_problem, same_dtype
from aclgrad.operators.spec import (
    Arguments,
    AttributeKind,
    AttributeSpec,
    InputSpec,
    OperatorSpec,
    OutputSpec,
    Tolerance,
)
from aclgrad.operators.values import IndexRule
from aclgrad.products import Product

_DTYPES: Final = dict.fromkeys(floats(), ("float32", "float64"))
_TARGETS: Final = dict.fromkeys(_DTYPES, ("int64", "int32"))
_ROUNDING: Final = {"float32": 2.0**-21, "float64": 2.0**-50}


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    names = ("grad_output", "neg_log_likelihood", "log_alpha")
    yield from same_dtype(arguments, "log_probs", *names)
    yield from first_problem(_check_sizes(arguments), _check_lengths(arguments))


def _check_sizes(arguments: Arguments) -> Iterator[Violation]:
    shapes = {name: each.shape for name, each in arguments.inputs.items()}
    steps, batch, classes = shapes["log_probs"]
    for name in ("grad_output", "neg_log_likelihood"):
        of = "the batch of inputs[log_probs].shape"
        yield from equal_sizes(f"inputs[{name}].shape", shapes[name], of, (batch,))
    if not steps or not classes:
        yield Violation("inputs[log_probs].shape", f"is {shapes['log_probs']}", "send steps and classes")
    if shapes["log_alpha"][:2] != (batch, steps):
        problem, remedy = f"is {shapes['log_alpha']}", f"begin with {(batch, steps)}, the batch and the steps"
        yield Violation("inputs[log_alpha].shape", problem, remedy)
    for name in ("input_lengths", "target_lengths"):
        count = len(arguments.ints(name))
        if count != batch:
            yield Violation(f"attributes[{name}]", f"has {count} values", f"send {batch}, one for each of the batch")
    if arguments.int("blank") >= classes:
        yield Violation("attributes[blank]", f"is {arguments.int('blank')}", f"send at most {classes - 1}")


def _check_lengths(arguments: Arguments) -> Iterator[Violation]:
    shapes = {name: each.shape for name, each in arguments.inputs.items()}
    steps, batch, _ = shapes["log_probs"]
    inputs, targets, shape = arguments.ints("input_lengths"), arguments.ints("target_lengths"), shapes["targets"]
    if max(inputs, default=0) > steps:
        yield Violation("attributes[input_lengths]", f"has {max(inputs)}", f"send at most {steps}")
    if len(shape) == 1:
        yield from equal_sizes("inputs[targets].shape", shape, "the sum of attributes[target_lengths]", (sum(targets),))
    elif shape[0] != batch or max(targets, default=0) > shape[1]:
        problem = f"is {shape}, for {batch} targets of up to {max(targets, default=0)}"
        yield Violation("inputs[targets].shape", problem, "send a row for each")
    if shapes["log_alpha"][2] < 2 * max(targets, default=0) + 1:
        problem = f"is {shapes['log_alpha']}, and a target has {max(targets)}"
        yield Violation("inputs[log_alpha].shape", problem, f"end with {2 * max(targets) + 1}")


def _tolerance(arguments: Arguments, product: Product, dtype: str) -> Tolerance:
    """Logarithms grow with the steps, and so do their errors."""
    error = _ROUNDING[dtype] * (8 + arguments.inputs["log_probs"].shape[0])
    return Tolerance(relative=error, absolute=error)


SPEC = OperatorSpec(
    name="ctc_loss_backward",
    symbol="aclnnCtcLossBackward",
    summary="Gives the gradient of connectionist temporal classification, by what follows each step.",
    formula=(
        "With beta, the logarithm of the probability of what follows a place of the target with blanks between: "
        "out[t, n, c] = grad_output[n] * (exp(log_probs) - exp(neg_log_likelihood[n] - log_probs) * the sum of "
        "exp(log_alpha + beta) over the places of c), which is the gradient of what log_softmax made log_probs of; 0 "
        "beyond input_lengths (PyTorch: aten::_ctc_loss_backward)."
    ),
    inputs=(
        InputSpec("grad_output", "The gradient of each loss, (N).", _DTYPES, (1,)),
        InputSpec("log_probs", "The logarithms of probabilities, (T, N, C).", _DTYPES, (3,)),
        InputSpec(
            "targets",
            "The classes, (N, S), or one after the other: 0 to C - 1, also beyond a target's length.",
            _TARGETS,
            (1, 2),
            values=lambda arguments, _: IndexRule(arguments.inputs["log_probs"].shape[2]),
        ),
        InputSpec("neg_log_likelihood", "The losses, (N), as the forward pass returned them.", _DTYPES, (1,)),
        InputSpec("log_alpha", "(N, T, at least 2 * the longest target + 1), of the forward pass.", _DTYPES, (3,)),
    ),
    attributes=(
        AttributeSpec("input_lengths", "The steps of each of the batch.", AttributeKind.INTS, minimum=0),
        AttributeSpec("target_lengths", "The length of each target.", AttributeKind.INTS, minimum=0),
        AttributeSpec("blank", "The class that separates others.", AttributeKind.INT, default=0, minimum=0),
        AttributeSpec(
            "zero_infinity", "Whether the gradient of an infinite loss is 0.", AttributeKind.BOOL, default=False
        ),
    ),
    outputs=(
        OutputSpec(
            "out",
            "The gradient, with the shape and dtype of log_probs.",
            lambda given: given.inputs["log_probs"],
            of="log_probs",
        ),
    ),
    check=_check,
    tolerance=_tolerance,
    operations=lambda given: float(
        given.inputs["log_probs"].element_count * 2 + given.inputs["log_alpha"].element_count * 8
    ),
    runs_on_nothing=lambda given: given.inputs["log_probs"].element_count > 0,
    is_spatial=False,
    batch_axes=lambda _: None,
)
