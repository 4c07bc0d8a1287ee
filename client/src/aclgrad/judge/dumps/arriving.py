"""Gradients that a dump has only where they arrive: at the call that made the argument.

msprobe records what the last step of a function returns. The last step of a linear layer over three axes, of some
attention and of losses only reshapes or passes on, so the call's own entry lacks the argument's gradient. The backward
pass of the call that made the argument was given it: the sum over all calls that used the argument. These calls are
found by equal values. A use outside the dump changes the sum, so a different sum is only noted. It has failed if it is
NaN, zero, or the right one times a factor near 1, and the dump is of one backward pass: no missing use explains these,
except a hook that scales a gradient.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import torch
from torch import Tensor

from aclgrad.judge.dumps.choices import NotJudgedError
from aclgrad.judge.dumps.computed import Computed
from aclgrad.judge.dumps.judging import SLOW
from aclgrad.judge.dumps.limits import Basis, largest_error, limit_of, side_of
from aclgrad.judge.dumps.recorded import Source
from aclgrad.judge.dumps.records import ARRIVES_OTHERWISE, LAST_STEP, TRAINING, CallRow, Side, TensorRow
from aclgrad.judge.dumps.runs import HALVES
from aclgrad.judge.findings.rows import Verdict, worst_of
from aclgrad.judge.msprobe.dump import is_tensor

_NEAR: Final = 0.1
_SHOWN: Final = 4
_ROUNDING: Final = 2.0**-8
"""Rounding of each partial sum in 16 bits."""


@dataclass(slots=True)
class _Made:
    """A tensor made by a call, and the calls that used it."""

    by: str
    position: int
    uses: list[tuple[str, int]] = field(default_factory=list)


def with_arriving(
    source: Source, rows: Sequence[CallRow], watched: Callable[[Sequence[_Made]], Iterable[_Made]] = iter
) -> Iterator[CallRow]:
    """Yields the rows of one dump again, those of last steps with the gradients that arrive at other calls.

    `watched` yields its tensors, and may show the progress.
    """
    wanted = {_call(row.name): row for row in rows if LAST_STEP in row.message}
    found: dict[str, list[TensorRow]] = {}
    is_one_pass = _losses(source) < 2
    for made in watched([each for each in _made(rows) if any(name in wanted for name, _ in each.uses)]):
        users = dict.fromkeys(name for name, _ in made.uses)
        try:
            side, info = _judged(source, made, is_one_pass=is_one_pass)
        except Exception:  # one call must not end the others: its row stays unchanged
            continue
        tensor = TensorRow(f"gradient that arrives at {made.by}.backward", *info, None, {TRAINING: side})
        for name in users:
            found.setdefault(name, []).append(tensor)
    for row in rows:
        yield _with(row, found.get(_call(row.name), [])) if wanted.get(_call(row.name)) is row else row


def _losses(source: Source) -> int:
    """Returns how many calls may have begun a backward pass: those whose result is one number."""
    shapes = [entry.grad_outputs[:1] for entry in source.entries.values() if entry.backward is not None]
    return sum(bool(each) and is_tensor(each[0]) and each[0].get("shape") == [] for each in shapes)


def _call(name: str) -> str:
    return name.removesuffix(".backward").removesuffix(".forward")


def _with(row: CallRow, arriving: list[TensorRow]) -> CallRow:
    if not arriving:
        return row
    tensors = (*row.tensors, *arriving)
    found = {side.verdict for each in tensors for side in each.sides.values()}
    verdict = worst_of(found)
    noted = [each.sides[TRAINING].message for each in arriving if each.sides[TRAINING].verdict is Verdict.NOTED]
    message = row.message.replace(LAST_STEP, "; ".join(dict.fromkeys(noted)))
    return replace(row, tensors=tensors, verdict=verdict, message=message.strip("; "))


def _made(rows: Sequence[CallRow]) -> Iterator[_Made]:
    """Yields the tensors made by calls with a backward pass, with their uses by later calls."""
    backward = {_call(row.name) for row in rows if row.is_backward}
    latest: dict[str, _Made] = {}
    for row in sorted(rows, key=lambda each: each.index):
        if row.is_backward:
            continue
        name = _call(row.name)
        for position, digest in enumerate(row.digests.inputs):
            if digest in latest:
                latest[digest].uses.append((name, position))
        for position, digest in enumerate(row.digests.outputs):
            if digest:
                if made := latest.pop(digest, None):
                    yield made
                if name in backward:
                    latest[digest] = _Made(name, position)
    yield from latest.values()


def _judged(source: Source, made: _Made, *, is_one_pass: bool) -> tuple[Side, tuple[str, tuple[int, ...]]]:
    """Returns the finding about the arriving gradient, and its dtype and shape."""
    recorded = source.recorded(made.by)
    arrived = recorded.grad_outputs[made.position] if made.position < len(recorded.grad_outputs) else None
    if arrived is None:
        raise NotJudgedError("no gradient arrives there")
    truth, limit, single = (torch.zeros(arrived.shape, dtype=torch.float64) for _ in range(3))
    for name, position in made.uses:
        computed = Computed(source.recorded(name))
        basis = _basis(computed, position, arrived)
        if basis is not None:
            truth, single = truth + basis.truth, single + basis.single
            limit += limit_of(basis)
            if basis.dtype in HALVES:
                limit += _ROUNDING * len(made.uses) * basis.truth.abs()
    side = side_of(arrived, truth, limit, single)
    if side.verdict is Verdict.FAILED and (excess := sum(_own_excess(source, arrived, *each) for each in made.uses)):
        limit = limit + excess
        side = side_of(arrived, truth, limit, single)
        message = f"PyTorch's own runs are up to {excess:.2g} outside the limit, which is added"
        side = side if side.verdict is Verdict.FAILED else replace(side, message=message)
    if side.verdict is Verdict.FAILED and not _is_certain(arrived, truth, limit, single, is_one_pass=is_one_pass):
        users = list(dict.fromkeys(name for name, _ in made.uses))
        uses = ", ".join(users[:_SHOWN]) + (f" and {len(users) - _SHOWN} others" if len(users) > _SHOWN else "")
        message = f"{ARRIVES_OTHERWISE} at {made.by}.backward than {uses} give it; one is wrong, or a use is missing"
        side = replace(side, verdict=Verdict.NOTED, message=message)
    return side, (str(arrived.dtype).removeprefix("torch."), tuple(arrived.shape))


def _is_certain(arrived: Tensor, truth: Tensor, limit: Tensor, single: Tensor, *, is_one_pass: bool) -> bool:
    """Returns whether neither a missing use nor a second backward pass explains the arriving gradient."""
    if truth.isfinite().all() and not arrived.isfinite().all():
        return True
    if not arrived.any():
        return True
    square = float((truth * truth).sum())
    factor = float((arrived.double() * truth).sum()) / square if square > 0 else 0.0
    if not is_one_pass or abs(factor - 1) > _NEAR:
        return False
    # All elements have it, up to rounding.
    return side_of(arrived, truth * factor, limit, single * factor).verdict is Verdict.PASSED


def _own_excess(source: Source, arrived: Tensor, name: str, position: int) -> float:
    """Returns how far PyTorch's own run of a use in 16 bits is outside the gradient's limits."""
    computed = Computed(source.recorded(name))
    basis = _basis(computed, position, arrived)
    if basis is None or basis.dtype not in HALVES or (basis.dtype == torch.float16 and computed.seen.operations > SLOW):
        return 0.0
    try:
        own = computed.own.of_arguments[position]
    except NotJudgedError:  # PyTorch may have no kernel for 16 bits
        return 0.0
    return 0.0 if own is None else largest_error(own.reshape(arrived.shape), basis.truth, limit_of(basis))


def _basis(computed: Computed, position: int, arrived: Tensor) -> Basis | None:
    """Returns the basis of the limits of one argument's gradient; None if it has no gradient."""
    runs = [computed.wide, computed.single, *([computed.terms] if computed.terms else [])]
    gradients = [None if not run.of_arguments else run.of_arguments[position] for run in runs]
    wide, single, terms = (None if each is None else each.reshape(arrived.shape) for each in (*gradients, None)[:3])
    if wide is None or single is None:
        return None
    return Basis(wide, single, terms, computed.terms_of(wide), computed.rounded_dtype(arrived))
