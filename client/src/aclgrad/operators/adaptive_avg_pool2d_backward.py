"""aclnnAdaptiveAvgPool2dBackward: the gradient of adaptive average pooling over the last two dimensions."""

from collections.abc import Iterator

from aclgrad.errors import Violation
from aclgrad.operators.rules import same_dtype, same_leading_sizes
from aclgrad.operators.spec import Arguments, InputSpec, OperatorSpec, OutputSpec, Tolerance, case, same_on
from aclgrad.products import Product
from aclgrad.tensors import TensorType

_DTYPES = {
    **same_on((Product.ATLAS_INFERENCE, Product.ATLAS_TRAINING), ("float32", "float16")),
    **same_on((Product.ATLAS_A2, Product.ATLAS_A3, Product.ASCEND_950), ("float32", "float16", "bfloat16")),
}
_RANKS = (3, 4)


def _check(arguments: Arguments) -> Iterator[Violation]:
    yield from same_dtype(arguments, "grad_output", "self")
    yield from same_leading_sizes(arguments, "grad_output", "self", trailing=2)


def _out(arguments: Arguments) -> TensorType:
    return arguments.inputs["self"]


SPEC = OperatorSpec(
    name="adaptive_avg_pool2d_backward",
    symbol="aclnnAdaptiveAvgPool2dBackward",
    summary="Spreads the gradient of each pooled cell evenly over the cells that were averaged into it.",
    formula=(
        "Output cell (i, j) averaged the rows floor(i*H/oH) up to ceil((i+1)*H/oH) and the columns alike; each of "
        "these cells receives grad_output[i, j] divided by their number, and overlapping windows add up "
        "(PyTorch: aten::_adaptive_avg_pool2d_backward)."
    ),
    inputs=(
        InputSpec(
            "grad_output",
            "The gradient of the pooled tensor, shape (N, C, oH, oW) or (C, oH, oW); any oH and oW.",
            _DTYPES,
            _RANKS,
        ),
        InputSpec(
            "self",
            "The tensor that was pooled, shape (N, C, H, W) or (C, H, W); only its shape and dtype matter.",
            _DTYPES,
            _RANKS,
            unread_on=frozenset({Product.ATLAS_A2, Product.ATLAS_A3}),
        ),
    ),
    attributes=(),
    output=OutputSpec("out", "The gradient of `self`, with its shape and dtype.", _out),
    check=_check,
    tolerances={
        "float32": Tolerance(relative=1e-5, absolute=1e-6),
        "float16": Tolerance(relative=1e-3, absolute=1e-4),
        "bfloat16": Tolerance(relative=8e-3, absolute=1e-4),
    },
    cases=(
        case("even", grad_output=(2, 3, 7, 7), input=(2, 3, 56, 56)),
        case("overlapping", grad_output=(2, 3, 5, 3), input=(2, 3, 7, 8)),
        case("larger_output", grad_output=(2, 2, 9, 11), input=(2, 2, 4, 5)),
        case("same_size", grad_output=(1, 2, 6, 5), input=(1, 2, 6, 5)),
        case("global", grad_output=(3, 4, 1, 1), input=(3, 4, 13, 9)),
        case("rank3", grad_output=(5, 3, 4), input=(5, 10, 9)),
        case("one_cell", grad_output=(1, 1, 1, 1), input=(1, 1, 1, 1)),
        case("one_row", grad_output=(2, 3, 1, 7), input=(2, 3, 1, 31)),
        case("one_column", grad_output=(2, 3, 7, 1), input=(2, 3, 31, 1)),
        case("tall_windows", grad_output=(1, 4, 1, 9), input=(1, 4, 24, 9)),
        case("one_larger_axis", grad_output=(1, 3, 13, 2), input=(1, 3, 5, 8)),
        case("many_planes", grad_output=(6, 29, 2, 2), input=(6, 29, 5, 5)),
        case("prime_sizes", grad_output=(1, 17, 11, 13), input=(1, 17, 29, 31)),
        case("empty_batch", grad_output=(0, 3, 2, 2), input=(0, 3, 4, 4)),
        case("empty_output", grad_output=(1, 2, 0, 3), input=(1, 2, 4, 4)),
        case("empty_input", grad_output=(1, 2, 3, 3), input=(1, 2, 0, 4)),
    ),
)
