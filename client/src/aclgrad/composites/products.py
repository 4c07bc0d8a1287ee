"""The gradients of matrix products: each is a product of the gradient with the other operand, transposed.

Formulas are those of PyTorch's derivatives.yaml, for `mm`, `bmm`, `addmm`, `baddbmm` and `linear`.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from aclgrad._client.calls.handles import Handle
from aclgrad.composites.operands import (
    Operand,
    OperandLike,
    Program,
    Shape,
    broadcast,
    check_shape,
    check_wanted,
    operand,
    reshaped,
    scaled,
    summed_to,
    transposed,
    with_axis,
)
from aclgrad.errors import InvalidFieldError
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.rules import broadcasts

_MOST_AXES: Final = max(OPERATORS["matmul"].leading_input.ranks)


class LinearGradients(NamedTuple):
    """Gradients of a linear layer, each shaped as its argument."""

    grad_input: Handle | None
    grad_weight: Handle | None
    grad_bias: Handle | None


class MatmulGradients(NamedTuple):
    """Gradients of a product of two operands, each shaped as its operand."""

    grad_input: Handle | None
    grad_other: Handle | None


class AddmmGradients(NamedTuple):
    """Gradients of a product with an addend, each shaped as its argument."""

    grad_input: Handle | None
    grad_mat1: Handle | None
    grad_mat2: Handle | None


def matmul_backward(
    program: Program,
    grad_output: OperandLike,
    input: OperandLike,
    other: OperandLike,
    *,
    wanted: Sequence[bool] = (True, True),
) -> MatmulGradients:
    """Adds the steps of the gradients of `input @ other`, of any ranks from 1 on, whose batches broadcast.

    `grad_output` is shaped as the product. Raises InvalidFieldError for shapes that do not fit.
    """
    check_wanted(wanted, 2)
    grad = operand("grad_output", grad_output)
    one, two = operand("input", input, least=1), operand("other", other, least=1)
    check_shape("grad_output", grad.shape, _product_shape(one.shape, two.shape))
    rows, columns = one, two
    if two.ndim == 1:
        columns, grad = with_axis(two, -1), with_axis(grad, -1)
    if one.ndim == 1:
        rows, grad = with_axis(one, -2), with_axis(grad, -2)
    shapes = rows.shape, columns.shape
    if math.prod(columns.shape[:-2]) == 1 and grad.ndim == rows.ndim:
        # One matrix on the right: all rows of the batches in one product.
        rows = reshaped(program, rows, (math.prod(rows.shape[:-1]), rows.shape[-1]))
        columns = columns[(0,) * (columns.ndim - 2)]
        grad = reshaped(program, grad, (math.prod(grad.shape[:-1]), grad.shape[-1]))
    of_rows = of_columns = None
    if wanted[0]:
        of_rows = _product(program, grad, transposed(columns), shapes[0]).reshape(one.shape)
    if wanted[1]:
        of_columns = _product(program, transposed(rows), grad, shapes[1]).reshape(two.shape)
    return MatmulGradients(of_rows, of_columns)


def bmm_backward(
    program: Program,
    grad_output: OperandLike,
    input: OperandLike,
    mat2: OperandLike,
    *,
    wanted: Sequence[bool] = (True, True),
) -> MatmulGradients:
    """Adds the steps of the gradients of `bmm(input, mat2)`, of shapes (B, N, M) and (B, M, P).

    `grad_output` has the shape (B, N, P). Raises InvalidFieldError for shapes that do not fit.
    """
    for name, each in (("input", input), ("mat2", mat2)):
        if (rank := operand(name, each).ndim) != 3:
            raise InvalidFieldError.at(name, f"has {rank} axes", "give 3, or call matmul_backward")
    return matmul_backward(program, grad_output, input, mat2, wanted=wanted)


def linear_backward(
    program: Program,
    grad_output: OperandLike,
    input: OperandLike,
    weight: OperandLike,
    *,
    wanted: Sequence[bool] = (True, True, True),
) -> LinearGradients:
    """Adds the steps of the gradients of `input @ weight.T + bias`.

    `input` has the shape (..., in), `weight` (out, in) or (in,), and `grad_output` (..., out) or (...). Raises
    InvalidFieldError for shapes that do not fit.
    """
    check_wanted(wanted, 3)
    grad = operand("grad_output", grad_output)
    features, matrix = operand("input", input, least=1), operand("weight", weight, least=1)
    shapes, outputs = (features.shape, matrix.shape), matrix.shape[:-1]
    if len(outputs) > 1 or matrix.shape[-1] != features.shape[-1]:
        remedy = f"give (out, {features.shape[-1]}), or ({features.shape[-1]},)"
        raise InvalidFieldError.at("weight", f"is {matrix.shape}", remedy)
    check_shape("grad_output", grad.shape, (*features.shape[:-1], *outputs))
    count, width = math.prod(features.shape[:-1]), math.prod(outputs)
    grad = reshaped(program, grad, (count, width))
    of_input = of_weight = of_bias = None
    if wanted[0]:
        of_input = program.mm(grad, reshaped(program, matrix, (width, shapes[1][-1]))).reshape(shapes[0])
    if wanted[1]:
        rows = reshaped(program, features, (count, features.shape[-1]))
        of_weight = program.mm(transposed(grad), rows).reshape(shapes[1])
    if wanted[2]:
        of_bias = program.reduce_sum(grad, (0,)).reshape(outputs)
    return LinearGradients(of_input, of_weight, of_bias)


def addmm_backward(
    program: Program,
    grad_output: OperandLike,
    shape: Shape,
    mat1: OperandLike,
    mat2: OperandLike,
    *,
    beta: float = 1.0,
    alpha: float = 1.0,
    wanted: Sequence[bool] = (True, True, True),
) -> AddmmGradients:
    """Adds the steps of the gradients of `beta * input + alpha * (mat1 @ mat2)`: `addmm`, or `baddbmm` of rank 3.

    `shape` is that of the addend `input`, which broadcasts to the product. Raises InvalidFieldError for shapes that do
    not fit.
    """
    check_wanted(wanted, 3)
    grad = operand("grad_output", grad_output)
    one, two = operand("mat1", mat1, least=2), operand("mat2", mat2, least=2)
    product = _product_shape(one.shape, two.shape)
    check_shape("grad_output", grad.shape, product)
    if not broadcasts(tuple(shape), product):
        raise InvalidFieldError.at("shape", f"is {tuple(shape)}", f"give one that broadcasts to {product}")
    of_addend = scaled(program, summed_to(program, grad, tuple(shape)), beta) if wanted[0] else None
    of_product = matmul_backward(program, grad, one, two, wanted=wanted[1:])
    scaled_ones = (None if each is None else scaled(program, each, alpha) for each in of_product)
    return AddmmGradients(of_addend, *scaled_ones)


def _product(program: Program, one: Operand, two: Operand, shape: Shape) -> Handle:
    """Adds the product, and its sum to the shape of a broadcast operand."""
    if one.ndim == two.ndim == 2:
        return program.mm(one, two)
    if max(one.ndim, two.ndim) <= _MOST_AXES:
        return summed_to(program, program.matmul(one, two), shape)
    batch = np.broadcast_shapes(one.shape[:-2], two.shape[:-2])
    left, right = (
        reshaped(program, broadcast(each, (*batch, *each.shape[-2:])), (math.prod(batch), *each.shape[-2:]))
        for each in (one, two)
    )
    made = program.batch_mat_mul(left, right)
    return summed_to(program, made.reshape((*batch, *made.shape[-2:])), shape)


def _product_shape(one: Shape, two: Shape) -> Shape:
    """Returns the shape of a product; raises InvalidFieldError if there is none."""
    length = two[-2] if len(two) > 1 else two[0]
    try:
        if length != one[-1]:
            raise ValueError(f"{one[-1]} and {length} elements")
        batch = np.broadcast_shapes(one[:-2], two[:-2])
    except ValueError:
        raise InvalidFieldError.at(
            "other", f"is {two}, which does not multiply {one}", "give shapes that numpy.matmul takes"
        ) from None
    return (*batch, *one[-2:-1], *(two[-1:] if len(two) > 1 else ()))
