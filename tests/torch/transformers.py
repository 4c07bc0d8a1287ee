"""Small models of today's transformers, with their dropout."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from .networks import rotated
from .rms_norms import LlamaRMSNorm

WIDTH, HEADS, WORDS, CLASSES = 24, 4, 11, 3


def in_heads(input: Tensor, heads: int) -> Tensor:
    return input.unflatten(-1, (heads, -1)).transpose(1, 2)


class Gpt(nn.Module):
    """A block of GPT-2 and its head, whose weight is that of the embedding."""

    def __init__(self, dropout: float = 0.1) -> None:
        super().__init__()
        self.dropout = dropout
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(8, WIDTH)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.packed, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, words: Tensor) -> Tensor:
        input = self.words(words) + self.places(torch.arange(words.shape[1]))
        input = functional.dropout(input, self.dropout, self.training)
        parts = [in_heads(each, HEADS) for each in self.packed(self.norms[0](input)).chunk(3, -1)]
        dropout = self.dropout if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(*parts, dropout_p=dropout, is_causal=True)
        mixed = self.out(mixed.transpose(1, 2).flatten(2))
        input = input + functional.dropout(mixed, self.dropout, self.training)
        hidden = self.down(functional.gelu(self.up(self.norms[1](input)), approximate="tanh"))
        input = self.norms[2](input + functional.dropout(hidden, self.dropout, self.training))
        return functional.linear(input, self.words.weight).flatten(0, 1)


class Vit(nn.Module):
    """Patches of an image, two encoder layers and a class."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, 4)
        self.token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.places = nn.Parameter(torch.randn(1, 5, WIDTH) / 8)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, 0.0, functional.gelu, 1e-6, True, True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm, self.classes = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        patches = self.patches(images).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(len(images), 1, WIDTH), patches], 1) + self.places
        output: Tensor = self.classes(self.norm(self.layers(tokens))[:, 0])
        return output


class LlamaBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        size = WIDTH // HEADS
        self.norms = nn.ModuleList(LlamaRMSNorm(WIDTH) for _ in range(2))
        self.query, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.key, self.value = (nn.Linear(WIDTH, 2 * size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(WIDTH, 2 * WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        normed = self.norms[0](input)
        query, key, value = in_heads(self.query(normed), HEADS), *(in_heads(each(normed), 2) for each in self.shared)
        mixed = functional.scaled_dot_product_attention(
            rotated(query), rotated(key), value, is_causal=True, enable_gqa=True
        )
        input = input + self.out(mixed.transpose(1, 2).flatten(2))
        normed = self.norms[1](input)
        output: Tensor = input + self.down(functional.silu(self.gate(normed)) * self.up(normed))
        return output

    @property
    def shared(self) -> tuple[nn.Module, nn.Module]:
        return self.key, self.value


class Llama(nn.Module):
    """Two blocks, whose query heads share keys in pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.Sequential(LlamaBlock(), LlamaBlock())
        self.norm, self.head = LlamaRMSNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, words: Tensor) -> Tensor:
        output: Tensor = self.head(self.norm(self.blocks(self.words(words))))
        return output.flatten(0, 1)
