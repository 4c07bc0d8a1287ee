"""For programs that judge gradients: the calls of a step, and the functions that a server serves.

The functions here raise LocalError, with the reason, instead of the InvalidFieldError of `aclgrad.torch`.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ContextDecorator
from functools import cache
from typing import Any, Final

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from aclgrad._client.sync.client import Client
from aclgrad.bridges.likelihoods import OF_LOGITS, of_classes
from aclgrad.bridges.rows import ROWS
from aclgrad.torch._account import ARITHMETIC, Account, CallSite, LocalError, aligned, grouped
from aclgrad.torch._activations import swiglu
from aclgrad.torch._attention_gradients import FUNCTION, OPERATORS
from aclgrad.torch._gradients import SentCall, note_sent, record_sent_calls
from aclgrad.torch._graph import BACKWARD, Graph, nodes_made
from aclgrad.torch._missed_calls import is_opened, opened, with_weight
from aclgrad.torch._mode import rerouted
from aclgrad.torch._roi_align import roi_align as pooled_regions
from aclgrad.torch._sampling import interpolate, roi_align
from aclgrad.torch._several import rms_norm
from aclgrad.torch._tensors import Array, array_of, dtype_name, number_of, tensor_of

__all__ = [
    "ARITHMETIC",
    "Array",
    "CallSite",
    "LocalError",
    "SeenCalls",
    "SentCall",
    "aligned",
    "array_of",
    "dtype_name",
    "grouped",
    "interpolate",
    "note_sent",
    "operators_by_function",
    "pooled_regions",
    "record_sent_calls",
    "rerouted",
    "rms_norm",
    "roi_align",
    "swiglu",
    "tensor_of",
]

_NOT_ARRIVED: Final = "backward() has brought no gradient to it"
_OPAQUE: Final = {
    "CheckpointFunction": "a reentrant checkpoint is computed again unseen; give it use_reentrant=False",
    "CompiledFunction": "graphs of torch.compile are not seen; compare the model that is not compiled",
}


class SeenCalls(TorchFunctionMode, ContextDecorator):
    """Within the block, each call of a function is seen, and runs as ever. `_see` takes those that are rerouted."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        number_of(client)  # raises unless it is a client
        self.client = client
        self.functions = rerouted()
        self._account = Account()
        self._graph = Graph(self._account, (each.__name__ for each in self.functions), _OPAQUE)

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        options = dict(kwargs or {})
        if torch.compiler.is_compiling():
            return function(*args, **options)
        if is_opened(function):
            return opened(self, function, args, options)
        options = dict(with_weight(function, options, sys._getframe(1)))  # noqa: SLF001 - as below
        if function in BACKWARD:
            self._graph.walk(args[0] if args else next(iter(options.values())))
        since, is_row = nodes_made(), function in self.functions
        result = function(*args, **options)
        if nodes_made() != since:
            because = _NOT_ARRIVED if is_row else None
            name = getattr(function, "__name__", "")
            frame = sys._getframe(1)  # noqa: SLF001 - the only way to know the layer
            sites = self._graph.label(result, since, name, frame, because, is_row=is_row)
            first = result[0] if isinstance(result, tuple | list) else result
            if is_row and sites and isinstance(first, Tensor) and first.requires_grad:
                self._see(first, function, args, options, sites)
        return result

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._graph.walk()

    def _see(
        self,
        output: Tensor,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        options: Mapping[str, Any],
        sites: Sequence[CallSite],
    ) -> None:
        """Takes a call of one of the `functions`, and its differentiable output."""

    def backward_calls(self) -> Counter[CallSite]:
        """Returns the backward calls of the block without plain arithmetic."""
        self._graph.walk()
        return self._account.calls.copy()

    @property
    def arithmetic(self) -> int:
        """The backward calls of plain arithmetic so far."""
        return self._account.arithmetic


@cache
def operators_by_function() -> dict[str, tuple[str, ...]]:
    """Returns the operators by the function whose gradients they are."""
    found: dict[str, tuple[str, ...]] = {}
    for row in ROWS.values():
        found[row.function] = tuple(dict.fromkeys((*found.get(row.function, ()), row.operator)))
    return {**found, "cross_entropy": (of_classes(2), of_classes(4), OF_LOGITS), FUNCTION: OPERATORS}
