"""What computes a training step: functions of PyTorch here, seen below autograd, and operators that a client sends."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Self

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx
from torch.autograd.graph import Node
from torch.utils._python_dispatch import TorchDispatchMode

import aclgrad
from aclgrad import CallReport, Program
from aclgrad.operators.catalogue import OPERATORS
from tools.coverage.work import Work, of_pytorch, of_server, tensors_in


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


MOVING: Final = _names(
    """
    alias arange as_strided as_strided_ as_strided_scatter cat clone copy copy_ detach detach_ diagonal empty
    empty_like empty_strided expand expand_copy eye fill fill_ flip full full_like is_same_size lift lift_fresh
    lift_fresh_copy _local_scalar_dense new_empty new_empty_strided new_full new_ones new_zeros ones ones_like
    permute pixel_shuffle pixel_unshuffle repeat _reshape_alias resize_ roll scalar_tensor select select_backward
    set_ slice slice_backward split split_with_sizes squeeze squeeze_ stack t _to_copy transpose transpose_ unbind
    unfold _unsafe_view unsqueeze unsqueeze_ view view_as_complex view_as_real zero_ zeros zeros_like
    """
)
"""Functions that copy, view, make constants: they compute nothing."""
RANDOM: Final = _names(
    """
    bernoulli bernoulli_ normal normal_ rand rand_like randint randn randn_like uniform_
    """
)
"""Functions that draw: both ways draw here, from PyTorch's generator."""
ARITHMETIC: Final = _names(
    """
    abs add add_ addcdiv addcmul amax amin clamp clamp_max clamp_min cos cumsum div div_ eq exp expm1 ge gt le
    linalg_vector_norm log log1p logical_and logical_not lt masked_fill masked_fill_ max maximum mean min minimum
    mul mul_ ne neg norm pow reciprocal rsqrt rsub sgn sign sin sqrt sub sub_ sum where
    """
)
"""Functions of elements and sums, for which a training needs no kernel of its own."""
HANDED_ON: Final = ("AddBackward", "SubBackward", "SumBackward")
"""Nodes that compute, even where they only hand on the gradient that they got."""
ACCUMULATING: Final = frozenset(("add", "add_"))
"""What autograd's engine itself calls for a tensor that is used twice, in whichever node is next."""
ADDING: Final = ("torch::autograd::AccumulateGrad", "ExpandBackward0")
"""Nodes of leaves and views, which add nonetheless."""
CALLS: Final = ("ExecuteOperator", "ExecuteOperatorChunked", "ExecuteProgram", "ExecuteProgramChunked")


class LocalWork(TorchDispatchMode):
    """Notes what PyTorch computes within the block, and by which nodes of autograd's graph."""

    def __init__(self) -> None:
        super().__init__()
        self.work: list[Work] = []
        self.drawn: list[Work] = []
        self.names_by_node: dict[Node, set[str]] = {}

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options = dict(kwargs or {})
        result = function(*args, **options)
        name = function.overloadpacket.__name__
        if (
            name in MOVING
            or function.namespace == "aclgrad"
            or not has_fractions([args, list(options.values()), result])
        ):
            return result
        work = of_pytorch(function, args, options, result)
        (self.drawn if name in RANDOM else self.work).append(work)
        node = torch._C._current_autograd_node()  # noqa: SLF001 - nothing else tells
        if node is not None:
            self.names_by_node.setdefault(node, set()).add(name)
        return result

    def calls(self, graph: set[Node]) -> list[tuple[Node, set[str]]]:
        """Returns the nodes of PyTorch that have computed, with their functions; the graph is that of the loss."""
        ran = {node: names - ACCUMULATING for node, names in self.names_by_node.items() if node.name() not in ADDING}
        found = {node: names for node, names in ran.items() if names}
        for node in graph:
            if node.name().startswith(HANDED_ON):
                found.setdefault(node, {"add"})
        return [(node, names) for node, names in found.items() if not is_of_bridge(node)]


def has_fractions(values: Any) -> bool:
    """Says whether any of the tensors has other than whole numbers: counters and positions are no work."""
    return any(each.is_floating_point() for each in tensors_in(values))


def is_of_bridge(node: Node) -> bool:
    """Says whether a node is one of aclgrad's classes."""
    made_by = getattr(type(node), "_forward_cls", None) if isinstance(node, FunctionCtx) else None
    return made_by is not None and made_by.__module__.startswith("aclgrad.")


def graph_of(loss: Tensor) -> set[Node]:
    """Returns all nodes behind a loss."""
    found: set[Node] = set()
    left = [loss.grad_fn]
    while left:
        node = left.pop()
        if node is not None and node not in found:
            found.add(node)
            left += [each for each, _ in node.next_functions]
    return found


class CountingClient(aclgrad.Client):
    """A client that notes the operators that it sends, and which of its calls have ended."""

    def __init__(self, target: str, **options: Any) -> None:
        super().__init__(target, on_call=self._note, **options)
        self.ended: list[str] = []
        """The methods of calls that a server has answered, as `on_call` reports them."""
        self.sent: list[list[Work]] = []
        """The operators of each call."""

    def begin(self) -> Self:
        self.ended.clear()
        self.sent.clear()
        return self

    def _note(self, report: CallReport) -> None:
        if report.method in CALLS and report.error is None:
            self.ended.append(report.method)

    def execute(self, name: str, inputs: Any, attributes: Any = None, **options: Any) -> Any:
        found = super().execute(name, inputs, attributes, **options)
        given = {key: value for key, value in dict(inputs).items() if value is not None}
        outputs = [each.name for each in OPERATORS[name].outputs]
        values = dict(zip(outputs, found if isinstance(found, tuple) else [found], strict=False))
        made = {key: value for key, value in values.items() if value is not None}
        size_bytes = sum(each.nbytes for each in [*given.values(), *made.values()])
        shapes = ({key: tuple(each.shape) for key, each in some.items()} for some in (given, made))
        self.sent.append([of_server(name, *shapes, attributes or {}, size_bytes)])
        return found

    def program(self, product: str = "") -> Program:
        return _CountingProgram(self._requirements, self, product)


class _CountingProgram(Program):
    def run(self, *wanted: Any, **options: Any) -> list[Any]:
        found = super().run(*wanted, **options)
        self._client.sent.append([self._work(position) for position in sorted(self._needed(wanted))])
        return found

    def _needed(self, wanted: Any) -> set[int]:
        found: set[int] = set()
        left = [each.step for each in _flat(wanted)]
        while left:
            position = left.pop()
            if position not in found:
                found.add(position)
                left += [each.step for each in self.steps[position].inputs if each.step is not None]
        return found

    def _work(self, position: int) -> Work:
        step = self.steps[position]
        shapes = ({each.name: each.type.shape for each in some} for some in (step.inputs, step.outputs))
        size_bytes = sum(each.type.size_bytes for each in [*step.inputs, *step.outputs])
        return of_server(step.operator, *shapes, step.attributes, size_bytes)


def _flat(wanted: Any) -> Iterator[Any]:
    for each in wanted:
        if isinstance(each, tuple):
            yield from _flat(each)
        elif each is not None:
            yield each
