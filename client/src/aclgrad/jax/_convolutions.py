"""Convolutions by JAX's names and arguments, as the operator's convolutions of arrays that are padded here."""

import operator
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp
from jax.lax import ConvDimensionNumbers

from aclgrad._client.sync.client import Client
from aclgrad.errors import InvalidFieldError
from aclgrad.jax._checks import check_client, check_preferred, checked_dtype, checked_sizes
from aclgrad.jax._convolution import OPERATOR, Convolution, convolution
from aclgrad.operators.catalogue import OPERATORS

Sizes = Sequence[int]
Pads = Sequence[tuple[int, int]]
DimensionNumbers: TypeAlias = tuple[str, str, str] | ConvDimensionNumbers | None
_DTYPES: Final = tuple(dict.fromkeys(each for of in OPERATORS[OPERATOR].inputs[0].dtypes.values() for each in of))
_CHANNELS_LAST: Final = {3: "C", 4: "WC", 5: "WDC"}
_RANKS: Final = (3, 4, 5)


def conv_general_dilated(
    lhs: Array,
    rhs: Array,
    window_strides: Sizes,
    padding: str | Pads,
    lhs_dilation: Sizes | None = None,
    rhs_dilation: Sizes | None = None,
    dimension_numbers: DimensionNumbers = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
    *,
    client: Client,
) -> Array:
    """Slides the kernels of `rhs` over one to three axes of `lhs`, as `jax.lax.conv_general_dilated`.

    One message has the gradients of both, and they have derivatives of any order. Takes float32, float16 and bfloat16,
    both in one dtype, which the result has. `precision` is that of the forward pass. If `lhs_dilation` is above 1 with
    strides of 1, the operator computes a transposed convolution; with larger ones the zeros are put in here.
    """
    check_client(client)
    lhs, rhs = _arrays(lhs, rhs, preferred_element_type)
    axes = _axes(lhs, rhs, dimension_numbers)
    count = lhs.ndim - 2
    strides = _at_least_one("window_strides", window_strides, count)
    between = _at_least_one("lhs_dilation", (1,) * count if lhs_dilation is None else lhs_dilation, count)
    dilation = _at_least_one("rhs_dilation", (1,) * count if rhs_dilation is None else rhs_dilation, count)
    groups = _groups(lhs, rhs, axes, feature_group_count, batch_group_count)
    sizes = [lhs.shape[axis] for axis in axes.lhs_spec[2:]]
    # From a kernel's first to its last element.
    spans = [d * (rhs.shape[axis] - 1) for d, axis in zip(dilation, axes.rhs_spec[2:], strict=True)]
    if isinstance(padding, str) and max(between, default=1) > 1:
        problem = f"is {padding!r} for a lhs_dilation of {between}"
        raise InvalidFieldError.at("padding", problem, "give pairs of numbers, or call conv_transpose")
    pads = _pads(padding, sizes, spans, strides)
    if batch_group_count > 1:
        lhs, axes = _groups_of_channels(lhs, axes, groups)
    if max(between) > 1 and max(strides) > 1:
        lhs = _padded(lhs, axes.lhs_spec, [(0, 0, each - 1) for each in between])
        sizes, between = [lhs.shape[axis] for axis in axes.lhs_spec[2:]], (1,) * count
    whole = [
        (size - 1) * apart + low + high - span
        for size, apart, (low, high), span in zip(sizes, between, pads, spans, strict=True)
    ]
    if min(whole) < 0:
        problem = f"is {rhs.shape}, more than the padded lhs along axis {axes.rhs_spec[2 + int(np.argmin(whole))]}"
        raise InvalidFieldError.at("rhs.shape", problem, "pad lhs more, or take a smaller kernel")
    if max(between) == 1:
        even = tuple(max(min(each), 0) for each in pads)
        rest = tuple((low - each, high - each, 0) for (low, high), each in zip(pads, even, strict=True))
        taken = Convolution(axes, strides, even, dilation, False, (0,) * count, groups)
        return convolution(taken, client, _padded(lhs, axes.lhs_spec, rest), rhs, precision)
    cuts = [
        _cut(span - low, span - high, apart if count == 3 else max(apart, own))
        for span, (low, high), apart, own in zip(spans, pads, between, dilation, strict=True)
    ]
    cut, more, rest = (tuple(each) for each in zip(*cuts, strict=True))
    taken = Convolution(axes, between, cut, dilation, True, more, groups)
    return _padded(convolution(taken, client, lhs, rhs, precision), axes.out_spec, rest)


def conv(
    lhs: Array,
    rhs: Array,
    window_strides: Sizes,
    padding: str,
    precision: Any = None,
    preferred_element_type: Any = None,
    *,
    client: Client,
) -> Array:
    """Slides the kernels (O, I, ...) over (N, I, ...), as `jax.lax.conv`. As `conv_general_dilated`."""
    how: dict[str, Any] = {"precision": precision, "preferred_element_type": preferred_element_type}
    return conv_general_dilated(lhs, rhs, window_strides, padding, **how, client=client)


def conv_with_general_padding(
    lhs: Array,
    rhs: Array,
    window_strides: Sizes,
    padding: str | Pads,
    lhs_dilation: Sizes | None,
    rhs_dilation: Sizes | None,
    precision: Any = None,
    preferred_element_type: Any = None,
    *,
    client: Client,
) -> Array:
    """Slides the kernels (O, I, ...) over (N, I, ...), as `jax.lax.conv_with_general_padding`.

    As `conv_general_dilated`.
    """
    dilations: tuple[Any, Any] = lhs_dilation, rhs_dilation
    how: dict[str, Any] = {"precision": precision, "preferred_element_type": preferred_element_type}
    return conv_general_dilated(lhs, rhs, window_strides, padding, *dilations, **how, client=client)


def conv_transpose(
    lhs: Array,
    rhs: Array,
    strides: Sizes,
    padding: str | Pads,
    rhs_dilation: Sizes | None = None,
    dimension_numbers: DimensionNumbers = None,
    transpose_kernel: bool = False,
    precision: Any = None,
    preferred_element_type: Any = None,
    *,
    client: Client,
) -> Array:
    """Spreads (N, ..., I) by the kernels (..., I, O), as `jax.lax.conv_transpose`. As `conv_general_dilated`."""
    check_client(client)
    lhs, rhs = _arrays(lhs, rhs, preferred_element_type)
    if dimension_numbers is None and lhs.ndim in _RANKS:
        last = _CHANNELS_LAST[lhs.ndim]
        dimension_numbers = f"NH{last}", f"H{last[:-1]}IO", f"NH{last}"
    axes, count = _axes(lhs, rhs, dimension_numbers), lhs.ndim - 2
    apart = _at_least_one("strides", strides, count)
    dilation = _at_least_one("rhs_dilation", (1,) * count if rhs_dilation is None else rhs_dilation, count)
    if padding in ("SAME", "VALID"):
        kernels = [d * (rhs.shape[axis] - 1) + 1 for d, axis in zip(dilation, axes.rhs_spec[2:], strict=True)]
        padding = [_spread(size, each, padding) for size, each in zip(kernels, apart, strict=True)]
    if transpose_kernel:
        outer, inner, *spatial = axes.rhs_spec
        rhs = jnp.flip(rhs, spatial).swapaxes(outer, inner)
    return conv_general_dilated(
        lhs, rhs, (1,) * count, padding, apart, dilation, axes, precision=precision, client=client
    )


def _spread(kernel: int, stride: int, padding: str) -> tuple[int, int]:
    """Returns the padding of strided outputs, so that they have `stride` times the size, or all elements."""
    if padding == "SAME":
        total = kernel + stride - 2
        low = kernel - 1 if stride > kernel - 1 else -(-total // 2)
    else:
        total, low = kernel + stride - 2 + max(kernel - stride, 0), kernel - 1
    return low, total - low


def _cut(low: int, high: int, limit: int) -> tuple[int, int, tuple[int, int, int]]:
    """Returns the padding that cuts these outputs off both ends, the output padding below the limit, and the rest."""
    if 0 <= high <= low < high + limit:
        return low, low - high, (0, 0, 0)
    own = max(min(low, high), 0)
    return own, 0, (own - low, own - high, 0)


def _arrays(lhs: Any, rhs: Any, preferred_element_type: Any) -> tuple[Array, Array]:
    one, other = checked_dtype("lhs", lhs, _DTYPES), checked_dtype("rhs", rhs, _DTYPES)
    if other.dtype != one.dtype:
        raise InvalidFieldError.at("rhs", f"is {other.dtype}, and lhs {one.dtype}", "give both in one dtype")
    check_preferred(preferred_element_type, one.dtype)
    return one, other


def _axes(lhs: Array, rhs: Array, dimension_numbers: DimensionNumbers) -> ConvDimensionNumbers:
    for name, each in (("lhs", lhs), ("rhs", rhs)):
        if each.ndim not in _RANKS or each.ndim != lhs.ndim:
            remedy = f"give {lhs.ndim}" if lhs.ndim in _RANKS else "give 3, 4 or 5"
            raise InvalidFieldError.at(f"{name}.shape", f"is {each.shape}", f"{remedy} dimensions")
    try:
        return jax.lax.conv_dimension_numbers(lhs.shape, rhs.shape, dimension_numbers)
    except (TypeError, ValueError, KeyError, IndexError):
        problem = f"is {dimension_numbers!r} for arrays of {lhs.ndim} axes"
        raise InvalidFieldError.at("dimension_numbers", problem, "give three texts, such as NHWC, HWIO, NHWC") from None


def _at_least_one(name: str, value: Any, count: int) -> tuple[int, ...]:
    sizes = checked_sizes(name, tuple(value) if isinstance(value, Sequence | np.ndarray) else (value,), count)
    if 0 in sizes or None in sizes:
        raise InvalidFieldError.at(name, f"is {sizes}", "give integers of at least 1")
    return sizes


def _groups(lhs: Array, rhs: Array, axes: ConvDimensionNumbers, features: int, batches: int) -> int:
    """Returns the number of groups, of channels or of the batch."""
    for name, each in (("feature_group_count", features), ("batch_group_count", batches)):
        if not isinstance(each, int) or each < 1:
            raise InvalidFieldError.at(name, f"is {each!r}", "give an integer of at least 1")
    if min(features, batches) > 1:
        problem = f"is {batches}, and feature_group_count is {features}"
        raise InvalidFieldError.at("batch_group_count", problem, "leave one of them 1")
    (images, channels), (outer, inner) = (
        [each.shape[axis] for axis in spec[:2]] for each, spec in ((lhs, axes.lhs_spec), (rhs, axes.rhs_spec))
    )
    if channels != inner * features:
        problem = f"is {rhs.shape}, with {inner} channels for each of {features} groups of a lhs of {channels}"
        raise InvalidFieldError.at("rhs.shape", problem, "give as many channels as lhs has")
    if outer % features:
        problem = f"is {features}, of which the {outer} kernels are no multiple"
        raise InvalidFieldError.at("feature_group_count", problem, "give a divisor")
    if outer % batches or images % batches:
        problem = f"is {batches}, of which {outer} kernels or {images} images are no multiple"
        raise InvalidFieldError.at("batch_group_count", problem, "give a divisor of both")
    return max(features, batches)


def _pads(padding: Any, sizes: Sizes, spans: Sizes, strides: Sizes) -> list[tuple[int, int]]:
    """Returns the padding before and after each axis."""
    try:
        if isinstance(padding, str):
            kernels = [span + 1 for span in spans]
            return [(low, high) for low, high in jax.lax.padtype_to_pads(sizes, kernels, strides, padding)]
        pads = [(operator.index(low), operator.index(high)) for low, high in padding]
    except (TypeError, ValueError, RuntimeError):
        pads = []
    if len(pads) != len(sizes):
        raise InvalidFieldError.at("padding", f"is {padding!r}", f"give SAME, VALID or {len(sizes)} pairs of integers")
    return pads


def _padded(array: Array, axes: Sizes, pads: Sequence[tuple[int, int, int]]) -> Array:
    """Returns the array with zeros around and between the elements of its spatial axes; negative padding crops."""
    if not any(map(any, pads)):
        return array
    every = [(0, 0, 0)] * array.ndim
    for axis, each in zip(axes[2:], pads, strict=True):
        every[axis] = each
    return jax.lax.pad(array, jnp.zeros((), array.dtype), every)


def _groups_of_channels(lhs: Array, axes: ConvDimensionNumbers, groups: int) -> tuple[Array, ConvDimensionNumbers]:
    """Returns the groups of images as groups of channels, with the new axes."""
    batch, channels, *sizes = (lhs.shape[axis] for axis in axes.lhs_spec)
    apart = lhs.transpose(axes.lhs_spec).reshape(groups, batch // groups, channels, *sizes)
    joined = apart.swapaxes(0, 1).reshape(batch // groups, groups * channels, *sizes)
    return joined, axes._replace(lhs_spec=tuple(range(lhs.ndim)))
