"""PyTorch's side of the bridges' rows: the forward pass, its schema, and what it saves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from aclgrad.bridges.rows import ROWS, Known, Row
from aclgrad.torch import _convolution_backward as convolutions
from aclgrad.torch import _normalisation as norms
from aclgrad.torch._roi_align import roi_align, roi_align_shape

aten: Final = torch.ops.aten


def cast(tensor: Tensor, dtype: Any) -> Tensor:
    return tensor.to(getattr(torch, dtype) if isinstance(dtype, str) else dtype)


def without_batch(function: Callable[..., Any], most: int) -> Callable[..., Any]:
    """Returns the function of tensors that have an empty batch; inputs with a batch have `most` axes."""

    def call(input: Tensor, *rest: Any) -> Any:
        first = int(input.dim() == most)
        return function(
            *[each.new_empty((0, *each.shape[first:])) if isinstance(each, Tensor) else each for each in (input, *rest)]
        )

    return call


def _unset(*_: Any) -> None: ...


Joined = Callable[[Sequence[Any]], list[Tensor | None]]


class Derivative(NamedTuple):
    """How an operator's gradients have gradients, by calls of the operator: as `gradients_again` of convolutions."""

    gradients: Callable[[Known, Sequence[Tensor | None], Sequence[bool]], tuple[list[Known], Joined]]
    flops: Callable[[Known, Sequence[bool]], int]


@dataclass(frozen=True, slots=True)
class Operation:
    """How PyTorch computes the row of this name: a forward pass of the `parameters`, and its kernel for fake tensors.

    `saved` names the tensors that PyTorch's own function saves, in its order: where a checkpoint computes it again
    without a block, it finds the same ones. `cast_by` is PyTorch's function that autocast may cast arguments for; it
    takes those of `forward`, and computes next to nothing. By default it is `forward` of an empty batch.
    The backward pass of a linear function's backward pass is the function: `sizes` returns what its arguments lack
    among the operator's, given the shape of the gradient of the output. If it is not, `again` is that pass, of the
    gradient of the input, the indices and the client. A function that is not linear has a second derivative if `local`
    is PyTorch's own gradient of it, which is differentiated for that, or if there is a `derivative` that calls the
    operator again. `flops` counts the operations of the gradients of the arguments that need them.
    """

    name: str
    parameters: str
    forward: Callable[..., Any]
    fake: Callable[..., Any] | None = None
    saved: Callable[[Known], tuple[str, ...]] = lambda arguments: ("input",)
    sizes: Callable[[Sequence[int]], dict[str, Any]] = lambda _: {}
    again: Callable[..., Tensor] | None = None
    local: Callable[..., Tensor] | None = None
    derivative: Derivative | None = None
    flops: Callable[[Known, Tensor, Sequence[bool]], int] | None = None
    returns: str = "Tensor"
    cast_by: Callable[..., Any] = _unset
    row: Row = field(init=False)
    names: tuple[str, ...] = field(init=False)
    """The arguments' names, without the client."""
    targets: tuple[int, ...] = field(init=False)
    """The places of the arguments that the operator's outputs are gradients of."""

    def __post_init__(self) -> None:
        row = ROWS[self.name]
        names = tuple(each.split()[-1] for each in self.parameters.split(", "))
        is_set = self.cast_by is not _unset
        cast_by = self.cast_by if is_set else without_batch(self.forward, max(row.spec.leading_input.ranks))
        derived = {"row": row, "names": names, "targets": tuple(map(names.index, row.targets)), "cast_by": cast_by}
        for name, value in derived.items():
            object.__setattr__(self, name, value)


def _adaptive_avg_pool(axes: int) -> Operation:
    name = f"adaptive_avg_pool{axes}d"
    return Operation(
        name,
        "Tensor input, SymInt[] output_size",
        getattr(aten, name),
        # PyTorch takes a mean for one window.
        saved=lambda arguments: () if all(each == 1 for each in arguments["output_size"]) else ("input",),
        sizes=lambda pooled: {"output_size": list(pooled[-axes:])},
    )


def _at_indices(grad_input: Tensor, indices: Tensor, client: int) -> Tensor:
    """Returns the elements that are the maxima, shape of `indices`."""
    # Not by flatten, which autograd's own vmap cannot do.
    planes, cells = (each.reshape(*each.shape[:-2], each.shape[-2:].numel()) for each in (grad_input, indices))
    return planes.gather(-1, cells).reshape(indices.shape)


def _gelu(input: Tensor, approximate: str) -> Tensor:
    result: Tensor = aten.gelu(input, approximate=approximate)
    return result


def _gelu_backward(grad_output: Tensor, input: Tensor, approximate: str) -> Tensor:
    gradient: Tensor = aten.gelu_backward(grad_output, input, approximate=approximate)
    return gradient


def _silu_backward(grad_output: Tensor, input: Tensor) -> Tensor:
    """Is differentiable, unlike PyTorch's own."""
    sigmoid = aten.sigmoid(input)
    gradient: Tensor = grad_output * sigmoid * (1 + input * (1 - sigmoid))
    return gradient


def _swiglu(x: Tensor, dim: int) -> Tensor:
    a, b = aten.chunk(x, 2, dim)
    result: Tensor = aten.silu(a) * b
    return result


def _swiglu_backward(grad_output: Tensor, x: Tensor, dim: int) -> Tensor:
    a, b = aten.chunk(x, 2, dim)
    return torch.cat([_silu_backward(grad_output * b, a), grad_output * aten.silu(a)], dim)


def _convolution(name: str) -> Operation:
    axes, transposed = int(name[-2]), "transpose" in name

    def forward(input: Tensor, weight: Tensor, bias: Tensor | None, *lists: Any) -> Tensor:
        *window, groups = lists
        more = window.pop() if transposed else [0] * axes
        result: Tensor = aten.convolution(input, weight, bias, *window, transposed, more, groups)
        return result

    return Operation(
        name,
        "Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, "
        f"{'SymInt[] output_padding, ' if transposed else ''}SymInt groups",
        forward,
        saved=lambda _: ("input", "weight"),
        derivative=Derivative(convolutions.gradients_again, convolutions.flops_again),
        flops=convolutions.flops,
        # The functions themselves cast, as PyTorch's list has some of them alone.
        cast_by=lambda input, *_: input,
    )


def _elementwise(name: str, parameters: str = "", **options: Any) -> Operation:
    options = {"forward": getattr(aten, name), "local": getattr(aten, ROWS[name].operator, None), **options}
    return Operation(name, f"Tensor input{parameters}", **options)


def _softmax(name: str) -> Operation:
    forward = getattr(aten, f"_{name}")
    return Operation(
        name,
        "Tensor input, int dim",
        lambda input, dim: forward(input, dim, False),
        saved=lambda _: ("output",),
        # The function itself casts: it has the dtype that a user gave.
        cast_by=lambda input, _: input,
    )


_WINDOW: Final = "Tensor input, SymInt[] kernel_size, SymInt[] stride, SymInt[] padding"
_UNPOOL: Final = "Tensor input, Tensor indices, SymInt[] output_size"
_ROI_ALIGN: Final = (
    "Tensor input, Tensor boxes, SymInt pooled_height, SymInt pooled_width, float spatial_scale, "
    "SymInt sampling_ratio, bool aligned"
)
_BATCH_NORM: Final = (
    "Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight, Tensor? bias, bool training, "
    "float momentum, float eps"
)
_OPERATIONS: Final = (
    *(_adaptive_avg_pool(axes) for axes in (2, 3)),
    Operation(
        "avg_pool2d",
        f"{_WINDOW}, bool ceil_mode, bool count_include_pad, SymInt divisor_override",
        lambda *arguments: aten.avg_pool2d(*arguments[:-1], arguments[-1] or None),
    ),
    *(_convolution(name) for name, row in ROWS.items() if row.operator == "convolution_backward"),
    Operation(
        "max_pool2d",
        f"{_WINDOW}, SymInt[] dilation, bool ceil_mode",
        aten.max_pool2d_with_indices,
        saved=lambda _: ("input", "indices"),
        again=_at_indices,
        returns="(Tensor, Tensor)",
    ),
    Operation("max_unpool2d", _UNPOOL, aten.max_unpool2d, saved=lambda _: ("indices",)),
    Operation(
        "max_unpool3d",
        f"{_UNPOOL}, SymInt[] stride, SymInt[] padding",
        aten.max_unpool3d,
        saved=lambda _: ("indices",),
    ),
    *(
        Operation(name, "Tensor input, SymInt[] padding", getattr(aten, name))
        for name, row in ROWS.items()
        if row.function == "pad"
    ),
    Operation(
        "upsample_nearest2d",
        "Tensor input, SymInt[] output_size, float scales_h, float scales_w",
        lambda input, size, *scales: aten.upsample_nearest2d(input, size, *(each or None for each in scales)),
        saved=lambda _: (),
        # Not of an empty batch, which PyTorch's fake kernel refuses.
        cast_by=lambda input, *_: aten.upsample_nearest2d(input.new_empty(1, 1, 1, 1), (1, 1)),
    ),
    Operation("roi_align", _ROI_ALIGN, roi_align, roi_align_shape, saved=lambda _: ("boxes",)),
    *(
        Operation(
            f"grid_sampler_{axes}d",
            "Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners",
            getattr(aten, f"grid_sampler_{axes}d"),
            saved=lambda _: ("grid", "input"),
            cast_by=without_batch(aten.grid_sampler, axes + 2),
        )
        for axes in (2, 3)
    ),
    Operation(
        "embedding",
        "Tensor input, Tensor indices, int padding_idx, bool scale_grad_by_freq",
        aten.embedding,
        saved=lambda _: ("indices",),
        cast_by=lambda input, indices, *_: aten.embedding(input.new_empty(1, 1), indices.new_empty(0)),
    ),
    Operation(
        "layer_norm",
        "Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps",
        aten.native_layer_norm,
        norms.layer_norm_shapes,
        saved=lambda _: ("bias", "input", "weight", "mean", "rstd"),
        cast_by=lambda input, _, *rest: torch.layer_norm(input.new_empty(0, 1), (1,), *norms.of_one(*rest[:2])),
        returns="(Tensor, Tensor, Tensor)",
    ),
    Operation(
        "rms_norm",
        "Tensor input, SymInt[] normalized_shape, Tensor gamma, float? eps",
        norms.fused_rms_norm,
        saved=lambda _: ("input", "gamma", "rstd"),
        cast_by=lambda input, *_: torch.rms_norm(input.new_empty(0, 1), (1,)),
        returns="(Tensor, Tensor)",
    ),
    Operation(
        "group_norm",
        "Tensor input, int num_groups, Tensor? gamma, Tensor? bias, float eps",
        norms.group_norm,
        norms.group_norm_shapes,
        saved=lambda _: ("input", "gamma", "mean", "rstd"),
        cast_by=lambda input, _, *rest: torch.group_norm(input.new_empty(0, 1, 1), 1, *norms.of_one(*rest[:2])),
        returns="(Tensor, Tensor, Tensor)",
    ),
    Operation(
        "batch_norm",
        _BATCH_NORM,
        norms.batch_norm,
        norms.batch_norm_shapes,
        saved=lambda _: ("input", "running_mean", "running_var", "weight", "save_mean", "save_invstd"),
        cast_by=lambda input, *rest: torch.batch_norm(
            input.new_empty(2 if input.numel() else 0, 1), *norms.of_one(*rest[2:4]), None, None, True, 0.0, 1.0, False
        ),
        returns="(Tensor, Tensor, Tensor, Tensor, Tensor)",
    ),
    _elementwise("gelu", ", str approximate", forward=_gelu, local=_gelu_backward),
    _elementwise("hardswish"),
    _elementwise("leaky_relu", ", float negative_slope"),
    _elementwise("relu"),
    _elementwise("sigmoid", saved=lambda _: ("output",)),
    _elementwise("silu", local=_silu_backward),
    Operation("swiglu", "Tensor x, int dim", _swiglu, saved=lambda _: ("x",), local=_swiglu_backward),
    _elementwise("tanh", saved=lambda _: ("output",)),
    _elementwise("threshold", ", float threshold, float value"),
    *(_softmax(name) for name in ("softmax", "log_softmax")),
)
OPERATIONS: Final = {each.name: each for each in _OPERATIONS}
