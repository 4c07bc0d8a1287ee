"""Networks of convolutions: residual ones (He et al. 2015), U-Nets (Ronneberger et al. 2015, Ho et al. 2020)."""

import math
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional


def _normed(channels: int, width: int, size: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(channels, width, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(width))


class _Residual(nn.Module):
    """Two convolutions, or three of which the outer ones change the channels, beside a shortcut."""

    def __init__(self, channels: int, width: int, stride: int, expansion: int) -> None:
        super().__init__()
        out = width * expansion
        if expansion == 1:
            parts = [_normed(channels, width, 3, stride), nn.ReLU(inplace=True), _normed(width, out, 3)]
        else:
            inner = [nn.ReLU(inplace=True), _normed(width, width, 3, stride), nn.ReLU(inplace=True)]
            parts = [_normed(channels, width, 1), *inner, _normed(width, out, 1)]
        self.residual = nn.Sequential(*parts)
        is_same = stride == 1 and channels == out
        self.shortcut = nn.Identity() if is_same else _normed(channels, out, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.residual(x) + self.shortcut(x), inplace=True)


class ResNet(nn.Module):
    """A residual network for images of three channels."""

    def __init__(self, blocks: Sequence[int], expansion: int, width: int, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(_normed(3, width, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        layers, channels = [], width
        for level, count in enumerate(blocks):
            for number in range(count):
                stride = 2 if level and not number else 1
                layers.append(_Residual(channels, width * 2**level, stride, expansion))
                channels = width * 2**level * expansion
        self.layers = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(channels, classes)

    @classmethod
    def of_18(cls, small: bool) -> Self:
        return cls((1, 1, 1, 1) if small else (2, 2, 2, 2), 1, 8 if small else 64, 10 if small else 1000)

    @classmethod
    def of_50(cls, small: bool) -> Self:
        return cls((1, 2, 1, 1) if small else (3, 4, 6, 3), 4, 8 if small else 64, 10 if small else 1000)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.classifier(torch.flatten(self.pool(self.layers(self.stem(images))), 1))
        return logits


class _Twice(nn.Sequential):
    def __init__(self, channels: int, width: int) -> None:
        super().__init__(_normed(channels, width, 3), nn.ReLU(), _normed(width, width, 3), nn.ReLU())


class UNet(nn.Module):
    """A U-Net with batch norm and transposed convolutions, for a mask of one channel."""

    def __init__(self, width: int, levels: int = 3) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(levels + 1)]
        self.down = nn.ModuleList(_Twice(*each) for each in zip([3, *widths[:-1]], widths, strict=True))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * each, each, 2, 2) for each in widths[-2::-1])
        self.join = nn.ModuleList(_Twice(2 * each, each) for each in widths[-2::-1])
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, images: Tensor) -> Tensor:
        x, kept = images, []
        for number, each in enumerate(self.down):
            x = each(x if number == 0 else functional.max_pool2d(x, 2))
            kept.append(x)
        for up, join, skipped in zip(self.up, self.join, kept[-2::-1], strict=True):
            x = join(torch.cat([skipped, up(x)], 1))
        mask: Tensor = self.head(x)
        return mask


class _Conditioned(nn.Module):
    """A residual block whose features are shifted by the time."""

    def __init__(self, channels: int, width: int, times: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(8, channels), nn.SiLU(), nn.Conv2d(channels, width, 3, padding=1))
        self.time = nn.Sequential(nn.SiLU(), nn.Linear(times, width))
        second = nn.Conv2d(width, width, 3, padding=1)
        self.second = nn.Sequential(nn.GroupNorm(8, width), nn.SiLU(), nn.Dropout(0.1), second)
        self.shortcut = nn.Identity() if channels == width else nn.Conv2d(channels, width, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        hidden = self.first(x) + self.time(time)[:, :, None, None]
        made: Tensor = self.second(hidden) + self.shortcut(x)
        return made


class _Attention(nn.Module):
    """Attention between all places of a plane."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(8, channels)
        self.of_all = nn.Conv2d(channels, 3 * channels, 1)
        self.out = nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.of_all(self.norm(x)).flatten(2).mT[:, None].chunk(3, -1)
        found = functional.scaled_dot_product_attention(query, key, value)
        made: Tensor = x + self.out(found.squeeze(1).mT.reshape(x.shape))
        return made


class DiffusionUNet(nn.Module):
    """A U-Net that tells the noise in images at a time: group norm, SiLU, attention in the middle."""

    def __init__(self, width: int) -> None:
        super().__init__()
        times, widths = 4 * width, (width, 2 * width, 2 * width)
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, times), nn.SiLU(), nn.Linear(times, times))
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        pairs = list(zip((width, *widths), widths, strict=False))
        self.down = nn.ModuleList(_Conditioned(*each, times) for each in pairs)
        self.smaller = nn.ModuleList(nn.Conv2d(each, each, 3, 2, 1) for each in widths[:-1])
        self.middle = _Attention(widths[-1])
        above = (widths[-1], *widths[:0:-1])
        self.up = nn.ModuleList(
            _Conditioned(have + skipped, skipped, times) for have, skipped in zip(above, widths[::-1], strict=True)
        )
        self.head = nn.Sequential(nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, images: Tensor, times: Tensor) -> Tensor:
        half = self.width // 2
        frequencies = torch.exp(-math.log(10_000) / half * torch.arange(half))
        angles = times[:, None] * frequencies
        time = self.time(torch.cat([angles.sin(), angles.cos()], -1).to(images.dtype))
        x, kept = self.stem(images), []
        for number, each in enumerate(self.down):
            x = each(x if number == 0 else self.smaller[number - 1](x), time)
            kept.append(x)
        x = self.middle(x)
        for number, (each, skipped) in enumerate(zip(self.up, kept[::-1], strict=True)):
            x = x if number == 0 else functional.interpolate(x, scale_factor=2.0)
            x = each(torch.cat([x, skipped], 1), time)
        noise: Tensor = self.head(x)
        return noise
