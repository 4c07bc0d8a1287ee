"""Calls of the functions that have gradients of several arguments."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Several:
    """A function of `torch.nn.functional` by name, its operator and outputs, and the tensors that they belong to.

    `options` are the other arguments; a tensor that is None is left out.
    """

    function: str
    operator: str
    outputs: tuple[str, ...]
    tensors: tuple[str, ...]
    values: tuple[Tensor | None, ...]
    options: dict[str, Any]

    def __str__(self) -> str:
        shapes = [tuple(each.shape) if each is not None else None for each in self.values]
        return f"{self.function}({', '.join(map(str, [*shapes, *self.options.values()]))})".replace("\n", "")

    def leaves(self, needed: Sequence[bool] = (True, True, True), dtype: torch.dtype | None = None) -> list[Any]:
        """Returns copies of the tensors, of which the needed ones require grad."""
        return [
            None if each is None else each.to(dtype or each.dtype).clone().requires_grad_(is_needed)
            for each, is_needed in zip(self.values, needed, strict=False)
        ]

    def bound(self, function: Callable[..., Tensor] | None = None, **more: Any) -> Callable[..., Tensor]:
        """Returns the function of the tensors alone, by default PyTorch's."""
        called = function or getattr(functional, self.function)
        copied = {name: each.clone() if isinstance(each, Tensor) else each for name, each in self.options.items()}
        return lambda *tensors: called(**dict(zip(self.tensors, tensors, strict=True)), **copied, **more)

    def gradients(
        self, leaves: Sequence[Any], function: Callable[..., Tensor] | None = None, *, in_float64: bool = False
    ) -> list[Tensor | None]:
        """Returns the output and the gradients, for a gradient of the output that is not uniform."""
        call = replace(self, options=_in_float64(self.options)) if in_float64 else self
        output = call.bound(function)(*leaves)
        grad_output = torch.linspace(-1, 2, output.numel(), dtype=torch.float64).reshape(output.shape)
        output.backward(grad_output.to(output.dtype))
        return [output.detach(), *[None if each is None else each.grad for each in leaves]]


def _in_float64(options: dict[str, Any]) -> dict[str, Any]:
    return {name: each.double() if isinstance(each, Tensor) else each for name, each in options.items()}


def random(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def layer_norm(shape: tuple[int, ...], axes: int = 1, *, weight: bool = True, bias: bool = True) -> Several:
    sizes = shape[-axes:]
    values = random(*shape), random(*sizes, seed=2) if weight else None, random(*sizes, seed=3) if bias else None
    outputs = ("grad_input", "grad_weight", "grad_bias")
    options = {"normalized_shape": sizes}
    return Several("layer_norm", "layer_norm_backward", outputs, ("input", "weight", "bias"), values, options)


def rms_norm(shape: tuple[int, ...], axes: int = 1, *, weight: bool = True, eps: float | None = None) -> Several:
    sizes = shape[-axes:]
    values = random(*shape), random(*sizes, seed=2) if weight else None
    options = {"normalized_shape": sizes, "eps": eps}
    return Several("rms_norm", "rms_norm_grad", ("dx", "dgamma"), ("input", "weight"), values, options)


def group_norm(shape: tuple[int, ...], groups: int, *, weight: bool = True, bias: bool = True) -> Several:
    parameters = [random(shape[1], seed=seed) if given else None for seed, given in ((2, weight), (3, bias))]
    outputs, tensors = ("grad_input", "grad_gamma", "grad_beta"), ("input", "weight", "bias")
    values = (random(*shape), *parameters)
    return Several("group_norm", "group_norm_backward", outputs, tensors, values, {"num_groups": groups})


def batch_norm(shape: tuple[int, ...], *, training: bool, statistics: bool = True, **affine: bool) -> Several:
    channels = shape[1]
    running = (random(channels, seed=5), random(channels, seed=6).square() + 0.5) if statistics else (None, None)
    parameters = [random(channels, seed=7) if affine.get(each, True) else None for each in ("weight", "bias")]
    options = {"running_mean": running[0], "running_var": running[1], "training": training, "momentum": 0.3}
    outputs, tensors = ("grad_input", "grad_weight", "grad_bias"), ("input", "weight", "bias")
    return Several("batch_norm", "batch_norm_backward", outputs, tensors, (random(*shape), *parameters), options)


def grid_sample(
    mode: str = "bilinear", padding_mode: str = "zeros", *, align_corners: bool = False, seed: int = 4, axes: int = 2
) -> Several:
    grid = torch.rand(2, *(2, 4, 3)[-axes:], axes, generator=torch.Generator().manual_seed(seed)) * 2.6 - 1.3
    options = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    outputs = ("input_grad", "grid_grad")
    values = (random(2, 3, *(4, 5, 6)[-axes:]), grid)
    return Several("grid_sample", f"grid_sampler{axes}d_backward", outputs, ("input", "grid"), values, options)


SEVERAL = (
    layer_norm((2, 3, 5)),
    layer_norm((4, 3, 5), 2),
    layer_norm((6,), weight=False, bias=False),
    layer_norm((2, 7), bias=False),
    layer_norm((2, 7), weight=False),
    layer_norm((0, 3, 5)),
    rms_norm((2, 3, 5)),
    rms_norm((4, 3, 5), 2, eps=1e-3),
    rms_norm((6,), weight=False),
    group_norm((2, 6, 4, 5), 3),
    group_norm((3, 4), 2, weight=False, bias=False),
    group_norm((2, 4, 7), 1, bias=False),
    batch_norm((4, 3), training=True),
    batch_norm((4, 3, 5), training=False),
    batch_norm((2, 3, 4, 5), training=True, weight=False, bias=False),
    batch_norm((2, 3, 4, 5), training=False, bias=False),
    batch_norm((2, 3, 4, 5), training=True, statistics=False),
    batch_norm((2, 3, 2, 3, 2), training=True, weight=False),
    batch_norm((0, 3, 4), training=True),
    grid_sample(),
    grid_sample(align_corners=True),
    grid_sample("nearest", "border"),
    grid_sample(padding_mode="border"),
    grid_sample(padding_mode="reflection"),
    grid_sample("nearest", "reflection", align_corners=True),
    grid_sample(axes=3),
    grid_sample("nearest", "border", axes=3),
    grid_sample(padding_mode="reflection", align_corners=True, axes=3),
)
