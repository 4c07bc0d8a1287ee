"""Whose gradients were the server's: what a block rerouted and what stayed local, by function and layer."""

import logging
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Final
from weakref import WeakKeyDictionary

from torch import nn

log = logging.getLogger("aclgrad.torch")

_CALL: Final = nn.Module._call_impl.__code__  # noqa: SLF001 - what runs while a module is called
_NAMES: Final[WeakKeyDictionary[nn.Module, dict[int, str]]] = WeakKeyDictionary()
_LOCK: Final = threading.Lock()

UNRECORDED: Final = "no gradient is recorded"


class LocalError(Exception):
    """A call whose gradient no operator computes; the text says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a function was called, and why its gradient is not the server's; None if it is."""

    function: str
    layer: str
    """The path of the module that called it, from the outermost one; empty outside of modules."""
    because: str | None

    @property
    def whose(self) -> str:
        if self.because is None:
            return "remote"
        return "none" if self.because == UNRECORDED else "local"

    def __str__(self) -> str:
        return f"{self.function} of {self.layer}" if self.layer else self.function


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Returns the rows as lines whose columns stand below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, [*widths[:-1], 0])).rstrip() for row in rows]


class Account:
    """Counts the calls in the forward pass. A function that stays local for a new reason is logged once, as INFO."""

    def __init__(self) -> None:
        self.calls: Counter[Place] = Counter()

    def note(self, function: str, because: str | None) -> Place:
        place = Place(function, layer_of(sys._getframe(1)), because)  # noqa: SLF001 - the only way to know the layer
        with _LOCK:
            is_new = place not in self.calls
            self.calls[place] += 1
        if is_new and place.whose == "local":
            log.info("%s stays local: %s", place, because)
        return place

    def table(self) -> str:
        """Returns a line for each function, layer and reason, and a last one with the sums."""
        with _LOCK:
            calls = sorted(self.calls.items(), key=lambda item: (item[0].layer, item[0].function))
        rows = [("calls", "gradient", "function", "layer", "because")]
        sums = Counter({"remote": 0, "local": 0})
        for place, count in calls:
            rows.append((str(count), place.whose, place.function, place.layer, place.because or ""))
            sums[place.whose] += count
        more = f"; none is recorded for {sums['none']} more" if sums["none"] else ""
        last = f"{sums['remote']} of {sums['remote'] + sums['local']} gradients come from the server{more}"
        return "\n".join([*aligned(rows), last])


def layer_of(frame: FrameType | None) -> str:
    """Returns the path of the innermost module whose call is under way in the frame."""
    modules: list[nn.Module] = []
    while frame is not None:
        if frame.f_code is _CALL:
            modules.append(frame.f_locals["self"])
        frame = frame.f_back
    if not modules:
        return ""
    names = [type(modules[-1]).__name__]
    for outer, inner in zip(modules[:0:-1], modules[-2::-1], strict=True):
        names.append(_name_in(outer, inner))
    return ".".join(names)


def _name_in(outer: nn.Module, inner: nn.Module) -> str:
    """Returns the name of a module within another, or its class if it is called and not a part."""
    for _ in range(2):
        name = _NAMES.setdefault(outer, {}).get(id(inner))
        if name:
            return name
        # Anew if parts were exchanged since.
        _NAMES[outer] = {id(each): name for name, each in outer.named_modules()}
    return type(inner).__name__
