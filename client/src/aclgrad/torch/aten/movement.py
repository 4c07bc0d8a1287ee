"""Moving elements: copies into parts, their gradients, and views, most of which need no step."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch

from aclgrad.tensors import TensorType
from aclgrad.torch.aten.steps import (
    Number,
    Row,
    Steps,
    Value,
    above,
    along,
    at,
    cast,
    filled,
    reshaped,
    spread,
    type_like,
    written,
)

aten: Final = torch.ops.aten


def _converted(steps: Steps, self: Value, dtype: torch.dtype | None = None, **_: Any) -> Value:
    return self if dtype is None else cast(steps, self, dtype)


def _copied(steps: Steps, self: Value, src: Value, *_: Any) -> Value:
    return steps("inplace_copy", {"self": type_like(self), "src": src})


def _padded(steps: Steps, self: Value, pad: Sequence[int], value: Number = 0.0) -> Value:
    """Fills the result, and copies the part that negative padding does not crop."""
    pairs = [(0, 0)] * (self.ndim - len(pad) // 2) + list(zip(pad[-2::-2], pad[::-2], strict=True))
    shape = tuple(size + sum(pair) for size, pair in zip(self.shape, pairs, strict=True))
    kept, part = (
        tuple(
            slice(max(sign * before, 0), size - max(sign * after, 0))
            for size, (before, after) in zip(sizes, pairs, strict=True)
        )
        for sign, sizes in ((-1, self.shape), (1, shape))
    )
    padding = filled(steps, TensorType(type_like(self).dtype, shape), value)
    return written(steps, padding, self[kept], part)


def _placed(steps: Steps, grad_output: Value, sizes: Sequence[int], part: tuple[Any, ...]) -> Value:
    """Returns the gradient of a part: zeros around it."""
    if tuple(grad_output.shape) == tuple(sizes):
        return grad_output
    zeros = filled(steps, TensorType(type_like(grad_output).dtype, tuple(sizes)), 0)
    return written(steps, zeros, grad_output, part)


def _stacked(steps: Steps, tensors: Sequence[Value], dim: int = 0) -> Value:
    return steps("cat", {"tensors": [_with_axis(steps, each, dim) for each in tensors]}, dim=dim)


def _repeated(steps: Steps, self: Value, repeats: Sequence[int]) -> Value:
    """Broadcasts a new axis before each repeated one, and copies."""
    own = (*(1 for _ in range(len(repeats) - self.ndim)), *self.shape)
    apart, wide = [], []
    for size, times in zip(own, repeats, strict=True):
        apart += [size] if times == 1 else [1, size]
        wide += [size] if times == 1 else [times, size]
    whole = [size * times for size, times in zip(own, repeats, strict=True)]
    return reshaped(steps, spread(reshaped(steps, self, apart), wide), whole)


def _rolled(steps: Steps, self: Value, shifts: Sequence[int], dims: Sequence[int] = ()) -> Value:
    if not dims:
        return reshaped(steps, _rolled(steps, reshaped(steps, self, (-1,)), shifts, (0,)), self.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        if place := -shift % max(self.shape[dim], 1):
            parts = along(self, dim, slice(place, None)), along(self, dim, slice(place))
            self = steps("cat", {"tensors": parts}, dim=dim)
    return self


def _triangle(steps: Steps, self: Value, diagonal: int, *, is_lower: bool) -> Value:
    """Keeps the elements not above, or not below, the diagonal, and zeroes the rest."""
    rows, columns = self.shape[-2:]
    is_above = above(steps, rows, columns, diagonal if is_lower else diagonal - 1)
    zero = np.zeros((), self.dtype)
    one, other = (zero, self) if is_lower else (self, zero)
    return steps("s_where", {"condition": is_above, "self": one, "other": other})


ROWS: Final[Mapping[Any, Row]] = {
    aten._to_copy.default: _converted,  # noqa: SLF001 - ATen's name
    aten.copy.default: _copied,
    aten.fill.Scalar: lambda steps, self, value: filled(steps, type_like(self), value),
    aten.fill.Tensor: lambda steps, self, value: steps("inplace_copy", {"self": type_like(self), "src": value}),
    aten.zero.default: lambda steps, self: filled(steps, type_like(self), 0),
    aten.constant_pad_nd.default: _padded,
    aten.cat.default: lambda steps, tensors, dim=0: steps("cat", {"tensors": list(tensors)}, dim=dim),
    aten.stack.default: _stacked,
    aten.repeat.default: _repeated,
    aten.roll.default: _rolled,
    aten.tril.default: lambda steps, self, diagonal=0: _triangle(steps, self, diagonal, is_lower=True),
    aten.triu.default: lambda steps, self, diagonal=0: _triangle(steps, self, diagonal, is_lower=False),
    aten.select_scatter.default: lambda steps, self, src, dim, index: written(
        steps, self, src, at(dim, self.ndim, index)
    ),
    aten.select_backward.default: lambda steps, grad_output, input_sizes, dim, index: _placed(
        steps, grad_output, input_sizes, at(dim, len(input_sizes), index)
    ),
    aten.slice_backward.default: lambda steps, grad_output, input_sizes, dim, start, end, step: _placed(
        steps, grad_output, input_sizes, at(dim, len(input_sizes), slice(start, end, step))
    ),
    aten.slice_scatter.default: lambda steps, self, src, dim=0, start=None, end=None, step=1: written(
        steps, self, src, at(dim, self.ndim, slice(start, end, step))
    ),
}


# Views of handles.


def _with_axis(steps: Steps, self: Value, dim: int) -> Value:
    axis = dim % (self.ndim + 1)
    return self.reshape((*self.shape[:axis], 1, *self.shape[axis:]))


def _without_axes(steps: Steps, self: Value, dim: Sequence[int] | int | None = None) -> Value:
    dims = range(self.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    gone = {each % max(self.ndim, 1) for each in dims}
    return self.reshape(tuple(size for axis, size in enumerate(self.shape) if axis not in gone or size != 1))


def _swapped(steps: Steps, self: Value, dim0: int, dim1: int) -> Value:
    axes = list(range(self.ndim))
    if axes:
        axes[dim0], axes[dim1] = axes[dim1], axes[dim0]
    return self.transpose(axes)


def _expanded(steps: Steps, self: Value, size: Sequence[int], implicit: bool = False) -> Value:
    own = (1,) * (len(size) - self.ndim) + tuple(self.shape)
    return self.broadcast_to(tuple(have if want == -1 else want for have, want in zip(own, size, strict=True)))


def _sliced(
    steps: Steps, self: Value, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Value:
    return along(self, dim, slice(start, end, step))


def _split(steps: Steps, self: Value, split_size: Sequence[int] | int, dim: int = 0) -> list[Value]:
    size = self.shape[dim]
    if isinstance(split_size, int):
        ends = list(range(split_size, size, split_size)) if split_size else []
    else:
        ends = list(np.cumsum(split_size)[:-1])
    return [along(self, dim, slice(*each)) for each in zip([0, *ends], [*ends, size], strict=True)]


def _same(steps: Steps, self: Value, *_: Any, **__: Any) -> Value:
    return self


VIEWS: Final[Mapping[Any, Row]] = {
    **dict.fromkeys(
        (aten.view.default, aten._unsafe_view.default),  # noqa: SLF001 - ATen's name
        lambda steps, self, size, *_: reshaped(steps, self, size),
    ),
    # Handles never change, so a copy of one is itself.
    **dict.fromkeys(
        (aten.alias.default, aten.clone.default, aten.detach.default, aten.lift_fresh_copy.default),
        _same,
    ),
    aten.t.default: lambda steps, self: self.transpose(),
    aten.transpose.int: _swapped,
    aten.permute.default: lambda steps, self, dims: self.transpose([dim % self.ndim for dim in dims]),
    aten.expand.default: _expanded,
    aten.slice.Tensor: _sliced,
    aten.select.int: lambda steps, self, dim, index: along(self, dim, index),
    aten.unsqueeze.default: _with_axis,
    **dict.fromkeys((aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims), _without_axes),
    **dict.fromkeys(
        (
            aten.split.Tensor,
            aten.split_with_sizes.default,
            aten.split_with_sizes_copy.default,
            aten.unsafe_split.Tensor,
            aten.unsafe_split_with_sizes.default,
        ),
        _split,
    ),
    aten.unbind.int: lambda steps, self, dim=0: [along(self, dim, index) for index in range(self.shape[dim])],
}
