"""Convolutions that the host library and PyTorch race for, and their gradients: of ResNet-50 and of other kinds."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import torch

from tools.abi.acl import Format, Library
from tools.benchmarks.kernel_products import DTYPES

FORMATS: Final = {3: Format.NCL, 4: Format.NCHW, 5: Format.NCDHW}
QUICK: Final = 2**30
"""Multiplications above which a convolution is left out of a quick run."""


@dataclass(frozen=True)
class Layer:
    """A forward pass. The first layer of a model gives no gradient of its input."""

    name: str
    input: tuple[int, ...]
    weight: tuple[int, ...]
    stride: int = 1
    padding: int = 0
    groups: int = 1
    transposed: bool = False
    is_first: bool = False
    count: int = 1
    """How often it is in the model."""

    @property
    def output(self) -> tuple[int, ...]:
        axes = zip(self.input[2:], self.weight[2:], strict=True)
        if self.transposed:
            sizes = [(n - 1) * self.stride - 2 * self.padding + k for n, k in axes]
        else:
            sizes = [(n + 2 * self.padding - k) // self.stride + 1 for n, k in axes]
        return (self.input[0], self.weight[1] if self.transposed else self.weight[0], *sizes)

    @property
    def mask(self) -> tuple[bool, bool, bool]:
        return (not self.is_first, True, False)


def resnet50() -> Iterator[Layer]:
    """Yields the 23 kinds of its 53 convolutions, of 8 images."""
    yield Layer("ResNet-50 first", (8, 3, 224, 224), (64, 3, 7, 7), 2, 3, is_first=True)
    channels, side = 64, 56
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        stride, out, name = 1 if width == 64 else 2, 4 * width, f"ResNet-50 {width}"
        half = side // stride
        wide, narrow = (8, out, half, half), (8, width, half, half)
        yield Layer(name, (8, channels, side, side), (width, channels, 1, 1))
        yield Layer(name, (8, width, side, side), (width, width, 3, 3), stride, 1, count=blocks if stride == 1 else 1)
        yield Layer(name, narrow, (out, width, 1, 1), count=blocks + (stride == 1))
        yield Layer(name, wide, (width, out, 1, 1), count=blocks - 1)
        if stride == 2:
            yield Layer(name, (8, channels, side, side), (out, channels, 1, 1), stride)
            yield Layer(name, narrow, (width, width, 3, 3), 1, 1, count=blocks - 1)
        channels, side = out, half


OTHERS: Final = (
    Layer("depthwise", (8, 32, 112, 112), (32, 1, 3, 3), 1, 1, 32),
    Layer("depthwise", (8, 144, 56, 56), (144, 1, 3, 3), 2, 1, 144),
    Layer("depthwise", (8, 960, 7, 7), (960, 1, 3, 3), 1, 1, 960),
    Layer("ResNeXt-50", (8, 128, 56, 56), (128, 4, 3, 3), 1, 1, 32),
    Layer("ResNeXt-50", (8, 512, 14, 14), (512, 16, 3, 3), 1, 1, 32),
    Layer("U-Net", (2, 64, 128, 128), (64, 64, 3, 3), 1, 1),
    Layer("U-Net up", (2, 128, 64, 64), (128, 64, 2, 2), 2, transposed=True),
    Layer("three axes", (2, 32, 8, 28, 28), (32, 32, 3, 3, 3), 1, 1),
    Layer("one axis", (4, 64, 8000), (64, 64, 9), 1, 4),
)


@dataclass(frozen=True)
class Race:
    """A layer in one type: its forward pass, or the gradients that training needs."""

    layer: Layer
    dtype: str
    is_forward: bool

    def __str__(self) -> str:
        layer = self.layer
        kind = " transposed" if layer.transposed else f" in {layer.groups} groups" if layer.groups > 1 else ""
        weight = "x".join(map(str, layer.weight))
        return f"{weight} of {'x'.join(map(str, layer.input))}, stride {layer.stride}{kind}"

    @property
    def tensors(self) -> int:
        """How many tensors are made that take products."""
        return 1 if self.is_forward else sum(self.layer.mask)

    @property
    def operations(self) -> int:
        small = self.layer.input if self.layer.transposed else self.layer.output
        return 2 * self.tensors * small[0] * prod(small[2:]) * prod(self.layer.weight)

    def calls(self, acl: Library, stack: ExitStack) -> dict[str, Callable[[], object]]:
        """Returns our call and PyTorch's, whose results have been compared."""
        layer, (dtype, data_type) = self.layer, DTYPES[self.dtype]
        shapes = (layer.output, layer.input, layer.weight)
        read = (1, 2) if self.is_forward else (0, 1, 2)
        given = [torch.randn(shapes[each]).to(dtype) for each in read]
        bias = torch.randn(layer.output[1:2]).to(dtype)
        made = [torch.empty(shape, dtype=dtype) for shape in (shapes[:1] if self.is_forward else shapes[1:])]
        tensors = [*given, *made, bias]
        stack.callback(tensors.clear)  # tensors of the library do not hold their memory
        handles = [
            stack.enter_context(
                acl.describe(
                    tuple(each.shape), data_type, format_=FORMATS.get(each.ndim, Format.ND), address=each.data_ptr()
                )
            )
            for each in tensors
        ]
        axes = len(layer.input) - 2
        lists = [(layer.stride,) * axes, (layer.padding,) * axes, (1,) * axes]
        attributes: list[Any] = [*lists, layer.transposed, (0,) * axes, layer.groups]
        attributes = attributes if self.is_forward else [(layer.output[1],), *attributes, layer.mask]
        values = [stack.enter_context(acl.value(each)) if isinstance(each, tuple) else each for each in attributes]
        if self.is_forward:
            symbol = "aclnnConvolution"
            size, executor = acl.plan(symbol, *handles[:2], handles[3], *values, handles[2], 0)
        else:
            symbol = "aclnnConvolutionBackward"
            outputs = [handle if wanted else None for handle, wanted in zip(handles[3:5], layer.mask, strict=False)]
            size, executor = acl.plan(symbol, *handles[:3], *values, 0, *outputs, None)
        acl.call("aclSetAclOpExecutorRepeatable", executor)
        stack.callback(acl.call, "aclDestroyAclOpExecutor", executor)
        workspace = stack.enter_context(acl.buffer(size)) if size else None

        def ours() -> None:
            acl.call(symbol, workspace, size, executor, None)
            acl.call("aclrtSynchronizeStream", None)

        def pytorch() -> tuple[torch.Tensor, ...]:
            return self._pytorch(given, bias)

        ours()
        wide = [each.float() for each in given]
        wanted_of = (True,) if self.is_forward else layer.mask
        for found, truth, wanted in zip(made, self._pytorch(wide, bias.float()), wanted_of, strict=False):
            if wanted:
                torch.testing.assert_close(found.float(), truth, rtol=2e-2, atol=2e-2 * truth.std().item())
        # PyTorch takes hundreds of times as long for float16.
        return {"ours": ours} if self.dtype == "float16" else {"ours": ours, "pytorch": pytorch}

    def _pytorch(self, given: list[torch.Tensor], bias: torch.Tensor) -> tuple[torch.Tensor, ...]:
        layer = self.layer
        axes = len(layer.input) - 2
        lists = ([layer.stride] * axes, [layer.padding] * axes, [1] * axes, layer.transposed, [0] * axes, layer.groups)
        if self.is_forward:
            return (torch.ops.aten.convolution(*given, bias, *lists),)
        found: tuple[torch.Tensor, ...] = torch.ops.aten.convolution_backward(*given, None, *lists, list(layer.mask))
        return found


def races(dtypes: tuple[str, ...], *, quick: bool) -> Iterator[Race]:
    """Yields every layer and dtype, forward before the gradients; float32 comes first."""
    for layer in (*resnet50(), *OTHERS):
        for dtype in DTYPES:
            for race in (Race(layer, dtype, is_forward=True), Race(layer, dtype, is_forward=False)):
                if dtype in dtypes and (not quick or race.operations <= QUICK):
                    yield race
