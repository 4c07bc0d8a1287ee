"""What the rows of the operator table that are convolutions or their gradients share."""

from collections.abc import Callable, Iterator
from typing import Final

from aclgrad.errors import Violation
from aclgrad.operators.cube_math_type import HALVING
from aclgrad.operators.families.convolution.geometry import Geometry, Shape, for_axes
from aclgrad.operators.spec import Arguments, AttributeKind, AttributeSpec
from aclgrad.products import Product

RANKS: Final = (3, 4, 5)
_LENGTHS: Final = (1, 2, 3)
_LARGEST: Final = 2**31 - 1
_LISTS: Final = ("stride", "padding", "dilation", "output_padding")


def geometry_of(arguments: Arguments, result: Shape | None = None) -> Geometry:
    """Returns the geometry of arguments of the right ranks and lengths; the result is its own unless it is given."""
    shapes = {name: arguments.inputs[name].shape for name in ("input", "weight")}
    lists = {name: arguments.ints(name) for name in _LISTS}
    transposed = bool(arguments.attributes["transposed"])
    return Geometry.of(**shapes, result=result, **lists, transposed=transposed, groups=arguments.int("groups"))


def check_ranks(arguments: Arguments, product: Product, reference: str, *others: str) -> Iterator[Violation]:
    """The other inputs have as many dimensions as the reference, and the product has convolutions along their axes."""
    rank = arguments.inputs[reference].rank
    for name in others:
        if (other := arguments.inputs[name].rank) != rank:
            problem = f"has {other} dimensions, and inputs[{reference}] has {rank}"
            yield Violation(f"inputs[{name}].shape", problem, "send as many, a batch of one included")
    if product in HALVING and rank == max(RANKS):
        problem = f"has {rank} dimensions, and product {product} has no convolution along three axes"
        yield Violation(f"inputs[{reference}].shape", problem, "send 3 or 4 sizes")


def check_lengths(arguments: Arguments) -> Iterator[Violation]:
    """Lists have one value, or one for each spatial axis."""
    axes = arguments.inputs["weight"].rank - 2
    for name in _LISTS:
        if (length := len(arguments.ints(name))) not in (1, axes):
            remedy = f"send {axes}, one for each spatial axis" if axes == 1 else f"send 1, or {axes}, one for each axis"
            yield Violation(f"attributes[{name}]", f"has {length} values", remedy)


def check_channels(geometry: Geometry) -> Iterator[Violation]:
    """The weight leads from the channels of the input to those of the result, which is grad_output if it is sent."""
    input, weight, result = geometry.input, geometry.weight, geometry.result
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
    elif input[0] != result[0]:
        problem = f"has a batch of {input[0]}, and inputs[grad_output] one of {result[0]}"
        yield Violation("inputs[input].shape", problem, "send equal batches")
    elif 0 in geometry.kernel:
        yield Violation("inputs[weight].shape", f"is {weight}, without a kernel", "send sizes of at least 1")


def check_output_padding(geometry: Geometry, *, is_by_stride: bool = False) -> Iterator[Violation]:
    """It is below the stride or the dilation, or below the stride alone."""
    axes = tuple(zip(geometry.output_padding, geometry.stride, geometry.dilation, strict=True))
    if not geometry.transposed:
        if any(geometry.output_padding):
            problem = f"is {geometry.output_padding}, and the convolution is not transposed"
            yield Violation("attributes[output_padding]", problem, "send 0")
    elif any(more >= (s if is_by_stride else max(s, d)) for more, s, d in axes):
        bound = "the stride" if is_by_stride else "the larger of stride and dilation"
        yield Violation("attributes[output_padding]", f"is {geometry.output_padding}", f"send less than {bound}")


def check_has_result(geometry: Geometry) -> Iterator[Violation]:
    """There is a result, of sizes above 0."""
    sizes = geometry.output_sizes
    if min(sizes) < 1:
        problem = f"is {geometry.input}, which the kernel {geometry.kernel} makes results of {sizes} of"
        yield Violation("inputs[input].shape", problem, "send larger sizes or more padding")


def _on_axes(name: str) -> Callable[[Arguments, Product], tuple[int, ...]]:
    """CANN takes no shorter lists."""
    return lambda arguments, _: for_axes(arguments.ints(name), arguments.inputs["weight"].rank - 2)


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


ATTRIBUTES: Final = (
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
)
FORMULA: Final = (
    "result[n, o, q] = bias[o] + sum over c, k of input[n, c, q * stride - padding + k * dilation] * weight[o, c, k], "
    "along one, two or three axes, o and c within each of the groups; with `transposed`, input and result change places"
)
WEIGHT: Final = (
    "The weight, shape (output channels, input channels / groups, kernel...), of a transposed convolution (input "
    "channels, output channels / groups, kernel...)"
)
