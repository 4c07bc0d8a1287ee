"""Sums of products over axes that operands have in common: einsum, and functions of two operands like it."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from aclgrad._client.sync.client import Client
from aclgrad.composites.subscripts import Maths, Subscripts
from aclgrad.composites.subscripts import einsum as in_pairs
from aclgrad.errors import InvalidFieldError
from aclgrad.torch._account import LocalError
from aclgrad.torch._gemm import HOOKED, gemm, has_hooks


def einsum(equation: str, *operands: Tensor, client: Client) -> Tensor:
    """Sums products of the operands over axes with the same letter, as `torch.einsum`, from left to right.

    A call has the gradients of two operands, and they have derivatives of any order. Raises InvalidFieldError for what
    the product of the client's server does not compute.
    """
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
    if not isinstance(equation, str) or len(operands) < 2 or not all(isinstance(each, Tensor) for each in operands):
        raise LocalError("it is no product of tensors by an equation")
    try:
        subscripts = Subscripts.of(equation, [tuple(each.shape) for each in operands])
    except InvalidFieldError as error:
        raise LocalError(f"PyTorch alone may take it: {error.message}") from None
    if subscripts.repeats:
        raise LocalError("an operand has a letter twice; take its diagonal before")
    is_product = len(operands) == 2 and _is_product(subscripts, operands)
    if has_hooks() and not is_product:
        raise LocalError(HOOKED)

    def bmm(one: Tensor, two: Tensor) -> Tensor:
        return gemm("bmm", client, one, two, function="einsum")

    subscripts, ordered = _in_order(subscripts, operands)
    if len(ordered) == 2 and _is_turned(subscripts):
        subscripts, ordered = Subscripts(subscripts.inputs[::-1], subscripts.output), ordered[::-1]
    result = _summed(subscripts, ordered, bmm)
    # So that it can be viewed as PyTorch's own.
    return result if is_product else result.contiguous()


def _in_order(subscripts: Subscripts, operands: Sequence[Tensor]) -> tuple[Subscripts, list[Tensor]]:
    """Puts the axes of operands in the order of the result's, and then of the alphabet, as PyTorch does at first."""
    rest = {label for labels in subscripts.inputs for label in labels}.difference(subscripts.output)
    order = [*subscripts.output, *sorted(rest)]
    inputs = [tuple(label for label in order if label in labels) for labels in subscripts.inputs]
    ordered = [
        each.permute([labels.index(label) for label in sorted_labels])
        for each, labels, sorted_labels in zip(operands, subscripts.inputs, inputs, strict=True)
    ]
    return Subscripts(tuple(inputs), subscripts.output), ordered


def _is_turned(subscripts: Subscripts) -> bool:
    """Says whether PyTorch computes the product of the second operand and the first."""
    one, two = (
        [label for label in own if label not in other] for own, other in (subscripts.inputs, subscripts.inputs[::-1])
    )
    if not one or not two or not {*one, *two}.issubset(subscripts.output):
        return False
    return min(map(subscripts.output.index, one)) > max(map(subscripts.output.index, two))


def _is_product(subscripts: Subscripts, operands: Sequence[Tensor]) -> bool:
    """Says whether PyTorch computes an einsum of two operands by one product of matrices, and not of elements."""
    one, two = subscripts.inputs
    is_summed = any(label in two and label not in subscripts.output for label in one)
    return is_summed and not any(1 in each.shape for each in operands)


def _tensordot(
    a: Tensor, b: Tensor, dims: Any = 2, out: Any = None, *, client: Client, function: str = "tensordot"
) -> Tensor:
    if out is not None or isinstance(dims, Tensor):
        raise LocalError("dims is a tensor, or there is an output")
    ranks = a.dim(), b.dim()
    if isinstance(dims, int):
        if not 0 <= dims <= min(ranks):
            raise LocalError(f"PyTorch refuses {dims} axes")
        dims = range(ranks[0] - dims, ranks[0]), range(dims)
    axes = [[axis % rank for axis in each] for each, rank in zip(dims, ranks, strict=True)]
    labels = [[f"{side}{axis}" for axis in range(rank)] for side, rank in zip("ab", ranks, strict=True)]
    for one, two in zip(*axes, strict=True):
        if a.shape[one] != b.shape[two]:
            raise LocalError("PyTorch alone sums over axes of one element")
        labels[1][two] = labels[0][one]
    summed = {labels[0][axis] for axis in axes[0]}
    kept = tuple(each for some in labels for each in some if each not in summed)

    def bmm(one: Tensor, two: Tensor) -> Tensor:
        return gemm("mm", client, one[0], two[0], function=function)

    return _summed(Subscripts((tuple(labels[0]), tuple(labels[1])), kept), (a, b), bmm)


def _inner(input: Tensor, other: Tensor, *, out: Any = None, client: Client) -> Tensor:
    if out is not None or not input.dim() or not other.dim():
        raise LocalError("it is a product of elements")
    return _tensordot(input, other, ([-1], [-1]), client=client, function="inner")


def _summed(subscripts: Subscripts, operands: Sequence[Tensor], bmm: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    maths: Maths[Tensor] = Maths(
        transpose=lambda value, axes: value.permute(tuple(axes)),
        reshape=lambda value, shape: value.reshape(tuple(shape)),
        sum=lambda value, axes: value.sum(tuple(axes)),
        bmm=bmm,
    )
    return in_pairs(subscripts, operands, maths)


REROUTED: Final[dict[Any, Callable[..., Tensor]]] = {
    torch.einsum: einsum,
    torch.tensordot: _tensordot,
    **dict.fromkeys((torch.inner, Tensor.inner), _inner),
}
"""The functions by those of PyTorch that they stand for."""
