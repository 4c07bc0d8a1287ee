"""How calls of an operator join into one call in which each keeps its own gradient: a row, a plane, an image."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aclgrad.operators.spec import Arguments


@dataclass(frozen=True, slots=True)
class BatchAxes:
    """The axes along which calls join, as `in_axes` and `out_axes` of a batched function.

    `axis` is the axis of all inputs and outputs except `others`. None in `others` is an input that all calls share,
    such as a weight, or an output that sums over them, such as its gradient. `counts` has the attributes that grow with
    the batch, or their first value if they are lists. `numbers` has the inputs whose values (or part of them) are
    positions along the output's axis: the second call's begin where the first call's end. `item` is the name of one
    call, if its rank does not determine it.
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
    """Returns the function for the first axis other than the attribute's."""

    def axes(arguments: Arguments) -> BatchAxes | None:
        rank = len(next(iter(arguments.inputs.values())).shape)
        return BatchAxes(int(arguments.int(attribute) % rank == 0)) if rank > 1 else None

    return axes
