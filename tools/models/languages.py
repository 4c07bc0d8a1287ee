"""Transformers of further kinds, small: relative positions, experts, images with words, PyTorch's own modules."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from tools.models.transformers import Llama, ViT

WORDS = 97


class _RMSNorm(nn.Module):
    """As T5 writes it."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight, self.variance_epsilon = nn.Parameter(torch.ones(width)), eps

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


class _T5Attention(nn.Module):
    def __init__(self, width: int, heads: int, has_bias: bool) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.bias = nn.Embedding(8, heads) if has_bias else None

    def forward(self, x: Tensor, memory: Tensor, is_causal: bool) -> Tensor:
        query, key, value = (
            layer(of).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer, of in ((self.query, x), (self.key, memory), (self.value, memory))
        )
        scores = query @ key.mT
        if self.bias is not None:
            places = torch.arange(x.shape[1])
            scores = scores + self.bias((places[:, None] - places[None]).clamp(-4, 3) + 4).permute(2, 0, 1)
        if is_causal:
            later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(later, torch.finfo(scores.dtype).min)
        shares = functional.dropout(scores.softmax(-1), 0.1, self.training)
        mixed: Tensor = self.out((shares @ value).transpose(1, 2).flatten(2))
        return mixed


class _T5Block(nn.Module):
    def __init__(self, width: int, heads: int, is_decoder: bool) -> None:
        super().__init__()
        self.is_decoder = is_decoder
        self.own, self.across = (
            _T5Attention(width, heads, True),
            _T5Attention(width, heads, False) if is_decoder else None,
        )
        self.norms = nn.ModuleList(_RMSNorm(width) for _ in range(3 if is_decoder else 2))
        self.up, self.down = nn.Linear(width, 2 * width, bias=False), nn.Linear(2 * width, width, bias=False)

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        hidden = self.norms[0](x)
        x = x + self.own(hidden, hidden, self.is_decoder)
        if self.across is not None and memory is not None:
            x = x + self.across(self.norms[1](x), memory, False)
        made: Tensor = x + self.down(functional.relu(self.up(self.norms[-1](x))))
        return made


class T5(nn.Module):
    """Raffel et al. 2019: an encoder and a decoder, with a bias by relative position."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.inner, self.outer = _T5Block(width, 2, False), _T5Block(width, 2, True)
        self.norms = nn.ModuleList(_RMSNorm(width) for _ in range(2))

    def forward(self, tokens: Tensor, answers: Tensor) -> Tensor:
        memory = self.norms[0](self.inner(self.words(tokens)))
        found = self.norms[1](self.outer(self.words(answers), memory))
        return found * found.shape[-1] ** -0.5 @ self.words.weight.T


def answered(model: nn.Module, tokens: Tensor, answers: Tensor) -> Tensor:
    logits = model(tokens, answers)
    return functional.cross_entropy(logits[:, :-1].reshape(-1, WORDS), answers[:, 1:].reshape(-1))


class _Experts(nn.Module):
    """Each word goes through the two of its experts that a router chooses."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, count, bias=False)
        self.gates, self.ups = (nn.Parameter(torch.randn(count, width, 2 * width) * 0.1) for _ in range(2))
        self.downs = nn.Parameter(torch.randn(count, 2 * width, width) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        words = x.flatten(0, 1)
        shares, chosen = self.router(words).softmax(-1).topk(2, -1)
        shares = shares / shares.sum(-1, keepdim=True)
        weights = torch.zeros(len(words), self.router.out_features, dtype=x.dtype).scatter(1, chosen, shares)
        hidden = functional.silu(torch.einsum("nw,ewh->enh", words, self.gates)) * torch.einsum(
            "nw,ewh->enh", words, self.ups
        )
        found = torch.einsum("enh,ehw->enw", hidden, self.downs)
        return torch.einsum("ne,enw->nw", weights, found).view_as(x)


def mixtral() -> nn.Module:
    """Jiang et al. 2024: a Llama whose linear layers are experts."""
    model = Llama(WORDS, 32, 4, 2, 64, 2)
    for layer in model.layers:
        layer.feed = _Experts(32, 4)
    return model


class CLIP(nn.Module):
    """Radford et al. 2021: images and their captions are near each other."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.images = ViT(32, 8, width, 2, 1, 16)
        self.words, self.places = nn.Embedding(WORDS, width), nn.Parameter(torch.randn(12, width) * 0.02)
        self.layer = nn.TransformerEncoderLayer(width, 2, 2 * width, 0.0, functional.gelu, batch_first=True)
        self.project = nn.Linear(width, 16, bias=False)
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, images: Tensor, tokens: Tensor) -> Tensor:
        one = functional.normalize(self.images(images), dim=-1)
        text = self.project(self.layer(self.words(tokens) + self.places)[:, -1])
        return self.scale.exp() * one @ functional.normalize(text, dim=-1).T


def captioned(model: nn.Module, images: Tensor, tokens: Tensor) -> Tensor:
    logits, pairs = model(images, tokens), torch.arange(len(images))
    return (functional.cross_entropy(logits, pairs) + functional.cross_entropy(logits.T, pairs)) / 2


class Translator(nn.Module):
    """PyTorch's own `nn.Transformer` (Vaswani et al. 2017), with dropout."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.transformer = nn.Transformer(width, 2, 1, 1, 2 * width, 0.1, batch_first=True)
        self.head = nn.Linear(width, WORDS)

    def forward(self, tokens: Tensor, answers: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(answers.shape[1], dtype=self.head.weight.dtype)
        # Told that it is causal, the decoder does not compare the mask's values: no step can.
        found = self.transformer(self.words(tokens), self.words(answers), tgt_mask=mask, tgt_is_causal=True)
        logits: Tensor = self.head(found)
        return logits


class StateSpace(nn.Module):
    """A layer of Mamba (Gu and Dao 2023): a gated convolution, and a state that each word changes."""

    def __init__(self, width: int = 16, states: int = 4) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, width), nn.Linear(width, WORDS, bias=False)
        self.norm, self.of_both = nn.RMSNorm(width), nn.Linear(width, 2 * width, bias=False)
        self.convolution = nn.Conv1d(width, width, 4, padding=3, groups=width)
        self.steps, self.of_states = nn.Linear(width, width), nn.Linear(width, 2 * states, bias=False)
        self.log_decay = nn.Parameter(torch.log(torch.arange(1.0, states + 1)).repeat(width, 1))
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens)
        one, gate = self.of_both(self.norm(x)).chunk(2, -1)
        one = functional.silu(self.convolution(one.mT)[..., : tokens.shape[1]].mT)
        step = functional.softplus(self.steps(one))
        written, read = self.of_states(one).chunk(2, -1)
        decay = torch.exp(-step[..., None] * self.log_decay.exp())
        given = (step * one)[..., None] * written[:, :, None]
        state, found = torch.zeros_like(given[:, 0]), []
        for at in range(tokens.shape[1]):
            state = decay[:, at] * state + given[:, at]
            found.append((state * read[:, at, None]).sum(-1))
        logits: Tensor = self.head(x + self.out(torch.stack(found, 1) * functional.silu(gate)))
        return logits
