"""The calls sent to a server: an operator or composites of matrix products for gradients, steps for results.

They determine the tolerances, and the content of a bundle.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from aclgrad.bridges.products import COMPOSITES
from aclgrad.composites import DEFINITIONS
from aclgrad.judge.bundles import JudgedProgram
from aclgrad.judge.programs.judging import DEFINITION
from aclgrad.judge.programs.program import Program, Step, one_step
from aclgrad.judge.programs.recording import recorded
from aclgrad.operators.cases import arrays_of
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.routes import Route
from aclgrad.operators.spec import Arguments, Tolerance
from aclgrad.products import Product
from aclgrad.reference import define
from aclgrad.tensors import DTYPES, TensorType
from aclgrad.tolerances import arguments_of
from aclgrad.torch.calls import Array, SentCall

_ACLNN_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "flash_attention_score_grad": {"key": "key_in"},
    "flash_attention_score_grad_v2": {"key": "key_in"},
    "rotary_position_embedding_grad": {"input": "x", "r1": "cos", "r2": "sin"},
}
"""The operators' names of arguments with other names in PyTorch or torch_npu."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The tolerance of a gradient on a product, and the inputs that are rounded for lower precision."""

    tolerance: Tolerance
    rounded: Mapping[str, Array]
    product: Product

    @property
    def excess(self) -> str:
        """Why gradients are infinite on the product; empty if its precision holds the inputs."""
        route = self.tolerance.route
        large = [name for name, each in self.rounded.items() if route and route.is_exceeded_by(each)]
        if route is None or not large:
            return ""
        values, precision = f"{large[0]} has values above {route.precision.largest:g}", route.precision.name
        return f"{values}, and product {self.product} computes in {precision}"


def limit_of(sent: Sequence[SentCall], name: str, gradient: Array, product: Product | None) -> Limit:
    """Returns the limit of an argument's gradient; without a product, that of the first product."""
    first = sent[0]
    if first.operator in COMPOSITES:
        return _limit_of_product(sent, gradient, product or min(OPERATORS["mm"].products))
    operator = OPERATORS[first.operator]
    own = product or min(operator.products)
    arguments, leading = arguments_of(operator, first.inputs, first.attributes), operator.leading
    tolerance = operator.tolerance(arguments, own, arguments.inputs[leading].dtype.name)
    names = (name, _ACLNN_NAMES.get(first.operator, {}).get(name))
    output = next((each.name for each in operator.outputs if each.of in names), "")
    found = tolerance.of(output)
    rounded = (found.route.inputs or (leading,)) if found.route else ()
    return Limit(found, {each: first.inputs[each] for each in rounded}, own)


def _limit_of_product(sent: Sequence[SentCall], gradient: Array, product: Product) -> Limit:
    """Takes the most terms of outputs with as many elements: gradients may arrive by several products, and as views."""
    terms = [pair for each in sent if each.operator in COMPOSITES for pair in _terms(each)]
    count = max([count for size, count in terms if size == gradient.size] or [count for _, count in terms])
    dtype = DTYPES[sent[0].inputs["grad_output"].dtype.name]
    types = {"self": TensorType(dtype, (1, count)), "mat2": TensorType(dtype, (count, 1))}
    spec = OPERATORS["mm"]
    tolerance = spec.tolerance(Arguments(types, spec.defaults), product, dtype.name)
    return Limit(tolerance, {name: each for call in sent for name, each in call.inputs.items()}, product)


def _terms(call: SentCall) -> Iterator[tuple[int, int]]:
    """Yields the size of each gradient, and the number of terms in its sums."""
    composite = COMPOSITES[call.operator]
    size, (one, _) = call.inputs["grad_output"].size, composite.mats
    for name, gradient in call.gradients.items():
        is_of_addend = name == composite.gradients[-1] and len(composite.gradients) > len(composite.mats)
        products = size if is_of_addend else size * call.inputs[one].shape[-1]
        yield gradient.size, max(products // max(gradient.size, 1), 1)


def limit_of_program(program: Program, product: Product | None) -> Limit:
    """Returns the largest limit of the steps on a product, by default the first one of the first step.

    Errors add up along a program. PyTorch's own result shows how much, and ten times its error is also allowed.
    """
    own = product or min(OPERATORS[program.steps[0].operator].products)
    found: list[tuple[Tolerance, Step]] = []
    for step in program.steps:
        operator = OPERATORS[step.operator]
        types = {each.name: each.type for each in step.inputs}
        arguments = Arguments(types, {**operator.defaults, **step.attributes})
        tolerance = operator.tolerance(arguments, own, types[operator.leading].dtype.name)
        found += [(tolerance.of(output), step) for output in step.types]
    relative, largest = (max(figure(each) for each, _ in found) for figure in (_relative, _of_largest))
    rounded: dict[str, Array] = {}
    route: Route | None = None
    for each, step in found:
        if each.route is not None:
            route = each.route
            names = route.inputs or (OPERATORS[step.operator].leading,)
            rounded |= {
                given.name: given.array for given in step.inputs if given.name in names and given.array is not None
            }
    return Limit(Tolerance(relative, largest, route=route), rounded, own)


def _relative(tolerance: Tolerance) -> float:
    return tolerance.relative


def _of_largest(tolerance: Tolerance) -> float:
    return tolerance.of_largest


def judged_program(sent: Sequence[SentCall], tolerance: Tolerance) -> JudgedProgram:
    """Returns the sent call with its definition's results; for several composites, the one with the largest error."""
    first = sent[0]
    if first.operator in COMPOSITES:
        # Attention has products and a softmax, which depends on one of them.
        composites = (each for each in sent if each.operator in COMPOSITES)
        return max((_judged_composite(each, tolerance) for each in composites), key=_error)
    operator = OPERATORS[first.operator]
    truths = zip(operator.returned, arrays_of(define(first.operator, first.inputs, first.attributes)), strict=True)
    outputs = tuple(first.gradients) if len(first.gradients) < len(operator.returned) else ()
    return JudgedProgram.of_call(
        one_step(operator, first.inputs, first.attributes, outputs),
        gradients=first.gradients,
        expected={each.name: truth for each, truth in truths if each.name in first.gradients},
        computed_by=DEFINITION,
        tolerance=tolerance,
    )


def _judged_composite(call: SentCall, tolerance: Tolerance) -> JudgedProgram:
    outputs = COMPOSITES[call.operator].outputs
    wanted = [name in call.gradients for name in outputs]
    program, returned = recorded(call.operator, **call.inputs, **call.attributes, wanted=wanted)
    truths = dict(zip(outputs, DEFINITIONS[call.operator](**call.inputs, **call.attributes), strict=True))

    def by_label(arrays: Mapping[str, Array]) -> dict[str, Array]:
        shapes = {name: program.steps[step].types[output].shape for name, (step, output) in returned.items()}
        return {program.label(each): arrays[name].reshape(shapes[name]) for name, each in returned.items()}

    gradients, expected = by_label(call.gradients), by_label(truths)
    return JudgedProgram(program, tuple(returned.values()), gradients, expected, DEFINITION, tolerance)


def _error(judged: JudgedProgram) -> float:
    """Returns the largest error as a share of the largest value; infinite for NaN."""
    shares = [0.0]
    for label, truth in judged.expected.items():
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(judged.gradients[label].astype(np.float64) - truth)
        share = float(error.max(initial=0.0)) / max(float(np.abs(truth).max(initial=0.0)), 1e-30)
        shares.append(math.inf if math.isnan(share) else share)
    return max(shares)
