"""The rows of the bridges' table whose functions JAX has, with the arrays and arguments that those take."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import torch
from torch import Tensor

import aclgrad
import aclgrad.jax
from aclgrad.torch._roi_align import roi_align
from tests.jax.formulas import FIRST_FORMULA
from tests.torch.table import CALLS, Call, random

Calls = list[tuple[str, list[str] | None]]
"""Operators that were called, and the outputs that were wanted of each."""

BOXES = np.array([[0, 1, 1, 6, 6.5], [1, -2, 0, 3, 3], [1, 0, 0, 9, 30], [0, 5, 5, 4, 4]], np.float32)


def _pooled_boxes(input: Tensor, boxes: Tensor, output_size: tuple[int, int], *more: Any) -> Tensor:
    return roi_align(input, boxes, *output_size, *more)


_REGIONS = tuple(
    Call("roi_align", "roi_align_v2_backward", (random(2, 3, 8, 9),), (torch.from_numpy(BOXES), (2, 3), *more), {})
    for more in ((0.8, 2, True), (1.0, 3, False))
)
ROWS = (
    *(
        each
        for each in CALLS
        if each.function in aclgrad.jax.__all__ and each.function not in FIRST_FORMULA and "dtype" not in each.options
    ),
    *_REGIONS,
)
FIRST = {each.function: each for each in reversed(ROWS)}


def theirs(call: Call) -> Callable[..., Tensor]:
    """Returns PyTorch's function of the row's tensors."""
    return call.bound(_pooled_boxes if call.function == "roi_align" else None)


def ours(call: Call, client: aclgrad.Client) -> Callable[..., jax.Array]:
    """Returns JAX's function of those of the row's tensors that are not None."""
    names = [name for name, each in zip(call.tensors, call.values, strict=True) if each is not None]
    args, options = list(map(_plain, call.args)), {name: _plain(each) for name, each in call.options.items()}
    if call.function in ("interpolate", "max_unpool2d", "max_unpool3d"):
        # PyTorch takes a scale or a kernel, where JAX wants to know the size.
        size = tuple(theirs(call)(call.input).shape[2:])
        args, options = ([*args[:1], size] if args else []), ({} if args else {"size": size})

    def function(*arrays: Any) -> jax.Array:
        called = getattr(aclgrad.jax, call.function)
        result = (
            called(*arrays, *args, **options, client=client)
            if args
            else called(**dict(zip(names, arrays, strict=True)), **options, client=client)
        )
        return result[0] if isinstance(result, tuple) else result

    return function


def _plain(value: Any) -> Any:
    return value.numpy() if isinstance(value, Tensor) else value


def arrays_of(tensors: Sequence[Tensor | None]) -> list[np.ndarray]:
    return [each.detach().numpy() for each in tensors if each is not None]


def loss(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arrays: (function(*arrays) ** 3).sum()
