"""The rows of the operator table that are gradients of elementwise functions."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np

from aclgrad.errors import Violation
from aclgrad.operators.rules import ZERO, equal_sizes, same_dtype
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
from aclgrad.products import Product

RANKS: Final = tuple(range(9))
_WITH_BFLOAT16: Final = (Product.ATLAS_A2, Product.ATLAS_A3, Product.ASCEND_950)
_TOLERANCES: Final = {
    "float32": Tolerance(relative=4e-6, absolute=1e-6),
    "complex64": Tolerance(relative=4e-6, absolute=1e-6),
    "float16": Tolerance(relative=1e-3, absolute=1e-5),
    "bfloat16": Tolerance(relative=8e-3, absolute=1e-5),
    "float64": Tolerance(relative=1e-13, absolute=1e-13),
    "complex128": Tolerance(relative=1e-13, absolute=1e-13),
}

LARGEST: Final = float(np.finfo(np.float32).max)

Check = Callable[[Arguments, Product], Iterator[Violation]]


def floats(*more: str, without: tuple[Product, ...] = ()) -> dict[Product, tuple[str, ...]]:
    """Returns the products and their dtypes: float32, float16, bfloat16 where there is one, and those of `more`."""
    products = (Product.ATLAS_TRAINING, Product.ATLAS_INFERENCE, *_WITH_BFLOAT16)
    halves = {each: ("float16", "bfloat16") if each in _WITH_BFLOAT16 else ("float16",) for each in products}
    return {each: ("float32", *halves[each], *more) for each in products if each not in without}


def tolerances_of(dtypes: Mapping[Product, tuple[str, ...]]) -> dict[str, Tolerance]:
    """Returns the tolerance of each dtype."""
    return {each: _TOLERANCES[each] for each in dict.fromkeys(sum(dtypes.values(), ()))}


def elementwise_spec(
    name: str,
    summary: str,
    formula: str,
    dtypes: Mapping[Product, tuple[str, ...]],
    *,
    saved: str = "self",
    output: str = "grad_input",
    attributes: tuple[AttributeSpec, ...] = (),
    more: tuple[InputSpec, ...] = (),
    check: Check = lambda *_: iter(()),
    runs_on_nothing: Callable[[Arguments], bool] = lambda _: False,
    is_planned_alone: bool = False,
) -> OperatorSpec:
    """Returns the row of an operator that takes `saved`: `self`, or what the function returned, by its name there.

    All tensors have the same shape and dtype. CANN broadcasts for some operators, and then the result is not the
    gradient of `self` but what would have to be summed for it.
    """
    saving = {"self": "The tensor that the function was applied to.", "output": "What the function returned."}.get(
        saved, "The tensor that the function was applied to, or what it returned."
    )

    def checked(arguments: Arguments, product: Product) -> Iterator[Violation]:
        yield from same_dtype(arguments, saved, "grad_output")
        shapes = {each: arguments.inputs[each].shape for each in (saved, "grad_output")}
        field = "inputs[grad_output].shape"
        yield from equal_sizes(field, shapes["grad_output"], f"inputs[{saved}].shape", shapes[saved])
        yield from check(arguments, product)

    return OperatorSpec(
        name=name,
        symbol=f"aclnn{''.join(map(str.capitalize, name.split('_')))}",
        summary=summary,
        formula=formula,
        inputs=(
            InputSpec(
                "grad_output", f"The gradient of the result, with the shape and dtype of {saved}.", dtypes, RANKS
            ),
            InputSpec(saved, f"{saving} Any shape.", dtypes, RANKS),
            *more,
        ),
        attributes=attributes,
        outputs=(
            OutputSpec(
                output,
                f"The gradient of {'self' if saved == 'self' else 'the input'}, with the shape and dtype of {saved}.",
                lambda arguments: arguments.inputs[saved],
                of="self" if saved == "self" else "input",
            ),
        ),
        check=checked,
        tolerance=by_dtype(tolerances_of(dtypes)),
        runs_on_nothing=runs_on_nothing,
        is_spatial=False,
        is_planned_alone=is_planned_alone,
    )


def number(name: str, summary: str, default: float, minimum: float = -LARGEST) -> AttributeSpec:
    """Returns an attribute that devices round to float32."""
    rounded = f"{summary}; rounded to float32."
    return AttributeSpec(name, rounded, AttributeKind.DOUBLE, default=default, minimum=minimum, maximum=LARGEST)


def _check_result(arguments: Arguments, product: Product) -> Iterator[Violation]:
    alpha = arguments.double("alpha")
    if arguments.attributes["is_result"] and alpha < 0:
        problem = f"is {alpha}, and the result does not tell the sign then"
        yield Violation("attributes[alpha]", problem, "send at least 0")


def _check_bounds(arguments: Arguments, product: Product) -> Iterator[Violation]:
    least, most = arguments.double("min"), arguments.double("max")
    if least > most:
        yield Violation("attributes[min]", f"is {least}, and max is {most}", "send at most max")


def _check_slope(arguments: Arguments, product: Product) -> Iterator[Violation]:
    slope, field = arguments.double("negative_slope"), "attributes[negative_slope]"
    if arguments.attributes["self_is_result"] and slope < 0:
        yield Violation(field, f"is {slope}, and the result does not tell the sign then", "send at least 0")
    if arguments.inputs["self"].dtype.name == "float64" and float(np.float32(slope)) != slope:
        yield Violation(field, f"is {slope}, which devices round to float32", f"send {float(np.float32(slope))}")


def _check_threshold(arguments: Arguments, product: Product) -> Iterator[Violation]:
    threshold = arguments.double("threshold")
    if threshold and abs(np.float32(threshold)) <= ZERO:
        yield Violation("attributes[threshold]", f"is {threshold}, which devices take for 0", "send 0")


SPECS: Final = (
    elementwise_spec(
        "elu_backward",
        "Gives the gradient of ELU, and of CELU and SELU, which are ELU with other numbers.",
        "With a = alpha * scale and s = input_scale: grad_input = grad_output * a * s * exp(self_or_result * s) where "
        "self_or_result <= 0, or with is_result grad_output * s * (self_or_result + a); elsewhere grad_output * scale "
        "(PyTorch: aten::elu_backward).",
        floats(),
        saved="self_or_result",
        attributes=(
            number("alpha", "What negative numbers are multiplied by", 1.0),
            number("scale", "What all results are multiplied by", 1.0),
            number("input_scale", "What negative numbers are multiplied by before the exponential", 1.0),
            AttributeSpec(
                "is_result",
                "Whether self_or_result is what the function returned; alpha is not negative then.",
                AttributeKind.BOOL,
                default=False,
            ),
        ),
        check=_check_result,
    ),
    # CANN's documents say that it is the exact one, but every kernel approximates: the two differ by up to 9e-4 of the
    # gradient. At infinity the 910A and Atlas A3 return NaN.
    elementwise_spec(
        "gelu_backward",
        "Gives the gradient of GELU in the approximation by a hyperbolic tangent.",
        "With u = sqrt(2 / pi) * (self + 0.044715 * self^3) and t = tanh(u): grad_input = grad_output * (0.5 * (1 + t) "
        "+ 0.5 * self * (1 - t^2) * sqrt(2 / pi) * (1 + 0.134145 * self^2)) "
        '(PyTorch: aten::gelu_backward with approximate="tanh").',
        floats(),
    ),
    # Devices compute the exact one by a rational approximation of the error function, each product by another. At
    # infinity some return NaN.
    elementwise_spec(
        "gelu_backward_v2",
        "Gives the gradient of GELU: of the exact one, or of the approximation by a hyperbolic tangent.",
        'With "none": grad_input = grad_output * (Phi(self) + self * phi(self)), where Phi and phi are the '
        'distribution and the density of normal numbers; with "tanh": as gelu_backward (PyTorch: aten::gelu_backward).',
        floats(),
        attributes=(
            AttributeSpec(
                "approximate",
                'The function that was applied: "none", the exact one, or "tanh".',
                AttributeKind.TEXT,
                default="none",
                choices=("none", "tanh"),
            ),
        ),
    ),
    # In float16 devices take 0.16662598 for 1 / 6.
    elementwise_spec(
        "hardsigmoid_backward",
        "Gives the gradient of hard sigmoid, min(max(self + 3, 0), 6) / 6.",
        "out = grad_output / 6 where -3 < self < 3, else 0 (PyTorch: aten::hardsigmoid_backward).",
        floats(),
        output="out",
    ),
    # With a negative number PyTorch lets every gradient pass, and devices all but those at 0.
    elementwise_spec(
        "hardshrink_backward",
        "Gives the gradient of hard shrink, which is 0 near 0.",
        "grad_input = 0 where -lambd <= self <= lambd, else grad_output (PyTorch: aten::hardshrink_backward).",
        floats(without=(Product.ATLAS_INFERENCE,)),
        attributes=(number("lambd", "The largest size of numbers that are taken for 0", 0.5, minimum=0),),
    ),
    # At -3 and 3, where the function has no derivative, the operator takes the slope of the middle, -0.5 and 1.5.
    # PyTorch takes those outside, 0 and 1, since 2.8.
    elementwise_spec(
        "hardswish_backward",
        "Gives the gradient of hard swish, self * min(max(self + 3, 0), 6) / 6.",
        "out = 0 where self < -3, grad_output where self > 3, else grad_output * (self / 3 + 0.5) "
        "(PyTorch: aten::hardswish_backward, but at -3 and 3).",
        floats(without=(Product.ATLAS_INFERENCE,)),
        output="out",
    ),
    # The 910A multiplies by m / (m + 1e-10) with m = (self - max) * (self - min), others but the 950 by 0 or 1: an
    # infinite gradient that does not pass becomes NaN there.
    elementwise_spec(
        "hardtanh_backward",
        "Gives the gradient of what limits numbers to min and max, as hard tanh and ReLU6 do.",
        "out = grad_output where min < self < max or self is NaN, else 0 (PyTorch: aten::hardtanh_backward).",
        floats(),
        output="out",
        attributes=(
            number("min", "The smallest result", -1.0),
            number("max", "The largest result", 1.0),
        ),
        check=_check_bounds,
    ),
    # Devices round the slope to float32 for every dtype, so for float64 it has to be a float32.
    elementwise_spec(
        "leaky_relu_backward",
        "Gives the gradient of leaky ReLU: that of the result, times the slope where the input is not above 0.",
        "out = grad_output where self > 0, else grad_output * negative_slope (PyTorch: aten::leaky_relu_backward).",
        floats("float64"),
        output="out",
        attributes=(
            number("negative_slope", "What the function multiplies negative numbers by", 0.01),
            AttributeSpec(
                "self_is_result",
                "Whether self is what the function returned; the slope is not negative then.",
                AttributeKind.BOOL,
                default=False,
            ),
        ),
        check=_check_slope,
    ),
    elementwise_spec(
        "log_sigmoid_backward",
        "Gives the gradient of the logarithm of the logistic sigmoid.",
        "grad_input = grad_output * sigmoid(-self) (PyTorch: aten::log_sigmoid_backward).",
        floats(),
        more=(
            InputSpec(
                "buffer",
                "What PyTorch's forward function returns beside its result; never read. Any shape.",
                floats(),
                RANKS,
                unread_on=frozenset(Product),
            ),
        ),
        runs_on_nothing=lambda arguments: arguments.inputs["self"].element_count > 0,
    ),
    elementwise_spec(
        "mish_backward",
        "Gives the gradient of Mish, x * tanh(log(1 + exp(x))).",
        "With t = tanh(log(1 + exp(self))): grad_input = grad_output * (t + self * sigmoid(self) * (1 - t^2)) "
        "(PyTorch: aten::mish_backward).",
        floats(),
    ),
    # CANN's operator also takes complex numbers, and multiplies by the conjugate of the derivative; those are not
    # served.
    elementwise_spec(
        "sigmoid_backward",
        "Gives the gradient of the logistic sigmoid.",
        "grad_input = grad_output * (1 - output) * output (PyTorch: aten::sigmoid_backward).",
        floats("float64"),
        saved="output",
    ),
    elementwise_spec(
        "silu_backward",
        "Gives the gradient of SiLU, x * sigmoid(x).",
        "With s = sigmoid(self): grad_input = grad_output * s * (1 + self * (1 - s)) (PyTorch: aten::silu_backward).",
        floats(without=(Product.ATLAS_INFERENCE,)),
    ),
    # CANN's operator also takes integers, and float64, which it computes in float32; those are not served.
    elementwise_spec(
        "softplus_backward",
        "Gives the gradient of softplus, log(1 + exp(beta * self)) / beta, which is linear above a threshold.",
        "grad_input = grad_output where beta * self > threshold, else grad_output * sigmoid(beta * self) "
        "(PyTorch: aten::softplus_backward).",
        floats(without=(Product.ATLAS_INFERENCE,)),
        attributes=(
            number("beta", "What numbers are multiplied by", 1.0),
            number("threshold", "The products above which the function is linear", 20.0),
        ),
    ),
    elementwise_spec(
        "softshrink_backward",
        "Gives the gradient of soft shrink, which is 0 near 0.",
        "grad_input = 0 where -lambd <= self <= lambd, else grad_output (PyTorch: aten::softshrink_backward).",
        floats(),
        attributes=(number("lambd", "The largest size of numbers that become 0", 0.5, minimum=0),),
    ),
    elementwise_spec(
        "tanh_backward",
        "Gives the gradient of the hyperbolic tangent.",
        "grad_input = grad_output * (1 - output^2) (PyTorch: aten::tanh_backward).",
        floats("float64"),
        saved="output",
    ),
    # With 0, the kernels for bfloat16, and those of the 910A, multiply by 0 or 1: an infinite gradient that does not
    # pass becomes NaN there. CANN's operator also takes integers; those are not served.
    elementwise_spec(
        "threshold_backward",
        "Gives the gradient of a threshold: that of the result where the input is above it, and of ReLU with 0.",
        "out = grad_output where self > threshold, else 0; NaN is above (PyTorch: aten::threshold_backward).",
        floats(),
        output="out",
        attributes=(
            AttributeSpec(
                "threshold",
                "The largest number whose gradient is 0; rounded to float32.",
                AttributeKind.DOUBLE,
                minimum=-LARGEST,
                maximum=LARGEST,
            ),
        ),
        check=_check_threshold,
        is_planned_alone=True,
    ),
)
