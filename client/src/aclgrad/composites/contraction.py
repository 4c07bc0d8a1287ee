"""Einsum as steps of a program: products of batches, from left to right.

`_contracted` follows `sumproduct_pair` in PyTorch's sources (aten/src/ATen/native/Linear.cpp): common axes of two
operands that are kept form the batch; common axes that are not needed later are summed by the product.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from aclgrad.composites.operands import Operand, Program, reshaped
from aclgrad.composites.subscripts import Labels, Subscripts


@dataclass(frozen=True, slots=True)
class _Term:
    """An operand, and a label for each of its axes."""

    operand: Operand
    labels: Labels

    def size(self, label: str) -> int:
        return self.operand.shape[self.labels.index(label)]

    def sizes(self, labels: Sequence[str]) -> list[int]:
        return [self.size(each) for each in labels]


def einsum(program: Program, subscripts: Subscripts, operands: Sequence[Operand]) -> Operand:
    """Adds the steps of an einsum, and returns its result; no operand may have a label twice."""
    terms = [_Term(each, labels) for each, labels in zip(operands, subscripts.inputs, strict=True)]
    found = terms[0]
    for number, each in enumerate(terms[1:], 1):
        later = {label for other in terms[number + 1 :] for label in other.labels}
        found = _contracted(program, found, each, later.union(subscripts.output))
    return _in_order(_needed(program, found, subscripts.output), subscripts.output)


def _contracted(program: Program, one: _Term, two: _Term, kept: Collection[str]) -> _Term:
    """Returns the product of two operands with the labels that are kept."""
    one, two = _unrepeated(program, one, two), _unrepeated(program, two, one)
    one, two = _needed(program, one, {*kept, *two.labels}), _needed(program, two, {*kept, *one.labels})
    both = [label for label in one.labels if label in two.labels]
    batch = [label for label in both if label in kept]
    terms = [label for label in both if label not in kept]
    rows = [label for label in one.labels if label not in both]
    columns = [label for label in two.labels if label not in both]
    product = program.batch_mat_mul(
        _grouped(program, one, (batch, rows, terms)), _grouped(program, two, (batch, terms, columns))
    )
    sizes = [*one.sizes(batch), *one.sizes(rows), *two.sizes(columns)]
    return _Term(reshaped(program, product, sizes), (*batch, *rows, *columns))


def _unrepeated(program: Program, own: _Term, other: _Term) -> _Term:
    """Drops axes of one element that are broadcast."""
    labels = tuple(
        label for label in own.labels if own.size(label) != 1 or label not in other.labels or other.size(label) == 1
    )
    return own if labels == own.labels else _Term(reshaped(program, own.operand, own.sizes(labels)), labels)


def _needed(program: Program, term: _Term, labels: Collection[str]) -> _Term:
    """Sums over unneeded axes."""
    axes = tuple(axis for axis, label in enumerate(term.labels) if label not in labels)
    if not axes:
        return term
    return _Term(program.reduce_sum(term.operand, axes), tuple(each for each in term.labels if each in labels))


def _in_order(term: _Term, labels: Labels) -> Operand:
    axes = [term.labels.index(label) for label in labels]
    # Whole outputs stay whole, because every device reads them unchanged.
    return term.operand if axes == sorted(axes) else term.operand.transpose(*axes)


def _grouped(program: Program, term: _Term, groups: Sequence[Sequence[str]]) -> Operand:
    """Returns the operand with an axis for each group of labels."""
    ordered = _in_order(term, tuple(label for group in groups for label in group))
    return reshaped(program, ordered, [math.prod(term.sizes(group)) for group in groups])
