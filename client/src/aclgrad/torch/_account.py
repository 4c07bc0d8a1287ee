"""The account of a block: which gradients were the server's and which stayed local, by function and layer."""

import logging
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Final
from weakref import WeakKeyDictionary

import torch
from torch import nn

from aclgrad.errors import InvalidFieldError

log = logging.getLogger("aclgrad.torch")

_CALL: Final = nn.Module._call_impl.__code__  # noqa: SLF001 - what runs while a module is called
_NAMES: Final[WeakKeyDictionary[nn.Module, dict[int, str]]] = WeakKeyDictionary()
_LOCK: Final = threading.Lock()

UNRECORDED: Final = "no gradient is recorded"
ARITHMETIC: Final = "plain arithmetic"


class LocalError(Exception):
    """No operator computes the gradient of a call; the text says why."""


@dataclass(frozen=True, slots=True)
class CallSite:
    """The place of a call, and why its gradient is not the server's; None if it is."""

    function: str
    layer: str
    """The path of the calling module, from the outermost one; empty outside of modules."""
    because: str | None
    part_of: str = ""
    """The function of which this call is a part, and why that is not one call; usually empty."""

    @property
    def whose(self) -> str:
        if self.because is None:
            return "remote"
        return "none" if self.because == UNRECORDED else "local"

    def __str__(self) -> str:
        return f"{self.function} of {self.layer}" if self.layer else self.function


class _Part(threading.local):
    of = ""


_PART: Final = _Part()


@contextmanager
def as_part_of(function: str, because: str) -> Iterator[None]:
    """Marks the calls of the block as parts of a PyTorch function, with the reason; not if compiled."""
    if torch.compiler.is_compiling():
        yield
        return
    outer, _PART.of = _PART.of, f"part of {function}: {because}"
    try:
        yield
    finally:
        _PART.of = outer


def served_site(function: str, frame: FrameType) -> CallSite:
    """Returns the place of a call with a gradient from the server."""
    return CallSite(function, layer_of(frame), None, _PART.of)


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Returns the rows as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, [*widths[:-1], 0])).rstrip() for row in rows]


class Account:
    """Counts the backward calls. A function that stays local for a new reason is logged once, as INFO.

    With `allow`, names of functions, all other local functions are kept for `raise_refused`.
    """

    def __init__(self, allow: Collection[str] | None = None) -> None:
        self.calls: Counter[CallSite] = Counter()
        """The backward calls without plain arithmetic, and the calls that record no gradient."""
        self.arithmetic = 0
        """The backward calls of plain arithmetic, such as sums and products of elements."""
        self.flops: Counter[CallSite] = Counter()
        """The floating-point operations of convolutions, products and attention."""
        self.left_alone: Counter[CallSite] = Counter()
        """The calls of modules that could have been one operator but stayed plain arithmetic."""
        self._allow = allow
        self._refused: list[tuple[CallSite, str]] = []
        self._logged: set[tuple[str, str | None]] = set()

    def again(self) -> "Account":
        """Returns an account for recomputation, which counts, logs and refuses nothing again."""
        account = Account()
        account._logged = self._logged
        return account

    def note(self, site: CallSite, node: str = "", flops: int = 0) -> None:
        """Counts a backward call; `node` is the name of autograd's node."""
        reason = site.function, site.because
        with _LOCK:
            self.calls[site] += 1
            self.flops[site] += flops
            is_new = site.whose == "local" and reason not in self._logged
            if is_new:
                self._logged.add(reason)
            if self.refuses(site):
                self._refused.append((site, node))
        if is_new:
            log.info("%s stays local: %s", site, site.because)

    def note_arithmetic(self) -> None:
        with _LOCK:
            self.arithmetic += 1

    def tell(self, site: CallSite) -> None:
        """Counts a call of a module that stays plain arithmetic, which is counted separately."""
        reason = site.function, site.because
        with _LOCK:
            self.left_alone[site] += 1
            is_new = reason not in self._logged
            self._logged.add(reason)
        if is_new:
            log.info("%s stays plain arithmetic: %s", site, site.because)

    def refuses(self, site: CallSite) -> bool:
        return self._allow is not None and site.whose == "local" and site.function not in self._allow

    def raise_refused(self) -> None:
        """Raises InvalidFieldError if calls were refused since the last time."""
        with _LOCK:
            refused, self._refused = self._refused, []
        if refused:
            site, node = refused[0]
            count = sum(each.function == site.function for each, _ in refused)
            raise refusal(site, f" ({node}, {count} of the backward calls)", {each.function for each, _ in refused})

    def table(self) -> str:
        """Returns a line for each function and reason with its layers, followed by the sums."""
        with _LOCK:
            calls, flops, arithmetic = self.calls.copy(), self.flops.copy(), self.arithmetic
            left_alone = self.left_alone.copy()
        rows = [("calls", "gradient", "FLOPs", "function", "layer", "because")]
        for (site, layers, count), (_, _, some) in zip(grouped(calls), grouped(flops), strict=True):
            share = f"{some / flops.total():.1%}" if some else ""
            rows.append((str(count), site.whose, share, site.function, layers, site.because or site.part_of))
        if arithmetic:
            rows.append((str(arithmetic), "local", "", ARITHMETIC, "", ""))
        for site, layers, count in grouped(left_alone):
            rows.append((str(count), "local", "", site.function, layers, f"{ARITHMETIC}: {site.because}"))
        return "\n".join([*aligned(rows), *_sums(calls, flops, arithmetic)])


def refusal(site: CallSite, detail: str = "", functions: Iterable[str] = ()) -> InvalidFieldError:
    """Returns the error of a strict block in which these functions stay local; the site is of the first."""
    where = f"of {site.layer} " if site.layer else ""
    names = ", ".join(f'"{each}"' for each in sorted({site.function, *functions}))
    remedy = f"call it outside of the block, give allow=[{names}], or leave strict out"
    return InvalidFieldError.at(site.function, f"{where}would stay local: {site.because}{detail}", remedy)


def grouped(counts: Mapping[CallSite, int]) -> Iterator[tuple[CallSite, str, int]]:
    """Yields a site, the layers and the number of calls for each function and reason."""
    groups: dict[tuple[str, str | None, str], list[CallSite]] = {}
    for site in sorted(counts, key=lambda each: (each.layer, each.function)):
        groups.setdefault((site.function, site.because, site.part_of), []).append(site)
    for sites in groups.values():
        more = f" and {len(sites) - 1} more" if len(sites) > 1 else ""
        yield sites[0], sites[0].layer + more, sum(counts[site] for site in sites)


def _sums(calls: Counter[CallSite], flops: Counter[CallSite], arithmetic: int) -> list[str]:
    sums = Counter({"remote": 0, "local": arithmetic, "none": 0})
    for site, count in calls.items():
        sums[site.whose] += count
    more = f"; no gradient is recorded for {sums['none']} more" if sums["none"] else ""
    lines = [f"{sums['remote']} of {sums['remote'] + sums['local']} backward calls are the server's{more}"]
    if flops.total():
        remote = sum(count for site, count in flops.items() if site.whose == "remote")
        share = f"{remote / flops.total():.1%} of {flops.total():.3g}"
        lines.append(f"{share} floating-point operations of convolutions, products and attention are the server's")
    return lines


def layer_of(frame: FrameType | None) -> str:
    """Returns the path of the innermost module that is being called in the frame."""
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
    """Returns the name of a module within another, or its class if it is not a part of it."""
    for _ in range(2):
        name = _NAMES.setdefault(outer, {}).get(id(inner))
        if name:
            return name
        # Again if parts were exchanged since.
        _NAMES[outer] = {id(each): name for name, each in outer.named_modules()}
    return type(inner).__name__
