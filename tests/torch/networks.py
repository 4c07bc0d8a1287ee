"""Small networks with a loss, as people train them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

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
    """A layer of a Llama, in its own words: of the server's functions it has linear, silu and attention."""

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


class Sequences(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.embed, self.layer = nn.Embedding(7, 8), layer

    def forward(self, words: Tensor) -> Tensor:
        output: Tensor = self.layer(self.embed(words))[0]
        return output


@dataclass(frozen=True)
class Network:
    model: nn.Module
    inputs: Callable[[], Tensor]
    loss: Callable[[Tensor], Tensor]
    local: set[str]
    """The functions that no operator differentiates."""
    joined: int = 0
    """The nodes of PyTorch that are parts of the server's: additions of a bias, and parts of cross entropy."""

    def step(self) -> Tensor:
        return self.loss(self.model(self.inputs()))


def classified(model: nn.Module, *shape: int, local: set[str]) -> Network:
    return Network(
        model,
        lambda: torch.randn(3, *shape),
        lambda each: functional.cross_entropy(each, CLASSES),
        local,
        joined=1,
    )


def regressed(model: nn.Module, *shape: int, local: set[str], joined: int = 0) -> Network:
    def loss(output: Tensor) -> Tensor:
        return functional.smooth_l1_loss(output, torch.zeros(output.shape))

    return Network(model, lambda: torch.randn(shape), loss, local, joined)


def sequences(layer: nn.Module, local: str) -> Network:
    def loss(output: Tensor) -> Tensor:
        return functional.mse_loss(output, torch.zeros(output.shape))

    return Network(Sequences(layer), lambda: torch.arange(6).reshape(3, 2), loss, {local})


def speech() -> Network:
    model = nn.Sequential(nn.Conv1d(4, 8, 3), nn.BatchNorm1d(8), nn.ReLU(), nn.Conv1d(8, 5, 3), nn.LogSoftmax(1))

    def loss(output: Tensor) -> Tensor:
        words, lengths = torch.tensor([[1, 2], [3, 4]]), (torch.tensor([8, 8]), torch.tensor([2, 2]))
        return functional.ctc_loss(output.permute(2, 0, 1), words, *lengths)

    return Network(model, lambda: torch.randn(2, 4, 12), loss, set())


def images() -> nn.Module:
    gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 8, 1), nn.Hardsigmoid())
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Hardswish(), nn.Conv2d(8, 8, 3, padding=1, groups=8),
        Residual(gate), nn.ZeroPad2d(1), nn.AvgPool2d(2), Residual(nn.Sequential(nn.GroupNorm(2, 8), nn.ReLU6())),
        nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(8, 3),
    )  # fmt: skip


def encoder() -> nn.Module:
    return nn.TransformerEncoderLayer(8, 2, 16, 0.2, functional.gelu, batch_first=True)


NETWORKS: Final[dict[str, Callable[[], Network]]] = {
    "images": lambda: classified(
        images(), 3, 8, 8, local={"pad", "adaptive_max_pool2d"}
    ),
    "u_net": lambda: regressed(UNet(), 2, 3, 8, 8, local=set()),
    "speech": speech,
    "graph": lambda: classified(Graph(), 4, local={"index_add"}),
    "encoder": lambda: regressed(
        nn.Sequential(encoder(), nn.LayerNorm(8)), 2, 5, 8, local=set(), joined=1
    ),
    "llama": lambda: regressed(
        nn.Sequential(Llama(), Llama()), 2, 5, 16, local=set()
    ),
    "lstm": lambda: sequences(nn.LSTM(8, 8), "lstm"),
    "gru": lambda: sequences(nn.GRU(8, 8), "gru"),
}  # fmt: skip
