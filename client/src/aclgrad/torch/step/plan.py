"""The plan of a step: programs, and the nodes that run here before, between and after them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor, fx

from aclgrad._client.calls.handles import Handle
from aclgrad._client.programs.costs import Costs
from aclgrad._client.programs.program import BaseProgram
from aclgrad.torch.step.places import Place, place_of
from aclgrad.torch.step.tracing import Trace

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Sent:
    """A local value that is sent to a program, and its conversion."""

    node: fx.Node
    form: Callable[[Tensor], Array]


@dataclass(slots=True)
class Part:
    """Nodes that run here, then a program; each with the nodes whose values are needed later."""

    program: BaseProgram[Any]
    local: list[fx.Node] = field(default_factory=list)
    sent: dict[tuple[fx.Node, str], tuple[Sent, Handle]] = field(default_factory=dict)
    wanted: dict[fx.Node, Handle] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Local:
    """A node that runs here although it depends on parameters, and why."""

    node: fx.Node
    because: str

    @property
    def place(self) -> Place:
        return place_of(self.node)


@dataclass(slots=True)
class Plan:
    """The parts of a step, in order."""

    trace: Trace
    parts: list[Part]
    constants: dict[fx.Node, Tensor]
    locals: list[Local]
    steps: dict[fx.Node, tuple[int, range]]
    """The part of a node, and the numbers of its steps there."""

    @property
    def costs(self) -> list[Costs]:
        """The costs of its programs."""
        return [part.program.costs() for part in self.parts if part.wanted]
