"""The gradients that the kernels are timed on: for each operator and size our call and PyTorch's."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

import ml_dtypes
import numpy as np
import torch

from tests.abi.acl import DATA_TYPES, Format, Library

Array = np.ndarray[Any, Any]

SIZES: Final = ("16 KB", "6 MB", "100 MB", "1 GB")
DTYPES: Final = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
PLANES: Final = {"16 KB": (1, 16), "6 MB": (8, 64), "100 MB": (32, 256), "1 GB": (320, 256)}
SMALL, LARGE = 16, 56
"""The side of a plane: of a tensor of 16 KB, and of all others."""
BOXES: Final = {
    "16 KB": ((1, 4, 32, 32), 4),
    "6 MB": ((1, 64, 160, 152), 64),
    "100 MB": ((2, 256, 200, 272), 512),
    "1 GB": ((20, 256, 200, 272), 5120),
}


@dataclass(slots=True)
class Case:
    """One gradient: the arrays in aclnn's order, the rest of our arguments, and what PyTorch calls."""

    symbol: str
    inputs: list[Array]
    self_shape: tuple[int, ...] | None
    arguments: list[Any]
    out: Array
    rival: Callable[..., torch.Tensor]
    lines: tuple[Array, int] | None = None
    """For a gather: the cache lines that it has to touch, in its order, by number, and the bytes of a line."""
    tensors: list[torch.Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tensors = [as_tensor(array) for array in self.inputs]

    @property
    def moved_bytes(self) -> int:
        """What has to be read and written once; of a gather without the gathered."""
        read = self.inputs if self.lines is None else self.inputs[1:]
        return sum(array.nbytes for array in read) + self.out.nbytes

    def run_rival(self) -> torch.Tensor:
        return self.rival(*self.tensors)


def random(shape: tuple[int, ...], dtype: Any) -> Array:
    """Values of a normal distribution; those of a large array repeat, to be made quickly."""
    block = np.random.default_rng(0).standard_normal(1 << 20, np.float32).astype(dtype)
    return np.resize(block, shape)


def as_tensor(array: Array) -> torch.Tensor:
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def planes_of(size: str) -> tuple[int, ...]:
    side = SMALL if size == "16 KB" else LARGE
    return (*PLANES[size], side, side)


def adaptive_avg_pool(size: str, dtype: Any) -> Case:
    shape = planes_of(size)
    pooled = (*shape[:2], 7, 7) if shape[-1] == LARGE else (*shape[:2], 4, 4)
    like = torch.empty(shape, dtype=as_tensor(np.empty(1, dtype)).dtype)
    return Case(
        "aclnnAdaptiveAvgPool2dBackward", [random(pooled, dtype)], shape, [], np.empty(shape, dtype),
        lambda grad: torch.ops.aten._adaptive_avg_pool2d_backward(grad, like),
    )  # fmt: skip


def replication_pad(size: str, dtype: Any) -> Case:
    shape = planes_of(size)
    padded = (*shape[:2], shape[2] + 4, shape[3] + 4)
    like = torch.empty(shape, dtype=as_tensor(np.empty(1, dtype)).dtype)
    return Case(
        "aclnnReplicationPad2dBackward", [random(padded, dtype)], shape, [(2, 2, 2, 2)], np.empty(shape, dtype),
        lambda grad: torch.ops.aten.replication_pad2d_backward(grad, like, [2, 2, 2, 2]),
    )  # fmt: skip


def max_pool(size: str, dtype: Any) -> Case:
    """Windows of 3x3 with stride 2 and padding 1; each chooses one of its cells at random."""
    shape = planes_of(size)
    side, pooled = shape[-1], shape[-1] // 2
    generator = np.random.default_rng(1)
    start = np.arange(pooled) * 2 - 1
    chosen = [
        np.clip(start.reshape(view) + generator.integers(0, 3, (64, pooled, pooled)), 0, side - 1)
        for view in ((-1, 1), (1, -1))
    ]
    argmax = np.resize((chosen[0] * side + chosen[1]).astype(np.int32), (*shape[:2], pooled, pooled))
    indices = as_tensor(argmax.astype(np.int64))
    like = torch.empty(shape, dtype=as_tensor(np.empty(1, dtype)).dtype)
    grad = random(argmax.shape, dtype)
    # The documented buffer is larger than what is read of it.
    return Case(
        "aclnnMaxPool2dWithMaskBackward", [grad, argmax], shape, [(3,), (2,), (1,), (1,), False],
        np.empty(shape, dtype),
        lambda grad, _: torch.ops.aten.max_pool2d_with_indices_backward(
            grad, like, [3, 3], [2, 2], [1, 1], [1, 1], False, indices
        ),
    )  # fmt: skip


def max_unpool(size: str, dtype: Any) -> Case:
    """Twice as many cells along each axis, of which each index names one of its own eight."""
    batch, channels = {"16 KB": (1, 2), "6 MB": (1, 32), "100 MB": (8, 64), "1 GB": (80, 64)}[size]
    depth, side = (4, 8) if size == "16 KB" else (16, 28)
    cells = (batch, channels, depth, side, side)
    unpooled = (2 * depth, 2 * side, 2 * side)
    generator = np.random.default_rng(1)
    place = [
        2 * np.arange(length).reshape(view) + generator.integers(0, 2, (16, *cells[2:]))
        for length, view in ((depth, (-1, 1, 1)), (side, (1, -1, 1)), (side, (1, 1, -1)))
    ]
    block = (place[0] * unpooled[1] + place[1]) * unpooled[2] + place[2]
    indices = np.resize(block, cells).astype(np.int64)
    grad = random((batch, channels, *unpooled), dtype)
    plane = np.arange(batch * channels).reshape(batch, channels, 1, 1, 1) * prod(unpooled)
    lines = (((indices + plane) * grad.itemsize) >> 6).reshape(-1)
    lines = lines[np.diff(lines, prepend=-1) != 0]  # what has just been touched needs no more time
    return Case(
        "aclnnMaxUnpool3dBackward", [grad, indices], cells, [unpooled, (2, 2, 2), (0, 0, 0)], np.empty(cells, dtype),
        lambda grad, indices: grad.flatten(-3).gather(-1, indices.flatten(-3)).view(indices.shape),
        (lines, 64),
    )  # fmt: skip


def roi_align(size: str, dtype: Any) -> Case:
    """Boxes of 20 to 120 cells anywhere on the images; torchvision's kernel, where it was loaded."""
    shape, count = BOXES[size]
    generator = np.random.default_rng(1)
    corner = generator.uniform(0, 0.6, (count, 2)) * (shape[3], shape[2])
    extent = np.minimum(generator.uniform(20, 120, (count, 2)), (shape[3] / 3, shape[2] / 3))
    image = np.arange(count).reshape(-1, 1) * shape[0] // count
    boxes = np.concatenate([image, corner, corner + extent], 1).astype(np.float32)
    grad = random((count, shape[1], 7, 7), dtype)
    return Case(
        "aclnnRoiAlignV2Backward", [grad, boxes], None, [shape, 7, 7, 1.0, 2, True], np.empty(shape, dtype),
        lambda grad, boxes: torch.ops.torchvision._roi_align_backward(grad, boxes, 1.0, 7, 7, *shape, 2, True),
    )  # fmt: skip


OPERATORS: Final[dict[str, tuple[Callable[[str, Any], Case], tuple[str, ...]]]] = {
    "adaptive avg pool": (adaptive_avg_pool, tuple(DTYPES)),
    "max pool": (max_pool, tuple(DTYPES)),
    "replication pad": (replication_pad, tuple(DTYPES)),
    "max unpool": (max_unpool, ("float32", "float16")),
    "roi align": (roi_align, ("float32",)),
}
"""What makes the case of an operator, and the types that it takes here."""


def prepare(acl: Library, case: Case, stack: ExitStack) -> Callable[[], None]:
    """Returns our call: phase 2 of a repeatable executor, on the arrays as they are, and the wait for its end."""

    def describe(array: Array, format_: Format = Format.NCHW) -> Any:
        return stack.enter_context(
            acl.describe(array.shape, DATA_TYPES[array.dtype], address=array.ctypes.data, format_=format_)
        )

    handles = [describe(array, Format.ND if array.ndim == 2 else Format.NCHW) for array in case.inputs]
    if case.symbol == "aclnnMaxPool2dWithMaskBackward":
        handles[1] = mask_handle(acl, case, stack)
    out = describe(case.out)
    if case.self_shape is not None:
        handles.insert(1, out)
    rest = [stack.enter_context(acl.int_array(each)) if isinstance(each, tuple) else each for each in case.arguments]
    size, executor = acl.plan(case.symbol, *handles, *rest, out)
    acl.call("aclSetAclOpExecutorRepeatable", executor)
    stack.callback(acl.call, "aclDestroyAclOpExecutor", executor)
    workspace = stack.enter_context(acl.buffer(size)) if size else None
    launch, wait = getattr(acl, case.symbol), acl.aclrtSynchronizeStream

    def run() -> None:
        if launch(workspace, size, executor, None) != 0 or wait(None) != 0:
            raise RuntimeError(acl.message())

    return run


def mask_handle(acl: Library, case: Case, stack: ExitStack) -> Any:
    """The mask as an INT8 tensor of just the bytes that are read."""
    argmax = case.inputs[1]
    assert case.self_shape is not None
    shape = (*case.self_shape[:2], 1, argmax.nbytes // prod(case.self_shape[:2]))
    return stack.enter_context(acl.describe(shape, DATA_TYPES[np.dtype(np.int8)], address=argmax.ctypes.data))
