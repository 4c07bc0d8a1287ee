"""Functions of a tensor and a number: of integers in int64, whose results wrap, of others in float64."""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from aclgrad.operators.definitions import Array, Definition
from aclgrad.operators.families.elementwise.definition import rounded

Number = float | int | bool


def plain(number: Number) -> Number:
    """Returns the number as devices have it: a float with the digits of float32."""
    return rounded(number) if isinstance(number, float) else int(number)


def _computed(input: Array, *numbers: Number | None) -> Array:
    is_real = input.dtype.kind not in "iub" or any(isinstance(each, float) for each in numbers)
    return input.astype(np.float64 if is_real else np.int64)


def _wrapped(result: Array, input: Array) -> Array:
    return result.astype(input.dtype) if result.dtype.kind == "i" and input.dtype.kind == "i" else result


def adds(input: Array, other: Number, alpha: Number = 1) -> Array:
    """The product of both numbers is added."""
    with np.errstate(over="ignore"):
        return _wrapped(np.asarray(_computed(input, other, alpha) + plain(other) * plain(alpha)), input)


def muls(input: Array, other: Number) -> Array:
    """Each element by itself."""
    with np.errstate(over="ignore", invalid="ignore"):
        return _wrapped(np.asarray(_computed(input, other) * plain(other)), input)


def divs(input: Array, other: Number) -> Array:
    """Real numbers also of integers."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(input.astype(np.float64) / np.float64(plain(other)))


def pow_tensor_scalar(input: Array, exponent: Number) -> Array:
    """Integers wrap at each multiplication, as they do at the end."""
    with np.errstate(all="ignore"):
        return _wrapped(np.asarray(_computed(input, exponent) ** plain(exponent)), input)


def clamp(input: Array, clip_value_min: Number | None = None, clip_value_max: Number | None = None) -> Array:
    """The upper limit comes last, so it holds if it is below the other one."""
    found = _computed(input, clip_value_min, clip_value_max)
    if clip_value_min is not None:
        found = np.maximum(found, plain(clip_value_min))
    if clip_value_max is not None:
        found = np.minimum(found, plain(clip_value_max))
    return _wrapped(np.asarray(found), input)


def _comparison(function: Callable[[Array, Number], Array]) -> Definition:
    return Definition(lambda input, other: np.asarray(function(_computed(input, other), plain(other))).astype(np.int8))


DEFINITIONS: Final[Mapping[str, Definition]] = {
    "adds": Definition(adds),
    "muls": Definition(muls),
    "divs": Definition(divs),
    "pow_tensor_scalar": Definition(pow_tensor_scalar),
    "clamp": Definition(clamp),
    "gt_scalar": _comparison(np.greater),
    "ge_scalar": _comparison(np.greater_equal),
    "lt_scalar": _comparison(np.less),
    "le_scalar": _comparison(np.less_equal),
    "eq_scalar": _comparison(np.equal),
}
