"""Models that are known by name: eight in their published shapes and small, and 32 small ones of other kinds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from tools.models import classifiers, dense, generative, languages, sequences
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


def _small(
    make: Callable[[], nn.Module], loss: Callable[..., Tensor], batch: Callable[[int], tuple[Tensor, ...]]
) -> Known:
    """Returns a model without a published size."""
    return Known(lambda small: make(), loss, lambda small, count: batch(count))


def _classes(count: int) -> tuple[Tensor, Tensor]:
    return _images(True, count)


def _pictures(count: int, channels: int = 3, size: int = 16) -> tuple[Tensor]:
    return (torch.rand(count, channels, size, size),)


def _words(count: int) -> tuple[Tensor]:
    return _tokens(True, count, 0)


def _answers(count: int) -> tuple[Tensor, Tensor]:
    return torch.randint(97, (count, 12)), torch.randint(97, (count, 10))


def _of_pixels(model: nn.Module, images: Tensor, classes: Tensor) -> Tensor:
    return functional.cross_entropy(model(images), classes)


def _sharp(model: nn.Module, images: Tensor, wanted: Tensor) -> Tensor:
    return functional.l1_loss(model(images), wanted)


def _next_sample(model: nn.Module, sound: Tensor) -> Tensor:
    return functional.cross_entropy(model(sound)[:, :-1].reshape(-1, 16), sound[:, 1:].reshape(-1))


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
"""Those of which the published size is known."""

SMALL: Final[dict[str, Known]] = {
    "vgg": _small(classifiers.vgg, _of_classes, _classes),
    "mobilenet_v3": _small(classifiers.mobilenet_v3, _of_classes, _classes),
    "efficientnet": _small(classifiers.efficientnet, _of_classes, _classes),
    "densenet": _small(classifiers.densenet, _of_classes, _classes),
    "convnext": _small(classifiers.ConvNeXt, _of_classes, _classes),
    "swin": _small(classifiers.Swin, _of_classes, _classes),
    "r3d": _small(
        classifiers.r3d, _of_classes, lambda count: (torch.randn(count, 3, 4, 16, 16), torch.randint(10, (count,)))
    ),
    "deeplab": _small(
        dense.DeepLab, _of_pixels, lambda count: (torch.randn(count, 3, 32, 32), torch.randint(10, (count, 32, 32)))
    ),
    "super_resolution": _small(
        dense.SuperResolution, _sharp, lambda count: (*_pictures(count), *_pictures(count, 3, 32))
    ),
    "retinanet": _small(dense.Detector, dense.detected, dense.detection_batch),
    "detr": _small(dense.DETR, dense.matched, dense.box_batch),
    "raft": _small(
        dense.Flow,
        dense.flowed,
        lambda count: (*_pictures(count, 3, 32), *_pictures(count, 3, 32), torch.randn(count, 2, 32, 32)),
    ),
    "autoencoder": _small(generative.autoencoder, generative.rebuilt, _pictures),
    "vae": _small(generative.VAE, generative.variational, lambda count: _pictures(count, 1)),
    "gan": _small(
        generative.GAN, generative.adversarial, lambda count: (*_pictures(count), torch.randn(count, 8, 1, 1))
    ),
    "realnvp": _small(generative.InvertibleFlow, generative.likely, lambda count: (torch.randn(8 * count, 8),)),
    "vqvae": _small(generative.VQVAE, generative.quantised, _pictures),
    "siamese": _small(
        generative.Siamese, generative.triplet, lambda count: tuple(torch.randn(3, count, 3, 32, 32).unbind())
    ),
    "lstm": _small(lambda: sequences.Recurrent(nn.LSTM), _next_token, _words),
    "gru": _small(lambda: sequences.Recurrent(nn.GRU), _next_token, _words),
    "tcn": _small(sequences.TCN, sequences.forecast, lambda count: (torch.randn(count, 1, 32),)),
    "wavenet": _small(sequences.WaveNet, _next_sample, lambda count: (torch.randint(16, (count, 32)),)),
    "deepspeech": _small(
        sequences.Speech,
        sequences.transcribed,
        lambda count: (torch.randn(count, 16, 40), torch.randint(1, 12, (count, 5))),
    ),
    "dlrm": _small(
        sequences.Recommender,
        sequences.clicked,
        lambda count: (torch.randn(count, 6), torch.randint(50, (count, 4, 3)), torch.randint(2, (count,)).float()),
    ),
    "gcn": _small(sequences.GCN, sequences.labelled, sequences.graph_batch),
    "gat": _small(sequences.GAT, sequences.labelled, sequences.graph_batch),
    "pointnet": _small(
        sequences.PointNet, _of_classes, lambda count: (torch.randn(count, 3, 32), torch.randint(10, (count,)))
    ),
    "t5": _small(languages.T5, languages.answered, _answers),
    "mixtral": _small(languages.mixtral, _next_token, _words),
    "clip": _small(
        languages.CLIP, languages.captioned, lambda count: (*_classes(count)[:1], torch.randint(97, (count, 12)))
    ),
    "transformer": _small(languages.Translator, languages.answered, _answers),
    "mamba": _small(languages.StateSpace, _next_token, _words),
}
"""Those of one small size."""

EVERY: Final = {**MODELS, **SMALL}
