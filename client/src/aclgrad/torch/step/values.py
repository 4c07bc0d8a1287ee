"""Where the values of nodes are while programs are built, here or in a program, and how others get them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, fx

from aclgrad._client.calls.arguments import RETURNED
from aclgrad._client.calls.handles import Handle
from aclgrad._client.programs.program import BaseProgram
from aclgrad.products import Product
from aclgrad.tensors import TensorType
from aclgrad.torch.aten import ROWS, Steps
from aclgrad.torch.calls import array_of
from aclgrad.torch.step.drawing import read_by
from aclgrad.torch.step.nodes import check_type, type_of
from aclgrad.torch.step.plan import Array, Part, Sent

_FILL: Final = torch.ops.aten.fill.Scalar
_UNIFORM: Final = 256
"""A larger constant of equal elements is made by the server."""


@dataclass(slots=True)
class Remote:
    """A node's result in the program of its level: a handle, or a list of them."""

    level: int
    value: Any


class Values:
    """The parts of a plan by level, and where each value is.

    A value of level n is here before that level's program runs, or in that program; values that depend on a program's
    result here are of the next level.
    """

    def __init__(
        self,
        new_program: Callable[[], BaseProgram[Any]],
        product: Product | None,
        again_in: Callable[[fx.Node, int], Any],
    ) -> None:
        """`again_in` adds the steps of a node to the program of another level, too."""
        self._new_program, self._product, self._again_in = new_program, product, again_in
        self.parts: list[Part] = []
        self.local: dict[fx.Node, int] = {}
        """The level of each local value."""
        self.remote: dict[fx.Node, Remote] = {}
        self.constants: dict[fx.Node, Tensor] = {}
        self.others: dict[fx.Node, Tensor] = {}
        """Tensors that the loss function captures."""
        self._arrays: dict[Any, list[Array]] = {}
        """Constants by type."""
        self._elsewhere: dict[tuple[fx.Node, int], Any] = {}
        """Handles of values in programs that do not make them."""

    def part(self, level: int) -> Part:
        """Returns the part of a level, which is made at first."""
        while len(self.parts) <= level:
            self.parts.append(Part(self._new_program()))
        return self.parts[level]

    def level_here(self, node: fx.Node) -> int:
        """Returns the level at which the value of a node is here."""
        if node in self.local:
            return self.local[node]
        return self.remote[node].level + 1

    def level_there(self, node: fx.Node) -> int:
        """Returns the first level whose program can have the value of a node."""
        return self.remote[node].level if node in self.remote else self.local[node]

    def run_here(self, node: fx.Node, level: int | None = None) -> None:
        """Runs a node here, by default as soon as its inputs are here."""
        needed = read_by(node)
        if level is None:
            level = max(map(self.level_here, needed), default=0)
        for each in needed:
            self.bring(each)
        self.local[node] = level
        self.part(level).local.append(node)

    def bring(self, node: fx.Node) -> None:
        """Fetches the value of a node once its program has run."""
        if node in self.local:
            return
        remote = self.remote[node]
        value = remote.value
        program = self.parts[remote.level].program
        if isinstance(value, Handle) and value.step >= 0 and is_returned(program, value):
            check_type(value, node.meta["val"])
            self.parts[remote.level].wanted[node] = value
            self.local[node] = remote.level + 1
            return
        # A view of a local value, a list of results, or one in a device-specific form.
        for each in node.all_input_nodes:
            self.bring(each)
        self.local[node] = level = max(self.local[each] for each in node.all_input_nodes)
        self.part(level).local.append(node)

    def there(self, node: fx.Node, level: int) -> Any:
        """Returns the handle of a node's value in the program of a level."""
        if node in self.remote and self.remote[node].level == level:
            return self.remote[node].value
        if (node, level) in self._elsewhere:
            return self._elsewhere[node, level]
        if node in self.remote and not self._can_come(node):
            value = self._elsewhere[node, level] = self._again_in(node, level)
            return value
        self.bring(node)
        if node in self.constants:
            value = self._constant(node, level)
        else:
            value = self.sent(node, level, "", type_of(node.meta["val"]), array_of)
        self._elsewhere[node, level] = value
        return value

    def _can_come(self, node: fx.Node) -> bool:
        remote = self.remote[node]
        if not isinstance(remote.value, Handle):
            return False
        return remote.value.step < 0 or is_returned(self.parts[remote.level].program, remote.value)

    def _constant(self, node: fx.Node, level: int) -> Any:
        array = self._shared(array_of(self.constants[node].detach()))
        if array.size > _UNIFORM and not any(array.strides):
            steps = Steps(self.part(level).program, self._product)
            return ROWS[_FILL](steps, array, array.flat[0].item())
        return array

    def _shared(self, array: Array) -> Array:
        """Returns the array, or an earlier equal one, such as the masks of all layers: a program sends it once."""
        key = array.dtype, array.shape, array.strides
        for each in self._arrays.setdefault(key, []):
            if each.tobytes() == array.tobytes():
                return each
        self._arrays[key].append(array)
        return array

    def sent(
        self, node: fx.Node, level: int, form: str, type: TensorType, to_array: Callable[[Tensor], Array]
    ) -> Handle:
        """Returns the placeholder for a converted local value."""
        part = self.part(level)
        found = part.sent.get((node, form))
        if found is None:
            found = Sent(node, to_array), part.program.placeholder(type)
            part.sent[node, form] = found
        return found[1]


def is_returned(program: BaseProgram[Any], handle: Handle) -> bool:
    """Whether a run may return the values of a handle."""
    return handle.output in RETURNED[program.steps[handle.step].operator]
