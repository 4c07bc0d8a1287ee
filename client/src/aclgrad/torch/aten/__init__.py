"""ATen's operators as steps of a program: what PyTorch calls in the end, whatever function was called.

A row takes the steps and the operator's own arguments, with handles and arrays in place of tensors, and returns what
stands for its results, in their order; None is a result that no operator gives. It raises LocalError if there are no
steps that compute the same. A view takes a handle first, and only adds a step if elements have to be copied.
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
"""Operators whose mask may also be one of truth values."""
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
"""Operators whose results follow from the shape of a tensor, and not from its elements."""
