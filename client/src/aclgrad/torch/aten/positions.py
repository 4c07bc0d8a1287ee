"""Elements at positions, and gradients summed at positions."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch

from aclgrad._client.calls.handles import Handle
from aclgrad.torch.aten.steps import Number, Row, Steps, Value, filled, reshaped, scalar_like, spread, type_like
from aclgrad.torch.calls import Array, LocalError

aten: Final = torch.ops.aten


def _axis_and_positions(self: Value, indices: Sequence[Value | None]) -> tuple[int, Value]:
    """Returns the only indexed axis, and its positions; negative ones count from the end."""
    given = {axis: each for axis, each in enumerate(indices) if each is not None}
    if len(given) != 1 or any(each.dtype.kind != "i" for each in given.values()):
        raise LocalError("no operator takes elements by a mask, or by several indices")
    ((axis, index),) = given.items()
    if isinstance(index, Handle) or not (index < 0).any():
        return axis, index
    return axis, np.where(index < 0, index + self.shape[axis], index)


def _indexed(steps: Steps, self: Value, indices: Sequence[Value | None]) -> Value:
    axis, index = _axis_and_positions(self, indices)
    made = steps("index_select", {"self": self, "index": index.reshape(-1)}, dim=axis)
    return made.reshape((*self.shape[:axis], *index.shape, *self.shape[axis + 1 :]))


def _put(steps: Steps, self: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False) -> Value:
    axis, index = _axis_and_positions(self, indices)
    before, after = self.shape[:axis], self.shape[axis + 1 :]
    if tuple(values.shape) != (whole := (*before, *index.shape, *after)):
        values = spread(values, whole)
    source, positions = reshaped(steps, values, (*before, index.size, *after)), index.reshape(-1)
    begin = _zeros(steps, self) if not accumulate or _is_zero(self) else self
    made = steps("index_add", {"self": begin, "index": positions, "source": source}, dim=axis)
    if accumulate:
        return made
    if isinstance(positions, Handle) or len(np.unique(positions)) < len(positions):
        raise LocalError("no operator writes elements at positions of which some may be equal")
    is_written = np.zeros((self.shape[axis], *(1 for _ in after)), np.bool_)
    is_written[positions] = True
    return steps("s_where", {"condition": is_written, "self": made, "other": self})


def _is_zero(self: Value) -> bool:
    """Whether a tensor is known to be all zeros, like the beginning of a gradient. The server makes zeros itself."""
    return isinstance(self, np.ndarray) and not self.any()


def _zeros(steps: Steps, self: Value) -> Value:
    return filled(steps, type_like(self), 0)


def _scattered(steps: Steps, self: Value, dim: int, index: Value, src: Value) -> Value:
    if isinstance(index, Handle) or not index.ndim:
        raise LocalError("no operator writes elements at positions of which some may be equal")
    counts = np.zeros(self.shape, np.int32)
    np.add.at(counts, _places(index, dim % index.ndim), 1)
    if (counts > 1).any():
        raise LocalError("no operator writes elements at positions of which some may be equal")
    made = steps("scatter_add", {"self": _zeros(steps, self), "index": index, "src": src}, dim=dim)
    return made if _is_zero(self) else steps("s_where", {"condition": counts > 0, "self": made, "other": self})


def _places(index: Array, axis: int) -> tuple[Any, ...]:
    """Returns the index of all elements with these positions along one axis."""
    own = np.indices(index.shape, sparse=True)
    return (*own[:axis], index, *own[axis + 1 :])


def _scattered_number(steps: Steps, self: Value, dim: int, index: Value, value: Number) -> Value:
    """Counts how often each element is written, which may be more than once."""
    counts = filled(steps, type_like(self, np.dtype(np.float32)), 0)
    ones = np.ones(index.shape, np.float32)
    counted = steps("scatter_add", {"self": counts, "index": index, "src": ones}, dim=dim)
    is_written = steps("gt_scalar", {"self": counted}, other=0)
    return steps("s_where", {"condition": is_written, "self": scalar_like(self, value), "other": self})


def _embedding_backward(
    steps: Steps, grad_output: Value, indices: Value, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Value:
    if not indices.shape:
        grad_output, indices = reshaped(steps, grad_output, (1, -1)), indices.reshape(1)
    return steps(
        "embedding_dense_backward",
        {"grad_output": grad_output, "indices": indices},
        num_weights=num_weights,
        padding_idx=max(padding_idx, -1),
        scale_grad_by_freq=scale_grad_by_freq,
    )


ROWS: Final[Mapping[Any, Row]] = {
    aten.embedding.default: lambda steps, weight, indices, *_: steps(
        "embedding", {"weight": weight, "indices": indices}
    ),
    **dict.fromkeys((aten.index.Tensor, aten._unsafe_index.Tensor), _indexed),  # noqa: SLF001 - ATen's name
    **dict.fromkeys((aten.index_put.default, aten._unsafe_index_put.default), _put),  # noqa: SLF001
    aten.embedding_dense_backward.default: _embedding_backward,
    aten.index_select.default: lambda steps, self, dim, index: steps(
        "index_select", {"self": self, "index": index}, dim=dim
    ),
    aten.gather.default: lambda steps, self, dim, index, sparse_grad=False: steps(
        "gather", {"self": self, "index": index}, dim=dim
    ),
    aten.scatter_add.default: lambda steps, self, dim, index, src: steps(
        "scatter_add", {"self": self, "index": index, "src": src}, dim=dim
    ),
    aten.scatter.src: _scattered,
    aten.scatter.value: _scattered_number,
    aten.index_add.default: lambda steps, self, dim, index, source, alpha=1: steps(
        "index_add", {"self": self, "index": index, "source": source}, dim=dim, alpha=alpha
    ),
}
