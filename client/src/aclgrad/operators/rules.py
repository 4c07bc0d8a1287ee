"""Rules about shapes and dtypes that several operators share. Each yields problems, or nothing."""

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from aclgrad.errors import Violation
from aclgrad.operators.spec import Arguments

ZERO: Final = float(np.finfo(np.float32).eps)
"""Devices treat smaller numbers as 0 in comparisons with a threshold, and in checks for a factor of 0."""


def first_problem(*checks: Iterator[Violation]) -> Iterator[Violation]:
    """Yields the problems of the first failing check: later checks may assume that the earlier ones hold."""
    for check in checks:
        found = tuple(check)
        if found:
            yield from found
            return


def same_dtype(arguments: Arguments, *names: str) -> Iterator[Violation]:
    """Every named input has the dtype of the first."""
    reference, *others = names
    dtype = arguments.inputs[reference].dtype
    for name in others:
        if arguments.inputs[name].dtype is not dtype:
            yield Violation(
                f"inputs[{name}].data_type",
                f"is {arguments.inputs[name].dtype}, but inputs[{reference}] is {dtype}",
                f"send it as {dtype}",
            )


def same_leading_sizes(arguments: Arguments, reference: str, other: str, trailing: int) -> Iterator[Violation]:
    """Both inputs have the same rank, and the same sizes in all but the `trailing` last dimensions."""
    want, have = arguments.inputs[reference].shape, arguments.inputs[other].shape
    if len(want) != len(have):
        yield Violation(
            f"inputs[{other}].shape",
            f"has {len(have)} dimensions, but inputs[{reference}] has {len(want)}",
            f"send {len(want)} sizes",
        )
    elif want[:-trailing] != have[:-trailing]:
        yield Violation(
            f"inputs[{other}].shape",
            f"starts with {have[:-trailing]}, but inputs[{reference}] starts with {want[:-trailing]}",
            f"make all but the last {trailing} sizes equal",
        )


def equal_sizes(field: str, have: tuple[int, ...], of: str, want: tuple[int, ...]) -> Iterator[Violation]:
    """The shape equals that of `of`."""
    if have != want:
        yield Violation(field, f"is {have}, but {of} is {want}", f"send {want}")


def broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    """Returns whether the one shape can be broadcast to the other."""
    pairs = zip(reversed(shape), reversed(to), strict=False)
    return len(shape) <= len(to) and all(have in (1, want) for have, want in pairs)


def one_value_each(
    arguments: Arguments, name: str, leading: tuple[int, ...], of: str, ones: int = 0, flat: bool = True
) -> Iterator[Violation]:
    """The input has one value for each element of the `leading` sizes, and any number of trailing sizes of 1.

    Devices compare at most the number of values, so values in another order would give other gradients. If `flat`, a
    single size with their number is also legal. The remedy has this many `ones`.
    """
    shape = arguments.inputs[name].shape
    is_flat = flat and shape == (math.prod(leading),)
    if not is_flat and (shape[: len(leading)] != leading or math.prod(shape[len(leading) :]) != 1):
        problem = f"is {shape}, but inputs[input] of shape {arguments.inputs['input'].shape} has {of}"
        yield Violation(f"inputs[{name}].shape", problem, f"send {(*leading, *(1 for _ in range(ones)))}")


def adaptive_operations(arguments: Arguments, axes: int) -> float:
    """Returns the additions of adaptive average pooling over the last `axes` dimensions.

    Along an axis, the windows of `pooled` cells over `size` have size + pooled - gcd(size, pooled) cells together.
    """
    pooled, input = arguments.inputs["grad_output"].shape, arguments.inputs["self"].shape
    windows = [size + count - math.gcd(size, count) for size, count in zip(input[-axes:], pooled[-axes:], strict=True)]
    return float(math.prod(input[:-axes]) * math.prod(windows))


def adaptive_windows(arguments: Arguments, axes: int) -> float:
    """Returns how many windows of adaptive average pooling may share a cell."""
    pooled, input = arguments.inputs["grad_output"].shape, arguments.inputs["self"].shape
    sizes = zip(input[-axes:], pooled[-axes:], strict=True)
    return float(math.prod(-(-count // max(size, 1)) + 1 for size, count in sizes))


def adaptive_weight(arguments: Arguments, axes: int) -> float:
    """Returns the factor of the smallest window's gradient."""
    pooled, input = arguments.inputs["grad_output"].shape, arguments.inputs["self"].shape
    sizes = zip(input[-axes:], pooled[-axes:], strict=True)
    return 1 / math.prod(max(size // max(count, 1), 1) for size, count in sizes)


def axis_in_range(arguments: Arguments, attribute: str, of: str) -> Iterator[Violation]:
    """The attribute is an axis of the input, counted from the last if negative; a scalar has one axis."""
    axis, shape = arguments.int(attribute), arguments.inputs[of].shape
    rank = max(len(shape), 1)
    if not -rank <= axis < rank:
        problem = f"is {axis}, but inputs[{of}] has the shape {shape}"
        yield Violation(f"attributes[{attribute}]", problem, f"send -{rank} to {rank - 1}")
