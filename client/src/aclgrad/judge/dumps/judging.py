"""From a recorded call to its rows, by the limits of each recorded result."""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import torch
from torch import Tensor

from aclgrad.judge.dumps.choices import NotJudgedError, are_ties, sums_of_ties
from aclgrad.judge.dumps.computed import Computed
from aclgrad.judge.dumps.limits import (
    Basis,
    exact_side,
    factor_of,
    largest_error,
    limit_of,
    limit_of_cards,
    side_of,
    tolerance_of,
)
from aclgrad.judge.dumps.products import OF_TERMS, POOLED, SETTINGS, is_product
from aclgrad.judge.dumps.recorded import Given, Recorded, Result, tensors_of
from aclgrad.judge.dumps.records import LAST_STEP, TRAINING, CallRow, Digests, Side, TensorRow, is_forward, line_of
from aclgrad.judge.dumps.runs import TensorIndex, matches, mismatch
from aclgrad.judge.findings.rows import Verdict, worst_of
from aclgrad.judge.msprobe.dump import EntryError, FileError

_LEAST_ELEMENTS: Final = 8
_DOUBLE_OF_SINGLE: Final = 2.0**-29
"""Ratio of float64's unit in the last place to float32's."""
SLOW: Final = 2**28
"""Most operations of a run in float16, in which PyTorch's CPU kernels are about 200 times slower."""


class _Found:
    """The findings about one pass so far."""

    def __init__(self, inputs: tuple[str, ...]) -> None:
        self.tensors: list[TensorRow] = []
        self.notes: list[str] = []
        self._inputs = inputs
        self._wrong: list[str] = []
        self._results: list[str] = []
        self._missing: list[str] = []
        self._is_damaged = False

    @property
    def has_failed(self) -> bool:
        return any(each.sides[TRAINING].verdict is Verdict.FAILED for each in self.tensors)

    def take(self, result: Result, judge: Callable[[Result], TensorRow]) -> None:
        """Takes the finding of `judge` about the result, or the reason why there is none."""
        try:
            self.tensors.append(judge(result))
        except EntryError as reason:
            self._missing.append(f"{result.name} is not judged: {reason}")
            self._is_damaged |= isinstance(reason, FileError)
            return
        self._results += _digests([result.tensor])
        if self.tensors[-1].sides[TRAINING].verdict is Verdict.FAILED:
            self._wrong.append(self._results[-1])

    def fail(self, message: str) -> None:
        """Marks the first tensor as failed."""
        first = self.tensors[0]
        side = replace(first.sides[TRAINING], verdict=Verdict.FAILED, message=message)
        self.tensors[0] = replace(first, sides={**first.sides, TRAINING: side})

    def row(self, index: int, place: str, name: str) -> CallRow:
        if not self.tensors:
            raise (FileError if self._is_damaged else NotJudgedError)("; ".join(self._missing))
        found = {each.sides[TRAINING].verdict for each in self.tensors} | ({Verdict.NOTED} if self._missing else set())
        verdict = worst_of(found)
        message = line_of("; ".join((*self._missing, *self.notes)))
        digests = Digests(self._inputs, tuple(self._wrong), tuple(self._results) if is_forward(name) else ())
        return CallRow(
            index, place, name, verdict, message, tuple(self.tensors), digests=digests, is_damaged=self._is_damaged
        )


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges calls. `precision` is the precision to which operands of float32 products may be rounded."""

    precision: str = "auto"

    def rows(self, given: Given) -> Iterator[CallRow]:
        """Yields a row for each pass of the call."""
        begin = time.monotonic()
        try:
            computed: Computed | Exception = Computed(Recorded.of(given.entry, given.folder))
        except (EntryError, NotJudgedError) as reason:
            computed = reason
        except Exception as error:
            computed = NotJudgedError(f"reading it raised {type(error).__name__}: {error}")
        for index, name in given.passes:
            try:
                if isinstance(computed, Exception):
                    raise computed
                found = self._found(computed, name, given.level)
                if found.has_failed and (other := computed.with_rounded_mask) is not None:
                    again = self._found(other, name, given.level)
                    found = found if again.has_failed else again
                row = found.row(index, given.place, name)
            except (EntryError, NotJudgedError) as reason:
                row = CallRow(
                    *(index, given.place, name, Verdict.SKIPPED, line_of(str(reason))),
                    is_damaged=isinstance(reason, FileError),
                )
            except Exception as error:  # one call must not end the others
                message = f"judging it raised {type(error).__name__}: {error}"
                row = CallRow(index, given.place, name, Verdict.SKIPPED, line_of(message))
            end = time.monotonic()
            yield replace(row, seconds=end - begin)
            begin = end

    def _found(self, computed: Computed, name: str, level: str) -> _Found:
        return self._forward(computed) if is_forward(name) else self._backward(computed, level)

    def _forward(self, computed: Computed) -> _Found:
        call = computed.call
        found = _Found(_digests(tensors_of((call.args, call.kwargs))))
        for number, result in enumerate(call.outputs):
            if result is not None:
                found.take(result, partial(self._output, computed, at=TensorIndex(output=number)))
        if computed.seen.is_random and (wrong := computed.wrong_share()):
            found.fail(wrong)
        if computed.api.is_in_place and found.has_failed and computed.is_overwritten:
            raise NotJudgedError("its recorded input is its result: it was recorded after the call had changed it")
        return found

    def _backward(self, computed: Computed, level: str) -> _Found:
        call = computed.call
        if call.backward_fault:
            raise call.backward_fault
        if (computed.seen.returns_argument and not computed.api.is_in_place) or not computed.wide.gradients:
            raise NotJudgedError("it returns its argument as it is, so there is no step whose gradient could be judged")
        if not any(each is not None for each in call.gradients):
            raise NotJudgedError("the dump has no gradient that it returned")
        given = [each for each in call.grad_outputs if each is not None]
        inputs = _digests([*tensors_of((call.args, call.kwargs)), *given])
        best: _Found | None = None
        is_module = computed.api.name.startswith("Module.")
        ways = (
            (pairs, of) for of in computed.layouts() for pairs in matches(call.gradients, of.wide, is_module=is_module)
        )
        for pairs, of in ways:
            found = _Found(inputs)
            for result, at in pairs:
                found.take(result, partial(self._gradient, of, at=at))
            if best is None or not found.has_failed:
                best = found
            if not best.has_failed:
                break
        if best is None:
            return self._handed_on(computed, inputs)
        if best.has_failed and computed.api.is_in_place and level == "mix":
            raise NotJudgedError(
                "in a dump of level mix, the last step of a call in place may be that of a module's hook"
            )
        if computed.is_last_step_alone:
            best.notes.append(LAST_STEP)
        return best

    def _handed_on(self, computed: Computed, inputs: tuple[str, ...]) -> _Found:
        """Takes gradients that equal the output's in another shape, from a last step that only reshapes."""
        results = [each for each in computed.call.gradients if each is not None]
        given = {_digest(each) for each in computed.call.grad_outputs if each is not None}
        if len(results) != 1 or _digest(results[0].tensor) not in given:
            raise NotJudgedError(mismatch(computed.call.gradients, computed.wide))
        found = _Found(inputs)
        found.tensors.append(_row(results[0], None, Side(Verdict.PASSED)))
        found.notes.append(LAST_STEP)
        return found

    def _output(self, computed: Computed, result: Result, at: TensorIndex) -> TensorRow:
        return replace(self._tensor(computed, result, at), result=at.output)

    def _gradient(self, computed: Computed, result: Result, at: TensorIndex) -> TensorRow:
        return replace(self._tensor(computed, result, at), argument=at.owner(computed.wide))

    def _tensor(self, computed: Computed, result: Result, at: TensorIndex) -> TensorRow:
        recorded = result.tensor
        truth, single = at.of(computed.wide), at.of(computed.single)
        if truth is None or truth.shape != recorded.shape:
            raise EntryError(f"{result.name} is not what the function returns here")
        if single is None:  # a cast to float32 is not a computation in float32
            single = truth
        if not truth.is_floating_point() and not truth.is_complex():
            side = exact_side(recorded, truth)
            name = computed.api.name.rpartition(".")[2]
            sources = [each.detach() for each in tensors_of(computed.call.args)][:1]
            if side.verdict is Verdict.FAILED and sources and are_ties(name, sources[0], recorded, truth):
                side = Side(Verdict.PASSED)
            return _row(result, None, side)
        error = largest_error(single, truth)
        return _row(result, error, self._side(computed, recorded, at, truth, single))

    def _side(self, computed: Computed, recorded: Tensor, at: TensorIndex, truth: Tensor, single: Tensor) -> Side:
        """Returns the finding; a wider limit that costs another run is computed only if it decides."""
        dtype = computed.rounded_dtype(recorded)
        own_sizes = computed.has_own_sizes(truth, is_output=at.output is not None)
        basis = Basis(truth, single, None, computed.terms_of(truth), dtype, is_pointwise=own_sizes)
        limit = limit_of(basis)
        side = side_of(recorded, truth, limit, single)
        if side.verdict is Verdict.FAILED and truth.dtype == recorded.dtype:
            narrow = at.of(computed.narrow)
            if narrow is not None and narrow.shape == truth.shape:
                basis = replace(basis, error=largest_error(narrow, truth) * _DOUBLE_OF_SINGLE)
                limit = limit_of(basis)
                side = side_of(recorded, truth, limit, single)
        if side.verdict is Verdict.FAILED and (terms := at.of(computed.terms) if computed.terms else None) is not None:
            basis = replace(basis, terms=terms)
            limit = limit_of(basis)
            side = side_of(recorded, truth, limit, single)
        if side.verdict is Verdict.FAILED and at.output is None:
            side = _among_ties(computed, recorded, truth, limit) or side
        if side.verdict is Verdict.FAILED and computed.has_halves:
            side = self._beside_own(computed, recorded, at, truth, limit) or side
        if side.verdict is Verdict.FAILED and dtype == torch.float32:
            side = self._as_rounded(computed, recorded, at, basis) or side
        if side.verdict is Verdict.FAILED and at.output is None:
            side = self._as_pooled(computed, recorded, basis, limit) or side
        if side.verdict is Verdict.FAILED and at.output is None:
            side = _as_on_cards(computed, recorded, basis, limit) or side
        return side

    def _beside_own(
        self, computed: Computed, recorded: Tensor, at: TensorIndex, truth: Tensor, limit: Tensor
    ) -> Side | None:
        """Judges with the largest excess of PyTorch's own run in 16 bits as part of the limit."""
        if recorded.dtype == torch.float16 and computed.seen.operations > SLOW:
            return None
        for each in computed.layouts():
            try:
                own = at.of(each.own)
            except NotJudgedError:  # PyTorch may have no kernel for 16 bits
                continue
            if own is None or own.shape != truth.shape:
                continue
            excess = largest_error(own, truth, limit)
            side = side_of(recorded, truth, limit + excess, own)
            if side.verdict is not Verdict.FAILED and excess:
                name = str(own.dtype).removeprefix("torch.")
                message = f"PyTorch's own {name} run is up to {excess:.2g} outside the limit, which is added"
                return replace(side, message=message)
        return None

    def _as_rounded(self, computed: Computed, recorded: Tensor, at: TensorIndex, basis: Basis) -> Side | None:
        """Judges against the sums of rounded operands."""
        if self.precision == "float32" or not is_product(computed.api.name.rpartition(".")[2]):
            return None
        for precision in ("hf32", "float16") if self.precision == "auto" else (self.precision,):
            run = computed.rounded(precision)
            rounded_at = at
            if at.gradient is not None and (owner := computed.wide.owners[at.gradient]) is not None:
                rounded_at = TensorIndex(argument=owner)
            truth = rounded_at.of(run)
            if truth is None or truth.shape != recorded.shape:
                continue
            rounded = replace(basis, truth=truth, error=largest_error(basis.single, basis.truth))
            side = side_of(recorded, truth, limit_of(rounded), basis.single)
            if side.verdict is Verdict.PASSED:
                return replace(side, verdict=Verdict.NOTED, message=SETTINGS[precision])
        return None

    def _as_pooled(self, computed: Computed, recorded: Tensor, basis: Basis, limit: Tensor) -> Side | None:
        """Judges the gradient of averages by the rounding of products in float16; a larger factor is an error."""
        name, is_taken = computed.api.name.rpartition(".")[2], self.precision in ("auto", "float16")
        if not is_taken or name not in POOLED or basis.dtype != torch.float32 or basis.terms is None:
            return None
        rounded = OF_TERMS * basis.terms.abs().to(limit.dtype)
        side = side_of(recorded, basis.truth, torch.maximum(limit, rounded), basis.single)
        factor = factor_of(recorded, basis.truth)
        if side.verdict is Verdict.FAILED or (factor is not None and abs(factor - 1) > OF_TERMS / 2):
            return None
        return replace(side, verdict=Verdict.NOTED, message=SETTINGS["float16"])


def _among_ties(computed: Computed, recorded: Tensor, truth: Tensor, limit: Tensor) -> Side | None:
    """Judges the gradient of a maximum by its sums over equal elements, because a device may choose any of them."""
    name, source = computed.api.name.rpartition(".")[2], tensors_of(computed.call.args)[0].detach()
    sums = [sums_of_ties(name, source, each) for each in (recorded, truth, limit)]
    if sums[0] is None or sums[1] is None or sums[2] is None:
        return None
    side = side_of(sums[0], sums[1], sums[2], sums[1])
    return None if side.verdict is Verdict.FAILED else side


def _as_on_cards(computed: Computed, recorded: Tensor, basis: Basis, limit: Tensor) -> Side | None:
    """Judges with the tolerance of this gradient's operator; a factor in all elements is an error."""
    tolerance = tolerance_of(computed.api.operators, basis.dtype, basis.count)
    if tolerance is None:
        return None
    side = side_of(recorded, basis.truth, torch.maximum(limit, limit_of_cards(basis.truth, tolerance)), basis.single)
    factor = factor_of(recorded, basis.truth)
    if side.verdict is Verdict.FAILED or (factor is not None and abs(factor - 1) > tolerance.relative / 4):
        return None
    names = ", ".join(computed.api.operators)
    message = f"outside of PyTorch's own errors, within the tolerance that {names} has for the kernels of cards"
    return replace(side, verdict=Verdict.NOTED, message=message)


def _row(result: Result, error: float | None, side: Side) -> TensorRow:
    return TensorRow(result.name, result.info.dtype, result.info.shape, error, {TRAINING: side})


def _digests(tensors: Sequence[Tensor]) -> tuple[str, ...]:
    """Returns the digests, empty for small and constant tensors, which are often equal by chance."""
    return tuple(
        _digest(each) if each.numel() >= _LEAST_ELEMENTS and not _is_constant(each) else "" for each in tensors
    )


def _is_constant(tensor: Tensor) -> bool:
    elements = tensor.detach().reshape(-1)
    return bool((elements == elements[0]).all())


def _digest(tensor: Tensor) -> str:
    """Returns the digest of the elements, independent of their shape."""
    elements = tensor.detach().contiguous().flatten().view(torch.uint8)
    return hashlib.blake2b(memoryview(elements.numpy()), digest_size=8).hexdigest()
