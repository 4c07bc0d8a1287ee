"""What moves elements: copies into parts, positions, and views, of which only a few need a step."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch

from aclgrad._client.calls.handles import Handle
from aclgrad._client.calls.strided import Strided
from aclgrad.judge.replay.aten.steps import Number, Row, Steps, Value, along, cast, reshaped, type_like
from aclgrad.tensors import TensorType
from aclgrad.torch.calls import LocalError

aten: Final = torch.ops.aten


def _converted(steps: Steps, self: Value, dtype: torch.dtype | None = None, **_: Any) -> Value:
    return self if dtype is None else cast(steps, self, dtype)


def _copied(steps: Steps, self: Value, src: Value, *_: Any) -> Value:
    return steps("inplace_copy", {"self": type_like(self), "src": src})


def _filled(steps: Steps, type: TensorType, value: Number) -> Value:
    if math.isfinite(value):
        return steps("inplace_fill_scalar", {"self": type}, value=value)
    return steps("inplace_copy", {"self": type, "src": np.asarray(value, type.dtype.numpy)})


def _written(steps: Steps, self: Value, src: Value, part: tuple[Any, ...]) -> Value:
    """Copies the source into the part of the tensor that has this index."""
    view = Strided.whole(tuple(self.shape))[part]
    where = {"shape": view.shape, "offset": view.offset, "strides": view.strides}
    return steps("inplace_copy", {"self": self, "src": src}, **where)


def _padded(steps: Steps, self: Value, pad: Sequence[int], value: Number = 0.0) -> Value:
    """Fills the result, and copies into it what no padding below 0 crops."""
    pairs = [(0, 0)] * (self.ndim - len(pad) // 2) + list(zip(pad[-2::-2], pad[::-2], strict=True))
    shape = tuple(size + sum(pair) for size, pair in zip(self.shape, pairs, strict=True))
    kept, part = (
        tuple(
            slice(max(sign * before, 0), size - max(sign * after, 0))
            for size, (before, after) in zip(sizes, pairs, strict=True)
        )
        for sign, sizes in ((-1, self.shape), (1, shape))
    )
    filled = _filled(steps, TensorType(type_like(self).dtype, shape), value)
    return _written(steps, filled, self[kept], part)


def _stacked(steps: Steps, tensors: Sequence[Value], dim: int = 0) -> Value:
    return steps("cat", {"tensors": [_with_axis(steps, each, dim) for each in tensors]}, dim=dim)


def _indexed(steps: Steps, self: Value, indices: Sequence[Value | None]) -> Value:
    """Takes positions along one axis; those below 0 count from its end."""
    given = {axis: each for axis, each in enumerate(indices) if each is not None}
    if len(given) != 1 or any(each.dtype.kind != "i" for each in given.values()):
        raise LocalError("no operator takes elements by a mask, or by several indices")
    ((axis, index),) = given.items()
    positions = index if isinstance(index, Handle) else np.where(index < 0, index + self.shape[axis], index)
    made = steps("index_select", {"self": self, "index": positions.reshape(-1)}, dim=axis)
    return made.reshape((*self.shape[:axis], *index.shape, *self.shape[axis + 1 :]))


ROWS: Final[Mapping[Any, Row]] = {
    aten._to_copy.default: _converted,  # noqa: SLF001 - ATen's name
    aten.copy.default: _copied,
    aten.fill.Scalar: lambda steps, self, value: _filled(steps, type_like(self), value),
    aten.zero.default: lambda steps, self: _filled(steps, type_like(self), 0),
    aten.constant_pad_nd.default: _padded,
    aten.cat.default: lambda steps, tensors, dim=0: steps("cat", {"tensors": list(tensors)}, dim=dim),
    aten.stack.default: _stacked,
    aten.select_scatter.default: lambda steps, self, src, dim, index: _written(
        steps, self, src, (*(slice(None),) * (dim % self.ndim), index)
    ),
    aten.slice_scatter.default: lambda steps, self, src, dim=0, start=None, end=None, step=1: _written(
        steps, self, src, (*(slice(None),) * (dim % self.ndim), slice(start, end, step))
    ),
    aten.embedding.default: lambda steps, weight, indices, *_: steps(
        "embedding", {"weight": weight, "indices": indices}
    ),
    aten.index.Tensor: _indexed,
    aten.index_select.default: lambda steps, self, dim, index: steps(
        "index_select", {"self": self, "index": index}, dim=dim
    ),
    aten.gather.default: lambda steps, self, dim, index, sparse_grad=False: steps(
        "gather", {"self": self, "index": index}, dim=dim
    ),
    aten.scatter_add.default: lambda steps, self, dim, index, src: steps(
        "scatter_add", {"self": self, "index": index, "src": src}, dim=dim
    ),
    aten.index_add.default: lambda steps, self, dim, index, source, alpha=1: steps(
        "index_add", {"self": self, "index": index, "source": source}, dim=dim, alpha=alpha
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
        (aten.alias.default, aten.clone.default, aten.detach.default),
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
    **dict.fromkeys((aten.split.Tensor, aten.split_with_sizes.default), _split),
    aten.unbind.int: lambda steps, self, dim=0: [along(self, dim, index) for index in range(self.shape[dim])],
}
