"""Shared by the definitions of operators.

A definition has the function that the operator's kind names, which computes the result in float64 (complex128 for
complex): `backward` for a gradient, `value` for a value. It takes the inputs by wire name and the attributes; an
input that is not read may be a shape, one that is optional is None by default, and a list comes as `**tensors`. It
returns an array, or a tuple with one for each output that a caller can get; bools are 0 and 1 of int8, and integers are
exact. Beside `backward` stands `forward`, the function that it is the gradient of, written in another way. `forward`
takes the same and, as `input`, the array; of `grad_output` it uses the shape alone.

A definition may compute whole arrays at once, as einsum does, if cell by cell would take seconds for some MB. A small
one that goes cell by cell then stands in `tests/client/operators/test_definitions.py`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Definition(NamedTuple):
    """The functions of one operator: its result, a gradient's forward function, and the output that stays inside.

    `inside` returns the output that stays inside, in the form that another operator takes from a client.
    """

    compute: Callable[..., Any]
    forward: Callable[..., Any] | None = None
    inside: Callable[..., Any] | None = None


def shape_of(input: Array | Sequence[int]) -> tuple[int, ...]:
    """Returns the shape of an array, or the shape given instead."""
    return tuple(input.shape if isinstance(input, np.ndarray) else input)


def wide(array: Array) -> type[np.float64] | type[np.complex128]:
    """Returns the dtype in which the gradient of an array is computed."""
    return np.complex128 if np.iscomplexobj(array) else np.float64
