"""aclnnPreluBackward: the gradients of PReLU, leaky ReLU whose slope is a parameter.

Devices round the products that grad_weight adds up to the dtype.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from aclgrad.errors import Violation
from aclgrad.operators.batch_axes import BatchAxes
from aclgrad.operators.families.elementwise.spec import RANKS, floats, tolerances_of
from aclgrad.operators.rules import equal_sizes, same_dtype
from aclgrad.operators.spec import Arguments, InputSpec, OperatorSpec, OutputSpec, Tolerance
from aclgrad.operators.tolerance import by_dtype, summed
from aclgrad.products import Product

_DTYPES: Final = floats(without=(Product.ATLAS_INFERENCE,))
_UNITS: Final = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    yield from same_dtype(arguments, "self", "grad_output", "weight")
    shapes = {name: each.shape for name, each in arguments.inputs.items()}
    shape, weight = shapes["self"], shapes["weight"]
    yield from equal_sizes("inputs[grad_output].shape", shapes["grad_output"], "inputs[self].shape", shape)
    if math.prod(weight) != 1 and weight != shape[1:2]:
        remedy = f"send (1,) or {shape[1:2]}" if len(shape) > 1 else "send (1,)"
        yield Violation("inputs[weight].shape", f"is {weight}, and inputs[self] has the shape {shape}", remedy)


def _terms(arguments: Arguments) -> float:
    """Returns how many elements share a weight."""
    inputs = arguments.inputs
    return inputs["self"].element_count / max(inputs["weight"].element_count, 1)


def _tolerance(arguments: Arguments, product: Product, dtype: str) -> Tolerance:
    """Allows sums what their rounded terms make, as large as sqrt(terms), twice."""
    plain = summed(by_dtype(tolerances_of(_DTYPES)), _terms, "grad_weight")(arguments, product, dtype)
    of_sums, of_terms = plain.of("grad_weight"), 2 * _UNITS[dtype]
    absolute, share = of_terms * math.sqrt(_terms(arguments)), max(of_sums.of_largest, of_terms)
    weight = replace(of_sums, absolute=max(of_sums.absolute, absolute), share=share)
    return replace(plain, outputs={"grad_weight": weight})


def _batch_axes(arguments: Arguments) -> BatchAxes | None:
    shared = dict.fromkeys(("weight", "grad_weight"))
    return BatchAxes(others=shared) if arguments.inputs["self"].shape else None


SPEC = OperatorSpec(
    name="prelu_backward",
    symbol="aclnnPreluBackward",
    summary="Gives the gradients of PReLU, which multiplies negative numbers by the weight of their channel.",
    formula=(
        "grad_input = grad_output where self > 0, else grad_output * weight; grad_weight = the sum of grad_output * "
        "self where self is not above 0, over all but channels (PyTorch: aten::_prelu_kernel_backward, and its sum)."
    ),
    inputs=(
        InputSpec("grad_output", "The gradient of the result, with the shape and dtype of self.", _DTYPES, RANKS),
        InputSpec("self", "The tensor that the function was applied to: channels are its second axis.", _DTYPES, RANKS),
        InputSpec("weight", "The slopes of negative numbers: one for all, or one for each channel.", _DTYPES, (0, 1)),
    ),
    attributes=(),
    outputs=(
        OutputSpec("grad_input", "The gradient of self, with its shape and dtype.", lambda given: given.inputs["self"]),
        OutputSpec(
            "grad_weight",
            "The gradient of weight, with its shape and dtype.",
            lambda given: given.inputs["weight"],
            of="weight",
        ),
    ),
    check=_check,
    tolerance=_tolerance,
    is_spatial=False,
    batch_axes=_batch_axes,
)
