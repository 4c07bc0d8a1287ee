"""Products of matrices in which the host library and PyTorch race: large, tall, wide and small ones."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from math import prod
from typing import Final

import torch

from tools.abi.acl import DataType, Format, Library

DTYPES: Final = {
    "float32": (torch.float32, DataType.FLOAT),
    "float16": (torch.float16, DataType.FLOAT16),
    "bfloat16": (torch.bfloat16, DataType.BF16),
}
QUICK: Final = ((512, 512, 512), (4096, 32, 1024), (64, 64, 64))
SHAPES: Final = (
    *QUICK,
    (1024, 1024, 1024), (2048, 2048, 2048),
    (4096, 64, 1024), (4096, 1024, 32), (32, 4096, 1024), (64, 64, 100_000),
    (4096, 1, 4096), (1, 4096, 4096), (1, 1, 10_000_000),
    (32, 32, 32), (96, 128, 128, 64), (20_000, 16, 16, 16), (1_000_000, 4, 4, 4),
)  # fmt: skip
"""Batches if there are any, rows, columns, and the length of the sums."""
LARGE: Final = 2**28
"""Multiplications above which PyTorch, which has no such kernel, takes minutes for float16."""


@dataclass(frozen=True)
class Product:
    """The operands are row-major (N) or transposed (T)."""

    shape: tuple[int, ...]
    layout: str
    dtype: str

    def __str__(self) -> str:
        return "x".join(map(str, self.shape))

    @property
    def operations(self) -> int:
        return 2 * prod(self.shape)

    def operands(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns both operands and the result."""
        *batch, rows, columns, terms = self.shape
        dtype, _ = DTYPES[self.dtype]

        def matrix(lines: int, others: int, letter: str) -> torch.Tensor:
            stored = (lines, others) if letter == "N" else (others, lines)
            values = torch.rand(*batch, *stored).sub_(0.5).to(dtype)
            return values if letter == "N" else values.mT

        return (
            matrix(rows, terms, self.layout[0]),
            matrix(terms, columns, self.layout[1]),
            torch.empty(*batch, rows, columns, dtype=dtype),
        )

    def calls(self, acl: Library, stack: ExitStack) -> dict[str, Callable[[], object]]:
        """Returns our call and PyTorch's, whose results have been compared."""
        left, right, out = operands = [*self.operands()]
        stack.callback(operands.clear)  # tensors of the library do not hold their memory
        rival = torch.empty_like(out)
        given = [stack.enter_context(self._describe(acl, each)) for each in (left, right, out)]
        size, executor = acl.plan("aclnnMatmul", *given, 0)
        acl.call("aclSetAclOpExecutorRepeatable", executor)
        stack.callback(acl.call, "aclDestroyAclOpExecutor", executor)
        workspace = stack.enter_context(acl.buffer(size)) if size else None

        def ours() -> None:
            acl.call("aclnnMatmul", workspace, size, executor, None)
            acl.call("aclrtSynchronizeStream", None)

        ours()
        calls: dict[str, Callable[[], object]] = {"ours": ours}
        if self.dtype != "float16" or self.operations < 2 * LARGE:
            torch.matmul(left, right, out=rival)
            torch.testing.assert_close(out.float(), rival.float(), rtol=1e-2, atol=0.1)
            calls["pytorch"] = lambda: torch.matmul(left, right, out=rival)
        return calls

    def _describe(self, acl: Library, tensor: torch.Tensor) -> AbstractContextManager[object]:
        return acl.describe(
            tuple(tensor.shape), DTYPES[self.dtype][1], strides=tuple(tensor.stride()), format_=Format.ND,
            storage=(tensor.numel(),), address=tensor.data_ptr(),
        )  # fmt: skip


def products(dtypes: tuple[str, ...], *, quick: bool) -> Iterator[Product]:
    """Yields every shape and dtype, and the large float32 ones in every layout; float32 comes first."""
    for shape in QUICK if quick else SHAPES:
        is_large = len(shape) == 3 and min(shape) >= 512
        for layout in ("NN", "TN", "NT") if is_large else ("NN",):
            for dtype in DTYPES if layout == "NN" else ("float32",):
                if dtype in dtypes:
                    yield Product(shape, layout, dtype)
