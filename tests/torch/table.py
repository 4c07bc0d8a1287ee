"""The table of the bridges' tests: calls of PyTorch's functions, and the operators that differentiate them.

PyTorch's own function on the CPU says what is right. Most rows are a shape and options; special arguments stand before.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

OF_MODELS = {"RemoteStep", "compare_backward", "compare_step", "remote_backward", "remote_step"}
"""What takes models and blocks, and no tensors."""
HALVES = {torch.float16: 4e-3, torch.bfloat16: 3e-2}
"""How far a sum that PyTorch rounds after every addition may be from one that is rounded once."""


@dataclass(frozen=True)
class Call:
    """A function by name, the tensors that it is differentiated by, its other arguments, the operator and its outputs.

    `args` follow the first tensor; all others go by name. A tensor that is None is left out.
    """

    function: str
    operator: str
    values: tuple[Tensor | None, ...]
    args: tuple[Any, ...]
    options: dict[str, Any]
    tensors: tuple[str, ...] = ("input",)
    outputs: tuple[str, ...] = ()
    """The operator's, if it has several."""

    def __str__(self) -> str:
        shapes = [tuple(each.shape) if each is not None else None for each in self.values]
        given = ["..." if isinstance(each, Tensor) else str(each) for each in self.args]
        given += [f"{name}={'...' if isinstance(each, Tensor) else each}" for name, each in self.options.items()]
        return f"{self.function}({', '.join([*map(str, shapes), *given])})"

    @property
    def input(self) -> Tensor:
        return self.values[0]

    def in_dtype(self, dtype: torch.dtype) -> "Call":
        """Returns the call with tensors of the dtype among its options, too."""
        options = {name: each.to(dtype) if _is_float(each) else each for name, each in self.options.items()}
        return replace(
            self, values=tuple(None if each is None else each.to(dtype) for each in self.values), options=options
        )

    def leaves(self, needed: Sequence[bool] = (True, True, True)) -> list[Any]:
        """Returns copies of the tensors, of which the needed ones require grad."""
        pairs = zip(self.values, needed, strict=False)
        return [None if each is None else each.clone().requires_grad_(is_needed) for each, is_needed in pairs]

    def bound(self, function: Callable[..., Tensor] | None = None, **more: Any) -> Callable[..., Tensor]:
        """Returns the function of the tensors alone, by default PyTorch's."""
        called = function or LOCAL.get(self.function) or getattr(functional, self.function)
        # A function may overwrite its running statistics.
        copied = {name: each.clone() if isinstance(each, Tensor) else each for name, each in self.options.items()}

        def of_tensors(*tensors: Tensor) -> Tensor:
            if self.args:
                return called(tensors[0], *self.args, **copied, **more)
            return called(**dict(zip(self.tensors, tensors, strict=True)), **copied, **more)

        return of_tensors

    def gradients(self, leaves: Sequence[Any], function: Callable[..., Tensor] | None = None) -> list[Tensor | None]:
        """Returns the output and the gradients, for a gradient of the output that is not uniform."""
        return gradients(self.bound(function), leaves)


def gradients(function: Callable[..., Tensor], leaves: Sequence[Any]) -> list[Tensor | None]:
    output = function(*leaves)
    output.backward(grad_output_of(output))
    return [output.detach(), *[None if each is None else each.grad for each in leaves]]


def grad_output_of(output: Tensor) -> Tensor:
    return torch.linspace(-1, 2, output.numel(), dtype=torch.float64).reshape(output.shape).to(output.dtype)


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def random(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def call(function: str, operator: str, shape: tuple[int, ...], *args: Any, **options: Any) -> Call:
    return Call(function, operator, (random(*shape, seed=5),), args, options)


def _named(name: str) -> Callable[..., Call]:
    """Returns what makes calls of a function whose operator is named after it."""
    return partial(call, name, f"{name}_backward")


def _places(cells: int, *shape: int) -> Tensor:
    """Returns indices of different cells for each plane."""
    order = torch.rand(*shape[:2], cells, generator=torch.Generator().manual_seed(6)).argsort()
    return order[..., : torch.Size(shape[2:]).numel()].reshape(shape)


def layer_norm(shape: tuple[int, ...], axes: int = 1, *, weight: bool = True, bias: bool = True) -> Call:
    sizes = shape[-axes:]
    values = random(*shape), random(*sizes, seed=2) if weight else None, random(*sizes, seed=3) if bias else None
    outputs = ("grad_input", "grad_weight", "grad_bias")
    return Call("layer_norm", "layer_norm_backward", values, (), {"normalized_shape": sizes}, _AFFINE, outputs)


def rms_norm(shape: tuple[int, ...], axes: int = 1, *, weight: bool = True, eps: float | None = None) -> Call:
    sizes = shape[-axes:]
    values, options = (
        (random(*shape), random(*sizes, seed=2) if weight else None),
        {"normalized_shape": sizes, "eps": eps},
    )
    return Call("rms_norm", "rms_norm_grad", values, (), options, _AFFINE[:2], ("dx", "dgamma"))


def attention(shape: tuple[int, ...], operator: str = "flash_attention_score_grad", **options: Any) -> Call:
    values = tuple(random(*shape, seed=seed) for seed in (1, 2, 3))
    name, tensors = "scaled_dot_product_attention", ("query", "key", "value")
    return Call(name, operator, values, (), options, tensors, ("dq", "dk", "dv"))


def group_norm(shape: tuple[int, ...], groups: int, *, weight: bool = True, bias: bool = True) -> Call:
    parameters = [random(shape[1], seed=seed) if given else None for seed, given in ((2, weight), (3, bias))]
    values, outputs = (random(*shape), *parameters), ("grad_input", "grad_gamma", "grad_beta")
    return Call("group_norm", "group_norm_backward", values, (), {"num_groups": groups}, _AFFINE, outputs)


def batch_norm(shape: tuple[int, ...], *, training: bool, statistics: bool = True, **affine: bool) -> Call:
    channels = shape[1]
    running = (random(channels, seed=5), random(channels, seed=6).square() + 0.5) if statistics else (None, None)
    parameters = [random(channels, seed=7) if affine.get(each, True) else None for each in ("weight", "bias")]
    options = {"running_mean": running[0], "running_var": running[1], "training": training, "momentum": 0.3}
    outputs = ("grad_input", "grad_weight", "grad_bias")
    return Call("batch_norm", "batch_norm_backward", (random(*shape), *parameters), (), options, _AFFINE, outputs)


def grid_sample(
    mode: str = "bilinear", padding_mode: str = "zeros", *, align_corners: bool = False, seed: int = 4, axes: int = 2
) -> Call:
    grid = torch.rand(2, *(2, 4, 3)[-axes:], axes, generator=torch.Generator().manual_seed(seed)) * 2.6 - 1.3
    options = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    values = (random(2, 3, *(4, 5, 6)[-axes:]), grid)
    outputs = ("input_grad", "grid_grad")
    return Call("grid_sample", f"grid_sampler{axes}d_backward", values, (), options, ("input", "grid"), outputs)


def embedding(indices: Tensor, **options: Any) -> Call:
    return Call(
        "embedding", "embedding_dense_backward", (random(4, 5),), (), {"input": indices, **options}, ("weight",)
    )


def swiglu(shape: tuple[int, ...], dim: int) -> Call:
    return Call("swiglu", "swi_glu_grad", (random(*shape, seed=4),), (), {"dim": dim}, ("x",))


def _local_swiglu(x: Tensor, dim: int) -> Tensor:
    a, b = x.chunk(2, dim)
    return functional.silu(a) * b


LOCAL: dict[str, Callable[..., Tensor]] = {"swiglu": _local_swiglu}
"""What PyTorch computes for a function that it has not; a block never sees it."""
_AFFINE = ("input", "weight", "bias")
_INDICES = torch.tensor([[1, 0, 3], [1, 2, 1]])
_pool, _deep_pool, _avg_pool = map(_named, ("adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool2d"))
_max_pool = partial(call, "max_pool2d", "max_pool2d_with_mask_backward")
_flat_unpool = partial(_named("max_unpool2d"), (2, 3, 3, 2), _places(6 * 4, 2, 3, 3, 2))
_unpool = partial(_named("max_unpool3d"), (2, 3, 2, 3, 2), _places(4 * 6 * 4, 2, 3, 2, 3, 2))
_upsample = partial(call, "interpolate", "upsample_nearest2d_backward", (2, 3, 5, 4))
LINEAR = (
    _pool((2, 3, 8, 9), (3, 4)),
    _pool((2, 3, 8, 9), 1),
    _pool((3, 8, 9), (None, 5)),
    _deep_pool((2, 3, 4, 8, 9), 2),
    _deep_pool((3, 4, 8, 9), (1, None, 5)),
    _avg_pool((2, 3, 8, 9), 2),
    _avg_pool((2, 3, 8, 9), (3, 2), stride=(2, 1), padding=1, ceil_mode=True, count_include_pad=False),
    _avg_pool((3, 8, 9), np.int64(3), np.int32(2), divisor_override=5),
    _max_pool((2, 3, 8, 9), 2),
    _max_pool((2, 3, 8, 9), (3, 2), stride=(2, 1), padding=1),
    _max_pool((3, 9, 8), [3], [2], ceil_mode=True),
    _flat_unpool(2),
    _flat_unpool((2, 2), stride=2, output_size=(6, 4)),
    _unpool(2),
    _unpool((2, 2, 2), stride=2, output_size=(2, 3, 4, 6, 4)),
    call("pad", "replication_pad1d_backward", (2, 3, 4), (1, 2), mode="replicate"),
    call("pad", "replication_pad2d_backward", (2, 3, 4, 5), (1, 2, 3, 4), mode="replicate"),
    call("pad", "replication_pad2d_backward", (3, 4, 5), [2, 0, 0, 1], "replicate"),
    call("pad", "replication_pad3d_backward", (2, 3, 2, 4, 5), (1, 2, 0, 1, 2, 2), mode="replicate"),
    call("pad", "reflection_pad1d_backward", (3, 4), (3, 2), mode="reflect"),
    call("pad", "reflection_pad2d_backward", (2, 3, 4, 5), (1, 2, 3, 3), mode="reflect"),
    call("pad", "reflection_pad3d_backward", (3, 3, 4, 5), (1, 2, 0, 1, 2, 2), mode="reflect"),
    _upsample(scale_factor=2),
    _upsample(size=(7, 3)),
    _upsample(scale_factor=(3.0, 1.5), mode="nearest"),
    _upsample(scale_factor=1.3, recompute_scale_factor=True),
)
ACTIVATIONS = (
    call("gelu", "gelu_backward_v2", (2, 3, 5)),
    call("gelu", "gelu_backward_v2", (4,), approximate="tanh"),
    call("relu", "threshold_backward", (2, 3, 5)),
    _named("threshold")((2, 3, 5), 0.2, -1.0),
    _named("hardswish")((3, 7)),
    _named("leaky_relu")((2, 3, 5)),
    _named("leaky_relu")((4,), 0.3),
    _named("sigmoid")((2, 3, 5)),
    _named("silu")((2, 3, 5)),
    *(_named("silu")(shape) for shape in ((), (0,), (2, 0), (1,) * 8, (2,) * 8)),
    _named("tanh")((2, 3, 5)),
    swiglu((2, 6), -1),
    swiglu((4, 3, 5), 0),
    swiglu((2, 3, 4, 2), -2),
    swiglu((2,) * 8, 0),
)
ROWS_AND_INDICES = (
    *(
        _named(name)(shape, dim=dim)
        for name in ("softmax", "log_softmax")
        for shape, dim in (
            ((2, 3, 4), -2),
            ((3, 5), 0),
            ((7,), -1),
            ((), 0),
            ((2, 1, 3, 1, 2, 1, 2, 2), 2),
            ((0, 3), 1),
        )
    ),
    *(_named(name)((4, 9), 1, dtype=torch.float32) for name in ("softmax", "log_softmax")),
    embedding(_INDICES),
    embedding(_INDICES.int(), padding_idx=1),
    embedding(_INDICES[0, 0:1], padding_idx=-4),
    embedding(_INDICES, scale_grad_by_freq=True),
    embedding(_INDICES[:0]),
)
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
    batch_norm((2, 3, 4), training=True, statistics=False),
    batch_norm((4, 3), training=True),
    batch_norm((4, 3, 5), training=False),
    batch_norm((2, 3, 4, 5), training=True, weight=False, bias=False),
    batch_norm((2, 3, 4, 5), training=False, bias=False),
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
    attention((2, 3, 4, 8)),
    attention((2, 3, 4, 8), attn_mask=torch.ones(4, 4, dtype=torch.bool).tril()),
    attention((1, 2, 5, 3), "flash_attention_score_grad_v2", attn_mask=random(2, 5, 5, seed=7)[None], scale=0.3),
)
"""Functions with gradients of several arguments."""
CALLS = (*LINEAR, *ACTIVATIONS, *ROWS_AND_INDICES, *SEVERAL)
FIRST = tuple({each.function: each for each in reversed(CALLS)}.values())
"""The first row of each function."""
STAY_LOCAL = (
    call("max_pool2d", "", (2, 3, 8, 9), 2, dilation=2),
    call("pad", "", (2, 3, 4, 5), (1, 2, 3, 4)),
    call("pad", "", (2, 3, 4, 5), (1, 2, 3, 4), mode="circular"),
    call("interpolate", "", (2, 3, 5, 4), scale_factor=1.3),
    call("interpolate", "", (2, 3, 5), scale_factor=2),
    call("interpolate", "", (2, 3, 5, 4, 3), scale_factor=2),
    call("interpolate", "", (2, 3, 5, 4), scale_factor=2, mode="nearest-exact"),
    call("interpolate", "", (2, 3, 5, 4), scale_factor=2, mode="area"),
    call("interpolate", "", (2, 3, 5, 4), scale_factor=2, mode="bilinear", antialias=True),
    grid_sample("bicubic"),
    embedding(_INDICES, max_norm=1.0),
    embedding(_INDICES, sparse=True),
)
"""Calls whose gradient no operator computes."""
CALLS_OF_VMAP = {
    ("layer_norm", (0,), (0, None, None)): 1,
    ("layer_norm", (0,), (1, 0, None)): 3,
    ("layer_norm", (0, 1, 2), (0, None, None)): 3,
    ("layer_norm", (1, 2), (None, 0, 0)): 3,
    ("batch_norm", (0,), (0, None, None)): 1,
    ("batch_norm", (0, 1, 2), (0, None, None)): 1,
    ("batch_norm", (0, 1, 2), (1, 0, 0)): 1,
    ("batch_norm", (1,), (None, 0, None)): 1,
    ("group_norm", (0, 1, 2), (0, None, None)): 3,
    ("group_norm", (0,), (1, 0, 0)): 3,
    ("rms_norm", (0,), (0, None)): 1,
    ("rms_norm", (0, 1), (0, None)): 3,
    ("rms_norm", (0,), (1, 0)): 3,
    ("scaled_dot_product_attention", (0, 1, 2), (0, 0, 0)): 1,
    ("scaled_dot_product_attention", (0, 2), (1, None, None)): 1,
    ("grid_sample", (0, 1), (0, 0)): 1,
    ("grid_sample", (0, 1), (0, None)): 1,
    ("grid_sample", (1,), (None, 0)): 1,
}
"""How many calls vmap of three elements makes, by function, what it is differentiated by, and the mapped axes.

Gradients of parameters are sums over a call, and parameters of layer_norm are one for each.
"""
