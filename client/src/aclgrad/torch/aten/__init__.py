"""ATen's operators, which PyTorch calls for every function, as steps of a program.

A row takes the steps and the operator's arguments, with handles and arrays instead of tensors, and returns the handles
of its results in order; None is a result that no operator gives. It raises LocalError if no steps compute the same. A
view takes a handle first, and adds a step only if elements have to be copied.
"""

from collections.abc import Mapping
from typing import Any, Final

import torch

from aclgrad.torch.aten import (
    activations,
    attention,
    comparisons,
    elements,
    layers,
    losses,
    movement,
    positions,
    reductions,
    upsampling,
    window_gradients,
    windows,
)
from aclgrad.torch.aten.steps import Row, Steps, Value

__all__ = ["ATTENTION", "OF_SHAPES", "ROWS", "VIEWS", "Row", "Steps", "Value"]

_MODULES: Final = (
    activations,
    attention,
    comparisons,
    elements,
    layers,
    losses,
    movement,
    positions,
    reductions,
    upsampling,
    window_gradients,
    windows,
)

ROWS: Final[Mapping[Any, Row]] = {name: row for module in _MODULES for name, row in module.ROWS.items()}
VIEWS: Final[Mapping[Any, Row]] = movement.VIEWS
ATTENTION: Final = frozenset(attention.ROWS)
"""Operators that also take a mask of truth values."""
OF_SHAPES: Final = frozenset(
    getattr(torch.ops.aten, name)
    for name in (
        "empty_like",
        "zeros_like",
        "ones_like",
        "full_like",
        "new_empty",
        "new_empty_strided",
        "new_zeros",
        "new_ones",
        "new_full",
    )
)
"""Operators whose results depend on a tensor's shape, but not on its elements."""
