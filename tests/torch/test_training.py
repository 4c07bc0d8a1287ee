"""Models train in a strict block to the losses of local training."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import aclgrad
import aclgrad.torch
from examples import train_cnn
from tools.serving import Server

from .conftest import RecordingClient

STEPS = 30
WIDTH, WORDS, CLASSES = 16, 12, 3


def test_the_sample_program(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with RecordingClient(server.address) as client:
        monkeypatch.setattr(aclgrad, "Client", lambda _: client)
        assert train_cnn.main(server.address) == 0
    once = (
        "adaptive_avg_pool2d_backward", "log_softmax_backward", "max_pool2d_with_mask_backward",
        "replication_pad2d_backward", "upsample_nearest2d_backward",
    )  # fmt: skip
    assert Counter(client.called) == per_step(50, "threshold_backward", "threshold_backward", *once)
    assert "largest difference in 50 steps" in capsys.readouterr().out


def per_step(steps: int, *operators: str) -> dict[str, int]:
    return {name: count * steps for name, count in Counter(operators).items()}


def swiglu(x: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return functional.silu(a) * b


class Attention(nn.Module):
    """Attention of one head, as a text writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, tokens: Tensor) -> Tensor:
        queries, keys, values = self.project(tokens).chunk(3, -1)
        return functional.softmax(queries @ keys.transpose(-2, -1) / WIDTH**0.5, -1) @ values


class LanguageModel(nn.Module):
    """Attention, a mixing layer with GELU and one with SwiGLU, each behind its normalisation."""

    def __init__(self, glu: Callable[[Tensor], Tensor] = swiglu) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.attend = nn.Sequential(nn.LayerNorm(WIDTH), Attention())
        self.mix = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, WIDTH))
        self.norm, self.gates, self.out = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, 32), nn.Linear(16, WORDS)
        self.glu = glu

    def forward(self, words: Tensor) -> Tensor:
        tokens = self.words(words)
        tokens = tokens + self.attend(tokens)
        tokens = tokens + self.mix(tokens)
        likelihoods: Tensor = self.out(self.glu(self.gates(self.norm(tokens))))
        return likelihoods.transpose(1, 2)


def sentences(step: int) -> tuple[Tensor, Tensor]:
    """Returns words, and those that follow them: of each word always the same one."""
    words = torch.randint(WORDS, (8, 1), generator=torch.Generator().manual_seed(step))
    text = [words := (5 * words + 1) % WORDS for _ in range(7)]
    return torch.cat(text[:-1], 1), torch.cat(text[1:], 1)


class Segmentation(nn.Module):
    """Finds the class of each pixel, from features that it moves to where they belong."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.LeakyReLU(), nn.MaxPool2d(2))
        self.up = nn.Sequential(
            nn.Conv2d(8, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.SiLU(), nn.Upsample(scale_factor=2)
        )
        self.flow, self.classes = nn.Conv2d(8, 2, 3, padding=1), nn.Conv2d(8, CLASSES, 1)

    def forward(self, images: Tensor) -> Tensor:
        features = self.up(self.down(images))
        here = functional.affine_grid(torch.eye(2, 3).expand(len(images), 2, 3), list(features.shape), False)
        there = here + 0.3 * self.flow(features).tanh().permute(0, 2, 3, 1)
        classes: Tensor = self.classes(functional.grid_sample(features, there, align_corners=False))
        return classes


def pictures(step: int) -> tuple[Tensor, Tensor]:
    """Returns noisy images of bands of three shades, and the shade of each pixel."""
    generator = torch.Generator().manual_seed(step)
    shades = torch.randint(CLASSES, (4, 4), generator=generator).repeat_interleave(3, 1)[:, :, None].expand(4, 12, 12)
    return shades[:, None] + 0.2 * torch.randn(4, 1, 12, 12, generator=generator), shades


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AvgPool2d(3, 1, 1), nn.Conv2d(8, CLASSES, 1)
    )


def losses(make: Callable[[], nn.Module], batch: Callable[[int], tuple[Tensor, Tensor]]) -> list[float]:
    torch.manual_seed(3)
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    found = []
    for step in range(STEPS):
        input, target = batch(step)
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(input), target)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


MODELS: dict[str, tuple[Any, Any, set[str], tuple[str, ...]]] = {
    "language": (
        LanguageModel, sentences, {"linear", "matmul", "nll_loss"},
        ("embedding_dense_backward", "layer_norm_backward", "layer_norm_backward", "softmax_backward",
         "gelu_backward_v2", "rms_norm_grad", "swi_glu_grad", "log_softmax_backward"),
    ),
    "segmentation": (
        Segmentation, pictures, {"conv2d", "nll_loss"},
        ("group_norm_backward", "group_norm_backward", "leaky_relu_backward", "silu_backward",
         "max_pool2d_with_mask_backward", "upsample_nearest2d_backward", "tanh_backward", "grid_sampler2d_backward",
         "log_softmax_backward"),
    ),
    "convolutions": (
        convolutions, pictures, {"conv2d", "nll_loss"},
        ("batch_norm_backward", "threshold_backward", "avg_pool2d_backward", "log_softmax_backward"),
    ),
}  # fmt: skip
"""The model, what it learns from, what stays local, and the operators of a step."""


@pytest.mark.parametrize("name", MODELS)
def test_a_model(client: RecordingClient, name: str) -> None:
    make, batch, local, operators = MODELS[name]
    expected = losses(make, batch)
    remote = partial(make, partial(aclgrad.torch.swiglu, client=client)) if make is LanguageModel else make
    with aclgrad.torch.remote_backward(client, strict=True, allow=local) as block:
        found = losses(remote, batch)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    assert sum(expected[-5:]) < 0.8 * sum(expected[:5])
    assert Counter(client.called) == per_step(STEPS, *operators)
    assert {place.function for place in block.account.calls if place.whose == "local"} == local
