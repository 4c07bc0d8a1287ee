"""Where each value of grad_output goes: an operator's definition, asked for one value at a time."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from aclgrad.operators.cases import TypedCase, arrays_of
from aclgrad.operators.parts import samples_of
from aclgrad.operators.spec import OperatorSpec
from aclgrad.reference import define

LEADING: Final = 2
"""The sizes N and C of a picture's tensors; both are 1."""
_AXES: Final = 3

Cell = tuple[int, int, int]
Volume = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Flow:
    """Two volumes (depth, rows, columns), and how much of each cell of the first goes to a cell of the second."""

    source: Volume
    target: Volume
    weights: dict[Cell, dict[Cell, float]]
    """By the cell of the second volume."""


def pictured(spec: OperatorSpec) -> TypedCase:
    """Returns the case that the operator's page shows."""
    return TypedCase(spec, samples_of(spec.name).example, spec.dtypes[0])


def flow_of(spec: OperatorSpec) -> Flow:
    """Returns the flow of the operator's picture."""
    typed = pictured(spec)
    arrays = typed.arrays()
    source = arrays["grad_output"].shape
    weights: dict[Cell, dict[Cell, float]] = {}
    for index in np.ndindex(*source):
        one = np.zeros(source)
        one[index] = 1
        gradient, *_ = arrays_of(define(spec.name, {**arrays, "grad_output": one}, typed.attributes))
        for place in np.argwhere(gradient):
            weights.setdefault(_cell(place), {})[_cell(index)] = float(gradient[tuple(place)])
    return Flow(_volume(source), _volume(gradient.shape), weights)


def _cell(index: "tuple[int, ...] | np.ndarray[tuple[int], np.dtype[np.int64]]") -> Cell:
    inside = [int(each) for each in index[LEADING:]]
    depth, row, column = [0] * (_AXES - len(inside)) + inside
    return depth, row, column


def _volume(shape: tuple[int, ...]) -> Volume:
    depth, rows, columns = (1,) * (_AXES + LEADING - len(shape)) + shape[LEADING:]
    return depth, rows, columns
