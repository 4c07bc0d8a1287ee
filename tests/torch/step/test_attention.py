"""Steps with attention: its gradients are one operator, whatever masks and heads it has."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import aclgrad

from .test_gradients import assert_same_gradients, step_of

HEADS, SIZE = 4, 8


class Attending(nn.Module):
    """Attention of heads that share keys by twos, or none do."""

    def __init__(self, key_heads: int = HEADS, dropout: float = 0.0, *, is_causal: bool = False) -> None:
        super().__init__()
        self.queries = nn.Linear(12, HEADS * SIZE)
        self.keys, self.values = (nn.Linear(12, key_heads * SIZE) for _ in range(2))
        self.dropout, self.is_causal = dropout, is_causal

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        given = (each(x).unflatten(-1, (-1, SIZE)).transpose(1, 2) for each in (self.queries, self.keys, self.values))
        mixed = functional.scaled_dot_product_attention(
            *given, mask, self.dropout, self.is_causal, scale=0.3, enable_gqa=True
        )
        return mixed.transpose(1, 2).flatten(2)


def loss_of(model: nn.Module, x: Tensor, *mask: Tensor) -> Tensor:
    return (model(x, *mask) * torch.linspace(-1, 1, HEADS * SIZE)).square().mean()


def batch() -> Tensor:
    torch.manual_seed(4)
    return torch.randn(3, 7, 12)


@pytest.mark.parametrize("mask", [None, (7, 7), (3, 1, 1, 7), (3, 4, 7, 7), "numbers", "causal"], ids=str)
@pytest.mark.parametrize("key_heads", [4, 2])
def test_attention_is_an_operator(client: aclgrad.Client, key_heads: int, mask: object) -> None:
    x = batch()
    model = Attending(key_heads, is_causal=mask == "causal")
    shape = mask if isinstance(mask, tuple) else (3, 1, 7, 7)
    seen = torch.rand(shape) < 0.6
    # A row that sees no key has no gradient.
    seen[..., 0, :] = False
    of_numbers = torch.randn(shape) if mask == "numbers" else seen
    given = (x,) if mask in (None, "causal") else (x, of_numbers)
    other, step = copy.deepcopy(model), step_of(model, client, loss_of)
    for _ in range(2):
        torch.testing.assert_close(step(*given), loss_of(other, *given).detach())
        loss_of(other, *given).backward()
    assert_same_gradients(model, other)
    # One step of each pass, and those that make its statistics PyTorch's.
    assert "step of 1 program: " in step.explain()
    assert "softmax" not in step.explain()


def test_masks_of_truth_travel_as_they_are(client: aclgrad.Client) -> None:
    """The numbers that PyTorch makes of them would be four bytes each."""
    x, seen = torch.randn(2, 64, 12), torch.rand(2, 1, 64, 64) < 0.7
    model = Attending()
    step = step_of(model, client, loss_of, verify_every=0)
    step(x, seen)
    parameters = sum(each.numel() * each.element_size() for each in model.parameters())
    assert step.sent_bytes < parameters + x.numel() * 4 + 2 * seen.numel()


class OfActivations(Attending):
    """What is seen follows from the parameters."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(x, self.keys(x).sum(-1)[:, None, None, :] > -2)


def test_masks_may_follow_from_parameters_or_be_captured(client: aclgrad.Client) -> None:
    """A view of truth values that a server made is one of another program."""
    x, padding = batch(), torch.zeros(3, 7, dtype=torch.bool)
    padding[1, 4:] = True

    def padded(model: nn.Module, x: Tensor) -> Tensor:
        hidden = torch.zeros_like(padding, dtype=torch.float32).masked_fill_(padding, -torch.inf)
        return loss_of(model, x, hidden[:, None, None, :])

    for model, loss in ((OfActivations(), loss_of), (Attending(), padded)):
        other = copy.deepcopy(model)
        step_of(model, client, loss, strict=False)(x)
        loss(other, x).backward()
        assert_same_gradients(model, other)


def test_attention_with_dropout_draws_what_pytorch_draws(client: aclgrad.Client) -> None:
    x, model = batch(), Attending(dropout=0.4)
    other, step = copy.deepcopy(model), step_of(model, client, loss_of)
    torch.manual_seed(6)
    loss = step(x)
    torch.manual_seed(6)
    expected = loss_of(other, x)
    expected.backward()
    torch.testing.assert_close(loss, expected.detach())
    assert_same_gradients(model, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_that_are_padding_alone(client: aclgrad.Client, dtype: torch.dtype) -> None:
    """Causal masks of padding on the left, as models write them: rows of the lowest number."""
    model, x = Attending().to(dtype), batch().to(dtype)
    seen = (torch.arange(7) >= torch.tensor([0, 1, 3])[:, None])[:, None, None] & torch.ones(
        7, 7, dtype=torch.bool
    ).tril()
    mask = torch.zeros(3, 1, 7, 7, dtype=dtype).masked_fill(~seen, torch.finfo(dtype).min)
    other, step = copy.deepcopy(model), step_of(model, client, loss_of)
    tolerance = {} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 2e-2}
    torch.testing.assert_close(step(x, mask), loss_of(other, x, mask).detach(), **tolerance)
    loss_of(other, x, mask).backward()
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(one.grad, two.grad, **tolerance)
