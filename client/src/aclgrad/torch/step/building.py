"""From the graph of a step to programs, and the nodes that run here before, between and after them.

A node with a row becomes steps. The others run here: integers and constants, which may be positions; random functions,
in order; and functions without an operator. Nodes that depend on local results of a program belong to a later program.
Each node is in the earliest possible program.
"""

from collections.abc import Callable
from functools import partial
from operator import getitem
from typing import Any, Final

import torch
from torch import Tensor, fx

from aclgrad._client.calls.handles import Handle
from aclgrad._client.programs.program import BaseProgram
from aclgrad.bridges.served_operators import REFUSALS, ServedOperators
from aclgrad.errors import InvalidFieldError, UnknownOperatorError
from aclgrad.operators.dropout_do_mask.spec import mask_bytes, packed
from aclgrad.tensors import DTYPES, TensorType
from aclgrad.torch.aten import ATTENTION, ROWS, VIEWS, Row, Steps
from aclgrad.torch.calls import LocalError, array_of
from aclgrad.torch.step.computing import as_traced
from aclgrad.torch.step.drawing import is_random, read_by
from aclgrad.torch.step.nodes import Follows, check_type, constant_of, is_of_fractions, is_of_shape, truth_of, type_of
from aclgrad.torch.step.places import place_of
from aclgrad.torch.step.plan import Array, Local, Plan
from aclgrad.torch.step.tracing import Trace
from aclgrad.torch.step.values import Remote, Values
from aclgrad.wire.limits import MAX_STEPS

aten: Final = torch.ops.aten
_ROOM: Final = 64
"""About the most steps of one node."""
_LONGEST: Final = 200
"""Most characters of a reason."""
_SAFE_SOFTMAX: Final = aten._safe_softmax.default  # noqa: SLF001 - ATen's name
_SOFTMAX: Final = aten._softmax.default  # noqa: SLF001
_INDEXED: Final = frozenset((aten.index.Tensor, aten._unsafe_index.Tensor, aten.index_put.default))  # noqa: SLF001
_POSITIONS: Final = (torch.int32, torch.int64)
_REFUSALS: Final = (LocalError, UnknownOperatorError, *REFUSALS, TypeError, ValueError, LookupError, AttributeError)
"""A row's errors for arguments that have no steps."""


def planned(
    trace: Trace, served: ServedOperators, new_program: Callable[[], BaseProgram[Any]], *, is_strict: bool = False
) -> Plan:
    """Returns the parts of a step for a server's operators.

    Raises InvalidFieldError if the step has no operator, or with `is_strict` if a function has none.
    """
    early: set[fx.Node] = set()
    while True:
        builder = _Builder(trace, served, new_program, frozenset(early))
        try:
            with as_traced():
                plan = builder.plan()
        except LocalError as reason:
            raise InvalidFieldError.at("step", f"cannot be cut into programs: {reason}", "leave that out") from None
        if builder.early <= early:
            break
        early |= builder.early
    first = plan.locals[0] if plan.locals else None
    if first and is_strict:
        count, name = len(plan.locals), f"{first.node.target} in {first.place}"
        problem = f"has {count} functions without an operator, of which {name} is the first: {first.because}"
        raise InvalidFieldError.at("step", problem, "leave strict out to have them run here")
    if not any(part.wanted for part in plan.parts):
        why = f": {first.because}" if first else ""
        raise InvalidFieldError.at("step", f"has nothing that a server computes{why}", "run it with PyTorch alone")
    return plan


class _Builder:
    """Builds one plan. `early` nodes run here because a function without an operator needs them."""

    def __init__(
        self,
        trace: Trace,
        served: ServedOperators,
        new_program: Callable[[], BaseProgram[Any]],
        early: frozenset[fx.Node],
    ) -> None:
        self._trace, self._served = trace, served
        self._values = Values(new_program, served.product, self._added)
        self.early = set(early)
        self._follows: dict[fx.Node, Follows] = {}
        self._masks: dict[fx.Node, tuple[fx.Node, float]] = {}
        """Scaled masks of dropout: the node that draws them, and the kept share."""
        self._because: dict[fx.Node, str] = {}
        self._steps: dict[fx.Node, tuple[int, range]] = {}
        self._drawn_at = 0
        """The level of the latest node that draws random numbers, which keep their order."""

    def plan(self) -> Plan:
        for node in self._trace.graph.graph.nodes:
            if node.op == "placeholder":
                self._take_input(node)
            elif node.op == "get_attr":
                self._take_constant(node, getattr(self._trace.graph, node.target))
            elif node.op == "call_function":
                self._take(node)
        for each in self._trace.outputs:
            self._values.bring(each)
        constants = {**self._values.constants, **self._values.others}
        locals = [
            Local(node, because)
            for node, because in self._because.items()
            if self._follows[node] is Follows.PARAMETERS and node in self._values.local
        ]
        parts = [part for part in self._values.parts if part.local or part.wanted]
        return Plan(self._trace, parts, constants, locals, self._steps)

    # Kinds of nodes.

    def _take_input(self, node: fx.Node) -> None:
        value = node.meta["val"]
        number = self._trace.inputs.index(node)
        if number < len(self._trace.gradients):
            follows = Follows.PARAMETERS
        else:
            follows = Follows.NUMBERS if value.is_floating_point() or value.is_complex() else Follows.INTEGERS
        self._follows[node], self._values.local[node] = follows, 0

    def _take_constant(self, node: fx.Node, value: Tensor) -> None:
        """A tensor that is neither the model's nor the batch's keeps its value at the trace."""
        is_number = value.is_floating_point() or value.is_complex()
        self._follows[node] = Follows.NUMBERS if is_number else Follows.INTEGERS
        self._values.local[node] = 0
        self._values.others[node] = value

    def _take(self, node: fx.Node) -> None:
        inputs = node.all_input_nodes
        of_shape = is_of_shape(node)
        follows = max((self._follows[each] for each in inputs), default=Follows.NOTHING)
        self._follows[node] = Follows.NOTHING if of_shape else follows
        if is_random(node.target):
            self._follows[node] = max(self._follows[node], Follows.INTEGERS)
            level = self._drawn_at = max([self._drawn_at, *map(self._values.level_here, read_by(node))])
            self._values.run_here(node, level)
            return
        if self._follows[node] is Follows.NOTHING:
            self._values.constants[node] = constant_of(node, self._values.constants)
            self._values.local[node] = 0
        elif self._follows[node] is Follows.INTEGERS or node in self.early or self._is_of_integers_here(node):
            self._note_mask(node)
            self._values.run_here(node)
        elif node.target is getitem and inputs[0] in self._values.local:
            self._values.run_here(node)
        else:
            self._take_numbers(node)

    def _is_of_integers_here(self, node: fx.Node) -> bool:
        """Returns whether inputs and results are not floating-point, and all inputs are here."""
        inputs = node.all_input_nodes
        values = [*inputs, node]
        return all(each in self._values.local for each in inputs) and not any(map(is_of_fractions, values))

    def _take_numbers(self, node: fx.Node) -> None:
        """Adds the steps of a node, or runs it here if it has none."""
        level = max(self._values.level_there(each) for each in node.all_input_nodes)
        while level < len(self._values.parts) and len(self._values.parts[level].program) > MAX_STEPS - _ROOM:
            level += 1
        try:
            value = self._added(node, level)
        except _REFUSALS as reason:
            self._because[node] = _short(reason)
            if self._follows[node] is not Follows.PARAMETERS:
                # It depends on no program yet, so no results have to come back for it.
                self._note_early(node)
            self._values.run_here(node)
        else:
            self._values.remote[node] = Remote(level, value)

    def _note_early(self, node: fx.Node) -> None:
        left = [node]
        while left:
            for each in left.pop().all_input_nodes:
                if each in self._values.remote and each not in self.early:
                    self.early.add(each)
                    left.append(each)

    def _note_mask(self, node: fx.Node) -> None:
        """Notes the factor of PyTorch's dropout: a drawn mask, divided by the kept share."""
        if node.target in (aten.div.Scalar, aten.div.Tensor) and isinstance(node.args[1], float):
            drawn = node.args[0]
            if drawn.target is aten.bernoulli.p and drawn.args[1] == node.args[1]:
                self._masks[node] = drawn, node.args[1]

    # Steps.

    def _added(self, node: fx.Node, level: int) -> Any:
        """Returns the handle of a node's result in the program of a level."""
        if node.target is getitem:
            return self._item(node, self._values.there(node.args[0], level))
        program = self._values.part(level).program
        before = len(program)
        program.place = partial(str, place_of(node))
        if self._is_dropout(node):
            value = self._dropped(node, level)
        else:
            row = self._row(node)
            given = node.args, _with_truth(node)
            args, options = fx.node.map_arg(given, lambda each: self._values.there(each, level))
            if node.target in _INDEXED:
                args = (args[0], self._positions(node, level), *args[2:])
            value = row(Steps(program, self._served.product), *args, **options)
        for step in program.steps[before:]:
            types = {each.name: each.type for each in step.inputs}
            if any(
                each.step is not None and each.view is not None and types[each.name].dtype.name == "bool"
                for each in step.inputs
            ):
                raise LocalError("a server takes truth values of an earlier step as a whole alone")
            self._served.check(step.operator, types, step.attributes)
        first = value[0] if isinstance(value, tuple | list) else value
        expected = node.meta["val"][0] if isinstance(node.meta["val"], tuple | list) else node.meta["val"]
        check_type(first, expected)
        if len(program) > before:
            self._steps.setdefault(node, (level, range(before, len(program))))
        return value

    def _row(self, node: fx.Node) -> Row:
        if node.target is _SAFE_SOFTMAX and not self._may_have_empty_rows(node.args[0]):
            return lambda steps, self, dim, dtype=None: ROWS[_SOFTMAX](steps, self, dim, False)
        row = VIEWS.get(node.target) or ROWS.get(node.target)
        if row is None:
            raise LocalError(f"no operator computes {node.target}")
        return row

    def _may_have_empty_rows(self, scores: fx.Node) -> bool:
        """Returns whether a row of attention may be fully masked, so that its weights are 0 and not NaN."""
        if scores.target is not aten.add.Tensor:
            return scores.target not in (aten.bmm.default, aten.view.default, aten._unsafe_view.default)  # noqa: SLF001
        mask = self._values.constants.get(scores.args[1])
        return mask is None or bool((mask == -torch.inf).all(-1).any())

    def _positions(self, node: fx.Node, level: int) -> list[Any]:
        """Returns the indices of a node, with those that count from the end converted."""
        sizes = node.args[0].meta["val"].shape
        found: list[Any] = []
        for axis, each in enumerate(node.args[1]):
            if (
                each is None
                or each.meta["val"].dtype not in (torch.int32, torch.int64)
                or each not in self._values.local
            ):
                found.append(None if each is None else self._values.there(each, level))
            elif each in self._values.constants:
                found.append(_from_start(self._values.constants[each], size=sizes[axis]))
            else:
                form = partial(_from_start, size=sizes[axis])
                found.append(self._values.sent(each, level, f"of {sizes[axis]}", type_of(each.meta["val"]), form))
        return found

    def _item(self, node: fx.Node, several: Any) -> Any:
        value = several[node.args[1]]
        if value is None:
            raise LocalError(f"no operator gives result {node.args[1]} of {node.args[0].target}")
        return value

    def _is_dropout(self, node: fx.Node) -> bool:
        if node.target is not aten.mul.Tensor or not all(isinstance(each, fx.Node) for each in node.args):
            return False
        one, other = node.args
        mask = other if other in self._masks else one
        return mask in self._masks and mask.meta["val"].shape == node.meta["val"].shape

    def _dropped(self, node: fx.Node, level: int) -> Handle:
        one, other = node.args
        of, mask = (one, other) if other in self._masks else (other, one)
        drawn, kept = self._masks[mask]
        self_value = self._values.there(of, level)
        if tuple(self_value.shape) != tuple(mask.meta["val"].shape):
            raise LocalError("the mask of dropout is broadcast")
        type = TensorType(DTYPES["uint8"], (mask_bytes(self_value.size),))
        bits = self._values.sent(drawn, level, "packed", type, _packed)
        made: Handle = self._values.part(level).program.execute(
            "dropout_do_mask", {"self": self_value, "mask": bits}, {"prob": 1 - kept}
        )
        return made


def _with_truth(node: fx.Node) -> dict[str, Any]:
    """Returns the options of a node; attention gets a mask of truth values, which has fewer bytes."""
    options = dict(node.kwargs)
    mask = options.get("attn_mask")
    if node.target in ATTENTION and isinstance(mask, fx.Node) and (truth := truth_of(mask)) is not None:
        options["attn_mask"] = truth
    return options


def _short(reason: Exception) -> str:
    """Returns the result of a function for one product."""
    text = str(reason) or type(reason).__name__
    first = text.removeprefix("(1) ").partition(" (2) ")[0].partition("; ")[0]
    return first if len(first) <= _LONGEST else f"{first[:_LONGEST]}..."


def _from_start(index: Tensor, size: int) -> Array:
    return array_of(torch.where(index < 0, index + size, index))


def _packed(mask: Tensor) -> Array:
    return packed(array_of(mask))
