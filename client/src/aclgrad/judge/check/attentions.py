"""Attention and its gradients at the sizes of known models, as programs: the forward pass, then the gradients.

Samples have some tens of positions. These have as many as in training, so that sums are as long.
"""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from aclgrad.judge.programs.program import Program
from aclgrad.judge.programs.recording import Recorder
from aclgrad.operators.families.attention.layouts import is_flat, shape_of
from aclgrad.tensors import DTYPES

Shape = tuple[int, ...]
OPERATORS: Final = frozenset(
    f"flash_attention_score{kind}{version}" for kind in ("", "_grad") for version in ("", "_v2")
)
_TOP_LEFT, _BOTTOM_RIGHT = 2, 3
"""The sparse modes of causal masks."""
_FEWER: Final = 8
"""A quick check has this many times fewer positions."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """Attention by its numbers of sequences, heads of queries and of keys, queries, keys, and elements in a head.

    `mask` names the axes of a mask, such as B1ST: of padding in mode 0, causal in mode 1. `bias` names the axes of the
    bias of scores.
    """

    name: str
    layout: str
    sizes: tuple[int, int, int, int, int, int]
    mode: int = 0
    mask: str = ""
    bias: str = ""
    is_long: bool = False
    """Whether its definition is so slow that only the first dtype is checked."""

    def scaled(self, *, is_quick: bool) -> tuple[int, int, int, int, int, int]:
        """Returns the sizes; a quick check has an eighth of the positions."""
        batch, heads, shared, queries, keys, size = self.sizes
        if not is_quick:
            return self.sizes
        return batch, heads, shared, max(queries // _FEWER, 1), max(keys // _FEWER, 1), size


LAYERS: Final = (
    _Layer("BERT, padded", "BSH", (2, 2, 2, 512, 512, 64), mask="B1ST"),
    _Layer("ViT-B/16", "BSND", (2, 4, 4, 197, 197, 64)),
    _Layer("GPT-2", "BNSD", (1, 2, 2, 1024, 1024, 64), _TOP_LEFT),
    _Layer("Megatron, its own mask", "SBH", (1, 2, 2, 1024, 1024, 96), 1, mask="ST"),
    _Layer("Phi-2", "BSH", (1, 1, 1, 2048, 2048, 80), _TOP_LEFT),
    _Layer("Llama 3", "BNSD", (1, 2, 1, 2048, 2048, 128), _TOP_LEFT),
    _Layer("Llama 3, the end of a text", "BSND", (1, 4, 1, 128, 4096, 128), _BOTTOM_RIGHT),
    _Layer("Stable Diffusion, of its text", "BNSD", (1, 2, 2, 4096, 77, 80)),
    _Layer("T5, with its bias", "BNSD", (2, 2, 2, 512, 512, 64), bias="1NST"),
    _Layer("ALiBi", "BSND", (1, 4, 2, 512, 512, 96), _TOP_LEFT, bias="BN1T"),
    _Layer("long text", "BNSD", (1, 1, 1, 8192, 8192, 64), _TOP_LEFT, is_long=True),
)


def attention_programs(dtype: str, *, is_quick: bool) -> Iterator[tuple[str, Callable[[], Program]]]:
    """Yields the layers, and a function that makes the same program of each every time."""
    for layer in LAYERS:
        if layer.is_long and dtype != "float32":
            continue
        yield f"attention: {layer.name}", partial(_program, layer, dtype, is_quick=is_quick)


def _program(layer: _Layer, dtype: str, *, is_quick: bool) -> Program:
    batch, heads, shared, queries, keys, size = layer.scaled(is_quick=is_quick)
    generator = np.random.default_rng(zlib.crc32(layer.name.encode()))

    def array(*shape: int) -> Any:
        return generator.standard_normal(shape).astype(DTYPES[dtype].numpy)

    of_queries, of_keys = (
        shape_of(each, layer.layout) for each in ((batch, heads, queries, size), (batch, shared, keys, size))
    )
    query, key, value, grad = (array(*shape) for shape in (of_queries, of_keys, of_keys, of_queries))
    axes = {"B": batch, "N": heads, "S": queries, "T": keys, "1": 1}
    added: dict[str, Any] = {}
    if layer.mask:
        added["atten_mask"] = _mask(tuple(axes[each] for each in layer.mask), is_padding=layer.mode == 0)
    bias = array(*(axes[each] for each in layer.bias)) if layer.bias else None
    attributes: dict[str, Any] = {"input_layout": layer.layout, "sparse_mode": layer.mode}
    if is_flat(layer.layout):
        attributes["head_num"] = heads
    recorder, version = Recorder(), "" if bias is None else "_v2"

    def step(name: str, of_bias: str, inputs: dict[str, Any]) -> Any:
        given = inputs if bias is None else {**inputs, of_bias: bias}
        return recorder.execute(f"flash_attention_score{name}{version}", {**given, **added}, attributes)

    most, sums, result = step("", "real_shift", {"query": query, "key": key, "value": value})
    of_result = {"softmax_max": most, "softmax_sum": sums, "attention_in": result}
    step("_grad", "pse_shift", {"query": query, "key_in": key, "value": value, "dy": grad, **of_result})
    return recorder.program


def _mask(shape: Shape, *, is_padding: bool) -> Any:
    """Returns the mask that hides the last quarter of all sequences but the first, or the keys behind each query."""
    if not is_padding:
        return np.broadcast_to(~np.tri(*shape[-2:], dtype=np.bool_), shape).copy()
    mask = np.zeros(shape, np.bool_)
    mask[1:, ..., -(shape[-1] // 4) :] = True
    return mask
