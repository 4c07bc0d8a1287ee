"""The places of a traced graph's nodes: the called module, and the user's line."""

import linecache
import sys
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final

import torch
from torch import Tensor, fx, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.utils._python_dispatch import TorchDispatchMode

from aclgrad.errors import InvalidFieldError, LimitExceededError
from aclgrad.torch._account import layer_of
from aclgrad.torch.step.drawing import Draws, is_random

_META: Final = "aclgrad_place"
_LIBRARY: Final = (str(Path(torch.__file__).parent), str(Path(__file__).parent.parent.parent))
"""Lines of PyTorch and of this package are not the user's."""
MOST_NODES: Final = 50_000
"""Most nodes of a traced graph: more would take minutes, and no server takes their steps."""


@dataclass(frozen=True, slots=True)
class Place:
    """The path of the module, empty outside of modules, the line of the user's code, and which pass it is."""

    module: str
    line: str
    is_backward: bool = False

    def __str__(self) -> str:
        where = ", ".join(each for each in (self.module, self.line) if each) or "the loss function"
        return f"the gradient of {where}" if self.is_backward else where


NOWHERE: Final = Place("", "")


def place_of(node: fx.Node) -> Place:
    """Returns the place of a node."""
    place: Place = node.meta.get(_META, NOWHERE)
    return place


class Placing(TorchDispatchMode):
    """Gives places to the nodes traced within the block; gradients have those of their forward calls.

    Raises LimitExceededError if the graph has too many nodes.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._model = model
        self._draws = Draws()
        self._sequence: list[int] = []
        """The ascending numbers of autograd's nodes at which places begin."""
        self._places: list[Place] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        mode = get_proxy_mode()
        options = kwargs or {}
        _check_tensors(function, args, sys._getframe(1))  # noqa: SLF001
        with marked(mode.tracer.graph, self._place(sys._getframe(1))) if mode else _nothing():  # noqa: SLF001
            return self._draws.take(function, args, options) if is_random(function) else function(*args, **options)

    def _place(self, frame: FrameType | None) -> Place:
        node = torch._C._current_autograd_node()  # noqa: SLF001 - there is no public name
        if node is not None:
            at = bisect_right(self._sequence, node._sequence_nr()) - 1  # noqa: SLF001
            forward = self._places[at] if at >= 0 else NOWHERE
            return Place(forward.module, forward.line, is_backward=True)
        made = torch._C._autograd._get_sequence_nr() - 1  # noqa: SLF001
        # A call of a function without a gradient comes after another one's node.
        if self._sequence and made <= self._sequence[-1]:
            return Place(self._path(frame), line_of(frame))
        place = Place(self._path(frame), line_of(frame))
        self._sequence.append(made)
        self._places.append(place)
        return place

    def _path(self, frame: FrameType | None) -> str:
        return path_in(self._model, layer_of(frame))


def path_in(model: nn.Module, layer: str) -> str:
    """Returns the path of a layer that `Called` has called, beginning with the model's class."""
    _, _, inner = layer.partition(".")
    outer, dot, rest = inner.partition(".")
    return f"{type(model).__name__}{dot}{rest}" if outer == "model" else inner


def _check_tensors(function: Any, args: tuple[Any, ...], frame: FrameType | None) -> None:
    """Raises InvalidFieldError for a parameter of another model, and for changes of a foreign tensor."""
    for each in tensors_in(args):
        if isinstance(each, FakeTensor):
            continue
        is_changed = each is args[0] and function._schema.is_mutable  # noqa: SLF001 - there is no public name
        if is_changed or each.requires_grad:
            what = "changes a tensor" if is_changed else "uses a parameter"
            problem = f"{what} that is neither the model's nor the batch's, in {line_of(frame) or 'a module'}"
            raise InvalidFieldError.at("step", problem, "make it a part of the model")


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@contextmanager
def marked(graph: fx.Graph, place: Place) -> Iterator[None]:
    """Gives the place to the block's nodes."""
    last = next(iter(reversed(graph.nodes)), None)
    yield
    for node in reversed(graph.nodes):
        if node is last:
            break
        node.meta.setdefault(_META, place)
    if len(graph.nodes) > MOST_NODES:
        problem = f"has more than {MOST_NODES} functions by {place}"
        raise LimitExceededError.at("step", problem, "trace a part of the model, or leave loops out of it")


class Replaced(fx.Interpreter):
    """Runs a graph; nodes traced meanwhile have its nodes' places."""

    def run_node(self, n: fx.Node) -> Any:
        mode = get_proxy_mode()
        if mode is None:
            return super().run_node(n)
        with marked(mode.tracer.graph, place_of(n)):
            return super().run_node(n)


def line_of(frame: FrameType | None) -> str:
    """Returns file and line of the innermost frame of the user's code."""
    while frame is not None:
        if not frame.f_code.co_filename.startswith((*_LIBRARY, "<")):
            return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def place_of_error(model: nn.Module, traceback: TracebackType | None) -> Place:
    """Returns the place of an error: the innermost module and line of the user's code."""
    layer, line = "", ""
    while traceback is not None:
        frame = traceback.tb_frame
        layer = layer_of(frame) or layer
        if not frame.f_code.co_filename.startswith((*_LIBRARY, "<")):
            text = linecache.getline(frame.f_code.co_filename, traceback.tb_lineno).strip()
            line = f"{Path(frame.f_code.co_filename).name}:{traceback.tb_lineno}" + (f", `{text}`" if text else "")
        traceback = traceback.tb_next
    return Place(path_in(model, layer), line)


def tensors_in(values: Any) -> Iterator[Tensor]:
    """Yields the tensors of a tree."""
    yield from (each for each in torch.utils._pytree.tree_leaves(values) if isinstance(each, Tensor))  # noqa: SLF001
