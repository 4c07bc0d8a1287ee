"""RMSNorm modules as models write them."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class LlamaRMSNorm(nn.Module):
    """As transformers': Llama, Qwen, Mistral."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.variance_epsilon = eps

    def forward(self, hidden_states: Tensor) -> Tensor:
        input_dtype = hidden_states.dtype
        hidden_states = hidden_states.to(torch.float32)
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight * hidden_states.to(input_dtype)


class OlmoRMSNorm(LlamaRMSNorm):
    """Rounds once."""

    def forward(self, hidden_states: Tensor) -> Tensor:
        wide = hidden_states.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return (self.weight * wide).to(hidden_states.dtype)


class MetaRMSNorm(nn.Module):
    """As Meta's own Llama, and one of PyTorch's function."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.eps = 1e-5
        self.weight = nn.Parameter(torch.ones(width))

    def _norm(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x: Tensor) -> Tensor:
        return self._norm(x.float()).type_as(x) * self.weight


class FunctionalRMSNorm(MetaRMSNorm):
    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, self.weight.shape, self.weight, self.eps)


class InheritedRMSNorm(LlamaRMSNorm):
    """Has the forward of another class."""


class GemmaRMSNorm(MetaRMSNorm):
    """Its weight is one less, and 0 at first."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        nn.init.zeros_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return (self._norm(x.float()) * (1.0 + self.weight.float())).type_as(x)


class SquaredRMSNorm(MetaRMSNorm):
    """Looks right while the weight is 1."""

    def forward(self, x: Tensor) -> Tensor:
        return self._norm(x) * self.weight.square()


class OutsideRMSNorm(MetaRMSNorm):
    """Adds eps to the root, which matters to small numbers alone."""

    def forward(self, x: Tensor) -> Tensor:
        return x / (x.pow(2).mean(-1, keepdim=True).sqrt() + self.eps) * self.weight


class BiasedRMSNorm(MetaRMSNorm):
    """Looks right while the bias is 0."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return self._norm(x) * self.weight + self.bias


class DetachedRMSNorm(MetaRMSNorm):
    """Has the output of RMSNorm, and the gradient of a product with a constant."""

    def _norm(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps).detach()


class LimitedRMSNorm(MetaRMSNorm):
    """Limits its input, which small inputs do not show."""

    def forward(self, x: Tensor) -> Tensor:
        return self._norm(x.clamp(-30, 30)) * self.weight


class FrozenRMSNorm(MetaRMSNorm):
    """Has no gradient of its weight."""

    def forward(self, x: Tensor) -> Tensor:
        return self._norm(x.float()).type_as(x) * self.weight.detach()


class GatedRMSNorm(MetaRMSNorm):
    """Takes a second tensor."""

    def forward(self, x: Tensor, gate: Tensor) -> Tensor:
        return self._norm(x) * self.weight * functional.silu(gate)


class OwnRMSNorm(LlamaRMSNorm):
    """Calls the forward of the class that it follows."""

    def forward(self, hidden_states: Tensor, *_: Any) -> Tensor:
        return super().forward(hidden_states) + hidden_states


SERVED = (LlamaRMSNorm, OlmoRMSNorm, MetaRMSNorm, FunctionalRMSNorm, InheritedRMSNorm)
ALONE = (GemmaRMSNorm, SquaredRMSNorm, OutsideRMSNorm, BiasedRMSNorm, DetachedRMSNorm)
