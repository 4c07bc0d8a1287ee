"""Attention in which the host library and PyTorch race, forward and backward: of GPT-2's and of longer sequences."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from tools.abi.acl import DataType, Format, Library
from tools.benchmarks.kernel_products import DTYPES

_LANES: Final = 8
_ALL_TOKENS: Final = 2**31 - 1
_FORWARD: Final = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu  # noqa: SLF001 (what SDPA calls)
_BACKWARD: Final = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward  # noqa: SLF001
QUICK: Final = 2**31
"""Operations above which a race is left out of a quick run."""


@dataclass(frozen=True)
class Sizes:
    """Sequences, heads, heads of the keys, positions, and elements of a head."""

    name: str
    batches: int
    heads: int
    key_heads: int
    positions: int
    depth: int
    is_causal: bool = False
    dtypes: tuple[str, ...] = ("float32", "bfloat16")
    """PyTorch takes hundreds of times as long for float16."""


ALL: Final = (
    Sizes("short", 8, 12, 12, 128, 64),
    Sizes("GPT-2", 1, 12, 12, 1024, 64),
    Sizes("GPT-2", 1, 12, 12, 1024, 64, is_causal=True),
    Sizes("shared keys", 1, 32, 8, 1024, 128, is_causal=True),
    Sizes("odd heads", 2, 8, 8, 512, 80, dtypes=("float32",)),
    Sizes("few heads", 1, 1, 1, 2048, 64, dtypes=("float32",)),
    Sizes("long", 1, 2, 2, 8192, 64, dtypes=("float32",)),
    Sizes("long", 1, 2, 2, 8192, 64, is_causal=True, dtypes=("float32",)),
)


@dataclass(frozen=True)
class Race:
    """The forward pass of one size in one type, or its gradients."""

    sizes: Sizes
    dtype: str
    is_forward: bool

    def __str__(self) -> str:
        sizes = self.sizes
        shared = f" sharing {sizes.key_heads}" if sizes.key_heads < sizes.heads else ""
        causal = ", causal" if sizes.is_causal else ""
        return f"{sizes.batches}x{sizes.heads}{shared} of {sizes.positions}x{sizes.depth}{causal}"

    @property
    def operations(self) -> int:
        """Of the products, half of which a causal mask leaves out."""
        sizes = self.sizes
        whole = 2 * (2 if self.is_forward else 5) * sizes.batches * sizes.heads * sizes.positions**2 * sizes.depth
        return whole // 2 if sizes.is_causal else whole

    def calls(self, acl: Library, stack: ExitStack) -> tuple[dict[str, Callable[[], object]], int]:
        """Returns our call and PyTorch's, whose results have been compared, and the bytes of our workspace."""
        sizes, (dtype, data_type) = self.sizes, DTYPES[self.dtype]
        of_query = (sizes.batches, sizes.heads, sizes.positions, sizes.depth)
        of_key = (sizes.batches, sizes.key_heads, sizes.positions, sizes.depth)
        query, key, value, dy = (torch.randn(each).to(dtype) for each in (of_query, of_key, of_key, of_query))
        result, logarithms = _forward(query, key, value, sizes)
        largest = logarithms[..., None].expand(*of_query[:3], _LANES).contiguous()
        statistics = [largest, torch.ones_like(largest)]
        mask = torch.from_numpy(np.triu(np.ones((2048, 2048), np.bool_), 1)) if sizes.is_causal else None
        shapes = (of_query,) if self.is_forward else (of_query, of_key, of_key)
        made = [torch.empty(shape, dtype=dtype) for shape in shapes]
        held = [query, key, value, dy, result, *statistics, *made, *([] if mask is None else [mask])]
        stack.callback(held.clear)  # tensors of the library do not hold their memory

        def handle(tensor: torch.Tensor | None, type: DataType = data_type) -> object:
            if tensor is None:
                return None
            shape = tuple(tensor.shape)
            return stack.enter_context(acl.describe(shape, type, format_=Format.ND, address=tensor.data_ptr()))

        tokens = (_ALL_TOKENS, 0 if sizes.is_causal else _ALL_TOKENS)
        scale, mode = sizes.depth**-0.5, 2 if sizes.is_causal else 0
        numbers: list[Any] = [None, scale, 1.0, *tokens, sizes.heads, b"BNSD", 0, mode]
        operands, masks = [handle(each) for each in (query, key, value)], [None] * 3
        masks = [*masks, handle(mask, DataType.BOOL)]
        saved, outputs = [handle(each, DataType.FLOAT) for each in statistics], [handle(each) for each in made]
        if self.is_forward:
            symbol = "aclnnFlashAttentionScore"
            size, executor = acl.plan(symbol, *operands, *masks, *numbers, *saved, None, *outputs)
        else:
            symbol = "aclnnFlashAttentionScoreGrad"
            passed = [*saved, None, handle(result)]
            size, executor = acl.plan(symbol, *operands, handle(dy), *masks, *passed, *numbers, *outputs, None)
        acl.call("aclSetAclOpExecutorRepeatable", executor)
        stack.callback(acl.call, "aclDestroyAclOpExecutor", executor)
        workspace = stack.enter_context(acl.buffer(size)) if size else None

        def ours() -> None:
            acl.call(symbol, workspace, size, executor, None)
            acl.call("aclrtSynchronizeStream", None)

        def pytorch() -> tuple[torch.Tensor, ...]:
            if self.is_forward:
                return _forward(query, key, value, sizes)[:1]
            return _backward(dy, query, key, value, result, logarithms, sizes)

        ours()
        for found, truth in zip(made, pytorch(), strict=True):
            rounding = 2e-4 if self.dtype == "float32" else 3e-2
            worst = ((found.float() - truth.float()).abs().max() / truth.float().abs().max()).item()
            if not worst <= rounding:
                raise AssertionError(f"{self} in {self.dtype}: the results differ by {worst:.3g} of the largest")
        return {"ours": ours, "pytorch": pytorch}, size


def _forward(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, sizes: Sizes
) -> tuple[torch.Tensor, torch.Tensor]:
    found: tuple[torch.Tensor, torch.Tensor] = _FORWARD(query, key, value, 0.0, sizes.is_causal)
    return found


def _backward(
    dy: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    result: torch.Tensor,
    logarithms: torch.Tensor,
    sizes: Sizes,
) -> tuple[torch.Tensor, ...]:
    found: tuple[torch.Tensor, ...] = _BACKWARD(dy, query, key, value, result, logarithms, 0.0, sizes.is_causal)
    return found


def races(dtypes: tuple[str, ...], *, quick: bool) -> Iterator[Race]:
    """Yields every size and dtype, forward before the gradients; float32 comes first."""
    for sizes in ALL:
        for dtype in sizes.dtypes:
            for race in (Race(sizes, dtype, is_forward=True), Race(sizes, dtype, is_forward=False)):
                if dtype in dtypes and (not quick or race.operations <= QUICK):
                    yield race
