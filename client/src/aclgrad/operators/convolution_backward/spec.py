"""aclnnConvolutionBackward: the gradients of a convolution.

CANN compares neither the batches, nor the spatial sizes of one and two axes, nor the bounds of `output_padding` with
less than three; a device would then read and write elsewhere. So all sizes must be those of the forward pass. A product
may refuse large kernels, paddings, dilations and strides: the documents of Atlas A2 and A3 promise up to 255, and
strides up to 63 along three axes.

Away from the 950, the gradient of a grouped weight passes through FLOAT16 where operands do: see `_weight_rule`. With
three axes and groups, Atlas A2 and A3 refuse it.
"""

from collections.abc import Callable, Iterator
from typing import Final

from aclgrad.errors import Violation
from aclgrad.operators.batch_axes import BatchAxes
from aclgrad.operators.cube_math_type import CUBE_MATH_TYPE, check_mode, precision_of
from aclgrad.operators.families.convolution.geometry import Geometry
from aclgrad.operators.families.convolution.spec import (
    ATTRIBUTES,
    FORMULA,
    RANKS,
    WEIGHT,
    check_channels,
    check_has_result,
    check_lengths,
    check_output_padding,
    check_ranks,
    geometry_of,
)
from aclgrad.operators.families.elementwise.spec import floats
from aclgrad.operators.routes import FLOAT16, FLOAT32
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
from aclgrad.operators.tolerance import of_products
from aclgrad.products import Product
from aclgrad.tensors import TensorType

_DTYPES: Final = floats()
_ALL: Final = ("grad_output", "input", "weight")


def _geometry_of(arguments: Arguments) -> Geometry:
    return geometry_of(arguments, arguments.inputs["grad_output"].shape)


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    found = tuple(
        first_problem(
            same_dtype(arguments, *_ALL),
            check_ranks(arguments, product, *_ALL),
            check_lengths(arguments),
        )
    )
    yield from found
    if not found:
        geometry = _geometry_of(arguments)
        yield from first_problem(
            _check_channels(arguments, geometry),
            check_output_padding(geometry, is_by_stride=len(geometry.kernel) == 3),
            check_has_result(geometry),
            equal_sizes(
                "inputs[grad_output].shape", geometry.result, "the result of the convolution", geometry.own_result
            ),
            _check_emptiness(geometry),
        )
        yield from _check_half(arguments, product, geometry)
    yield from check_mode(arguments, product, "grad_output")


def _check_channels(arguments: Arguments, geometry: Geometry) -> Iterator[Violation]:
    yield from check_channels(geometry)
    sizes, channels = arguments.attributes["bias_sizes"], geometry.result[1:2]
    if sizes is not None and sizes != channels:
        remedy = f"send {channels}, or leave it out"
        yield Violation("attributes[bias_sizes]", f"is {sizes}, not the channels of inputs[grad_output]", remedy)


def _check_emptiness(geometry: Geometry) -> Iterator[Violation]:
    """Devices take no gradient of the bias where the input is empty, and it would not be 0."""
    if 0 not in geometry.result and 0 in (*geometry.input, *geometry.weight):
        yield Violation("inputs[input].shape", f"is {geometry.input}, with no elements", "send sizes of at least 1")


def _check_half(arguments: Arguments, product: Product, geometry: Geometry) -> Iterator[Violation]:
    if product is Product.ASCEND_950 or len(geometry.kernel) < 3 or not arguments.wants("grad_weight"):
        return
    if _passes_through_half(arguments, product, arguments.inputs["grad_output"].dtype.name):
        problem = f"rounds to FLOAT16, with which product {product} has no gradient of a grouped weight"
        yield Violation("attributes[cube_math_type]", problem, "send 0 or 3, or leave it out")


def _passes_through_half(arguments: Arguments, product: Product, dtype: str) -> bool:
    is_rounded = dtype == "float32" and precision_of(arguments, product, dtype) is FLOAT16
    return is_rounded and product is not Product.ASCEND_950 and arguments.int("groups") > 1


def _terms(of: Callable[[Geometry], int]) -> Callable[[Arguments], int]:
    return lambda arguments: of(_geometry_of(arguments))


_INPUT_RULE: Final = of_products(_terms(lambda each: each.terms_of_input), ("grad_output", "weight"), precision_of)
_WEIGHT_RULE: Final = of_products(
    _terms(lambda each: each.terms_of_weight), ("grad_output", "input"), precision_of, _passes_through_half
)
_BIAS_RULE: Final = of_products(_terms(lambda each: each.terms_of_bias), ("grad_output",), lambda *_: FLOAT32)
"""The bias's gradient is a sum of what was not rounded, in every mode."""


def _tolerance(arguments: Arguments, product: Product, dtype: str) -> Tolerance:
    of_input, of_weight, of_bias = (rule(arguments, product, dtype) for rule in (_INPUT_RULE, _WEIGHT_RULE, _BIAS_RULE))
    outputs = {"grad_input": of_input, "grad_weight": of_weight, "grad_bias": of_bias}
    return Tolerance(of_input.relative, of_input.absolute, of_input.share, outputs=outputs)


def _matrix_operations(arguments: Arguments) -> float:
    wanted = sum(map(arguments.wants, ("grad_input", "grad_weight")))
    return 2.0 * _geometry_of(arguments).products * wanted


def _operations(arguments: Arguments) -> float:
    """Reads all inputs, and brings together what products are made of, which few channels use."""
    geometry = _geometry_of(arguments)
    small, big = (max(size, 1) for size in (geometry.weight[0] // geometry.groups, geometry.weight[1]))
    of_input, of_weight = (float(arguments.wants(each)) for each in ("grad_input", "grad_weight"))
    patches = geometry.products * (of_input / (small if geometry.transposed else big) + of_weight / small)
    return sum(each.element_count for each in arguments.inputs.values()) + patches


def _grad_bias(arguments: Arguments) -> TensorType:
    grad_output = arguments.inputs["grad_output"]
    return TensorType(grad_output.dtype, grad_output.shape[1:2])


SPEC = OperatorSpec(
    name="convolution_backward",
    symbol="aclnnConvolutionBackward",
    summary="Computes the gradients of a convolution, also of a transposed one: of its input, its weight and its bias.",
    formula=(
        f"A convolution is {FORMULA}. grad_input and grad_weight are the sums that follow, grad_bias[o] is the sum of "
        "grad_output[:, o] (PyTorch: aten::convolution_backward). Padding is multiplied as zeros are. On 310P and 910A "
        "operands of float32 are rounded to FLOAT16, see `cube_math_type`, and there are no three axes."
    ),
    inputs=(
        InputSpec("grad_output", "The gradient of the result, shape (N, channels, sizes...).", _DTYPES, RANKS),
        InputSpec(
            "input",
            "The input, shape (N, channels, sizes...), dtype of `grad_output`.",
            _DTYPES,
            RANKS,
            of_outputs=("grad_weight",),
        ),
        InputSpec(
            "weight",
            f"{WEIGHT}, dtype of `grad_output`.",
            _DTYPES,
            RANKS,
            of_outputs=("grad_input",),
        ),
    ),
    attributes=(
        AttributeSpec(
            "bias_sizes",
            "The shape of the bias, (channels of `grad_output`,); may be left out.",
            AttributeKind.INTS,
            lengths=(1,),
            minimum=0,
            is_optional=True,
        ),
        *ATTRIBUTES,
        CUBE_MATH_TYPE,
    ),
    outputs=(
        OutputSpec(
            "grad_input", "Shape of `input`.", lambda arguments: arguments.inputs["input"], "input", is_nullable=True
        ),
        OutputSpec(
            "grad_weight",
            "Shape of `weight`.",
            lambda arguments: arguments.inputs["weight"],
            "weight",
            is_nullable=True,
        ),
        OutputSpec("grad_bias", "Shape (channels of `grad_output`,).", _grad_bias, "bias", is_nullable=True),
    ),
    check=_check,
    tolerance=_tolerance,
    operations=_operations,
    matrix_operations=_matrix_operations,
    batch_axes=lambda _: BatchAxes(others=dict.fromkeys(("weight", "grad_weight", "grad_bias"))),
)
