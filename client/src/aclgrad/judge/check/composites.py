"""The gradients of products in GPT and BERT (small), as programs: each composite at shapes of training."""

import math
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

from aclgrad.judge.programs.program import Program
from aclgrad.judge.programs.recording import recorded
from aclgrad.tensors import DTYPES

Shape = tuple[int, ...]
OPERATORS: Final = frozenset({"addmm", "batch_mat_mul", "matmul", "mm", "reduce_sum"})
"""The dtypes of their steps."""
_BATCH, _HEADS = 2, 12
_SIZES: Final = {False: {"t": 128, "h": 768, "f": 3072}, True: {"t": 16, "h": 96, "f": 384}}
"""Tokens, hidden and inner features, by whether the check is quick."""
CASES: Final = (
    ("projections of BERT", "linear_backward", "bth bth hh"),
    ("feed forward of BERT, up", "linear_backward", "btf bth fh"),
    ("feed forward of BERT, down", "linear_backward", "bth btf hf"),
    ("attention of BERT", "bmm_backward", "gtd gtt gtd"),
    ("projections of GPT", "addmm_backward", "rq q rh hq"),
    ("scores of GPT", "matmul_backward", "bntt bntd bndt"),
    ("values of GPT", "matmul_backward", "bntd bntt bntd"),
    ("scores by einsum", "einsum_backward", "bntt btnd bsnd"),
)
"""Its name, the composite, and the axes of its arguments."""
_EQUATION: Final = "bqhd,bkhd->bhqk"


def composite_programs(dtype: str, *, is_quick: bool) -> Iterator[tuple[str, Callable[[], Program]]]:
    """Yields the names of the programs, and a function that makes each, with the same values in every run."""
    for name, composite, axes in CASES:
        shapes = [_shape(each, is_quick=is_quick) for each in axes.split()]
        yield name, partial(_program, name, composite, shapes, dtype)


def _shape(axes: str, *, is_quick: bool) -> Shape:
    own = _SIZES[is_quick]
    sizes = {**own, "s": own["t"], "b": _BATCH, "n": _HEADS, "d": own["h"] // _HEADS, "q": 3 * own["h"]}
    # The rows of all texts, and the heads of all.
    sizes |= {"r": _BATCH * own["t"], "g": _BATCH * _HEADS}
    return tuple(sizes[each] for each in axes)


def _program(name: str, composite: str, shapes: list[Shape], dtype: str) -> Program:
    generator = np.random.default_rng(zlib.crc32(name.encode()))

    def array(shape: Shape) -> Any:
        # Scaled like gradients and weights: results are about 1.
        return (generator.standard_normal(shape) / math.sqrt(shape[-1])).astype(DTYPES[dtype].numpy)

    grad_output, *operands = shapes
    arguments: list[Any] = [array(each) for each in operands]
    if composite == "addmm_backward":
        arguments[0] = operands[0]  # of the addend, which has none
    before = [_EQUATION] if composite == "einsum_backward" else []
    return recorded(composite, *before, array(grad_output), *arguments)[0]
