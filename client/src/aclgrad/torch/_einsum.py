"""Sums of products over common axes: einsum, and similar functions of two operands."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.backends import opt_einsum

from aclgrad._client.sync.client import Client
from aclgrad.composites.subscripts import Subscripts
from aclgrad.errors import InvalidFieldError
from aclgrad.torch._account import LocalError
from aclgrad.torch._gemm import gemm


def einsum(equation: str, *operands: Tensor, client: Client) -> Tensor:
    """Sums products of the operands over axes with the same letter, as `torch.einsum`, in its order.

    A call has the gradients of two operands, and they have derivatives of any order. Raises InvalidFieldError if the
    server's product cannot compute it.
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
    order, pairs = _pairs(equation, subscripts, operands)
    if not any(pair.terms for pair in pairs):
        raise LocalError(_ELEMENTS)
    waiting = [_aligned(*each, order) for each in zip(operands, subscripts.inputs, strict=True)]
    for pair in pairs:
        two, one = waiting.pop(pair.two), waiting.pop(pair.one)
        one, two = (each.sum(axes, True) if axes else each for each, axes in ((one, pair.of_one), (two, pair.of_two)))
        product = _product(one, two, pair.terms, client) if pair.terms else one * two
        waiting.insert(pair.place, product)
    (result,) = waiting
    return result.view(result.shape[: len(subscripts.output)]) if len(order) > len(subscripts.output) else result


class _Pair(NamedTuple):
    """A product of two of the remaining operands, and its place among them.

    All have the same axes. The axes `of_one` and `of_two` are summed first, and the terms by the product.
    """

    one: int
    two: int
    place: int
    of_one: list[int]
    of_two: list[int]
    terms: list[int]


def _pairs(equation: str, subscripts: Subscripts, operands: Sequence[Tensor]) -> tuple[list[str], list[_Pair]]:
    """Returns the labels in the order of PyTorch's axes, and the pairs that it multiplies, one after another."""
    kept = len(subscripts.output)
    rest = {label for labels in subscripts.inputs for label in labels}.difference(subscripts.output)
    order = [*subscripts.output, *sorted(rest)]
    # Whether an operand has an axis: a single element only broadcasts.
    waiting = [
        [label in labels and each.shape[labels.index(label)] != 1 for label in order]
        for each, labels in zip(operands, subscripts.inputs, strict=True)
    ]
    path, pairs = _path(equation, operands), []
    for first, second in path or [(0, 1)] * (len(operands) - 1):
        one, two = min(first, second), max(first, second)
        second_has, first_has = waiting.pop(two), waiting.pop(one)
        is_last = [not any(each[axis] for each in waiting) for axis in range(len(order))]
        done = [axis for axis in range(kept, len(order)) if is_last[axis]]
        terms = [axis for axis in done if first_has[axis] and second_has[axis]]
        of_one = [axis for axis in done if first_has[axis] and not second_has[axis]]
        of_two = [axis for axis in done if second_has[axis] and not first_has[axis]]
        place = len(waiting) if path else 0
        both = zip(first_has, second_has, strict=True)
        waiting.insert(place, [any(each) and axis not in done for axis, each in enumerate(both)])
        pairs.append(_Pair(one, two, place, of_one, of_two, terms))
    return order, pairs


def _path(equation: str, operands: Sequence[Tensor]) -> Sequence[tuple[int, int]]:
    """Returns opt_einsum's order of operands for PyTorch; none if it is from left to right."""
    if len(operands) == 2 or torch.compiler.is_compiling() or not opt_einsum.enabled:
        return ()
    if (module := opt_einsum.get_opt_einsum()) is None:
        return ()
    path: Sequence[tuple[int, int]] = module.contract_path(equation, *operands, optimize=opt_einsum.strategy)[0]
    return path


def _aligned(operand: Tensor, labels: Sequence[str], order: Sequence[str]) -> Tensor:
    """Returns the operand with an axis for each label, of one element if it does not have it."""
    more = [label for label in order if label not in labels]
    for _ in more:
        operand = operand.unsqueeze(-1)
    known = [*labels, *more]
    return operand.permute([known.index(label) for label in order])


def _product(left: Tensor, right: Tensor, terms: list[int], client: Client) -> Tensor:
    """Returns the sum of products over the axes of the terms by one bmm, like PyTorch's `sumproduct_pair`."""
    batch: list[int] = []
    rows: list[int] = []
    columns: list[int] = []
    for axis in range(left.dim()):
        if axis not in terms:
            is_of_both = left.shape[axis] != 1 and right.shape[axis] != 1
            (batch if is_of_both else rows if left.shape[axis] != 1 else columns).append(axis)
    if rows and columns and columns[-1] < rows[0]:
        left, right, rows, columns = right, left, columns, rows
    order = [*batch, *rows, *terms, *columns]

    def matrices(tensor: Tensor, one: list[int], two: list[int], rest: list[int]) -> Tensor:
        sizes = [math.prod([tensor.shape[axis] for axis in axes]) for axes in (batch, one, two)]
        return tensor.permute([*batch, *one, *two, *rest]).reshape(sizes)

    one, two = matrices(left, rows, terms, columns), matrices(right, terms, columns, rows)
    result = gemm("bmm", client, one, two, function="einsum")
    sizes = [
        *[left.shape[axis] for axis in (*batch, *rows)],
        *[1 for _ in terms],
        *[right.shape[axis] for axis in columns],
    ]
    return result.view(sizes).permute([order.index(axis) for axis in range(len(order))])


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
    is_known = all(-rank <= axis < rank for each, rank in zip(dims, ranks, strict=True) for axis in each)
    if a.dtype != b.dtype or not is_known or len(dims[0]) != len(dims[1]):
        raise LocalError("PyTorch refuses operands of two dtypes, and axes that are no pairs")
    axes = [[axis % rank for axis in each] for each, rank in zip(dims, ranks, strict=True)]
    if any(1 in (a.shape[one], b.shape[two]) or a.shape[one] != b.shape[two] for one, two in zip(*axes, strict=True)):
        raise LocalError("PyTorch alone sums over axes of one element")
    kept = [[axis for axis in range(rank) if axis not in own] for rank, own in zip(ranks, axes, strict=True)]
    sizes = [[each.shape[axis] for axis in own] for each, own in zip((a, b), kept, strict=True)]
    rows, terms, columns = map(math.prod, (sizes[0], [a.shape[axis] for axis in axes[0]], sizes[1]))
    one, two = a.permute([*kept[0], *axes[0]]), b.permute([*axes[1], *kept[1]])
    if rows == columns == 1:
        if not (one.is_contiguous() and two.is_contiguous()):
            raise LocalError(_ELEMENTS)
        result = gemm("dot", client, one.reshape(terms), two.reshape(terms), function=function)
    else:
        result = gemm("mm", client, one.reshape(rows, terms), two.reshape(terms, columns), function=function)
    return result.reshape([*sizes[0], *sizes[1]])


def _inner(input: Tensor, other: Tensor, *, out: Any = None, client: Client) -> Tensor:
    if out is not None or not input.dim() or not other.dim():
        raise LocalError("it is a product of elements")
    return _tensordot(input, other, ([-1], [-1]), client=client, function="inner")


_ELEMENTS: Final = "PyTorch multiplies elements, and not matrices"
REROUTED: Final[dict[Any, Callable[..., Tensor]]] = {
    torch.einsum: einsum,
    torch.tensordot: _tensordot,
    **dict.fromkeys((torch.inner, Tensor.inner), _inner),
}
"""Our functions by the functions of PyTorch that they replace."""
