"""Calls that a block's function mode misses: in threads, reentrant checkpoints and some functions.

A function mode belongs to one thread, so calls in a thread that begins in the block are noted as local. A reentrant
checkpoint records no gradient until backward() recomputes it, perhaps after the block has ended, so it is recomputed
within the same blocks. A non-reentrant one is recomputed in a block if it has run functions that save other tensors
than PyTorch's: RMSNorm, and functions compiled in a block.
"""

import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack
from inspect import unwrap
from types import FrameType, FunctionType
from typing import Any, Final, Protocol

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack, _pop_mode, _push_mode
from torch.utils.checkpoint import CheckpointFunction, checkpoint

from aclgrad.torch._account import LocalError
from aclgrad.torch._gemm import HOOKED
from aclgrad.torch._operations import OPEN

_REENTRANT: Final = CheckpointFunction.forward.__code__
_CHECKPOINT: Final = unwrap(checkpoint).__code__
_LOCK: Final = threading.Lock()
_watched: list["ThreadWatch"] = []
_previous_profile: list[Any] = []


class Block(Protocol):
    """A `remote_backward`."""

    def call(self, function: Any, args: tuple[Any, ...], options: Mapping[str, Any], *, is_here: bool) -> Any: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, *error: object) -> None: ...


class ThreadWatch:
    """Watches new threads for one block while it is open in any thread."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self._entries = 0

    def watch(self) -> None:
        with _LOCK:
            self._entries += 1
            if self._entries == 1:
                if not _watched:
                    # Called for the first event of each new thread.
                    _previous_profile[:] = [threading.getprofile()]
                    threading.setprofile(_follow)
                _watched.append(self)

    def leave(self) -> None:
        with _LOCK:
            self._entries -= 1
            if not self._entries:
                _watched.remove(self)
                # Another profiler may have been set since.
                if not _watched and threading.getprofile() is _follow:
                    threading.setprofile(_previous_profile[0])


def _follow(frame: FrameType, event: str, arg: object) -> None:
    """Makes open and later blocks watch a thread that begins while a block is open."""
    sys.setprofile(_previous_profile[0])
    _OfThread().__enter__()


class _OfThread(TorchFunctionMode):
    """Reports to open blocks what a thread that began in a block keeps local, until it enters a block itself."""

    @torch.compiler.disable
    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        with ExitStack() as stack:
            for watch in () if OPEN.has_had_one else tuple(_watched):
                stack.enter_context(_Reporter(watch))
            return function(*args, **(kwargs or {}))


class _Reporter(TorchFunctionMode):
    """Reports one call in another thread to a block."""

    def __init__(self, watch: ThreadWatch) -> None:
        super().__init__()
        self._watch = watch

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return self._watch.block.call(function, args, kwargs or {}, is_here=False)


class _Again:
    """The function of a reentrant checkpoint, recomputed within the blocks that were open at first."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.blocks: list[Block] = []

    def __call__(self, *args: Any, **options: Any) -> Any:
        with ExitStack() as stack:
            # The outermost block was noticed last.
            for block in reversed(self.blocks):
                if block not in _get_current_function_mode_stack():
                    stack.enter_context(block)
            return self.function(*args, **options)


def is_checkpointed(block: Block) -> bool:
    """Returns whether a reentrant checkpoint runs, and makes backward() recompute it within the block.

    Raises LocalError if this PyTorch keeps the function of the checkpoint elsewhere.
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - nothing else tells what a call is part of
    found = False
    while frame is not None:
        if frame.f_code is _REENTRANT:
            found = True
            ctx: Any = frame.f_locals.get("ctx")
            function = getattr(ctx, "run_function", None)
            if function is None:
                raise LocalError("a reentrant checkpoint records no gradient here; give it use_reentrant=False")
            if not isinstance(function, _Again):
                function = ctx.run_function = _Again(function)
            if block not in function.blocks:
                function.blocks.append(block)
        frame = frame.f_back
    return found


def is_of_checkpoint(error: Exception) -> bool:
    """Returns whether it is a checkpoint's own exception, which ends a recomputation early."""
    return bool(type(error).__module__ == checkpoint.__module__)


class _Within:
    """The function of a non-reentrant checkpoint, recomputed within a block."""

    def __init__(self, function: Callable[..., Any], block: Callable[[], AbstractContextManager[Any]]) -> None:
        self.function = function
        self.block = block

    def __call__(self, *args: Any) -> Any:
        with self.block():
            return self.function(*args)


def compute_again_within(block: Callable[[], AbstractContextManager[Any]]) -> bool:
    """Makes backward() recompute the innermost checkpoint within a block, and returns whether it will.

    It will not if no non-reentrant checkpoint runs, or this PyTorch keeps its function elsewhere.
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - as above
    while frame is not None:
        if frame.f_code is _Within.__call__.__code__:
            return True
        if frame.f_code is _CHECKPOINT and "gen" in frame.f_locals:
            generator = frame.f_locals["gen"].gi_frame
            made: Any = None if generator is None else generator.f_locals.get("new_frame")
            if not hasattr(made, "recompute_fn"):
                return False
            if not isinstance(made.recompute_fn, _Within):
                made.recompute_fn = _Within(made.recompute_fn, block)
            return True
        frame = frame.f_back
    return False


def check_computed_again(block: Callable[[], AbstractContextManager[Any]]) -> None:
    """Makes a checkpoint that counts saved tensors recompute them within a block; raises LocalError if impossible.

    For functions that save other tensors than PyTorch's own. Other hooks of saved tensors accept any.
    """
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(False)  # noqa: SLF001 - nothing else tells
    is_counted = hooks is not None and getattr(hooks[0], "__module__", "") == checkpoint.__module__
    if is_counted and not compute_again_within(block):
        raise LocalError(HOOKED)


def with_weight(function: Any, options: Mapping[str, Any], frame: FrameType | None) -> Mapping[str, Any]:
    """Returns the options, including those that PyTorch does not pass to modes: the weight of `l1_loss`."""
    while function is functional.l1_loss and frame is not None:
        if frame.f_code is functional.l1_loss.__code__:
            return {**options, "weight": frame.f_locals["weight"]}
        frame = frame.f_back
    return options


def opened(mode: TorchFunctionMode, function: Any, args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    """Returns the result of a function that `is_opened`; the mode sees its parts as calls."""
    _push_mode(mode)
    try:
        return _OPENED[function](*args, **options)
    finally:
        _pop_mode()


def is_opened(function: Any) -> bool:
    """Returns whether a function is one call for PyTorch's modes, but consists of others."""
    return function in _OPENED


def _copied(function: Any) -> FunctionType:
    """Returns the function without its check for modes, which would recurse."""
    names = {**function.__globals__, "has_torch_function": lambda _: False}
    copied = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    copied.__kwdefaults__ = function.__kwdefaults__
    return copied


_OPENED: Final[Mapping[Any, FunctionType]] = {
    each: _copied(each) for each in (functional.multi_head_attention_forward,)
}
