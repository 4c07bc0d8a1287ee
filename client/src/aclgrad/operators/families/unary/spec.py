"""The rows of the operator table that are functions of the elements of one tensor."""

from collections.abc import Callable, Iterator
from typing import Final

from aclgrad.errors import Violation
from aclgrad.operators.families.binary.spec import INTEGERS, NOT_310P
from aclgrad.operators.families.elementwise.spec import RANKS, floats, number, tolerances_of
from aclgrad.operators.promotion import category
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
from aclgrad.tensors import DTYPES, TensorType

_TOLERANCES: Final = tolerances_of(floats())
_NEITHER: Final = (Product.ATLAS_INFERENCE, Product.ATLAS_TRAINING)


def _same(type: TensorType) -> TensorType:
    return type


def _real(type: TensorType) -> TensorType:
    return type if category(type.dtype) == 2 else TensorType(DTYPES["float32"], type.shape)


def unary_spec(
    name: str,
    summary: str,
    formula: str,
    dtypes: dict[Product, tuple[str, ...]],
    *,
    of: Callable[[TensorType], TensorType] = _same,
    exact: bool = False,
    names: tuple[str, str] = ("self", "out"),
    attributes: tuple[AttributeSpec, ...] = (),
    check: Callable[[Arguments, Product], Iterator[Violation]] = lambda *_: iter(()),
) -> OperatorSpec:
    """Returns the row of a function whose results have the type that `of` returns; `exact` ones are only rounded."""
    input, output = names

    def tolerance(arguments: Arguments, product: Product, _: str) -> Tolerance:
        dtype = of(arguments.inputs[input]).dtype.name
        return EXACT if dtype in INTEGERS else (RESULTS if exact else _TOLERANCES)[dtype]

    return OperatorSpec(
        name=name,
        symbol=f"aclnn{''.join(map(str.capitalize, name.split('_')))}",
        summary=summary,
        formula=formula,
        inputs=(InputSpec(input, "The tensor. Any shape.", dtypes, RANKS),),
        attributes=attributes,
        outputs=(
            OutputSpec(
                output,
                f"The results, with the shape of {input}" + (" and its dtype." if of is _same else "."),
                lambda arguments: of(arguments.inputs[input]),
            ),
        ),
        check=check,
        tolerance=tolerance,
        kind=OperatorKind.VALUE,
        is_spatial=False,
    )


SPECS: Final = (
    # The smallest integer is its own opposite.
    unary_spec(
        "neg",
        "Gives the opposite numbers.",
        "out = -self (PyTorch: aten::neg).",
        floats(*INTEGERS, without=NOT_310P),
        exact=True,
    ),
    unary_spec(
        "abs",
        "Gives the absolute values.",
        "out = |self|; the smallest integer is its own (PyTorch: aten::abs).",
        floats(*INTEGERS),
        exact=True,
    ),
    unary_spec(
        "exp",
        "Gives the exponentials; those of integers are float32.",
        "out = e^self (PyTorch: aten::exp).",
        floats("int64", without=_NEITHER),
        of=_real,
    ),
    unary_spec(
        "log",
        "Gives the natural logarithms; those of integers are float32.",
        "out = ln(self), NaN below 0 and -inf at 0 (PyTorch: aten::log).",
        floats(*INTEGERS, without=_NEITHER),
        of=_real,
    ),
    unary_spec(
        "sqrt",
        "Gives the square roots; those of integers are float32.",
        "out = sqrt(self), NaN below 0 (PyTorch: aten::sqrt).",
        floats(*INTEGERS, without=NOT_310P),
        of=_real,
    ),
    unary_spec(
        "rsqrt",
        "Gives the reciprocals of square roots; those of integers are float32.",
        "out = 1 / sqrt(self), NaN below 0 (PyTorch: aten::rsqrt).",
        floats(*INTEGERS),
        of=_real,
    ),
    unary_spec(
        "reciprocal",
        "Gives the reciprocals; those of integers are float32.",
        "out = 1 / self (PyTorch: aten::reciprocal).",
        floats(*INTEGERS),
        of=_real,
    ),
    unary_spec(
        "relu",
        "Gives the numbers, and 0 for those below 0.",
        "out = max(self, 0) (PyTorch: aten::relu).",
        floats(*INTEGERS, without=NOT_310P),
        exact=True,
    ),
    # The operator without a number approximates, whatever CANN's documents say: this one has a choice.
    unary_spec(
        "gelu_v2",
        "Gives the GELU: the exact one, or the approximation by a hyperbolic tangent.",
        'With "none": y = x * Phi(x), where Phi is the distribution of normal numbers; with "tanh": '
        "y = 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) (PyTorch: aten::gelu).",
        floats(),
        names=("x", "y"),
        attributes=(
            AttributeSpec(
                "approximate",
                'The function: "none", the exact one, or "tanh".',
                AttributeKind.TEXT,
                default="none",
                choices=("none", "tanh"),
                read_as=lambda arguments, _: int(arguments.attributes["approximate"] == "tanh"),
            ),
        ),
    ),
    unary_spec(
        "silu",
        "Gives the SiLU.",
        "out = self * sigmoid(self) (PyTorch: aten::silu).",
        floats(),
    ),
    unary_spec(
        "sigmoid",
        "Gives the logistic sigmoid.",
        "out = 1 / (1 + exp(-self)) (PyTorch: aten::sigmoid).",
        floats(),
    ),
    unary_spec(
        "tanh",
        "Gives the hyperbolic tangent.",
        "out = tanh(self) (PyTorch: aten::tanh).",
        floats(without=NOT_310P),
    ),
    unary_spec(
        "hardswish",
        "Gives the hard swish.",
        "out = self * min(max(self + 3, 0), 6) / 6 (PyTorch: aten::hardswish).",
        floats(without=NOT_310P),
    ),
    unary_spec(
        "leaky_relu",
        "Gives the numbers, and those below 0 times a slope.",
        "out = self where self > 0, else self * negative_slope (PyTorch: aten::leaky_relu).",
        floats(without=NOT_310P),
        attributes=(number("negative_slope", "What negative numbers are multiplied by", 0.01),),
    ),
)
