"""The gradients of composites in float64: the same arguments, without the program.

Each is written as the sum that it is, by numpy's einsum and not by products of transposed matrices.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from aclgrad.composites.subscripts import Subscripts

Array = np.ndarray[Any, Any]
_AXES: Final = "abcdefgh"


def linear_backward(grad_output: Array, input: Array, weight: Array) -> tuple[Array, Array, Array]:
    """Returns the gradients of input, weight and bias."""
    grad, x, w = _wide(grad_output, input, weight)
    rows = math.prod(x.shape[:-1])
    grads, features = grad.reshape(rows, *w.shape[:-1]), x.reshape(rows, x.shape[-1])
    out = "o" * (w.ndim - 1)
    of_input = np.einsum(f"r{out},{out}i->ri", grads, w).reshape(x.shape)
    return of_input, np.einsum(f"r{out},ri->{out}i", grads, features), np.einsum(f"r{out}->{out}", grads)


def matmul_backward(grad_output: Array, input: Array, other: Array) -> tuple[Array, Array]:
    """Returns the gradients of both operands."""
    grad, one, two = _wide(grad_output, input, other)
    own = "m" * (one.ndim > 1), "n" * (two.ndim > 1)
    batches = [_AXES[len(_AXES) - max(each.ndim - 2, 0) :] for each in (one, two)]
    batch = max(batches, key=len)
    labels = f"{batch}{own[0]}{own[1]}", f"{batches[0]}{own[0]}k", f"{batches[1]}k{own[1]}"
    return _of_operand(labels, (grad, one, two), 1), _of_operand(labels, (grad, one, two), 2)


def addmm_backward(
    grad_output: Array, shape: Sequence[int], mat1: Array, mat2: Array, beta: float = 1.0, alpha: float = 1.0
) -> tuple[Array, Array, Array]:
    """Returns the gradients of the addend and of both operands."""
    of_addend = beta * _summed(grad_output.astype(np.float64), tuple(shape))
    one, two = matmul_backward(grad_output, mat1, mat2)
    return of_addend, alpha * one, alpha * two


def einsum_backward(equation: str, grad_output: Array, *operands: Array) -> tuple[Array, ...]:
    """Returns the gradients of all operands."""
    subscripts = Subscripts.of(equation, [each.shape for each in operands])
    arrays = _wide(grad_output, *operands)
    return tuple(_of_operand((subscripts.output, *subscripts.inputs), arrays, index) for index in range(1, len(arrays)))


def _wide(*arrays: Any) -> tuple[Array, ...]:
    return tuple(np.asarray(each).astype(np.float64) for each in arrays)


def _of_operand(labels: Sequence[Sequence[Any]], arrays: Sequence[Array], index: int) -> Array:
    """Returns the gradient of one operand of an einsum, whose output and gradient come first."""
    numbers = {label: number for number, label in enumerate(dict.fromkeys(each for some in labels for each in some))}
    sizes: dict[Any, int] = {}
    for some, array in zip(labels, arrays, strict=True):
        for label, size in zip(some, array.shape, strict=True):
            if sizes.get(label, 1) == 1:
                sizes[label] = size
    arguments: list[Any] = []
    for number, (some, array) in enumerate(zip(labels, arrays, strict=True)):
        if number != index:
            full = np.broadcast_to(array, [sizes[label] for label in some])
            arguments += [full, [numbers[label] for label in some]]
    wanted, shape = labels[index], arrays[index].shape
    # An axis that only this operand has repeats the gradient.
    alone = [label for label in wanted if not any(label in some for n, some in enumerate(labels) if n != index)]
    found = np.einsum(*arguments, [numbers[label] for label in wanted if label not in alone])
    for axis, label in enumerate(wanted):
        if label in alone:
            found = np.repeat(np.expand_dims(found, axis), sizes[label], axis)
    return _summed(found, shape)


def _summed(array: Array, shape: tuple[int, ...]) -> Array:
    """Returns the sum over what a tensor of this shape was broadcast to."""
    added = array.ndim - len(shape)
    axes = tuple(axis for axis in range(array.ndim) if axis < added or shape[axis - added] != array.shape[axis])
    return array.sum(axes).reshape(shape) if axes else array


DEFINITIONS: Final[Mapping[str, Callable[..., tuple[Array, ...]]]] = {
    "addmm_backward": addmm_backward,
    "bmm_backward": matmul_backward,
    "einsum_backward": einsum_backward,
    "linear_backward": linear_backward,
    "matmul_backward": matmul_backward,
}
"""By the names of the functions."""
