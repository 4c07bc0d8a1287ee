"""Calls of PyTorch's functions as dumps of training have them: by position, by keyword and in place."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Generator, Tensor


@dataclass(frozen=True, slots=True)
class Drawn:
    """A tensor to be drawn. Those of floating point need a gradient."""

    shape: tuple[int, ...]
    kind: str = "normal"
    """Or "positive", "share" for probabilities, "mask", or the bound of integers."""
    grad: bool = True

    def tensor(self, dtype: torch.dtype, generator: Generator) -> Tensor:
        if self.kind.isdigit():
            return torch.randint(int(self.kind), self.shape, generator=generator)
        drawn = torch.randn(self.shape, generator=generator)
        if self.kind == "mask":
            return drawn > 0
        if self.kind == "positive":
            drawn = drawn.abs() + 0.5
        if self.kind == "share":
            drawn = drawn.sigmoid()
        # No leaf, so that calls in place may change it.
        return drawn.to(dtype).requires_grad_(self.grad).clone()


@dataclass(frozen=True, slots=True)
class Call:
    """A function by msprobe's name, with its arguments."""

    api: str
    args: tuple[Any, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    def drawn(self, dtype: torch.dtype, generator: Generator) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the arguments with tensors."""

        def made(value: Any) -> Any:
            if isinstance(value, Drawn):
                return value.tensor(dtype, generator)
            return [made(each) for each in value] if isinstance(value, list) else value

        return tuple(map(made, self.args)), {name: made(each) for name, each in self.options.items()}


def t(*shape: int) -> Drawn:
    return Drawn(shape)


def positive(*shape: int) -> Drawn:
    return Drawn(shape, "positive")


def share(*shape: int, grad: bool = True) -> Drawn:
    return Drawn(shape, "share", grad)


def mask(*shape: int) -> Drawn:
    return Drawn(shape, "mask")


def below(bound: int, *shape: int) -> Drawn:
    return Drawn(shape, str(bound))


def buffer(*shape: int) -> Drawn:
    return Drawn(shape, "positive", grad=False)


def call(api: str, *args: Any, **options: Any) -> Call:
    return Call(api, args, options)


_IMAGE, _ROWS = t(2, 4, 8, 9), t(6, 12)

PRODUCTS: Final = (
    call("Functional.linear", t(6, 40), t(12, 40), t(12)),
    call("Functional.linear", t(2, 5, 40), t(12, 40), bias=None),
    call("Torch.matmul", t(2, 6, 40), t(2, 40, 5)),
    call("Tensor.matmul", t(6, 40), t(40)),
    call("Tensor.__matmul__", t(6, 40), t(40, 5)),
    call("Torch.mm", t(6, 40), t(40, 5)),
    call("Torch.bmm", t(2, 6, 40), t(2, 40, 5)),
    call("Torch.addmm", t(5), t(6, 40), t(40, 5), beta=0.5, alpha=2.0),
    call("Torch.baddbmm", t(2, 6, 5), t(2, 6, 40), t(2, 40, 5)),
    call("Torch.mv", t(6, 40), t(40)),
    call("Torch.outer", t(12), t(9)),
    call("Torch.einsum", "bik,bkj->bij", t(2, 6, 40), t(2, 40, 5)),
    call("Functional.bilinear", t(6, 8), t(6, 7), t(5, 8, 7), t(5)),
    call("Functional.conv1d", t(2, 4, 20), t(6, 4, 3), t(6), padding=1),
    call("Functional.conv2d", _IMAGE, t(6, 4, 3, 3), t(6), [2, 1], [1, 1], [1, 1], 1),
    call("Functional.conv2d", _IMAGE, t(8, 2, 3, 3), None, padding="same", groups=2),
    call("Functional.conv3d", t(1, 3, 5, 6, 6), t(4, 3, 3, 3, 3)),
    call("Functional.conv_transpose2d", _IMAGE, t(4, 3, 2, 2), t(3), stride=2),
    call("Functional.scaled_dot_product_attention", t(2, 3, 9, 8), t(2, 3, 7, 8), t(2, 3, 7, 8)),
    call("Functional.scaled_dot_product_attention", t(2, 3, 9, 8), t(2, 3, 9, 8), t(2, 3, 9, 8), is_causal=True),
)
"""Convolution, products and attention."""

LOSSES: Final = (
    call("Functional.cross_entropy", t(9, 11), below(11, 9)),
    call("Functional.cross_entropy", t(9, 11), below(11, 9), label_smoothing=0.1, reduction="sum"),
    call("Functional.nll_loss", t(9, 11), below(11, 9), reduction="none"),
    call("Functional.mse_loss", _ROWS, t(6, 12)),
    call("Functional.l1_loss", _ROWS, t(6, 12), reduction="none"),
    call("Functional.smooth_l1_loss", _ROWS, t(6, 12), beta=0.5),
    call("Functional.binary_cross_entropy_with_logits", _ROWS, buffer(6, 12)),
    call("Functional.kl_div", _ROWS, buffer(6, 12), reduction="batchmean"),
)

ACTIVATIONS: Final = (
    call("Functional.relu", _ROWS),
    call("Functional.relu", _ROWS, inplace=True),
    call("Functional.gelu", _ROWS, approximate="tanh"),
    call("Functional.silu", _ROWS),
    call("Functional.leaky_relu", _ROWS, 0.2),
    call("Functional.hardswish", _ROWS),
    call("Functional.softplus", _ROWS),
    call("Functional.elu", _ROWS, 1.5),
    call("Functional.mish", _ROWS),
    call("Functional.glu", _ROWS, dim=-1),
    call("Functional.softmax", _ROWS, dim=-1),
    call("Functional.log_softmax", _ROWS, -1),
    call("Torch.softmax", _ROWS, 0),
    call("Torch.sigmoid", _ROWS),
    call("Tensor.tanh", _ROWS),
    call("Functional.prelu", _IMAGE, t(4)),
)

NORMS: Final = (
    call("Functional.layer_norm", _ROWS, [12], t(12), t(12), 1e-5),
    call("Functional.group_norm", _IMAGE, 2, t(4), t(4)),
    call("Functional.batch_norm", _IMAGE, buffer(4), buffer(4), t(4), t(4), True, 0.1, 1e-5),
    call("Functional.instance_norm", _IMAGE, weight=t(4), bias=t(4)),
    call("Functional.normalize", _ROWS, dim=1),
)

PLANES: Final = (
    call("Functional.max_pool2d", _IMAGE, 2),
    call("Functional.avg_pool2d", _IMAGE, [2, 3], stride=1),
    call("Functional.adaptive_avg_pool2d", _IMAGE, [3, 2]),
    call("Functional.max_pool1d", t(2, 4, 20), 3),
    call("Functional.interpolate", _IMAGE, scale_factor=2, mode="bilinear", align_corners=False),
    call("Functional.interpolate", _IMAGE, [12, 13], mode="nearest"),
    call("Functional.grid_sample", _IMAGE, t(2, 5, 6, 2), align_corners=False),
    call("Functional.pad", _IMAGE, [1, 1, 2, 0], mode="reflect"),
    call("Functional.pad", _IMAGE, [1, 1], value=0.5),
    call("Functional.unfold", _IMAGE, 3),
    call("Functional.pixel_shuffle", _IMAGE, 2),
)
"""Pools, interpolation and other functions of planes."""

INDICES: Final = (
    call("Functional.embedding", below(9, 4, 5), t(9, 12)),
    call("Torch.gather", _ROWS, 1, below(12, 6, 5)),
    call("Tensor.scatter", _ROWS, 1, below(12, 6, 1), t(6, 1)),
    call("Tensor.index_add", _ROWS, 0, below(6, 3), t(3, 12)),
    call("Torch.index_select", _ROWS, dim=0, index=below(6, 4)),
    call("Torch.where", mask(6, 12), _ROWS, t(6, 12)),
    call("Tensor.masked_fill", _ROWS, mask(6, 12), -1.0),
    call("Torch.cat", [_ROWS, t(6, 5)], dim=1),
    call("Torch.stack", [_ROWS, t(6, 12)]),
    call("Tensor.topk", _ROWS, 3),
    call("Torch.sort", _ROWS, dim=1),
)

REDUCTIONS: Final = (
    call("Tensor.sum", t(6, 40), 1),
    call("Torch.mean", positive(6, 40), dim=(0, 1)),
    call("Tensor.max", _ROWS, 1),
    call("Torch.amax", _ROWS, 0),
    call("Tensor.var", t(6, 40), 1),
    call("Torch.std", t(6, 40), dim=1),
    call("Tensor.norm", t(6, 40)),
    call("Torch.logsumexp", t(6, 40), 1),
    call("Torch.cumsum", t(6, 40), dim=1),
    call("Torch.prod", positive(6, 5), 1),
)

ARITHMETIC: Final = (
    call("Tensor.__add__", _ROWS, t(12)),
    call("Torch.add", _ROWS, t(6, 12), alpha=2),
    call("Tensor.add_", _ROWS, t(6, 12)),
    call("Tensor.__iadd__", _ROWS, t(6, 12)),
    call("Tensor.__rsub__", _ROWS, 2.0),
    call("Torch.mul", _ROWS, t(6, 1)),
    call("Tensor.mul_", _ROWS, 2.5),
    call("Tensor.__truediv__", _ROWS, positive(6, 12)),
    call("Torch.pow", positive(6, 12), 3.0),
    call("Torch.rsqrt", positive(6, 12)),
    call("Torch.exp", _ROWS),
    call("Tensor.exp_", _ROWS),
    call("Tensor.log", positive(6, 12)),
    call("Torch.clamp", _ROWS, min=-0.5, max=0.5),
    call("Torch.addcmul", _ROWS, t(6, 12), t(6, 12), value=0.5),
    call("Torch.lerp", _ROWS, t(6, 12), 0.3),
)

CLASSES: Final = (
    call("Functional.nll_loss", t(9, 11), below(11, 9), buffer(11), ignore_index=3),
    call("Functional.nll_loss", t(2, 5, 4, 3), below(5, 2, 4, 3), reduction="none"),
    call("Functional.cross_entropy", t(9, 11), below(11, 9), buffer(11), reduction="none", ignore_index=3),
    call("Functional.binary_cross_entropy", share(6, 12), share(6, 12, grad=False), buffer(6, 12)),
    call(
        "Functional.binary_cross_entropy_with_logits",
        *(_ROWS, buffer(6, 12), buffer(12)),
        reduction="none",
        pos_weight=buffer(12),
    ),
    call("Functional.kl_div", _ROWS, t(6, 12), reduction="none", log_target=True),
    call("Functional.huber_loss", _ROWS, t(6, 12), reduction="none", delta=0.7),
)
"""Losses of classes and probabilities, with weights."""

LIMITED: Final = (
    call("Functional.selu", _ROWS),
    call("Functional.celu", _ROWS, alpha=0.7),
    call("Functional.hardtanh", _ROWS, -0.5, 1.5),
    call("Functional.relu6", _ROWS),
    call("Functional.hardsigmoid", _ROWS),
    call("Functional.logsigmoid", _ROWS),
    call("Functional.hardshrink", _ROWS, 0.5),
    call("Functional.softshrink", _ROWS, 0.5),
)
"""Activations with parts that are linear."""

CALLS: Final = (
    *PRODUCTS,
    *LOSSES,
    *ACTIVATIONS,
    *NORMS,
    *PLANES,
    *INDICES,
    *REDUCTIONS,
    *ARITHMETIC,
    *CLASSES,
    *LIMITED,
)
