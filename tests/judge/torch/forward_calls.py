"""Calls of functions that a server computes forward: each row of the table of ATen's operators has one at least."""

from collections.abc import Callable
from typing import Any, Final

import torch

from tests.judge.torch.running import drawn

Call = tuple[str, tuple[Any, ...], dict[str, Any]]
"""A function by msprobe's name, and its arguments."""
Add = Callable[..., None]
New = Callable[..., torch.Tensor]


def calls(dtype: torch.dtype = torch.float32) -> list[Call]:
    """Returns the calls with floats of this dtype."""
    found: list[Call] = []

    def add(api: str, *args: Any, **kwargs: Any) -> None:
        found.append((api, args, kwargs))

    def new(*shape: int) -> torch.Tensor:
        return drawn(*shape, dtype=dtype)

    for part in (_elements, _numbers, _reductions, _moved, _layers, _losses, _planes, _products):
        part(add, new)
    return found


CLASSES: Final = torch.tensor([1, 7, 0])
INTEGERS: Final = torch.tensor([[3, -1, 4], [0, 5, -9]])


def _elements(add: Add, new: New) -> None:
    x, y, row = new(3, 8), new(3, 8), new(8)
    for name in ("abs", "exp", "neg", "sigmoid", "tanh", "relu"):
        add(f"Torch.{name}", x)
    for name in ("log", "reciprocal", "rsqrt", "sqrt"):
        add(f"Torch.{name}", x.abs() + 0.5)
    add("Torch.neg", INTEGERS)
    add("Torch.exp", INTEGERS)
    for name in ("hardswish", "silu", "gelu", "leaky_relu", "glu", "hardtanh", "relu6", "softsign", "tanhshrink"):
        add(f"Functional.{name}", x)
    add("Functional.gelu", x, approximate="tanh")
    add("Functional.leaky_relu", x, 0.2, inplace=True)
    add("Functional.threshold", x, 0.1, 2.0)
    add("Functional.hardtanh", x, -0.5, 0.25)
    add("Tensor.relu_", x)
    add("Tensor.add_", x, row, alpha=0.5)
    for name in ("add", "sub", "mul", "div", "maximum", "minimum", "eq", "gt", "lt"):
        add(f"Torch.{name}", x, row)
    add("Torch.eq", x, x.clone())
    add("Tensor.__iadd__", x, y)
    add("Torch.rsub", x, row, alpha=2)
    add("Torch.addcmul", x, y, row, value=0.5)
    add("Torch.addcdiv", x, y, row.abs() + 0.5, value=2)
    add("Torch.clamp_min", x, row)
    add("Torch.clamp_max", x, row)
    add("Torch.where", x > 0, x, row)
    add("Torch.where", x > 0, x, 0.5)
    add("Tensor.masked_fill", x, x > 0.5, -torch.inf)
    add("Tensor.masked_fill", x, x > 0.5, torch.tensor(2.0, dtype=x.dtype))


def _numbers(add: Add, new: New) -> None:
    x = new(3, 8)
    for name in ("add", "sub", "mul", "div", "rsub"):
        add(f"Torch.{name}", x, 0.75)
        add(f"Torch.{name}", INTEGERS, 3)
    add("Tensor.__rsub__", x, 1)
    add("Tensor.__rtruediv__", x.abs() + 0.5, 2)
    for name in ("eq", "ge", "gt", "le", "lt"):
        add(f"Torch.{name}", x, 0.5)
        add(f"Torch.{name}", INTEGERS, 3)
    add("Torch.pow", x, 3)
    add("Torch.square", x)
    add("Torch.clamp", x, -0.5, 0.25)
    add("Torch.clamp", x, min=-0.5)
    add("Torch.clamp", INTEGERS, -1, 3)
    add("Torch.clamp_min", x, 0.25)
    add("Torch.clamp_max", x, 0.25)


def _reductions(add: Add, new: New) -> None:
    x = new(2, 3, 4)
    for name in ("sum", "mean"):
        add(f"Torch.{name}", x)
        add(f"Torch.{name}", x, 1)
        add(f"Torch.{name}", x, (0, 2), True)
    add("Torch.mean", new(3, 4), 0, dtype=torch.float32)
    add("Torch.amax", x, (1,))
    add("Torch.max", x)
    for name in ("softmax", "log_softmax"):
        add(f"Functional.{name}", x, 1)
    add("Functional.softmax", x, -1, dtype=torch.float32)
    add("Aten._softmax", x, 1, False)


def _moved(add: Add, new: New) -> None:
    x = new(3, 8)
    add("Tensor.to", x, torch.float16 if x.dtype == torch.bfloat16 else torch.bfloat16)
    add("Tensor.to", INTEGERS, torch.float32)
    add("Tensor.int", x * 10)
    add("Aten.copy", x, new(8))
    add("Aten.fill", x, 2.5)
    add("Aten.zero", x)
    for pad, value in (([1, 2], 0.0), ([0, 1, 2, 0], -torch.inf), ([-1, 2, 0, -1], 1.5)):
        add("Functional.pad", x, pad, value=value)
    add("Torch.cat", [x, x[:1]], 0)
    add("Torch.cat", [x, x, x], -1)
    add("Torch.stack", [x, x], -1)
    add("Torch.select_scatter", x, new(3), 1, -2)
    add("Torch.slice_scatter", x, new(3, 2), 1, 1, 5, 2)
    add("Functional.embedding", CLASSES.reshape(1, 3), new(9, 5), 1)
    add("Tensor.__getitem__", x, torch.tensor([[0, -1], [2, 2]]))
    add("Tensor.__getitem__", x, (slice(None), torch.tensor([7, 0])))
    add("Torch.index_select", x, 1, CLASSES)
    add("Torch.gather", x, 0, torch.tensor([[0, 2, 1]]))
    add("Torch.scatter_add", x, 1, CLASSES.reshape(3, 1), new(3, 8))
    add("Torch.index_add", x, 0, torch.tensor([2, 0]), new(2, 8), alpha=0.5)


def _layers(add: Add, new: New) -> None:
    x, planes, four = new(3, 8), new(2, 4, 6, 6), drawn(4)
    add("Functional.layer_norm", x, [8], new(8), new(8), 1e-5)
    add("Functional.layer_norm", new(2, 3, 4), [3, 4])
    add("Functional.group_norm", planes, 2, new(4), new(4), 1e-5)
    # Those of 16 bits have float32 parameters, as in training.
    add("Functional.batch_norm", planes, torch.zeros(4), torch.ones(4), four, drawn(4), True)
    add("Functional.batch_norm", planes, drawn(4), drawn(4).abs() + 0.1, four, drawn(4))
    add("Functional.batch_norm", planes, None, None, None, None, True)
    add("Functional.instance_norm", planes)
    add("Functional.rms_norm", x, [8], new(8), 1e-5)
    running = torch.zeros(4), torch.ones(4)
    add("Aten._native_batch_norm_legit", planes, four, drawn(4), True, 0.1, 1e-5)
    for name in ("_native_batch_norm_legit", "_native_batch_norm_legit_functional"):
        add(f"Aten.{name}", planes, four, drawn(4), *running, True, 0.1, 1e-5)
    heads = [new(2, 2, 5, 4) for _ in range(3)]
    add("Functional.scaled_dot_product_attention", *heads)
    add("Functional.scaled_dot_product_attention", *heads, is_causal=True, scale=0.3)
    add("Functional.scaled_dot_product_attention", *heads, attn_mask=torch.ones(5, 5, dtype=torch.bool).tril())
    x, projection = new(3, 2, 8), (new(24, 8), new(24), None, None, False, 0.0, new(8, 8), new(8), True)
    add("Functional.multi_head_attention_forward", x, x, x, 8, 2, *projection)
    add("NPU.npu_rms_norm", new(3, 8), new(8), epsilon=1e-5)
    add("NPU.npu_swiglu", new(3, 8), dim=-1)


def _losses(add: Add, new: New) -> None:
    x, y, share = new(3, 8), new(3, 8), new(3, 8).sigmoid()
    for reduction in ("none", "mean", "sum"):
        add("Functional.mse_loss", x, y, reduction=reduction)
        add("Functional.smooth_l1_loss", x, y, reduction=reduction, beta=0.5)
        add("Functional.nll_loss", x, CLASSES, share[0], ignore_index=0, reduction=reduction)
        add("Functional.nll_loss", new(2, 4, 3, 2), torch.tensor([[[1, 3], [0, 2], [1, 1]]] * 2), reduction=reduction)
        add("Functional.binary_cross_entropy_with_logits", x, share, share[0], pos_weight=share[1], reduction=reduction)
    add("Functional.huber_loss", x, y, delta=0.5)
    add("Functional.l1_loss", x, y)
    add("Functional.cross_entropy", x, CLASSES)
    add("Functional.cross_entropy", x, CLASSES, label_smoothing=0.1)
    add("Functional.cross_entropy", x, CLASSES, share[0], label_smoothing=0.1)
    add("Functional.cross_entropy", x, share)


def _planes(add: Add, new: New) -> None:
    planes = new(2, 4, 6, 6)
    for axes in (1, 2, 3):
        shape, kernel = (2, 4, *(5, 6, 4)[:axes]), (3, 2, 3)[:axes]
        add(f"Functional.conv{axes}d", new(*shape), new(6, 2, *kernel), new(6), 2, 1, 1, 2)
        add(f"Functional.conv_transpose{axes}d", new(*shape), new(4, 2, *kernel), new(4), 2, 1, 1, 2)
    lists = [1, 1], [1, 1], [1, 1], False, [0, 0], 1, False, False, True, True
    add("Torch._convolution", planes, new(8, 4, 3, 3), None, *lists)
    add("Functional.conv2d", planes, new(8, 4, 3, 3), padding="same", dilation=2)
    add("Functional.max_pool2d", planes, 2)
    add("Functional.max_pool2d", planes, 3, 2, 1, return_indices=True, ceil_mode=True)
    add("Functional.max_pool1d", new(2, 4, 6), 2)
    add("Functional.avg_pool2d", planes, 3, 2, 1, False, False)
    add("Functional.avg_pool2d", planes, 2, divisor_override=3)
    add("Functional.adaptive_avg_pool2d", planes, [3, 2])
    add("Functional.adaptive_avg_pool2d", planes, 1)
    add("Functional.interpolate", planes, scale_factor=2)
    add("Functional.interpolate", planes, size=(7, 9), mode="bilinear")
    add("Functional.interpolate", planes, scale_factor=1.5, mode="bilinear", align_corners=True)
    points = torch.rand(2, 5, 3, 2, generator=torch.Generator().manual_seed(2)) * 2 - 1
    for mode, padding in (("bilinear", "zeros"), ("nearest", "border"), ("bilinear", "reflection")):
        add("Functional.grid_sample", planes, points.to(planes.dtype), mode, padding, align_corners=False)
    for mode in ("replicate", "reflect"):
        add("Functional.pad", planes, [1, 2, 0, 1], mode=mode)
        add("Functional.pad", new(2, 4, 6), [1, 2], mode=mode)


def _products(add: Add, new: New) -> None:
    add("Functional.linear", new(2, 3, 4), new(5, 4), new(5))
    add("Functional.linear", new(3, 4), new(5, 4))
    add("Torch.matmul", new(1, 3, 2, 4), new(3, 4, 2))
    add("Torch.mv", new(3, 4), new(4))
    add("Torch.einsum", "nchw,ncwk->knch", new(2, 3, 4, 4), new(2, 3, 4, 4))
    add("Torch.tensordot", new(2, 3, 4), new(3, 4, 5), dims=2)
    add("Torch.dot", new(4), new(4))
    add("Torch.vdot", new(4), new(4))
    add("Torch.addmm", new(3, 5), new(3, 4), new(4, 5), beta=0.5, alpha=2.0)
    for beta in (0, 0.5):
        add("Torch.baddbmm", new(2, 3, 5), new(2, 3, 4), new(2, 4, 5), beta=beta, alpha=2.0)
