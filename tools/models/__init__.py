"""Models that are known by name, in their published shapes, and small ones of the same kinds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from tools.models.convolutional import DiffusionUNet, ResNet, UNet
from tools.models.transformers import BERT, GPT2, Llama, ViT


@dataclass(frozen=True, slots=True)
class Known:
    """A model, the loss of a batch, and batches, of the published size or of a small one."""

    make: Callable[[bool], nn.Module]
    """Takes whether it is to be small."""
    loss: Callable[..., Tensor]
    """Takes the model and the batch."""
    batch: Callable[[bool, int], tuple[Tensor, ...]]
    """Takes whether the model is small, and how many examples there are."""


def _of_classes(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    logits = model(inputs)
    return functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


def _next_token(model: nn.Module, tokens: Tensor) -> Tensor:
    logits = model(tokens)
    return functional.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1))


def _segmented(model: nn.Module, images: Tensor, masks: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(model(images), masks)


def _denoised(model: nn.Module, images: Tensor, times: Tensor) -> Tensor:
    noise = torch.randn_like(images)
    level = torch.cos(times.to(images.dtype) / 1000 * torch.pi / 2).reshape(-1, 1, 1, 1)
    return functional.mse_loss(model(level * images + (1 - level**2).sqrt() * noise, times), noise)


def _images(small: bool, count: int) -> tuple[Tensor, Tensor]:
    size, classes = (32, 10) if small else (224, 1000)
    return torch.randn(count, 3, size, size), torch.randint(classes, (count,))


def _tokens(small: bool, count: int, vocabulary: int) -> tuple[Tensor]:
    return (torch.randint(97 if small else vocabulary, (count, 24 if small else 1024)),)


def _masked_words(small: bool, count: int) -> tuple[Tensor, Tensor]:
    words, length = (97, 16) if small else (30522, 128)
    tokens = torch.randint(words, (count, length))
    return tokens, torch.where(torch.rand(count, length) < 0.15, tokens, -100)


def _planes(small: bool, count: int) -> tuple[Tensor, Tensor]:
    size = 32 if small else 256
    return torch.randn(count, 3, size, size), (torch.rand(count, 1, size, size) < 0.5).float()


def _noisy(small: bool, count: int) -> tuple[Tensor, Tensor]:
    size = 16 if small else 64
    return torch.randn(count, 3, size, size), torch.randint(1000, (count,))


MODELS: Final[dict[str, Known]] = {
    "resnet18": Known(lambda small: ResNet.of_18(small), _of_classes, _images),
    "resnet50": Known(lambda small: ResNet.of_50(small), _of_classes, _images),
    "vit": Known(lambda small: ViT.of_size(small), _of_classes, _images),
    "gpt2": Known(lambda small: GPT2.of_size(small), _next_token, lambda small, count: _tokens(small, count, 50257)),
    "bert": Known(lambda small: BERT.of_size(small), _of_classes, _masked_words),
    "unet": Known(lambda small: UNet(8 if small else 64), _segmented, _planes),
    "diffusion": Known(lambda small: DiffusionUNet(16 if small else 128), _denoised, _noisy),
    "llama": Known(lambda small: Llama.of_size(small), _next_token, lambda small, count: _tokens(small, count, 32000)),
}
