"""Transformers: ViT (Dosovitskiy et al. 2020), GPT-2 (2019), BERT (2018), and Llama (Touvron et al. 2023)."""

from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int, is_causal: bool, dropout: float) -> None:
        super().__init__()
        self.heads, self.is_causal = heads, is_causal
        self.of_all = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (_heads(each, self.heads) for each in self.of_all(x).chunk(3, -1))
        found = functional.scaled_dot_product_attention(query, key, value, is_causal=self.is_causal)
        made: Tensor = self.dropout(self.out(found.transpose(1, 2).flatten(2)))
        return made


def _heads(x: Tensor, count: int) -> Tensor:
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


class _Block(nn.Module):
    """Attention and two linear layers; norms before them, or behind as in BERT."""

    def __init__(
        self, width: int, heads: int, dropout: float, approximate: str, is_causal: bool, is_first: bool
    ) -> None:
        super().__init__()
        self.is_first = is_first
        self.attention = _Attention(width, heads, is_causal, dropout)
        gelu = nn.GELU(approximate)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), gelu, nn.Linear(4 * width, width), nn.Dropout(dropout))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for part, norm in zip((self.attention, self.mlp), self.norms, strict=True):
            x = x + part(norm(x)) if self.is_first else norm(x + part(x))
        return x


class ViT(nn.Module):
    def __init__(self, size: int, patch: int, width: int, heads: int, layers: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width) * 0.02)
        self.layers = nn.Sequential(*(_Block(width, heads, 0.0, "none", False, True) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.classifier = nn.Linear(width, classes)

    @classmethod
    def of_size(cls, small: bool) -> Self:
        return cls(32, 8, 48, 3, 2, 10) if small else cls(224, 16, 768, 12, 12, 1000)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).mT
        x = torch.cat([self.first.expand(len(x), -1, -1), x], 1) + self.positions
        logits: Tensor = self.classifier(self.norm(self.layers(x))[:, 0])
        return logits


class GPT2(nn.Module):
    """Its last layer has the weight of the embedding."""

    def __init__(self, words: int, length: int, width: int, heads: int, layers: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(length, width)
        nn.init.normal_(self.words.weight, std=0.02)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.Sequential(*(_Block(width, heads, dropout, "tanh", True, True) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    @classmethod
    def of_size(cls, small: bool) -> Self:
        return cls(97, 32, 48, 3, 2) if small else cls(50257, 1024, 768, 12, 12)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.dropout(self.words(tokens) + self.positions(torch.arange(tokens.shape[1])))
        logits: Tensor = self.head(self.norm(self.layers(x)))
        return logits


class BERT(nn.Module):
    def __init__(self, words: int, length: int, width: int, heads: int, layers: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(length, width)
        self.norm, self.dropout = nn.LayerNorm(width, 1e-12), nn.Dropout(dropout)
        self.layers = nn.Sequential(*(_Block(width, heads, dropout, "none", False, False) for _ in range(layers)))
        self.transform = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
        self.head = nn.Linear(width, words)
        self.head.weight = self.words.weight

    @classmethod
    def of_size(cls, small: bool) -> Self:
        return cls(97, 32, 48, 3, 2) if small else cls(30522, 512, 768, 12, 12)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens) + self.positions(torch.arange(tokens.shape[1]))
        logits: Tensor = self.head(self.transform(self.layers(self.dropout(self.norm(x)))))
        return logits


class _SwiGLU(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.down(functional.silu(self.gate(x)) * self.up(x))
        return made


class _RotaryBlock(nn.Module):
    """A block of Llama: RMS norms, rotary positions, heads that share keys, and SwiGLU."""

    def __init__(self, width: int, heads: int, shared: int, inner: int) -> None:
        super().__init__()
        self.heads, self.shared, size = heads, shared, width // heads
        self.norms = nn.ModuleList(nn.RMSNorm(width, 1e-5) for _ in range(2))
        self.query = nn.Linear(width, width, bias=False)
        self.key, self.value = (nn.Linear(width, shared * size, bias=False) for _ in range(2))
        self.out = nn.Linear(width, width, bias=False)
        self.feed: nn.Module = _SwiGLU(width, inner)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attention(self.norms[0](x), cos, sin)
        made: Tensor = x + self.feed(self.norms[1](x))
        return made

    def attention(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        query = _rotated(_heads(self.query(x), self.heads), cos, sin)
        key, value = _rotated(_heads(self.key(x), self.shared), cos, sin), _heads(self.value(x), self.shared)
        key, value = (each.repeat_interleave(self.heads // self.shared, 1) for each in (key, value))
        found = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        made: Tensor = self.out(found.transpose(1, 2).flatten(2))
        return made


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    one, other = x.chunk(2, -1)
    return x * cos + torch.cat([-other, one], -1) * sin


class Llama(nn.Module):
    def __init__(self, words: int, width: int, heads: int, shared: int, inner: int, layers: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.layers = nn.ModuleList(_RotaryBlock(width, heads, shared, inner) for _ in range(layers))
        self.norm = nn.RMSNorm(width, 1e-5)
        self.head = nn.Linear(width, words, bias=False)
        size = width // heads
        self.register_buffer("frequencies", 10_000.0 ** (-torch.arange(0, size, 2) / size))

    @classmethod
    def of_size(cls, small: bool) -> Self:
        """Returns one of the published shape of TinyLlama's layers, of which it has four."""
        return cls(97, 48, 4, 2, 96, 2) if small else cls(32000, 2048, 32, 4, 5632, 4)

    def forward(self, tokens: Tensor) -> Tensor:
        angles = torch.outer(torch.arange(tokens.shape[1]).to(self.frequencies.dtype), self.frequencies).repeat(1, 2)
        x, cos, sin = self.words(tokens), angles.cos(), angles.sin()
        for layer in self.layers:
            x = layer(x, cos, sin)
        logits: Tensor = self.head(self.norm(x))
        return logits
