"""How calls of an operator join into one call, in which each keeps its own gradient: a row, a plane, an image."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aclgrad.operators.spec import Arguments


@dataclass(frozen=True, slots=True)
class BatchAxes:
    """The axes along which calls join, as `in_axes` and `out_axes` of a batched function.

    `axis` is that of all inputs and outputs but `others`. None there is an input that all calls share, such as a
    weight, or an output that sums over them, such as its gradient. `counts` has the attributes that grow with the
    batch; of a list it is the first value. `numbers` has the inputs, and the part of each, whose values are places
    along the output's axis: those of the second call begin where those of the first end. `item` is what one call is,
    if its rank does not say so.
    """

    axis: int = 0
    others: Mapping[str, int | None] = field(default_factory=dict)
    counts: tuple[str, ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)
    item: str = ""

    def of(self, name: str) -> int | None:
        """Returns the axis of an input or output."""
        return self.others.get(name, self.axis)


def along_the_first(arguments: Arguments) -> BatchAxes:
    """The first axis of every input and output."""
    return BatchAxes()


def beside(attribute: str) -> Callable[[Arguments], BatchAxes | None]:
    """Returns the function to the first axis that is not the one that the attribute names."""

    def axes(arguments: Arguments) -> BatchAxes | None:
        rank = len(next(iter(arguments.inputs.values())).shape)
        return BatchAxes(int(arguments.int(attribute) % rank == 0)) if rank > 1 else None

    return axes
