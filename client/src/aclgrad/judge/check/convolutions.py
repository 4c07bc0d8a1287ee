"""The gradients of convolutions in known networks, as programs of one step: of one to three axes, and transposed.

Samples are small. These have as many channels as in training, so that sums are as long, and channels fill the kernels'
blocks.
"""

import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from aclgrad.judge.programs.program import Program, one_step
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.convolution_backward.samples import convolution_case
from aclgrad.operators.cube_math_type import HALVING
from aclgrad.products import Product
from aclgrad.tensors import DTYPES

Shape = tuple[int, ...]
OPERATOR: Final = "convolution_backward"


@dataclass(frozen=True, slots=True)
class _Layer:
    """A convolution of an input of this shape to this many channels. Lists may have one value for all axes."""

    name: str
    input: Shape
    channels: int
    kernel: Shape
    stride: Shape = (1,)
    padding: Shape = (0,)
    dilation: Shape = (1,)
    transposed: bool = False
    groups: int = 1

    def scaled(self, *, is_quick: bool) -> tuple[Shape, int, int]:
        """Returns input, channels and groups; a quick check has an eighth of the channels, and half of each size."""
        images, own, *sizes = self.input
        if not is_quick:
            return self.input, self.channels, self.groups
        groups = max(self.groups // 8, 1)
        fewer = [max(each // 8, groups) for each in (own, self.channels)]
        return (images, fewer[0], *(max(size // 2, 4) for size in sizes)), fewer[1], groups


LAYERS: Final = (
    _Layer("stem of ResNet-50", (1, 3, 224, 224), 64, (7, 7), (2,), (3,)),
    _Layer("bottleneck of ResNet-50, down", (1, 256, 56, 56), 64, (1, 1)),
    _Layer("bottleneck of ResNet-50", (1, 64, 56, 56), 64, (3, 3), (1,), (1,)),
    _Layer("bottleneck of ResNet-50, with stride", (1, 128, 56, 56), 128, (3, 3), (2,), (1,)),
    _Layer("shortcut of ResNet-50", (1, 256, 56, 56), 512, (1, 1), (2,)),
    _Layer("last bottleneck of ResNet-50", (2, 512, 7, 7), 512, (3, 3), (1,), (1,)),
    _Layer("last bottleneck of ResNet-50, up", (2, 512, 7, 7), 2048, (1, 1)),
    _Layer("groups of ResNeXt-50", (1, 128, 56, 56), 128, (3, 3), (1,), (1,), groups=32),
    _Layer("depthwise of MobileNetV2", (1, 144, 56, 56), 144, (3, 3), (2,), (1,), groups=144),
    _Layer("dilated of DeepLabV3", (1, 128, 28, 28), 128, (3, 3), (1,), (12,), (12,)),
    _Layer("features of wav2vec 2.0", (1, 512, 800), 512, (3,), (2,)),
    _Layer("up of HiFi-GAN", (1, 512, 32), 256, (16,), (8,), (4,), transposed=True),
    _Layer("up of U-Net", (1, 128, 28, 28), 64, (2, 2), (2,), transposed=True),
    _Layer("up of DCGAN", (1, 512, 8, 8), 256, (4, 4), (2,), (1,), transposed=True),
    _Layer("stem of R3D-18", (1, 3, 8, 56, 56), 64, (3, 7, 7), (1, 2, 2), (1, 3, 3)),
    _Layer("residual of R3D-18", (1, 64, 4, 28, 28), 64, (3, 3, 3), (1,), (1,)),
    _Layer("up of V-Net", (1, 64, 4, 14, 14), 32, (2, 2, 2), (2,), transposed=True),
)


def convolution_programs(
    dtype: str, product: Product, *, is_quick: bool
) -> Iterator[tuple[str, Callable[[], Program]]]:
    """Yields the product's layers, and a function that makes the same program of each every time."""
    for layer in LAYERS:
        if len(layer.kernel) < 3 or product not in HALVING:
            yield layer.name, partial(_program, layer, dtype, is_quick=is_quick)


def _program(layer: _Layer, dtype: str, *, is_quick: bool) -> Program:
    input, channels, groups = layer.scaled(is_quick=is_quick)
    case = convolution_case(
        layer.name,
        input,
        channels,
        layer.kernel,
        stride=layer.stride,
        padding=layer.padding,
        dilation=layer.dilation,
        transposed=layer.transposed,
        groups=groups,
    )
    generator = np.random.default_rng(zlib.crc32(layer.name.encode()))
    arrays = {name: generator.standard_normal(shape) for name, shape in case.shapes.items()}
    arrays["weight"] /= math.sqrt(math.prod(arrays["weight"].shape[1:]))
    inputs = {name: each.astype(DTYPES[dtype].numpy) for name, each in arrays.items()}
    return one_step(OPERATORS[OPERATOR], inputs, case.attributes)
