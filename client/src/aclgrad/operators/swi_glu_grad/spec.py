"""aclnnSwiGluGrad: the gradient of SwiGLU.

Devices do not compare grad_output with x, and look at the product of the sizes from dim on where they want an even one.
"""

from collections.abc import Iterator
from typing import Final

from aclgrad.errors import Violation
from aclgrad.operators.batch_axes import beside
from aclgrad.operators.families.elementwise.spec import floats, tolerances_of
from aclgrad.operators.rules import equal_sizes, same_dtype
from aclgrad.operators.spec import Arguments, AttributeKind, AttributeSpec, InputSpec, OperatorSpec, OutputSpec
from aclgrad.operators.tolerance import by_dtype
from aclgrad.products import Product

_DTYPES: Final = floats(without=(Product.ATLAS_TRAINING,))
_RANKS: Final = tuple(range(1, 9))


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    yield from same_dtype(arguments, "x", "grad_output")
    shape, dim = arguments.inputs["x"].shape, arguments.int("dim")
    if not -len(shape) <= dim < len(shape):
        remedy = f"send {-len(shape)} to {len(shape) - 1}"
        yield Violation("attributes[dim]", f"is {dim}, and inputs[x] has the shape {shape}", remedy)
    elif shape[dim] % 2:
        yield Violation("inputs[x].shape", f"is {shape}, with an odd size at dim {dim}", "send two equal halves")
    elif 0 in shape:
        yield Violation("inputs[x].shape", f"is {shape}", "send sizes above 0")
    else:
        axis = dim % len(shape)
        halved = (*shape[:axis], shape[axis] // 2, *shape[axis + 1 :])
        field, have = "inputs[grad_output].shape", arguments.inputs["grad_output"].shape
        yield from equal_sizes(field, have, f"inputs[x].shape with half of dim {dim}", halved)


SPEC = OperatorSpec(
    name="swi_glu_grad",
    symbol="aclnnSwiGluGrad",
    summary="Gives the gradient of SwiGLU, SiLU(A) * B, where A and B are the halves of x along dim.",
    formula=(
        "With s = sigmoid(A): the first half of out is grad_output * B * s * (1 + A * (1 - s)), the second "
        "grad_output * A * s (PyTorch: the gradient of silu(a) * b with a, b = x.chunk(2, dim))."
    ),
    inputs=(
        InputSpec("grad_output", "The gradient of the result, shaped as x with half of dim.", _DTYPES, _RANKS),
        InputSpec("x", "The tensor that the function was applied to: A, then B, along dim.", _DTYPES, _RANKS),
    ),
    attributes=(
        AttributeSpec("dim", "The axis that is halved; negative: counted from the end.", AttributeKind.INT, default=-1),
    ),
    outputs=(
        OutputSpec(
            "out", "The gradient of x, with its shape and dtype.", lambda arguments: arguments.inputs["x"], of="x"
        ),
    ),
    check=_check,
    tolerance=by_dtype(tolerances_of(_DTYPES)),
    is_spatial=False,
    batch_axes=beside("dim"),
)
