"""Networks of convolutions as people train them: a residual network, and a U-Net that widens by transposed ones."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.two = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2))
        self.shortcut = nn.Sequential()
        if stride > 1 or channels != width:
            self.shortcut.extend([nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width)])

    def forward(self, input: Tensor) -> Tensor:
        hidden = functional.relu(self.norms[0](self.one(input)), inplace=True)
        return functional.relu(self.norms[1](self.two(hidden)) + self.shortcut(input), inplace=True)


class ResNet(nn.Module):
    """ResNet-18 if the widths are those of its four stages."""

    def __init__(self, widths: Sequence[int] = (64, 128, 256, 512), classes: int = 1000) -> None:
        super().__init__()
        first = widths[0]
        self.stem = nn.Sequential(
            nn.Conv2d(3, first, 7, 2, 3, bias=False), nn.BatchNorm2d(first), nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        )  # fmt: skip
        stages: list[nn.Module] = []
        for number, (channels, width) in enumerate(zip((first, *widths), widths, strict=False)):
            stages += [Block(channels, width, 1 if number == 0 else 2), Block(width, width, 1)]
        self.stages = nn.Sequential(*stages)
        self.classes = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], classes))

    def forward(self, input: Tensor) -> Tensor:
        classes: Tensor = self.classes(self.stages(self.stem(input)))
        return classes


def _twice(channels: int, width: int) -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(channels, width, 3, padding="same"), nn.ReLU(inplace=True)),
        *(nn.Conv2d(width, width, 3, padding=1, padding_mode="reflect"), nn.ReLU(inplace=True)),
    )


class UNet(nn.Module):
    """Halves the images once for each of the widths but the first, and widens them again."""

    def __init__(self, widths: Sequence[int], classes: int) -> None:
        super().__init__()
        pairs = list(pairwise(widths))
        self.down = nn.ModuleList(_twice(channels, width) for channels, width in [(3, widths[0]), *pairs])
        self.up = nn.ModuleList(nn.ConvTranspose2d(width, channels, 2, 2) for channels, width in reversed(pairs))
        self.joined = nn.ModuleList(_twice(2 * channels, channels) for channels, _ in reversed(pairs))
        self.classes = nn.Conv2d(widths[0], classes, 1)

    def forward(self, input: Tensor) -> Tensor:
        kept = [self.down[0](input)]
        for each in self.down[1:]:
            kept.append(each(functional.max_pool2d(kept[-1], 2)))
        hidden = kept.pop()
        for up, joined in zip(self.up, self.joined, strict=True):
            hidden = joined(torch.cat([kept.pop(), up(hidden)], 1))
        classes: Tensor = self.classes(hidden)
        return classes
