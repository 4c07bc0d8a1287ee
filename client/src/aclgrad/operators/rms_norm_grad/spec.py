"""aclnnRmsNormGrad: the gradients of root mean square normalisation.

CANN generates this operator. Its kernels take no empty rows, but for those of the 950, and on 310P no last size below
32 bytes.
"""

import math
from collections.abc import Iterator
from typing import Final

from aclgrad.errors import Violation
from aclgrad.operators.batch_axes import BatchAxes
from aclgrad.operators.rules import equal_sizes, first_problem, one_value_each, same_dtype
from aclgrad.operators.spec import Arguments, InputSpec, OperatorSpec, OutputSpec, Tolerance
from aclgrad.operators.tolerance import by_dtype, summed
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType

_WITH_BFLOAT16: Final = (Product.ATLAS_A2, Product.ATLAS_A3, Product.ASCEND_950)
_DTYPES: Final = {
    Product.ATLAS_INFERENCE: ("float32", "float16"),
    **dict.fromkeys(_WITH_BFLOAT16, ("float32", "float16", "bfloat16")),
}
_FLOAT32: Final = dict.fromkeys(_DTYPES, ("float32",))
_RANKS: Final = tuple(range(1, 9))
LEAST_BYTES: Final = 32
"""Of the last axis, on 310P."""


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    yield from _check_dtypes(arguments, product)
    yield from first_problem(_check_shapes(arguments), _check_sizes(arguments, product))


def _check_dtypes(arguments: Arguments, product: Product) -> Iterator[Violation]:
    yield from same_dtype(arguments, "grad_output", "input")
    if product not in _WITH_BFLOAT16 or arguments.inputs["gamma"].dtype is not DTYPES["float32"]:
        yield from same_dtype(arguments, "grad_output", "gamma")


def _check_shapes(arguments: Arguments) -> Iterator[Violation]:
    grad_output, shape, gamma = (arguments.inputs[each].shape for each in ("grad_output", "input", "gamma"))
    yield from equal_sizes("inputs[grad_output].shape", grad_output, "inputs[input].shape", shape)
    if gamma != shape[-len(gamma) :]:
        problem = f"is {gamma}, but inputs[input] has the shape {shape}"
        yield Violation("inputs[gamma].shape", problem, "send the last sizes of that shape")
        return
    leading = shape[: -len(gamma)]
    yield from one_value_each(arguments, "rstd", leading, f"rows {leading} of {gamma}", ones=len(gamma), flat=False)


def _check_sizes(arguments: Arguments, product: Product) -> Iterator[Violation]:
    type, gamma = arguments.inputs["input"], arguments.inputs["gamma"].shape
    if math.prod(gamma) == 0 or (0 in type.shape and product is not Product.ASCEND_950):
        yield Violation("inputs[input].shape", f"is {type.shape}", "send no empty tensor")
    elif product is Product.ATLAS_INFERENCE and type.shape[-1] * type.dtype.numpy.itemsize < LEAST_BYTES:
        problem = f"is {type.shape}, and this product takes a last size of {LEAST_BYTES} bytes"
        least = LEAST_BYTES // type.dtype.numpy.itemsize
        yield Violation("inputs[input].shape", problem, f"send a last size of at least {least}")


def _grad_gamma(arguments: Arguments) -> TensorType:
    return TensorType(DTYPES["float32"], arguments.inputs["gamma"].shape)


def _rows(arguments: Arguments) -> float:
    shape = arguments.inputs["input"].shape
    return float(math.prod(shape[: len(shape) - len(arguments.inputs["gamma"].shape)]))


def _batch_axes(arguments: Arguments) -> BatchAxes | None:
    rows = len(arguments.inputs["input"].shape) - len(arguments.inputs["gamma"].shape)
    return BatchAxes(others={"gamma": None, "dgamma": None}) if rows else None


SPEC = OperatorSpec(
    name="rms_norm_grad",
    symbol="aclnnRmsNormGrad",
    summary="Gives the gradients of root mean square normalisation: of the input and of gamma.",
    formula=(
        "With x = input * rstd and g = grad_output * gamma: dx = rstd * (g - x * mean(g * x)), where mean() is over "
        "the sizes of gamma; dgamma is the sum over all rows of grad_output * x "
        "(PyTorch: aten::_fused_rms_norm_backward)."
    ),
    inputs=(
        InputSpec("grad_output", "The gradient of the normalised tensor, with its shape and dtype.", _DTYPES, _RANKS),
        InputSpec("input", "The tensor that was normalised, whose last sizes are those of gamma.", _DTYPES, _RANKS),
        InputSpec(
            "rstd",
            "1 / sqrt(mean square + eps) of each row, with the sizes of the input before those of gamma, and 1 for any "
            "of the others.",
            _FLOAT32,
            tuple(range(9)),
        ),
        InputSpec(
            "gamma",
            "What the normalised rows were multiplied by: float32 (not on 310P), or the dtype of input.",
            _DTYPES,
            _RANKS,
        ),
    ),
    attributes=(),
    outputs=(
        OutputSpec(
            "dx",
            "The gradient of input, with its shape and dtype.",
            lambda arguments: arguments.inputs["input"],
            of="input",
        ),
        OutputSpec("dgamma", "The gradient of gamma: float32, with its shape.", _grad_gamma, of="gamma"),
    ),
    check=_check,
    tolerance=summed(
        by_dtype(
            {
                "float32": Tolerance(relative=1e-4, absolute=1e-4),
                # Devices round input * rstd before they multiply and add up.
                "float16": Tolerance(relative=2e-3, absolute=2e-3),
                "bfloat16": Tolerance(relative=1.6e-2, absolute=1.6e-2),
            }
        ),
        _rows,
        "dgamma",
    ),
    is_spatial=False,
    batch_axes=_batch_axes,
)
