"""The rows of the operator table that are functions of the elements of two tensors.

Devices compute in the type that the inputs are promoted to, where a scalar counts as much as any other tensor, and
convert the result. CANN also takes complex numbers, float64 and smaller integers, which partly go to the host's
processor; those are not served.
"""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from aclgrad.errors import Violation
from aclgrad.operators.families.elementwise.spec import LARGEST, RANKS, floats
from aclgrad.operators.promotion import category, result_dtype
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
from aclgrad.operators.tolerance import EXACT, RESULTS
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, DType, TensorType

NOT_310P: Final = (Product.ATLAS_INFERENCE,)
INTEGERS: Final = ("int32", "int64")
_UNITS: Final = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}

Rule = Callable[[Arguments], DType]


def _shape(arguments: Arguments, names: tuple[str, ...]) -> tuple[int, ...]:
    return np.broadcast_shapes(*(arguments.inputs[each].shape for each in names))


def _promoted(arguments: Arguments) -> DType:
    return result_dtype(arguments.inputs["self"], arguments.inputs["other"])


def _divided(arguments: Arguments) -> DType:
    dtype = _promoted(arguments)
    return dtype if category(dtype) == 2 else DTYPES["float32"]


def broadcast_spec(
    name: str,
    summary: str,
    formula: str,
    dtypes: dict[Product, tuple[str, ...]],
    *,
    others: dict[Product, tuple[str, ...]] | None = None,
    dtype: Rule = _promoted,
    condition: bool = False,
    alpha: bool = False,
) -> OperatorSpec:
    """Returns the row of a function of `self` and `other`, whose results have the type that `dtype` returns.

    With a `condition`, that is the first input. With `alpha`, the second tensor is multiplied by it.
    """
    names = ("condition", "self", "other") if condition else ("self", "other")

    def check(arguments: Arguments, product: Product) -> Iterator[Violation]:
        shapes = [arguments.inputs[each].shape for each in names]
        try:
            np.broadcast_shapes(*shapes)
        except ValueError:
            *others, last = names
            beside = " and ".join(f"inputs[{each}] is {arguments.inputs[each].shape}" for each in others)
            remedy = "send sizes that are equal, or 1, from the last on"
            yield Violation(f"inputs[{last}].shape", f"is {shapes[-1]}, and {beside}", remedy)
        if alpha:
            yield from _check_alpha(arguments, dtype(arguments).name)

    def tolerance(arguments: Arguments, product: Product, _: str) -> Tolerance:
        result = dtype(arguments).name
        plain = RESULTS.get(result, EXACT)
        scale = abs(arguments.scalar("alpha")) if alpha else 1.0
        if scale == 1.0 or result not in _UNITS:
            return plain
        # The product is rounded to the type, too; samples are below 8.
        return Tolerance(plain.relative, plain.absolute + 8 * scale * _UNITS[result], plain.absolute)

    inputs = [
        InputSpec("self", "The first tensor. Any shape that broadcasts.", dtypes, RANKS),
        InputSpec("other", "The second one, of any of the types. Any shape that broadcasts.", others or dtypes, RANKS),
    ]
    if condition:
        kinds = dict.fromkeys(dtypes, ("bool", "uint8"))
        inputs.insert(0, InputSpec("condition", "Where to take self. Any shape that broadcasts.", kinds, RANKS))
    scaled = AttributeSpec(
        "alpha",
        "What other is multiplied by: an integer for integers.",
        AttributeKind.SCALAR,
        default=1,
        minimum=-LARGEST,
        maximum=LARGEST,
    )
    return OperatorSpec(
        name=name,
        symbol=f"aclnn{''.join(map(str.capitalize, name.split('_')))}",
        summary=summary,
        formula=formula,
        inputs=tuple(inputs),
        attributes=(scaled,) if alpha else (),
        outputs=(
            OutputSpec(
                "out",
                "The results, with the shape that the inputs are broadcast to.",
                lambda arguments: TensorType(dtype(arguments), _shape(arguments, names)),
            ),
        ),
        check=check,
        tolerance=tolerance,
        kind=OperatorKind.VALUE,
        leading="self",
        is_spatial=False,
        batch_axes=lambda _: None,
    )


def _check_alpha(arguments: Arguments, result: str) -> Iterator[Violation]:
    alpha = arguments.scalar("alpha")
    if result in INTEGERS and (isinstance(alpha, float) or not -(2**31) <= alpha < 2**31):
        yield Violation("attributes[alpha]", f"is {alpha}, and the result is {result}", "send an integer of 32 bits")


_NUMBERS: Final = (*INTEGERS, "bool")

SPECS: Final = (
    # Integers wrap, as PyTorch's do.
    broadcast_spec(
        "add",
        "Adds up two tensors, of which the second one is multiplied by a number.",
        "out = self + alpha * other (PyTorch: aten::add.Tensor).",
        floats(*INTEGERS, without=NOT_310P),
        others=floats(*_NUMBERS, without=NOT_310P),
        alpha=True,
    ),
    broadcast_spec(
        "sub",
        "Subtracts the second tensor, multiplied by a number, from the first one.",
        "out = self - alpha * other (PyTorch: aten::sub.Tensor).",
        floats(*INTEGERS, without=NOT_310P),
        alpha=True,
    ),
    broadcast_spec(
        "mul",
        "Multiplies two tensors, of which the second one may be a mask.",
        "out = self * other (PyTorch: aten::mul.Tensor).",
        floats(*INTEGERS),
        others=floats(*_NUMBERS),
    ),
    # Devices divide integers as float32 numbers.
    broadcast_spec(
        "div",
        "Divides the first tensor by the second one: quotients of integers are float32.",
        "out = self / other (PyTorch: aten::div.Tensor).",
        floats(*INTEGERS, without=NOT_310P),
        dtype=_divided,
    ),
    broadcast_spec(
        "maximum",
        "Gives the larger one of two elements, and NaN where one is NaN.",
        "out = max(self, other) (PyTorch: aten::maximum).",
        floats(*INTEGERS),
    ),
    broadcast_spec(
        "minimum",
        "Gives the smaller one of two elements, and NaN where one is NaN.",
        "out = min(self, other) (PyTorch: aten::minimum).",
        floats(*INTEGERS),
    ),
    broadcast_spec(
        "s_where",
        "Takes elements of the first tensor where a condition holds, and of the second one elsewhere.",
        "out = self where condition is not 0, else other (PyTorch: aten::where.self).",
        floats(*_NUMBERS),
        condition=True,
    ),
    broadcast_spec(
        "eq_tensor",
        "Says where two tensors are equal.",
        "out = self == other (PyTorch: aten::eq.Tensor).",
        floats(*_NUMBERS),
        dtype=lambda _: DTYPES["bool"],
    ),
    broadcast_spec(
        "gt_tensor",
        "Says where the first tensor is greater than the second one.",
        "out = self > other (PyTorch: aten::gt.Tensor).",
        floats(*_NUMBERS),
        dtype=lambda _: DTYPES["bool"],
    ),
)
