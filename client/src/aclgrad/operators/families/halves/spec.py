"""The rows of the operator table that are gated units and their gradients.

Of the gradient of SwiGLU, devices do not compare grad_output with x, and look at the product of the sizes from dim on
where they want an even one. Of GLU, products but the 950 round bfloat16 after every step.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Final

from aclgrad.errors import Violation
from aclgrad.operators.batch_axes import beside
from aclgrad.operators.families.elementwise.spec import floats, tolerances_of
from aclgrad.operators.rules import equal_sizes, first_problem, same_dtype
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
from aclgrad.operators.tolerance import Rule, by_dtype
from aclgrad.products import Product
from aclgrad.tensors import TensorType

_RANKS: Final = tuple(range(1, 9))
_ROUNDED: Final = Tolerance(relative=2.5e-2, absolute=3e-2)


_DIM: Final = AttributeSpec(
    "dim", "The axis that is halved; negative: counted from the end.", AttributeKind.INT, default=-1
)
ALIGNED_BYTES: Final = 64
"""What divides the bytes of half of x from dim on, on 310P."""


def _halved(arguments: Arguments, name: str) -> TensorType:
    type, dim = arguments.inputs[name], arguments.int("dim")
    return TensorType(
        type.dtype, tuple(size // (1 + (axis == dim % type.rank)) for axis, size in enumerate(type.shape))
    )


def _check_halves(arguments: Arguments, name: str) -> Iterator[Violation]:
    shape, dim = arguments.inputs[name].shape, arguments.int("dim")
    if not -len(shape) <= dim < len(shape):
        remedy = f"send {-len(shape)} to {len(shape) - 1}"
        yield Violation("attributes[dim]", f"is {dim}, and inputs[{name}] has the shape {shape}", remedy)
    elif shape[dim] % 2:
        problem = f"is {shape}, with an odd size at dim {dim}"
        yield Violation(f"inputs[{name}].shape", problem, "send two equal halves")


def _check_elements(arguments: Arguments, name: str, takes_nothing: bool) -> Iterator[Violation]:
    shape = arguments.inputs[name].shape
    if 0 in shape and not takes_nothing:
        yield Violation(f"inputs[{name}].shape", f"is {shape}", "send sizes above 0")


def _check_grad(arguments: Arguments, saved: str) -> Iterator[Violation]:
    of = f"inputs[{saved}].shape with half of dim {arguments.int('dim')}"
    have = arguments.inputs["grad_output"].shape
    yield from equal_sizes("inputs[grad_output].shape", have, of, _halved(arguments, saved).shape)


def halves_spec(
    name: str,
    symbol: str,
    summary: str,
    formula: str,
    dtypes: Mapping[Product, tuple[str, ...]],
    *,
    saved: str,
    tolerance: Rule,
    takes_nothing: bool,
) -> OperatorSpec:
    """Returns the row of an operator that takes both halves as `saved`; empty ones only if it `takes_nothing`."""

    def check(arguments: Arguments, product: Product) -> Iterator[Violation]:
        yield from same_dtype(arguments, saved, "grad_output")
        yield from first_problem(
            _check_halves(arguments, saved),
            _check_elements(arguments, saved, takes_nothing),
            _check_grad(arguments, saved),
        )

    return OperatorSpec(
        name=name,
        symbol=symbol,
        summary=summary,
        formula=formula,
        inputs=(
            InputSpec(
                "grad_output", f"The gradient of the result, shaped as {saved} with half of dim.", dtypes, _RANKS
            ),
            InputSpec(saved, "The tensor that the function was applied to: A, then B, along dim.", dtypes, _RANKS),
        ),
        attributes=(_DIM,),
        outputs=(
            OutputSpec(
                "out",
                f"The gradient of {saved}, with its shape and dtype.",
                lambda arguments: arguments.inputs[saved],
                of=saved,
            ),
        ),
        check=check,
        tolerance=tolerance,
        is_spatial=False,
        batch_axes=beside("dim"),
    )


_GLU: Final = floats("float64")
_SWI_GLU: Final = floats(without=(Product.ATLAS_TRAINING,))


def _check_bytes(arguments: Arguments, product: Product) -> Iterator[Violation]:
    type, dim = arguments.inputs["x"], arguments.int("dim")
    nbytes = math.prod(type.shape[dim % type.rank :]) // 2 * type.dtype.itemsize
    if product is Product.ATLAS_INFERENCE and nbytes % ALIGNED_BYTES:
        problem = f"is {type.shape}, whose halves have {nbytes} bytes from dim {dim} on"
        yield Violation("inputs[x].shape", problem, f"send halves of a multiple of {ALIGNED_BYTES} bytes")


_SWI_GLU_VALUE: Final = OperatorSpec(
    name="swi_glu",
    symbol="aclnnSwiGlu",
    summary="Gives SwiGLU, SiLU(A) * B, where A and B are the halves of x along dim.",
    formula="out = A * sigmoid(A) * B (PyTorch: silu(a) * b with a, b = x.chunk(2, dim)).",
    inputs=(InputSpec("x", "The tensor: A, then B, along dim.", _SWI_GLU, _RANKS),),
    attributes=(_DIM,),
    outputs=(
        OutputSpec(
            "out", "The result, shaped as x with half of dim, with its dtype.", lambda given: _halved(given, "x")
        ),
    ),
    check=lambda arguments, product: first_problem(_check_halves(arguments, "x"), _check_bytes(arguments, product)),
    tolerance=by_dtype(tolerances_of(_SWI_GLU)),
    kind=OperatorKind.VALUE,
    is_spatial=False,
    batch_axes=beside("dim"),
)

SPECS: Final = (
    halves_spec(
        "glu_backward",
        "aclnnGluBackward",
        "Gives the gradient of GLU, A * sigmoid(B), where A and B are the halves of self along dim.",
        "With s = sigmoid(B): the first half of out is grad_output * s, the second grad_output * A * s * (1 - s) "
        "(PyTorch: aten::glu_backward).",
        _GLU,
        saved="self",
        tolerance=by_dtype(
            tolerances_of(_GLU),
            {(product, "bfloat16"): _ROUNDED for product in (Product.ATLAS_A2, Product.ATLAS_A3)},
        ),
        takes_nothing=True,
    ),
    _SWI_GLU_VALUE,
    halves_spec(
        "swi_glu_grad",
        "aclnnSwiGluGrad",
        "Gives the gradient of SwiGLU, SiLU(A) * B, where A and B are the halves of x along dim.",
        "With s = sigmoid(A): the first half of out is grad_output * B * s * (1 + A * (1 - s)), the second "
        "grad_output * A * s (PyTorch: the gradient of silu(a) * b with a, b = x.chunk(2, dim)).",
        _SWI_GLU,
        saved="x",
        tolerance=by_dtype(tolerances_of(_SWI_GLU)),
        takes_nothing=False,
    ),
)
