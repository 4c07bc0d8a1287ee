"""Calls with different values, and the one call that they join into."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np

from aclgrad.operators.batch_axes import BatchAxes
from aclgrad.operators.cases import TypedCase, returned_arrays
from aclgrad.operators.samples import Arrays

_WORDS: Final = ("element", "row", "plane", "image")
"""Names of an item, by the rank of its gradient without the axis."""


@dataclass(frozen=True, slots=True)
class Items:
    """Calls of one form, the smallest that a sample divides into: `typed` is one of them."""

    typed: TypedCase
    axes: BatchAxes

    @classmethod
    def of(cls, typed: TypedCase) -> Self | None:
        """Returns the items of the sample's form, or None if such calls do not join or have no gradient."""
        axes = typed.spec.batch_axes(typed.arguments)
        parts = _parts(typed, axes) if axes else 0
        if axes is None or not parts:
            return None
        unit = _resized(typed, axes, lambda size: size // parts)
        return cls(unit, axes) if all(each.element_count for each in unit.outputs.values()) else None

    @property
    def name(self) -> str:
        """The name of one of them."""
        rank = len(next(iter(self.typed.outputs.values())).shape)
        return self.axes.item or _WORDS[min(rank, len(_WORDS)) - 1]

    @property
    def compared(self) -> list[str]:
        """The outputs with a part for each item."""
        return [name for name in self.typed.outputs if self.axes.of(name) is not None]

    def batch(self, size: int) -> TypedCase:
        """Returns the call that this many items join into."""
        return _resized(self.typed, self.axes, lambda one: one * size)

    def draw(self, count: int) -> list[Arrays]:
        """Returns the inputs of this many items, with different values, the same at every call."""
        case = self.typed.case
        named = [replace(self.typed, case=replace(case, name=f"{case.name}_{number}")) for number in range(count)]
        first, *others = [each.arrays() for each in named]
        shared = {name: values for name, values in first.items() if self.axes.of(name) is None}
        return [first, *({**arrays, **shared} for arrays in others)]

    def join(self, arrays: Sequence[Arrays]) -> Arrays:
        """Returns the inputs of the call that these items join into, in this order."""
        joined = {}
        for name, values in arrays[0].items():
            axis, parts = self.axes.of(name), [each[name] for each in arrays]
            if name in self.axes.numbers:
                parts = [self._moved(name, part, index) for index, part in enumerate(parts)]
            joined[name] = values if axis is None else np.concatenate(parts, axis)
        return joined

    def split(self, gradients: Any, size: int) -> list[tuple[np.ndarray[Any, Any], ...]]:
        """Returns the gradients of each of this many items, without the outputs that sum over them."""
        parts = []
        for name, gradient in zip(self.typed.outputs, returned_arrays(gradients), strict=True):
            axis = self.axes.of(name)
            if axis is not None:
                parts.append(np.split(gradient, size, axis))
        return list(zip(*parts, strict=True))

    def _moved(self, name: str, values: np.ndarray[Any, Any], index: int) -> np.ndarray[Any, Any]:
        """Returns values that are positions along the output as they are in a batch; others are -1."""
        length = next(type.shape[self.axes.axis] for type in self.typed.outputs.values())
        part = self.axes.numbers[name]
        moved = values.copy()
        numbers = values[part]
        moved[part] = np.where((numbers >= 0) & (numbers < length), numbers + index * length, -1)
        return moved


def _parts(typed: TypedCase, axes: BatchAxes) -> int:
    """Returns the number of items of the sample; values that are positions keep it whole."""
    sizes = []
    for name, shape in typed.case.shapes.items():
        axis = axes.of(name)
        if axis is not None:
            if axis >= len(shape):
                return 0
            sizes.append(shape[axis])
    return 1 if axes.numbers else math.gcd(*sizes)


def _resized(typed: TypedCase, axes: BatchAxes, resize: Callable[[int], int]) -> TypedCase:
    shapes = {}
    for name, shape in typed.case.shapes.items():
        axis = axes.of(name)
        shapes[name] = shape if axis is None else (*shape[:axis], resize(shape[axis]), *shape[axis + 1 :])
    attributes: dict[str, Any] = dict(typed.case.attributes)
    for name in axes.counts:
        value = attributes[name]
        attributes[name] = (resize(value[0]), *value[1:]) if isinstance(value, tuple) else resize(value)
    return replace(typed, case=replace(typed.case, shapes=shapes, attributes=attributes))
