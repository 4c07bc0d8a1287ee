"""Small networks with a loss, as people train them: each is a function that makes a step."""

import math
from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

Step = Callable[[], Tensor]
"""Computes a loss."""
CLASSES: Final = torch.tensor([1, 0, 2])


class Residual(nn.Module):
    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, input: Tensor) -> Tensor:
        output: Tensor = input + self.body(input)
        return output


class RootMeanSquare(nn.Module):
    """As models of transformers write it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, input: Tensor) -> Tensor:
        return self.weight * (input * torch.rsqrt(input.pow(2).mean(-1, keepdim=True) + 1e-6))


def rotated(input: Tensor) -> Tensor:
    """Rotary positions."""
    angles = torch.arange(input.shape[-2])[:, None] / 10 ** torch.linspace(0, 1, input.shape[-1] // 2)
    cos, sin = (torch.cat([each, each], -1) for each in (angles.cos(), angles.sin()))
    first, second = input.chunk(2, -1)
    return input * cos + torch.cat([-second, first], -1) * sin


class Llama(nn.Module):
    """A layer of a Llama, in its own words: no function of the server but silu."""

    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(RootMeanSquare(width) for _ in range(2))
        self.projections = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up, self.down = (nn.Linear(width, width, bias=False) for _ in range(3))

    def forward(self, input: Tensor) -> Tensor:
        normed = self.norms[0](input)
        query, key, value = (
            each(normed).unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in self.projections[:3]
        )
        mixed = functional.scaled_dot_product_attention(rotated(query), rotated(key), value, is_causal=True)
        input = input + self.projections[3](mixed.transpose(1, 2).flatten(2))
        normed = self.norms[1](input)
        output: Tensor = input + self.down(functional.silu(self.gate(normed)) * self.up(normed))
        return output


class WrittenOut(nn.Module):
    """Attention with a softmax of its own and a mask, and relative positions by index."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(8, 24), nn.Linear(8, 8)
        self.positions = nn.Parameter(torch.randn(9))

    def forward(self, input: Tensor) -> Tensor:
        query, key, value = self.inner(input).chunk(3, -1)
        places = torch.arange(5)
        scores = query @ key.transpose(-2, -1) / math.sqrt(8) + self.positions[places[:, None] - places + 4]
        scores = scores.masked_fill(torch.ones(5, 5).triu(1).bool(), -1e9)
        output: Tensor = self.outer(scores.softmax(-1) @ value)
        return output


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.middle = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.norm, self.classes = nn.BatchNorm2d(4), nn.Conv2d(8, 3, 1)

    def forward(self, input: Tensor) -> Tensor:
        first = functional.relu(self.norm(self.down(input)), inplace=True)
        second = self.middle(functional.max_pool2d(first, 2))
        wide = functional.interpolate(second, scale_factor=2, mode="bilinear")
        classes: Tensor = self.classes(torch.cat([first, wide], 1))
        return classes


class Graph(nn.Module):
    """Messages along the edges of a graph."""

    def __init__(self) -> None:
        super().__init__()
        self.message, self.classes = nn.Linear(8, 4), nn.Linear(4, 3)

    def forward(self, input: Tensor) -> Tensor:
        edges = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 1]])
        message = functional.elu(self.message(torch.cat([input[edges[0]], input[edges[1]]], -1)))
        summed = torch.zeros(3, 4).index_add(0, edges[1], message)
        classes: Tensor = self.classes(summed / summed.norm(dim=-1, keepdim=True).clamp_min(1e-6))
        return classes


def classified(model: nn.Module, *shape: int) -> Step:
    return lambda: functional.cross_entropy(model(torch.randn(3, *shape)), CLASSES)


def regressed(model: nn.Module, *shape: int) -> Step:
    def step() -> Tensor:
        output = model(torch.randn(shape))
        output = output[0] if isinstance(output, tuple) else output
        return functional.smooth_l1_loss(output, torch.zeros(output.shape))

    return step


def sequences(layer: nn.Module) -> Step:
    layer.add_module("embed", nn.Embedding(7, 8))

    def step() -> Tensor:
        output: Tensor = layer(layer.embed(torch.arange(6).reshape(3, 2)))[0]
        return functional.mse_loss(output, torch.zeros(output.shape))

    return step


def speech() -> Step:
    model = nn.Sequential(nn.Conv1d(4, 8, 3), nn.BatchNorm1d(8), nn.ReLU(), nn.Conv1d(8, 5, 3), nn.LogSoftmax(1))

    def step() -> Tensor:
        scores = model(torch.randn(2, 4, 12)).permute(2, 0, 1)
        return functional.ctc_loss(scores, torch.tensor([[1, 2], [3, 4]]), torch.tensor([8, 8]), torch.tensor([2, 2]))

    return step


def volumes() -> nn.Module:
    return nn.Sequential(
        nn.Conv3d(1, 2, 3), nn.InstanceNorm3d(2), nn.ReLU6(), nn.MaxPool3d(2), nn.Conv3d(2, 2, 2),
        nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(2, 3),
    )  # fmt: skip


def mobile() -> nn.Module:
    gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 8, 1), nn.Hardsigmoid())
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.Hardswish(), nn.Conv2d(8, 8, 3, padding=1, groups=8), Residual(gate),
        nn.ZeroPad2d(1), nn.AvgPool2d(2), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(8, 3),
    )  # fmt: skip


def residual() -> nn.Module:
    def body() -> nn.Module:
        return nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1))

    blocks = (Residual(body()), nn.ReLU(), nn.MaxPool2d(2), Residual(body()))
    return nn.Sequential(nn.Conv2d(3, 4, 3), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))


def diffusion() -> nn.Module:
    body = nn.Sequential(nn.GroupNorm(2, 4), nn.SiLU(), nn.Conv2d(4, 4, 3, padding=1))
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), Residual(body), nn.ConvTranspose2d(4, 3, 2, 2))


def encoder() -> nn.Module:
    return nn.TransformerEncoderLayer(8, 2, 16, 0.2, functional.gelu, batch_first=True)


NETWORKS: Final[dict[str, Callable[[], Step]]] = {
    "residual": lambda: classified(residual(), 3, 10, 10),
    "mobile": lambda: classified(mobile(), 3, 8, 8),
    "u_net": lambda: regressed(UNet(), 2, 3, 8, 8),
    "diffusion": lambda: regressed(diffusion(), 2, 3, 8, 8),
    "volumes": lambda: classified(volumes(), 1, 9, 9, 9),
    "speech": speech,
    "graph": lambda: (lambda model: lambda: functional.cross_entropy(model(torch.randn(3, 4)), CLASSES))(Graph()),
    "encoder": lambda: regressed(encoder(), 2, 5, 8),
    "attention": lambda: regressed(nn.Sequential(nn.LayerNorm(8), WrittenOut()), 2, 5, 8),
    "llama": lambda: regressed(nn.Sequential(Llama(), Llama()), 2, 5, 16),
    "lstm": lambda: sequences(nn.LSTM(8, 8)),
    "gru": lambda: sequences(nn.GRU(8, 8)),
    "unpooled": lambda: regressed(
        nn.Sequential(nn.Conv1d(2, 4, 3), nn.MaxPool1d(2), nn.ELU(), nn.Conv1d(4, 2, 1)), 2, 2, 9
    ),
}
