"""Which tensors of a run the recorded gradients of a backward pass are compared with.

A dump names no autograd node. On the device that made it, the last step of a function may be another than here.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from aclgrad.judge.dumps.recorded import Result
from aclgrad.judge.dumps.runs import Run


@dataclass(frozen=True, slots=True)
class TensorIndex:
    """Which tensor of a run: an output, or a gradient that its last step returns, or the gradient of an argument."""

    output: int | None = None
    gradient: int | None = None
    argument: int | None = None
    """Counting the tensors among the arguments."""

    def of(self, run: Run) -> Tensor | None:
        """Returns the tensor, or None if the run has none there."""
        if self.output is not None:
            return _at(run.outputs, self.output)
        if self.gradient is not None:
            return _at(run.gradients, self.gradient)
        return None if self.argument is None else _at(run.of_arguments, self.argument)

    def owner(self, run: Run) -> int | None:
        """Returns the tensor of the arguments whose gradient this is, or None if it is a part of one, or of none."""
        if self.gradient is None:
            return self.argument
        owner, own = run.owners[self.gradient], self.of(run)
        whole = None if owner is None else run.of_arguments[owner]
        return owner if own is not None and whole is not None and torch.equal(own, whole) else None


def matches(
    recorded: tuple[Result | None, ...], run: Run, *, is_module: bool = False
) -> Iterator[list[tuple[Result, TensorIndex]]]:
    """Yields the ways in which all recorded gradients match tensors of the run in shape.

    Of a module, they are those of its inputs alone, and the parameters are further arguments.
    """
    by_step = [TensorIndex(gradient=each) for each in range(len(run.gradients))]
    if len(by_step) == len(recorded) and (found := _matched(recorded, by_step, run)) is not None:
        yield found
    by_argument = [TensorIndex(argument=each) for each in range(len(run.of_arguments))]
    wanted = [each for each in by_argument if each.of(run) is not None]
    inputs = by_argument[: len(recorded)] if is_module else by_argument
    if len(inputs) == len(recorded) and (found := _matched(recorded, inputs, run)) is not None:
        yield found
    results = [each for each in recorded if each is not None]
    if len(wanted) == len(results) and (found := _matched(results, wanted, run)) is not None:
        yield found


def mismatch(recorded: Sequence[Result | None], run: Run) -> str:
    """Returns why recorded gradients match no tensors of the run: which the dump lacks, or which shapes differ."""
    by = [each for each in (run.gradients, run.of_arguments) if len(each) == len(recorded)]
    expected = by[0] if by else run.gradients
    if by:
        parts = [
            part for number, pair in enumerate(zip(recorded, expected, strict=True)) for part in _apart(number, *pair)
        ]
    else:
        own = Counter(_shown(each.info.shape) for each in recorded if each is not None)
        due = Counter(_shown(each.shape) for each in expected if each is not None)
        parts = [f"it lacks a gradient of shape {each}" for each in (due - own).elements()]
        parts += [f"it has one of shape {each} more" for each in (own - due).elements()]
    told = "; ".join(parts) or "their order is another"
    return f"the gradients in the dump are not those that a step of the function returns here: {told}"


def _apart(number: int, result: Result | None, tensor: Tensor | None) -> Iterator[str]:
    """Yields what differs between a recorded gradient and that of the same index in a run."""
    if result is None and tensor is not None:
        yield f"the dump lacks gradient.{number}, of shape {_shown(tensor.shape)}"
    elif result is not None and tensor is None:
        yield f"there is no {result.name} here"
    elif result is not None and tensor is not None and result.info.shape != tuple(tensor.shape):
        yield f"{result.name} has shape {_shown(result.info.shape)} instead of {_shown(tensor.shape)}"


def _shown(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _matched(
    recorded: Sequence[Result | None], indices: Sequence[TensorIndex], run: Run
) -> list[tuple[Result, TensorIndex]] | None:
    """Returns the results with their tensors; None if a shape differs, or one side alone has a gradient."""
    pairs = []
    for result, index in zip(recorded, indices, strict=True):
        tensor = index.of(run)
        if result is None and tensor is None:
            continue
        if result is None or tensor is None or result.info.shape != tuple(tensor.shape):
            return None
        pairs.append((result, index))
    return pairs


def _at(tensors: Sequence[Tensor | None], index: int) -> Tensor | None:
    return tensors[index] if index < len(tensors) else None
