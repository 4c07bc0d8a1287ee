"""Blocks of GPT-2 and BERT, and attention: all work of products is the server's, in one message for each product."""

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import aclgrad
import aclgrad.torch

from .conftest import RecordingClient
from .table import random

WIDTH, HEADS = 24, 3
INPUT = random(2, 5, WIDTH)


class Projection(nn.Module):
    """The `Conv1D` of GPT-2: a linear layer whose weight is not transposed."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(inputs, outputs) / 8), nn.Parameter(torch.zeros(outputs))

    def forward(self, input: Tensor) -> Tensor:
        rows = torch.addmm(self.bias, input.view(-1, input.size(-1)), self.weight)
        return rows.view(*input.shape[:-1], rows.shape[-1])


def attended(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    heads = [each.view(*each.shape[:-1], HEADS, -1).transpose(1, 2) for each in (query, key, value)]
    scores = heads[0] @ heads[1].transpose(-1, -2) / heads[0].shape[-1] ** 0.5
    weights = functional.softmax(scores if mask is None else scores.masked_fill(mask, -1e4), -1)
    return (weights @ heads[2]).transpose(1, 2).flatten(2)


class Gpt2(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.attention, self.projection = Projection(WIDTH, 3 * WIDTH), Projection(WIDTH, WIDTH)
        self.up, self.down = Projection(WIDTH, 4 * WIDTH), Projection(4 * WIDTH, WIDTH)

    def forward(self, input: Tensor) -> Tensor:
        future = torch.ones(input.shape[1], input.shape[1], dtype=torch.bool).triu(1)
        input = input + self.projection(attended(*self.attention(self.norms[0](input)).chunk(3, -1), future))
        hidden = functional.gelu(self.up(self.norms[1](input)), approximate="tanh")
        output: Tensor = input + self.down(hidden)
        return output


class Bert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.projections = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, input: Tensor) -> Tensor:
        mixed = self.projections[3](attended(*(each(input) for each in self.projections[:3])))
        input = self.norms[0](input + mixed)
        output: Tensor = self.norms[1](input + self.down(functional.gelu(self.up(input))))
        return output


class Attention(nn.Module):
    """On its slow path, which returns the weights."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, **options)

    def forward(self, input: Tensor) -> Tensor:
        output, weights = self.attention(input, input, input)
        return output + weights.sum()


class Mixed(nn.Module):
    """Attention whose weights nobody wants: one call."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, **options)

    def forward(self, input: Tensor) -> Tensor:
        output: Tensor = self.attention(input, input, input, need_weights=False)[0]
        return output


def encoder_layer(**options: Any) -> nn.Module:
    return nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, 0.0, batch_first=True, **options)


BLOCKS: dict[str, tuple[Callable[[], nn.Module], dict[str, int]]] = {
    "gpt2": (Gpt2, {"addmm": 4, "matmul": 2, "layer_norm": 2, "softmax": 1, "gelu": 1}),
    "bert": (Bert, {"linear": 6, "matmul": 2, "layer_norm": 2, "softmax": 1, "gelu": 1}),
    "attention": (Attention, {"linear": 2, "bmm": 2, "softmax": 1}),
    "attention, batch first": (partial(Attention, batch_first=True), {"linear": 2, "bmm": 2, "softmax": 1}),
    "attention, no bias": (partial(Attention, bias=False), {"linear": 2, "bmm": 2, "softmax": 1}),
    "attention with biases": (
        partial(Attention, add_bias_kv=True, add_zero_attn=True), {"linear": 2, "bmm": 2, "softmax": 1}
    ),
    "attention without weights": (Mixed, {"linear": 2, "scaled_dot_product_attention": 1}),
    "attention without weights, with biases": (
        partial(Mixed, add_bias_kv=True, add_zero_attn=True), {"linear": 2, "scaled_dot_product_attention": 1}
    ),
    "encoder layer": (
        encoder_layer, {"linear": 4, "scaled_dot_product_attention": 1, "layer_norm": 2, "relu": 1}
    ),
    "encoder layer, norms first": (
        partial(encoder_layer, norm_first=True),
        {"linear": 4, "scaled_dot_product_attention": 1, "layer_norm": 2, "relu": 1},
    ),
}  # fmt: skip


def block_of(name: str) -> nn.Module:
    torch.manual_seed(3)
    return BLOCKS[name][0]()


def step(network: nn.Module, run: Callable[..., Tensor] = lambda network, input: network(input)) -> list[Tensor]:
    """Returns the output, and the gradients of input and parameters."""
    input = INPUT.clone().requires_grad_()
    output = run(network, input)
    output.float().pow(3).mean().backward()
    return [output.detach(), input.grad, *(each.grad for each in network.parameters())]


def close(found: list[Tensor], expected: list[Tensor]) -> None:
    torch.testing.assert_close(found[0], expected[0], rtol=0, atol=0)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5 * float(other.abs().max() + 1))
        assert one.stride() == other.stride()


@pytest.mark.parametrize("name", BLOCKS)
def test_the_work_of_products_is_the_servers(client: RecordingClient, name: str) -> None:
    expected = step(block_of(name))
    with aclgrad.torch.remote_backward(client, strict=True) as remote:
        found = step(block_of(name))
    close(found, expected)
    calls: Counter[str] = Counter()
    for site, count in remote.account.calls.items():
        assert site.because is None
        calls[site.function] += count
    assert calls == BLOCKS[name][1]
    assert len(client.called) == calls.total()
    assert "100.0% of " in str(remote).splitlines()[-1]


@pytest.mark.parametrize("is_reentrant", [True, False], ids=["reentrant", "hooks"])
@pytest.mark.parametrize("is_within", [True, False], ids=["backward_within", "backward_after"])
@pytest.mark.parametrize("name", BLOCKS)
def test_checkpoints(client: RecordingClient, name: str, *, is_reentrant: bool, is_within: bool) -> None:
    expected, network = step(block_of(name)), block_of(name)
    input = INPUT.clone().requires_grad_()
    with aclgrad.torch.remote_backward(client, strict=True):
        output = checkpoint(network, input, use_reentrant=is_reentrant)
        if is_within:
            output.float().pow(3).mean().backward()
    if not is_within:
        output.float().pow(3).mean().backward()
    close([output.detach(), input.grad, *(each.grad for each in network.parameters())], expected)
    assert len(client.called) == sum(BLOCKS[name][1].values())


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", BLOCKS)
def test_autocast(client: RecordingClient, name: str, half: torch.dtype) -> None:
    found = []
    for block in (nullcontext(), aclgrad.torch.remote_backward(client, strict=True)):
        with torch.autocast("cpu", half), block:
            found.append(step(block_of(name)))
    expected, mine = found
    torch.testing.assert_close(mine[0], expected[0], rtol=0, atol=0)
    for one, other in zip(mine, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=5e-2, atol=5e-2 * float(other.abs().max() + 1))


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_a_compiled_block(client: RecordingClient, name: str) -> None:
    expected, network = step(block_of(name)), block_of(name)
    compiled = torch.compile(network, backend="aot_eager", fullgraph=True)
    with aclgrad.torch.remote_backward(client, strict=True):
        found = step(network, lambda _, input: compiled(input))
    close(found, expected)
    assert len(client.called) == sum(BLOCKS[name][1].values())


def test_attention_is_one_function_in_a_compiled_graph(client: RecordingClient) -> None:
    compiled = torch.compile(block_of("attention"), backend="aot_eager")
    with aclgrad.torch.remote_backward(client) as remote:
        compiled(INPUT).sum().backward()
    assert {site.function for site in remote.account.calls} == {"multi_head_attention_forward"}


def test_frozen_weights_need_one_product(client: RecordingClient) -> None:
    network = block_of("bert").requires_grad_(requires_grad=False)
    network.up.weight.requires_grad_()
    counted = []
    for block in (nullcontext(), aclgrad.torch.remote_backward(client, strict=True)):
        network.zero_grad()
        with block:
            network(INPUT).pow(3).sum().backward()
        counted.append(network.up.weight.grad.clone())
    torch.testing.assert_close(counted[1], counted[0], rtol=1e-4, atol=1e-4)
    assert client.called.count("linear_backward") == 2


def test_a_tied_weight_has_both_gradients(client: RecordingClient) -> None:
    embedding = nn.Embedding(7, WIDTH)
    words = torch.tensor([[1, 4, 6]])
    found = []
    for block in (nullcontext(), aclgrad.torch.remote_backward(client, strict=True)):
        embedding.zero_grad()
        with block:
            logits = functional.linear(embedding(words), embedding.weight)
            functional.cross_entropy(logits.flatten(0, 1), words.flatten()).backward()
        found.append(embedding.weight.grad.clone())
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)
    assert set(client.called) == {"linear_backward", "embedding_dense_backward", "cross_entropy_backward"}


@pytest.mark.parametrize("has_weights", [True, False], ids=["weights", "no_weights"])
@pytest.mark.parametrize("options", [{}, {"dropout": 0.2}], ids=["plain", "dropout"])
def test_attention_with_masks_draws_as_pytorch(
    client: RecordingClient, options: dict[str, float], *, has_weights: bool
) -> None:
    padding = torch.tensor([[False] * 5, [False, False, False, True, True]])
    future = torch.ones(5, 5).triu(1).bool()
    found = []
    for block in (nullcontext(), aclgrad.torch.remote_backward(client, strict=True)):
        torch.manual_seed(3)
        attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, **options)
        with block:
            found.append(
                step(
                    attention,
                    lambda network, input: network(
                        input, input, input, key_padding_mask=padding, attn_mask=future, need_weights=has_weights
                    )[0],
                )
            )
    close(found[1], found[0])
    assert ("flash_attention_score_grad_v2" in client.called) is (not has_weights and not options)


def test_an_encoder_layer_without_gradients_is_pytorchs_own(client: RecordingClient) -> None:
    layer = encoder_layer().eval()
    with torch.no_grad():
        expected = layer(INPUT)
        with aclgrad.torch.remote_backward(client):
            found = layer(INPUT)
    torch.testing.assert_close(found, expected)
    assert client.called == []
