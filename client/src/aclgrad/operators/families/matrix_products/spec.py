"""The rows of the operator table that are matrix products.

Devices do not compare the shape of `matmul`'s output, so the server makes it. An operand that is transposed is a view,
which they read as it is. Other modes than `cube_math_type` 0 to 3 are internal to CANN, or crash.
"""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from aclgrad.errors import Violation
from aclgrad.operators.batch_axes import BatchAxes
from aclgrad.operators.cube_math_type import CUBE_MATH_TYPE, check_mode, precision_of
from aclgrad.operators.families.elementwise.spec import LARGEST, floats
from aclgrad.operators.rules import ZERO, first_problem, same_dtype
from aclgrad.operators.spec import (
    Arguments,
    AttributeKind,
    AttributeSpec,
    InputSpec,
    OperatorKind,
    OperatorSpec,
    OutputSpec,
)
from aclgrad.operators.tolerance import of_products
from aclgrad.products import Product
from aclgrad.tensors import TensorType

Check = Callable[[Arguments], Iterator[Violation]]
Shape = tuple[int, ...]

_DTYPES: Final = floats()
_RANKS: Final = tuple(range(1, 7))


def product_shape(one: Shape, other: Shape) -> Shape:
    """Returns the shape of a product of these, as numpy's `matmul`; raises ValueError if there is none."""
    rows, columns = one[-2:-1], other[-1:] if len(other) > 1 else ()
    return (*np.broadcast_shapes(one[:-2], other[:-2]), *rows, *columns)


def _lengths(one: Shape, other: Shape) -> tuple[int, int]:
    """Returns how many elements of each operand a sum has."""
    return one[-1], other[-2] if len(other) > 1 else other[0]


def _operands(arguments: Arguments, names: tuple[str, str]) -> tuple[Shape, Shape]:
    return arguments.inputs[names[0]].shape, arguments.inputs[names[1]].shape


def _check_lengths(arguments: Arguments, names: tuple[str, str]) -> Iterator[Violation]:
    one, other = _operands(arguments, names)
    have, want = _lengths(one, other)
    if have != want:
        problem = f"is {other}, and the last size of inputs[{names[0]}] is {have}"
        axis = "the second to last size" if len(other) > 1 else "the size"
        yield Violation(f"inputs[{names[1]}].shape", problem, f"send {have} as {axis}, or a transposed view")


def _check_batches(arguments: Arguments) -> Iterator[Violation]:
    one, other = _operands(arguments, ("self", "mat2"))
    try:
        np.broadcast_shapes(one[:-2], other[:-2])
    except ValueError:
        problem = f"is {other}, whose batch does not broadcast with that of inputs[self], {one}"
        yield Violation("inputs[mat2].shape", problem, "send equal sizes, or 1, in front of the last two")


def _check_addend(arguments: Arguments) -> Iterator[Violation]:
    wanted, own = _out_of_addmm(arguments).shape, arguments.inputs["self"].shape
    fits = [size in (1, each) for size, each in zip(own[::-1], wanted[::-1], strict=False)]
    if not all(fits):
        yield Violation("inputs[self].shape", f"is {own}, and the product is {wanted}", f"send {wanted}, or sizes of 1")
    for name in ("alpha", "beta"):
        if 0 < abs(factor := arguments.double(name)) <= ZERO:
            yield Violation(f"attributes[{name}]", f"is {factor}, which devices take for 0", "send 0")
        elif abs(factor) > LARGEST:
            yield Violation(f"attributes[{name}]", f"is {factor}, beyond float32", "send a smaller number")


def _batch_axes(arguments: Arguments) -> BatchAxes | None:
    """Products of batches join; those of matrices would have other terms, or sums in another order."""
    shapes = {name: each.shape for name, each in arguments.inputs.items()}
    ranks = {len(shape) for shape in shapes.values()}
    if len(ranks) > 1 or max(ranks) < 3:
        return None
    repeated = [name for name, shape in shapes.items() if shape[0] == 1]
    return BatchAxes(others=dict.fromkeys(repeated) if len(repeated) == 1 else {})


def _out_of_addmm(arguments: Arguments) -> TensorType:
    one, other = _operands(arguments, ("mat1", "mat2"))
    return TensorType(arguments.inputs["mat1"].dtype, (one[0], other[1]))


def _out_of_product(arguments: Arguments) -> TensorType:
    one, other = _operands(arguments, ("self", "mat2"))
    return TensorType(arguments.inputs["self"].dtype, product_shape(one, other))


def product_spec(
    name: str,
    symbol: str,
    summary: str,
    formula: str,
    inputs: tuple[InputSpec, ...],
    out: OutputSpec,
    *checks: Check,
    attributes: tuple[AttributeSpec, ...] = (),
    runs_on_nothing: Callable[[Arguments], bool] = lambda _: False,
) -> OperatorSpec:
    """Returns the row of a product of its last two inputs, which an addend may come before."""
    names = inputs[-2].name, inputs[-1].name

    def check(arguments: Arguments, product: Product) -> Iterator[Violation]:
        yield from first_problem(
            same_dtype(arguments, *(each.name for each in inputs)),
            _check_lengths(arguments, names),
            *(each(arguments) for each in checks),
        )
        yield from check_mode(arguments, product, inputs[0].name)

    def terms(arguments: Arguments) -> int:
        return _lengths(*_operands(arguments, names))[0]

    return OperatorSpec(
        name=name,
        symbol=symbol,
        summary=summary,
        formula=formula,
        inputs=inputs,
        attributes=(*attributes, CUBE_MATH_TYPE),
        outputs=(out,),
        check=check,
        tolerance=of_products(terms, tuple(each.name for each in inputs), precision_of),
        kind=OperatorKind.VALUE,
        matrix_operations=lambda arguments: 2.0 * out.infer(arguments).element_count * terms(arguments),
        runs_on_nothing=runs_on_nothing,
        is_spatial=False,
        batch_axes=_batch_axes,
    )


def _matrices(*names: str, ranks: tuple[int, ...] = (2,), of: str = "A matrix") -> tuple[InputSpec, ...]:
    return tuple(InputSpec(name, f"{of}, {place}.", _DTYPES, ranks) for name, place in zip(names, _PLACES, strict=True))


_PLACES: Final = ("the left operand", "the right operand, with the dtype of the left one")
_OUT: Final = OutputSpec("out", "The product, with the dtype of the operands.", _out_of_product)

SPECS: Final = (
    product_spec(
        "addmm",
        "aclnnAddmm",
        "Multiplies two matrices and adds a third.",
        "out = beta * self + alpha * (mat1 @ mat2) (PyTorch: aten::addmm). A factor of 0 drops its part, also if that "
        "is not a number.",
        (
            InputSpec(
                "self", "The addend: the product's shape, or one that broadcasts to it; its dtype.", _DTYPES, (1, 2)
            ),
            *_matrices("mat1", "mat2"),
        ),
        OutputSpec("out", "The sum, with the shape of the product.", _out_of_addmm),
        _check_addend,
        attributes=(
            AttributeSpec("beta", "The factor of self.", AttributeKind.DOUBLE, default=1.0),
            AttributeSpec("alpha", "The factor of the product.", AttributeKind.DOUBLE, default=1.0),
        ),
        # Of nothing to multiply, the addend is left.
        runs_on_nothing=lambda arguments: _out_of_addmm(arguments).element_count > 0,
    ),
    product_spec(
        "batch_mat_mul",
        "aclnnBatchMatMul",
        "Multiplies the matrices of two batches, one by one.",
        "out[b] = self[b] @ mat2[b]; one batch may have a single matrix (PyTorch: aten::bmm).",
        _matrices("self", "mat2", ranks=(3,), of="A batch of matrices (B, rows, columns)"),
        _OUT,
        _check_batches,
    ),
    product_spec(
        "matmul",
        "aclnnMatmul",
        "Multiplies vectors, matrices, or batches of matrices.",
        "out = self @ mat2: axes in front of the last two broadcast, and a vector is a row on the left and a column on "
        "the right, whose axis out lacks (PyTorch: aten::matmul).",
        _matrices("self", "mat2", ranks=_RANKS, of="A vector, a matrix, or a batch of matrices"),
        _OUT,
        _check_batches,
    ),
    product_spec(
        "mm",
        "aclnnMm",
        "Multiplies two matrices.",
        "out[i, j] = sum over k of self[i, k] * mat2[k, j] (PyTorch: aten::mm).",
        _matrices("self", "mat2"),
        _OUT,
    ),
)
