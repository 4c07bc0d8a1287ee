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
from aclgrad.operators.convolution_backward.geometry import Geometry, for_axes
from aclgrad.operators.cube_math_type import CUBE_MATH_TYPE, HALVING, check_mode, precision_of
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
_RANKS: Final = (3, 4, 5)
_LENGTHS: Final = (1, 2, 3)
_LARGEST: Final = 2**31 - 1
_LISTS: Final = ("stride", "padding", "dilation", "output_padding")
_ALL: Final = ("grad_output", "input", "weight")


def geometry_of(arguments: Arguments) -> Geometry:
    """Returns the geometry of arguments of the right ranks and lengths."""
    shapes = {name: arguments.inputs[name].shape for name in _ALL}
    lists = {name: arguments.ints(name) for name in _LISTS}
    return Geometry.of(**shapes, **lists, transposed=_is_transposed(arguments), groups=arguments.int("groups"))


def _is_transposed(arguments: Arguments) -> bool:
    return bool(arguments.attributes["transposed"])


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    found = tuple(
        first_problem(
            same_dtype(arguments, *_ALL),
            _check_ranks(arguments, product),
            _check_lengths(arguments),
        )
    )
    yield from found
    if not found:
        geometry = geometry_of(arguments)
        yield from first_problem(
            _check_channels(arguments, geometry),
            _check_output_padding(geometry),
            _check_sizes(geometry),
            _check_emptiness(geometry),
        )
        yield from _check_half(arguments, product, geometry)
    yield from check_mode(arguments, product, "grad_output")


def _check_ranks(arguments: Arguments, product: Product) -> Iterator[Violation]:
    rank = arguments.inputs["grad_output"].rank
    for name in _ALL[1:]:
        if (other := arguments.inputs[name].rank) != rank:
            problem = f"has {other} dimensions, and inputs[grad_output] has {rank}"
            yield Violation(f"inputs[{name}].shape", problem, "send as many, a batch of one included")
    if product in HALVING and rank == max(_RANKS):
        problem = f"has {rank} dimensions, and product {product} has no convolution along three axes"
        yield Violation("inputs[grad_output].shape", problem, "send 3 or 4 sizes")


def _check_lengths(arguments: Arguments) -> Iterator[Violation]:
    axes = arguments.inputs["grad_output"].rank - 2
    for name in _LISTS:
        if (length := len(arguments.ints(name))) not in (1, axes):
            remedy = f"send {axes}, one for each spatial axis" if axes == 1 else f"send 1, or {axes}, one for each axis"
            yield Violation(f"attributes[{name}]", f"has {length} values", remedy)


def _check_channels(arguments: Arguments, geometry: Geometry) -> Iterator[Violation]:
    input, weight, grad_output = geometry.input, geometry.weight, geometry.grad_output
    (small_name, big_name) = ("input", "grad_output") if geometry.transposed else ("grad_output", "input")
    if weight[0] % geometry.groups:
        problem = f"is {weight}, whose first size {geometry.groups} groups do not divide"
        yield Violation("inputs[weight].shape", problem, "send a multiple of groups as the first size")
    elif weight[0] != geometry.small[1]:
        problem = f"is {weight}, and inputs[{small_name}] has {geometry.small[1]} channels"
        yield Violation("inputs[weight].shape", problem, "send the number of these channels as the first size")
    elif weight[1] * geometry.groups != geometry.big[1]:
        problem = f"is {weight}, and inputs[{big_name}] has {geometry.big[1]} channels in {geometry.groups} groups"
        yield Violation("inputs[weight].shape", problem, "send the channels of one group as the second size")
    elif input[0] != grad_output[0]:
        problem = f"has a batch of {input[0]}, and inputs[grad_output] one of {grad_output[0]}"
        yield Violation("inputs[input].shape", problem, "send equal batches")
    elif 0 in geometry.kernel:
        yield Violation("inputs[weight].shape", f"is {weight}, without a kernel", "send sizes of at least 1")
    sizes = arguments.attributes["bias_sizes"]
    if sizes is not None and sizes != grad_output[1:2]:
        remedy = f"send ({grad_output[1]},), or leave it out"
        yield Violation("attributes[bias_sizes]", f"is {sizes}, not the channels of inputs[grad_output]", remedy)


def _check_output_padding(geometry: Geometry) -> Iterator[Violation]:
    axes = tuple(zip(geometry.output_padding, geometry.stride, geometry.dilation, strict=True))
    if not geometry.transposed:
        if any(geometry.output_padding):
            problem = f"is {geometry.output_padding}, and the convolution is not transposed"
            yield Violation("attributes[output_padding]", problem, "send 0")
    elif any(more >= (s if len(axes) == 3 else max(s, d)) for more, s, d in axes):
        bound = "the stride" if len(axes) == 3 else "the larger of stride and dilation"
        yield Violation("attributes[output_padding]", f"is {geometry.output_padding}", f"send less than {bound}")


def _check_sizes(geometry: Geometry) -> Iterator[Violation]:
    sizes = geometry.output_sizes
    if min(sizes) < 1:
        problem = f"is {geometry.input}, which the kernel {geometry.kernel} makes results of {sizes} of"
        yield Violation("inputs[input].shape", problem, "send larger sizes or more padding")
        return
    expected = (geometry.input[0], geometry.output_channels, *sizes)
    yield from equal_sizes("inputs[grad_output].shape", geometry.grad_output, "the result of the convolution", expected)


def _check_emptiness(geometry: Geometry) -> Iterator[Violation]:
    """Devices take no gradient of the bias where the input is empty, and it would not be 0."""
    if 0 not in geometry.grad_output and 0 in (*geometry.input, *geometry.weight):
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
    return lambda arguments: of(geometry_of(arguments))


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
    return 2.0 * geometry_of(arguments).products * wanted


def _operations(arguments: Arguments) -> float:
    """Reads all inputs, and brings together what products are made of, which few channels use."""
    geometry = geometry_of(arguments)
    small, big = (max(size, 1) for size in (geometry.weight[0] // geometry.groups, geometry.weight[1]))
    of_input, of_weight = (float(arguments.wants(each)) for each in ("grad_input", "grad_weight"))
    patches = geometry.products * (of_input / (small if geometry.transposed else big) + of_weight / small)
    return sum(each.element_count for each in arguments.inputs.values()) + patches


def _on_axes(name: str) -> Callable[[Arguments, Product], tuple[int, ...]]:
    """CANN takes no shorter lists."""
    return lambda arguments, _: for_axes(arguments.ints(name), arguments.inputs["grad_output"].rank - 2)


def _list(name: str, summary: str, default: int, minimum: int) -> AttributeSpec:
    return AttributeSpec(
        name,
        f"{summary} One value for each spatial axis, or one for all.",
        AttributeKind.INTS,
        lengths=_LENGTHS,
        default=(default,),
        minimum=minimum,
        maximum=_LARGEST,
        read_as=_on_axes(name),
    )


def _grad_bias(arguments: Arguments) -> TensorType:
    grad_output = arguments.inputs["grad_output"]
    return TensorType(grad_output.dtype, grad_output.shape[1:2])


SPEC = OperatorSpec(
    name="convolution_backward",
    symbol="aclnnConvolutionBackward",
    summary="Computes the gradients of a convolution, also of a transposed one: of its input, its weight and its bias.",
    formula=(
        "A convolution is result[n, o, q] = bias[o] + sum over c, k of input[n, c, q * stride - padding + k * dilation]"
        " * weight[o, c, k], along one, two or three axes, o and c within each of the groups; with `transposed`, input "
        "and result change places. grad_input and grad_weight are the sums that follow, grad_bias[o] is the sum of "
        "grad_output[:, o] (PyTorch: aten::convolution_backward). Padding is multiplied as zeros are. On 310P and 910A "
        "operands of float32 are rounded to FLOAT16, see `cube_math_type`, and there are no three axes."
    ),
    inputs=(
        InputSpec("grad_output", "The gradient of the result, shape (N, channels, sizes...).", _DTYPES, _RANKS),
        InputSpec(
            "input",
            "The input, shape (N, channels, sizes...), dtype of `grad_output`.",
            _DTYPES,
            _RANKS,
            of_outputs=("grad_weight",),
        ),
        InputSpec(
            "weight",
            "The weight, shape (output channels, input channels / groups, kernel...), of a transposed convolution "
            "(input channels, output channels / groups, kernel...), dtype of `grad_output`.",
            _DTYPES,
            _RANKS,
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
        _list("stride", "Steps between windows.", 1, 1),
        _list("padding", "Zeros on both sides.", 0, 0),
        _list("dilation", "Steps between the cells of a window.", 1, 1),
        AttributeSpec("transposed", "The convolution is a transposed one.", AttributeKind.BOOL, default=False),
        _list("output_padding", "Further cells of a transposed one's result.", 0, 0),
        AttributeSpec(
            "groups",
            "Groups of channels that are convolved apart.",
            AttributeKind.INT,
            default=1,
            minimum=1,
            maximum=_LARGEST,
        ),
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
