"""The rows of the operator table that are functions of the elements of a tensor and of a number.

Devices but the 950 round the number to the tensor's type first, so numbers that would become something else are
refused: larger ones than the type has, and in comparisons all that it does not hold.
"""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from aclgrad.errors import Violation
from aclgrad.operators.families.binary.spec import INTEGERS, NOT_310P
from aclgrad.operators.families.elementwise.spec import LARGEST, RANKS, floats
from aclgrad.operators.promotion import category, holds, with_number
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

_UNITS: Final = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
_LEAST_FLOAT16: Final = 2.0**-14
_MOST_DIVISOR: Final = 2.0**126

Check = Callable[[Arguments, Product], Iterator[Violation]]
Rule = Callable[[Arguments], DType]


def _with_other(arguments: Arguments) -> DType:
    return with_number(arguments.inputs["self"].dtype, arguments.scalar("other"))


def _quotient(arguments: Arguments) -> DType:
    dtype = arguments.inputs["self"].dtype
    return dtype if category(dtype) == 2 else DTYPES["float32"]


def _power(arguments: Arguments) -> DType:
    return with_number(arguments.inputs["self"].dtype, arguments.scalar("exponent"))


def _own(arguments: Arguments) -> DType:
    return arguments.inputs["self"].dtype


def _bool(arguments: Arguments) -> DType:
    return DTYPES["bool"]


def scalar(name: str, summary: str, *, optional: bool = False, default: int | None = None) -> AttributeSpec:
    """Returns an attribute that may be a number, an integer or a bool."""
    kind = AttributeKind.SCALAR
    return AttributeSpec(name, summary, kind, default=default, minimum=-LARGEST, maximum=LARGEST, is_optional=optional)


_OTHER: Final = scalar("other", "The number; a float is rounded to float32.")


def scalar_spec(
    name: str,
    summary: str,
    formula: str,
    dtypes: dict[Product, tuple[str, ...]],
    attributes: tuple[AttributeSpec, ...],
    *,
    dtype: Rule,
    check: Check,
    error: Callable[[Arguments, str], float] = lambda *_: 0.0,
    relative: Callable[[Arguments, str], float] = lambda *_: 0.0,
) -> OperatorSpec:
    """Returns the row of a function whose results have the type that `dtype` returns.

    `error` and `relative` return what the number's own rounding to the type adds to that of the result.
    """

    def tolerance(arguments: Arguments, product: Product, _: str) -> Tolerance:
        result = dtype(arguments).name
        plain = RESULTS.get(result, EXACT)
        if plain is EXACT:
            return plain
        absolute = plain.absolute + error(arguments, result)
        return Tolerance(plain.relative + relative(arguments, result), absolute, plain.absolute)

    return OperatorSpec(
        name=name,
        symbol=f"aclnn{''.join(map(str.capitalize, name.split('_')))}",
        summary=summary,
        formula=formula,
        inputs=(InputSpec("self", "The tensor. Any shape.", dtypes, RANKS),),
        attributes=attributes,
        outputs=(
            OutputSpec(
                "out",
                "The results, with the shape of self.",
                lambda arguments: TensorType(dtype(arguments), arguments.inputs["self"].shape),
            ),
        ),
        check=check,
        tolerance=tolerance,
        kind=OperatorKind.VALUE,
        is_spatial=False,
    )


def _in_range(arguments: Arguments, product: Product, *names: str) -> Iterator[Violation]:
    """No number overflows the type that it is rounded to."""
    dtype = arguments.inputs["self"].dtype
    for name in names:
        number = arguments.attributes[name]
        if not isinstance(number, (float, int)):
            continue
        if isinstance(number, float) and category(dtype) < 2:
            continue
        if category(dtype) == 2:
            with np.errstate(over="ignore"):
                fits = bool(np.isfinite(np.asarray(float(number)).astype(dtype.numpy)))
        else:
            fits = holds(dtype, number)
        if not fits:
            yield Violation(f"attributes[{name}]", f"is {number}, which overflows {dtype}", "send a smaller number")


def _check_sum(arguments: Arguments, product: Product) -> Iterator[Violation]:
    yield from _in_range(arguments, product, "other", "alpha")
    alpha, other = arguments.scalar("alpha"), arguments.scalar("other")
    if category(_with_other(arguments)) < 2 and isinstance(alpha, float):
        yield Violation("attributes[alpha]", f"is {alpha}, and the results are integers", "send an integer")
    dtype = arguments.inputs["self"].dtype
    if category(dtype) == 2:
        with np.errstate(over="ignore"):
            if not np.isfinite(np.asarray(float(alpha) * float(other)).astype(dtype.numpy)):
                yield Violation("attributes[alpha]", f"is {alpha}, which times other overflows {dtype}", "send less")


def _check_product(arguments: Arguments, product: Product) -> Iterator[Violation]:
    yield from _in_range(arguments, product, "other")
    number = arguments.scalar("other")
    if arguments.inputs["self"].dtype.name == "float16" and 0 < abs(number) < _LEAST_FLOAT16:
        problem = f"is {number}, of which float16 has few digits or none"
        yield Violation("attributes[other]", problem, f"send 0, or at least {_LEAST_FLOAT16}")


def _check_divisor(arguments: Arguments, product: Product) -> Iterator[Violation]:
    number = arguments.scalar("other")
    if isinstance(number, float) and number and not 1 / _MOST_DIVISOR <= abs(number) <= _MOST_DIVISOR:
        problem = f"is {number}, whose reciprocal devices may take for 0 or infinity"
        yield Violation("attributes[other]", problem, "send 0, or a number between 2^-126 and 2^126 in size")


def _check_power(arguments: Arguments, product: Product) -> Iterator[Violation]:
    exponent = arguments.scalar("exponent")
    yield from _in_range(arguments, product, "exponent")
    if category(_power(arguments)) < 2 and exponent < 0:
        yield Violation("attributes[exponent]", f"is {exponent}, and the results are integers", "send at least 0")


def _check_limits(arguments: Arguments, product: Product) -> Iterator[Violation]:
    given = {name: arguments.attributes[name] for name in ("clip_value_min", "clip_value_max")}
    if all(each is None for each in given.values()):
        yield Violation("attributes[clip_value_min]", "is missing, and so is clip_value_max", "send one of them")
    is_integer = category(arguments.inputs["self"].dtype) < 2
    for name, number in given.items():
        if is_integer and isinstance(number, float):
            yield Violation(f"attributes[{name}]", f"is {number}, and self is of integers", "send an integer")
    yield from _in_range(arguments, product, *given)


def _check_comparison(arguments: Arguments, product: Product) -> Iterator[Violation]:
    number, dtype = arguments.scalar("other"), arguments.inputs["self"].dtype
    if not holds(dtype, number):
        problem = f"is {number}, which {dtype} does not hold, so devices compare with another number"
        remedy = f"send {_nearest(number, dtype)}" if category(dtype) == 2 else "send an integer that it holds"
        yield Violation("attributes[other]", problem, remedy)


def _nearest(number: float, dtype: DType) -> float:
    """Returns what the dtype holds in the place of a number; 0 for one beyond its range."""
    with np.errstate(over="ignore"):
        nearest = float(np.asarray(float(min(max(number, -LARGEST), LARGEST))).astype(dtype.numpy))
    return nearest if abs(nearest) <= LARGEST else 0.0


def _comparison(name: str, words: str, sign: str, aten: str, *, everywhere: bool = True) -> OperatorSpec:
    return scalar_spec(
        name,
        f"Says where a tensor is {words} a number.",
        f"out = self {sign} other (PyTorch: aten::{aten}.Scalar).",
        floats(*INTEGERS, without=() if everywhere else NOT_310P),
        (_OTHER,),
        dtype=_bool,
        check=_check_comparison,
    )


SPECS: Final = (
    scalar_spec(
        "adds",
        "Adds a number to a tensor; integers and a float make float32.",
        "out = self + alpha * other (PyTorch: aten::add.Scalar).",
        floats(*INTEGERS),
        (_OTHER, scalar("alpha", "What other is multiplied by: an integer for integers.", default=1)),
        dtype=_with_other,
        check=_check_sum,
        error=lambda arguments, dtype: 2 * abs(arguments.scalar("other") * arguments.scalar("alpha")) * _UNITS[dtype],
    ),
    scalar_spec(
        "muls",
        "Multiplies a tensor by a number; integers and a float make float32.",
        "out = self * other (PyTorch: aten::mul.Scalar).",
        floats(*INTEGERS),
        (_OTHER,),
        dtype=_with_other,
        check=_check_product,
        relative=lambda _, dtype: _UNITS[dtype],
    ),
    # The 950 multiplies by the reciprocal.
    scalar_spec(
        "divs",
        "Divides a tensor by a number; quotients of integers are float32.",
        "out = self / other (PyTorch: aten::div.Scalar).",
        floats(*INTEGERS, without=NOT_310P),
        (_OTHER,),
        dtype=_quotient,
        check=_check_divisor,
        relative=lambda *_: 2.0**-23,
    ),
    scalar_spec(
        "pow_tensor_scalar",
        "Raises a tensor to a power; integers and a float make float32.",
        "out = self^exponent (PyTorch: aten::pow.Tensor_Scalar).",
        floats(*INTEGERS),
        (scalar("exponent", "The exponent; not negative if the results are integers."),),
        dtype=_power,
        check=_check_power,
        # In 16 bits float32 hides behind the rounding of the exponent.
        relative=lambda arguments, dtype: (
            (1 + abs(arguments.scalar("exponent"))) * 4 * _UNITS[dtype] if dtype == "float32" else _UNITS[dtype]
        ),
    ),
    scalar_spec(
        "clamp",
        "Limits the numbers of a tensor; NaN stays NaN.",
        "out = min(max(self, clip_value_min), clip_value_max) (PyTorch: aten::clamp).",
        floats(*INTEGERS),
        (
            scalar("clip_value_min", "The smallest result; none if it is left out.", optional=True),
            scalar("clip_value_max", "The largest result; none if it is left out.", optional=True),
        ),
        dtype=_own,
        check=_check_limits,
    ),
    _comparison("gt_scalar", "greater than", ">", "gt"),
    _comparison("ge_scalar", "at least", ">=", "ge"),
    _comparison("lt_scalar", "less than", "<", "lt", everywhere=False),
    _comparison("le_scalar", "at most", "<=", "le"),
    _comparison("eq_scalar", "equal to", "==", "eq", everywhere=False),
)
