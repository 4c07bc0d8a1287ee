"""The rows of the operator table that are gradients of gated units.

Of SwiGLU, devices do not compare grad_output with x, and look at the product of the sizes from dim on where they want
an even one. Of GLU, products but the 950 round bfloat16 after every step.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from aclgrad.errors import Violation
from aclgrad.operators.batch_axes import beside
from aclgrad.operators.families.elementwise.spec import floats, tolerances_of
from aclgrad.operators.rules import equal_sizes, same_dtype
from aclgrad.operators.spec import (
    Arguments,
    AttributeKind,
    AttributeSpec,
    InputSpec,
    OperatorSpec,
    OutputSpec,
    Tolerance,
)
from aclgrad.operators.tolerance import Rule, by_dtype
from aclgrad.products import Product

_RANKS: Final = tuple(range(1, 9))
_ROUNDED: Final = Tolerance(relative=2.5e-2, absolute=3e-2)


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
        shape, dim = arguments.inputs[saved].shape, arguments.int("dim")
        field = f"inputs[{saved}].shape"
        if not -len(shape) <= dim < len(shape):
            remedy = f"send {-len(shape)} to {len(shape) - 1}"
            yield Violation("attributes[dim]", f"is {dim}, and inputs[{saved}] has the shape {shape}", remedy)
        elif shape[dim] % 2:
            yield Violation(field, f"is {shape}, with an odd size at dim {dim}", "send two equal halves")
        elif 0 in shape and not takes_nothing:
            yield Violation(field, f"is {shape}", "send sizes above 0")
        else:
            axis = dim % len(shape)
            halved = (*shape[:axis], shape[axis] // 2, *shape[axis + 1 :])
            have = arguments.inputs["grad_output"].shape
            yield from equal_sizes("inputs[grad_output].shape", have, f"{field} with half of dim {dim}", halved)

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
        attributes=(
            AttributeSpec(
                "dim", "The axis that is halved; negative: counted from the end.", AttributeKind.INT, default=-1
            ),
        ),
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
