"""Networks that classify images or films, small: one for each family that people fine-tune."""

import torch
from torch import Tensor, nn
from torch.nn import functional

CLASSES = 10


def convolved(channels: int, width: int, size: int = 3, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Returns a convolution that keeps the size, with its norm."""
    convolution = nn.Conv2d(channels, width, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(width))


def _classifier(channels: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES)]


def vgg() -> nn.Module:
    """Simonyan and Zisserman 2014."""
    layers: list[nn.Module] = []
    for channels, width in ((3, 8), (8, 16)):
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(4), nn.Flatten(),
        nn.Linear(256, 32), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(32, CLASSES),
    )  # fmt: skip


class _Gate(nn.Module):
    """Squeeze and excitation: channels are weighed by what is in all of the image."""

    def __init__(self, channels: int, activation: nn.Module, gate: nn.Module) -> None:
        super().__init__()
        narrow, wide = nn.Conv2d(channels, channels // 4, 1), nn.Conv2d(channels // 4, channels, 1)
        self.weights = nn.Sequential(nn.AdaptiveAvgPool2d(1), narrow, activation, wide, gate)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = x * self.weights(x)
        return made


class _Inverted(nn.Module):
    """An inverted residual: wide within, and one filter for each channel there."""

    def __init__(self, channels: int, activation: type[nn.Module], gate: nn.Module) -> None:
        super().__init__()
        wide = 3 * channels
        self.body = nn.Sequential(
            convolved(channels, wide, 1), activation(), convolved(wide, wide, 3, groups=wide), activation(),
            _Gate(wide, nn.ReLU() if activation is nn.Hardswish else nn.SiLU(), gate), convolved(wide, channels, 1),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = x + self.body(x)
        return made


def mobilenet_v3() -> nn.Module:
    """Howard et al. 2019."""
    blocks = [_Inverted(8, nn.Hardswish, nn.Hardsigmoid()) for _ in range(2)]
    return nn.Sequential(convolved(3, 8, 3, 2), nn.Hardswish(), *blocks, *_classifier(8))


def efficientnet() -> nn.Module:
    """Tan and Le 2019."""
    blocks = [_Inverted(8, nn.SiLU, nn.Sigmoid()) for _ in range(2)]
    return nn.Sequential(
        convolved(3, 8, 3, 2), nn.SiLU(), *blocks, *_classifier(8)[:2], nn.Dropout(0.2), nn.Linear(8, 10)
    )


class _Dense(nn.Module):
    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        convolution = nn.Conv2d(channels, growth, 3, padding=1, bias=False)
        self.body = nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU(inplace=True), convolution)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.body(x)], 1)


def densenet() -> nn.Module:
    """Huang et al. 2016."""
    first = [_Dense(8 + 4 * number, 4) for number in range(3)]
    between = [nn.BatchNorm2d(20), nn.ReLU(inplace=True), nn.Conv2d(20, 10, 1, bias=False), nn.AvgPool2d(2)]
    second = [_Dense(10 + 4 * number, 4) for number in range(2)]
    stem = [convolved(3, 8, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*stem, *first, *between, *second, nn.BatchNorm2d(18), nn.ReLU(inplace=True), *_classifier(18))


class _ConvNeXtBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.deep = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        return x + (self.scale * self.mlp(self.deep(x).permute(0, 2, 3, 1))).permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    """Liu et al. 2022."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 16, 4, 4), nn.LayerNorm(16)
        self.blocks = nn.Sequential(_ConvNeXtBlock(16), _ConvNeXtBlock(16))
        self.classifier = nn.Linear(16, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        x = self.norm(self.stem(images).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        logits: Tensor = self.classifier(self.norm(self.blocks(x).mean((-2, -1))))
        return logits


class _Window(nn.Module):
    """Attention within windows of 4 x 4 places, which are shifted, with a bias by relative position."""

    def __init__(self, width: int, heads: int, shift: int) -> None:
        super().__init__()
        self.heads, self.shift = heads, shift
        self.of_all, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(torch.randn(49, heads) * 0.02)
        places = torch.cartesian_prod(torch.arange(4), torch.arange(4))
        apart = places[:, None] - places[None] + 3
        self.register_buffer("position", apart[..., 0] * 7 + apart[..., 1])

    def forward(self, x: Tensor) -> Tensor:
        count, rows, columns, width = x.shape
        x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        windows = x.view(count, rows // 4, 4, columns // 4, 4, width).transpose(2, 3).reshape(-1, 16, width)
        query, key, value = self.of_all(windows).view(-1, 16, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        scores = (query * (width // self.heads) ** -0.5) @ key.mT + self.bias[self.position].permute(2, 0, 1)
        mixed = self.out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))
        x = mixed.view(count, rows // 4, columns // 4, 4, 4, width).transpose(2, 3).reshape(count, rows, columns, width)
        return torch.roll(x, (self.shift, self.shift), (1, 2))


class Swin(nn.Module):
    """Liu et al. 2021."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.windows = nn.ModuleList(_Window(width, 2, shift) for shift in (0, 2))
        mlps = [nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(2)]
        self.mlps = nn.ModuleList(mlps)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(5))
        self.merge, self.classifier = nn.Linear(4 * width, 2 * width, bias=False), nn.Linear(2 * width, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).permute(0, 2, 3, 1)
        for number, (window, mlp) in enumerate(zip(self.windows, self.mlps, strict=True)):
            x = x + window(self.norms[2 * number](x))
            x = x + mlp(self.norms[2 * number + 1](x))
        x = self.norms[4](x)
        parts = [x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]]
        logits: Tensor = self.classifier(self.merge(torch.cat(parts, -1)).mean((1, 2)))
        return logits


class _Film(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv3d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm3d(channels) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        hidden = functional.relu(self.norms[0](self.convolutions[0](x)))
        return functional.relu(x + self.norms[1](self.convolutions[1](hidden)))


def r3d() -> nn.Module:
    """Residual convolutions in space and time (Tran et al. 2017)."""
    stem = [nn.Conv3d(3, 8, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False), nn.BatchNorm3d(8), nn.ReLU()]
    return nn.Sequential(*stem, _Film(8), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(8, CLASSES))
