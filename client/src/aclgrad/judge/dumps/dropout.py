"""Dropout, which draws random numbers: what it kept is seen in what it returned."""

import math
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor

NAMES: Final = frozenset(("dropout", "dropout_"))
_PARTS: Final = 8
"""A tail that is 0 drops everything in one of these parts."""
_DEVIATIONS: Final = 6.0
"""How far, in standard deviations, the share of what is dropped may be from its probability."""


def as_recorded(input: Tensor, output: Tensor, gradient: Tensor | None) -> Callable[..., Any]:
    """Returns the function that keeps what the recorded call has kept.

    Where the input is 0, the gradient of the input tells, if it is recorded.
    """
    kept = output != 0
    if gradient is not None and gradient.shape == kept.shape:
        kept |= (input == 0) & (gradient != 0)

    def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        scaled = kept.to(input.dtype) / (1 - p) if p < 1 else torch.zeros_like(input)
        return input * scaled

    return dropout


def probability(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> float:
    """Returns the probability among the arguments of a dropout."""
    return p if training else 0.0


def wrong_share(input: Tensor, output: Tensor, probability: float) -> str:
    """Returns what is wrong with how much was dropped; empty if nothing is."""
    judged = input.flatten() != 0
    dropped = (output.flatten() == 0)[judged]
    parts = [dropped, *dropped.tensor_split(_PARTS)] if dropped.numel() else []
    for part in parts:
        count = part.numel()
        share = float(part.double().mean()) if count else probability
        deviation = math.sqrt(probability * (1 - probability) / max(count, 1))
        if abs(share - probability) > _DEVIATIONS * deviation + 1 / max(count, 1):
            where = "" if part is dropped else f" in a part of {count}"
            return f"it drops {share:.1%} of the elements{where} instead of {probability:.1%}"
    return ""
