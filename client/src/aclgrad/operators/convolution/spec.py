"""aclnnConvolution: convolutions and transposed convolutions.

CANN compares all sizes. Its documents leave out the 910A, where its code runs. A product may refuse large kernels,
paddings and strides, as for the gradients. Where operands are rounded to FLOAT16, results are, too.
"""

from collections.abc import Iterator
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
from aclgrad.operators.routes import FLOAT16
from aclgrad.operators.rules import first_problem, same_dtype
from aclgrad.operators.spec import Arguments, InputSpec, OperatorKind, OperatorSpec, OutputSpec
from aclgrad.operators.tolerance import of_products
from aclgrad.products import Product
from aclgrad.tensors import TensorType

_DTYPES: Final = floats(without=(Product.ATLAS_TRAINING,))
_MOST_BEYOND: Final = 255
"""Positions that taps of a transposed convolution may reach beyond its padding, except on the 950."""


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    found = tuple(
        first_problem(
            same_dtype(arguments, *arguments.inputs),
            check_ranks(arguments, product, "input", "weight"),
            check_lengths(arguments),
        )
    )
    yield from found
    if not found:
        geometry = geometry_of(arguments)
        yield from first_problem(
            check_channels(geometry),
            check_output_padding(geometry),
            check_has_result(geometry),
            _check_bias(arguments, geometry),
            _check_emptiness(geometry),
            _check_reach(geometry, product),
        )
    yield from check_mode(arguments, product, "input")


def _check_bias(arguments: Arguments, geometry: Geometry) -> Iterator[Violation]:
    channels = geometry.result[1]
    if "bias" in arguments.inputs and (shape := arguments.inputs["bias"].shape) != (channels,):
        problem = f"is {shape}, and the result has {channels} channels"
        yield Violation("inputs[bias].shape", problem, f"send ({channels},), or leave it out")


def _check_emptiness(geometry: Geometry) -> Iterator[Violation]:
    """Devices make nothing of nothing, where the result would be the bias; transposed, without a batch alone."""
    is_transposed_nothing = geometry.transposed and 0 in geometry.input[1:]
    if is_transposed_nothing or (0 not in geometry.result and 0 in (*geometry.input, *geometry.weight)):
        yield Violation("inputs[input].shape", f"is {geometry.input}, with no elements", "send sizes of at least 1")


def _check_reach(geometry: Geometry, product: Product) -> Iterator[Violation]:
    if not geometry.transposed or product is Product.ASCEND_950 or 0 in geometry.result:
        return
    axes = tuple(zip(geometry.kernel, geometry.dilation, geometry.padding, strict=True))
    beyond = [(k - 1) * d - p for k, d, p in (axes[1:] if len(axes) == 3 else axes)]
    field, kernel = "inputs[weight].shape", f"has a kernel of {geometry.kernel}"
    if max(beyond) > _MOST_BEYOND:
        problem = f"{kernel}, which reaches {max(beyond)} positions beyond the padding"
        yield Violation(field, problem, f"send at most {_MOST_BEYOND} to product {product}")
    elif len(axes) == 3 and min(beyond) < 0:
        problem = f"{kernel}, and the padding {geometry.padding} reaches beyond it"
        yield Violation(field, problem, f"send less padding to product {product}")


def _is_rounded_again(arguments: Arguments, product: Product, dtype: str) -> bool:
    return precision_of(arguments, product, dtype) is FLOAT16


def _terms(arguments: Arguments) -> int:
    return geometry_of(arguments).terms_of_result + ("bias" in arguments.inputs)


def _output(arguments: Arguments) -> TensorType:
    return TensorType(arguments.inputs["input"].dtype, geometry_of(arguments).result)


def _operations(arguments: Arguments) -> float:
    """Reads all inputs, and brings together what products are made of, which few channels use."""
    geometry = geometry_of(arguments)
    results = max(geometry.weight[1] if geometry.transposed else geometry.weight[0] // geometry.groups, 1)
    return sum(each.element_count for each in arguments.inputs.values()) + geometry.products / results


SPEC = OperatorSpec(
    name="convolution",
    symbol="aclnnConvolution",
    summary="Convolves along one, two or three axes, also transposed, with or without a bias.",
    formula=(
        f"{FORMULA} (PyTorch: aten::convolution). Padding is multiplied as zeros are. On 310P operands of float32 are "
        "rounded to FLOAT16, see `cube_math_type`, and there are no three axes."
    ),
    inputs=(
        InputSpec("input", "The input, shape (N, channels, sizes...).", _DTYPES, RANKS),
        InputSpec("weight", f"{WEIGHT}, dtype of `input`.", _DTYPES, RANKS),
        InputSpec("bias", "The bias, shape (output channels,), dtype of `input`.", _DTYPES, (1,), is_optional=True),
    ),
    attributes=(*ATTRIBUTES, CUBE_MATH_TYPE),
    outputs=(OutputSpec("output", "The result, shape (N, output channels, sizes...), dtype of `input`.", _output),),
    check=_check,
    tolerance=of_products(_terms, ("input", "weight", "bias"), precision_of, _is_rounded_again),
    kind=OperatorKind.VALUE,
    operations=_operations,
    matrix_operations=lambda arguments: 2.0 * geometry_of(arguments).products,
    batch_axes=lambda _: BatchAxes(others=dict.fromkeys(("weight", "bias"))),
)
