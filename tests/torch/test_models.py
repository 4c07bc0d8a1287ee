"""Models of normalised layers train in a strict block to the losses of local training."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import aclgrad
import aclgrad.torch

from .conftest import RecordingClient
from .several import random


class Block(nn.Module):
    """A block of a transformer, with its normalisation first."""

    def __init__(self) -> None:
        super().__init__()
        self.attend_norm, self.mix_norm = nn.LayerNorm(16), nn.LayerNorm(16)
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
        self.mix = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, tokens: Tensor) -> Tensor:
        normalised = self.attend_norm(tokens)
        tokens = tokens + self.attention(normalised, normalised, normalised, need_weights=False)[0]
        mixed: Tensor = tokens + self.mix(self.mix_norm(tokens))
        return mixed


class Transformer(nn.Module):
    """A spatial transformer: a network chooses where to sample the image that another one reads."""

    def __init__(self) -> None:
        super().__init__()
        self.where, self.read = nn.Linear(3 * 8 * 8, 6), nn.Conv2d(3, 4, 3)

    def forward(self, images: Tensor) -> Tensor:
        place = self.where(images.flatten(1)).reshape(-1, 2, 3) * 0.1 + torch.eye(2, 3)
        grid = functional.affine_grid(place, list(images.shape), align_corners=False)
        read: Tensor = self.read(functional.grid_sample(images, grid, align_corners=False)).flatten(1)
        return read


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4),
    )  # fmt: skip


MODELS: dict[str, tuple[Callable[[], nn.Module], Tensor, set[str]]] = {
    "transformer_block": (Block, random(2, 5, 16), {"layer_norm", "gelu"}),
    "convolutions": (convolutions, random(4, 3, 12, 12), {"batch_norm", "relu", "max_pool2d", "adaptive_avg_pool2d"}),
    "spatial_transformer": (Transformer, random(2, 3, 8, 8), {"grid_sample"}),
}
NO_ROWS = {"affine_grid", "conv2d", "linear", "multi_head_attention_forward"}


@pytest.mark.parametrize("name", MODELS)
def test_three_steps_have_the_losses_of_local_training(client: RecordingClient, name: str) -> None:
    make, input, functions = MODELS[name]

    def losses() -> list[float]:
        torch.manual_seed(3)
        model = make()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        found = []
        for step in range(3):
            loss = (model(input + 0.1 * step) - 1).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    expected = losses()
    with aclgrad.torch.remote_backward(client, strict=True, allow=NO_ROWS) as block:
        found = losses()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert {place.function for place in block.account.calls} - NO_ROWS == functions
    assert expected[2] < expected[0]
