"""One gradient that a program computes on a device."""

from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass
class Case:
    operator: str
    forward: Callable[[torch.Tensor], torch.Tensor]
    input: torch.Tensor
    backward: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    """Of the output's gradient and the input, on the device."""
    tolerance: float = 1e-5


def uniform(*shape: int) -> torch.Tensor:
    return torch.rand(shape) * 2 - 1
