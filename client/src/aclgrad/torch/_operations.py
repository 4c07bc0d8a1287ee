"""The functions that PyTorch computes here and a server differentiates: one row for each.

A row is registered as `torch.ops.aclgrad.NAME`, which torch.compile does not look into. The forward pass runs on the
tensors' own device, and the fake kernel on fake tensors. It refuses what the server's product could not differentiate.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor

from aclgrad._client.served import REFUSALS, served_by
from aclgrad.errors import AclgradError
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import OperatorSpec
from aclgrad.torch import _formulas
from aclgrad.torch._account import Place, layer_of
from aclgrad.torch._batch_norm import batch_norm, batch_norm_shapes, dtype_of_statistics, sent_statistics
from aclgrad.torch._blocks import note_remote
from aclgrad.torch._clients import client_of
from aclgrad.torch._folding import (
    Fold,
    call_each,
    fold_elements,
    fold_into_batch,
    fold_into_channels,
    fold_into_leading_axes,
    fold_into_rows,
)
from aclgrad.torch._group_norm import group_norm, group_norm_shapes, group_norm_sizes, sent_groups
from aclgrad.torch._roi_align import roi_align, roi_align_shape
from aclgrad.torch._tensors import type_of

aten: Final = torch.ops.aten
Known = Mapping[str, Any]


def _nothing(arguments: Known, output: Any) -> dict[str, Any]:
    return {}


def _input(arguments: Known) -> tuple[str, ...]:
    return ("input",)


def _known(
    names: tuple[str, ...], defaults: Known, more: Callable[[Known, Any], dict[str, Any]]
) -> Callable[[Sequence[Any], Any], dict[str, Any]]:
    # Without the row: torch.compile cannot trace a function that holds one.
    def known(values: Sequence[Any], output: Any) -> dict[str, Any]:
        arguments = dict(zip(names, values, strict=False))
        return {**defaults, **arguments, **more(arguments, output)}

    return known


@dataclass(frozen=True, slots=True)
class Operation:
    """A differentiable function of the arguments that the operator's outputs are gradients of.

    The operator's inputs and attributes are taken by name from the arguments, and from the result of `more`, which
    derives values from arguments and output. The others have their defaults. `saved` names the tensors that PyTorch's
    own function saves, in its order: where a checkpoint computes it again without a block, it finds the same ones.
    `sent` returns what becomes of them for the operator, and `fold` makes one call of many for vmap.
    A linear function is the backward pass of its own backward pass: `sizes` returns what its arguments lack among the
    operator's, given the shape of the gradient of the output. For another one `again` is that pass, of the gradient of
    the input, the indices and the client. One that is not linear either (`is_linear`) has a second
    derivative if `local` is PyTorch's own gradient of it, which is differentiated for that. `function` is the name that
    a user calls.
    """

    name: str
    operator: str
    parameters: str
    forward: Callable[..., Any]
    fake: Callable[..., Any] | None = None
    more: Callable[[Known, Any], dict[str, Any]] = _nothing
    saved: Callable[[Known], tuple[str, ...]] = _input
    sizes: Callable[[Sequence[int]], dict[str, Any]] = lambda _: {}
    again: Callable[..., Tensor] | None = None
    is_linear: bool = True
    local: Callable[..., Tensor] | None = None
    sent: Callable[[dict[str, Any]], dict[str, Any]] = lambda known: known
    fold: Fold = fold_into_batch
    returns: str = "Tensor"
    function: str = ""
    spec: OperatorSpec = field(init=False)
    names: tuple[str, ...] = field(init=False)
    """The arguments' names, without the client."""
    targets: tuple[int, ...] = field(init=False)
    """The places of the arguments that the operator's outputs are gradients of."""
    known: Callable[[Sequence[Any], Any], dict[str, Any]] = field(init=False)
    """Returns arguments, derived values and defaults by name, from the values of a call and its output."""

    def __post_init__(self) -> None:
        names = tuple(each.split()[-1] for each in self.parameters.split(", "))
        spec = OPERATORS[self.operator]
        object.__setattr__(self, "function", self.function or self.name)
        object.__setattr__(self, "spec", spec)
        object.__setattr__(self, "names", names)
        of = ("input" if each.of == "self" else each.of for each in spec.outputs)
        object.__setattr__(self, "targets", tuple(map(names.index, of)))
        object.__setattr__(self, "known", _known(names, spec.defaults, self.more))


def _adaptive_avg_pool(axes: int) -> Operation:
    name = f"adaptive_avg_pool{axes}d"
    return Operation(
        name,
        f"{name}_backward",
        "Tensor input, SymInt[] output_size",
        getattr(aten, name),
        # PyTorch takes a mean for one window.
        saved=lambda arguments: () if all(each == 1 for each in arguments["output_size"]) else ("input",),
        sizes=lambda pooled: {"output_size": list(pooled[-axes:])},
    )


def _max_unpool(axes: int, parameters: str) -> Operation:
    name = f"max_unpool{axes}d"
    return Operation(name, f"{name}_backward", parameters, getattr(aten, name), saved=lambda _: ("indices",))


def _pad(rule: str, axes: int) -> Operation:
    name = f"{rule}_pad{axes}d"
    parameters = "Tensor input, SymInt[] padding"
    return Operation(name, f"{name}_backward", parameters, getattr(aten, name), function="pad")


def _elementwise(name: str, parameters: str = "", **options: Any) -> Operation:
    options = {"operator": f"{name}_backward", "forward": getattr(aten, name), **options}
    options.setdefault("local", getattr(aten, options["operator"], None))
    return Operation(name, parameters=f"Tensor input{parameters}", is_linear=False, fold=fold_elements, **options)


def _softmax(name: str) -> Operation:
    """The axis counts from the last, so that those which vmap adds in front change nothing."""
    forward = getattr(aten, f"_{name}")
    return Operation(
        name,
        f"{name}_backward",
        "Tensor input, int dim",
        lambda input, dim: forward(input, dim, False),
        more=lambda _, output: {"output": output},
        saved=lambda _: ("output",),
        is_linear=False,
        fold=fold_into_leading_axes,
    )


def _at_indices(grad_input: Tensor, indices: Tensor, client: int) -> Tensor:
    """Returns the elements that are the maxima, shape of `indices`."""
    # Not by flatten, which autograd's own vmap cannot do.
    planes, places = (each.reshape(*each.shape[:-2], each.shape[-2:].numel()) for each in (grad_input, indices))
    return planes.gather(-1, places).reshape(indices.shape)


_RMS_NORM: Final = "_fused_rms_norm"


def _fused_rms_norm(input: Tensor, normalized_shape: Sequence[int], gamma: Tensor, eps: float | None) -> Any:
    """Returns the result and 1 / sqrt(mean square + eps); the operator wants the latter in float32."""
    normalised, rstd = getattr(aten, _RMS_NORM)(input, normalized_shape, gamma, eps)
    return normalised, rstd.float()


def _layer_norm_shapes(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, *_: object
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns empty tensors of the types of the results, which PyTorch's own rules for fake tensors get wrong."""
    rows = (*input.shape[: -len(normalized_shape)], *(1 for _ in normalized_shape))
    dtype = dtype_of_statistics(input, weight, bias)
    mean, rstd = (input.new_empty(rows, dtype=dtype) for _ in range(2))
    return torch.empty_like(input, memory_format=torch.contiguous_format), mean, rstd


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

_OF_OUTPUT: Final[Known] = {"more": lambda _, output: {"output": output}, "saved": lambda _: ("output",)}

_ROWS: Final = (
    *(_adaptive_avg_pool(axes) for axes in (2, 3)),
    Operation(
        "avg_pool2d",
        "avg_pool2d_backward",
        f"{_WINDOW}, bool ceil_mode, bool count_include_pad, SymInt divisor_override",
        lambda *arguments: aten.avg_pool2d(*arguments[:-1], arguments[-1] or None),
    ),
    Operation(
        "max_pool2d",
        "max_pool2d_with_mask_backward",
        f"{_WINDOW}, SymInt[] dilation, bool ceil_mode",
        aten.max_pool2d_with_indices,
        more=lambda _, output: {"indices": output[1]},
        saved=lambda _: ("input", "indices"),
        again=_at_indices,
        returns="(Tensor, Tensor)",
    ),
    _max_unpool(2, _UNPOOL),
    _max_unpool(3, f"{_UNPOOL}, SymInt[] stride, SymInt[] padding"),
    Operation(
        "upsample_nearest2d",
        "upsample_nearest2d_backward",
        "Tensor input, SymInt[] output_size, float scales_h, float scales_w",
        lambda input, size, *scales: aten.upsample_nearest2d(input, size, *(each or None for each in scales)),
        more=lambda arguments, _: {"input_size": arguments["input"].shape},
        saved=lambda _: (),
        function="interpolate",
    ),
    Operation(
        "roi_align",
        "roi_align_v2_backward",
        _ROI_ALIGN,
        roi_align,
        roi_align_shape,
        more=lambda arguments, _: {"input_shape": arguments["input"].shape},
        saved=lambda _: ("boxes",),
    ),
    *(_pad(rule, axes) for rule in ("replication", "reflection") for axes in (1, 2, 3)),
    _softmax("softmax"),
    _softmax("log_softmax"),
    Operation(
        "embedding",
        "embedding_dense_backward",
        "Tensor input, Tensor indices, int padding_idx, bool scale_grad_by_freq",
        aten.embedding,
        more=lambda arguments, _: {"num_weights": arguments["input"].shape[0]},
        saved=lambda _: ("indices",),
        is_linear=False,
        fold=call_each,
    ),
    Operation(
        "layer_norm",
        "layer_norm_backward",
        "Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps",
        aten.native_layer_norm,
        _layer_norm_shapes,
        more=lambda _, output: {"mean": output[1], "rstd": output[2]},
        saved=lambda _: ("bias", "input", "weight", "mean", "rstd"),
        is_linear=False,
        fold=fold_into_rows,
        returns="(Tensor, Tensor, Tensor)",
    ),
    Operation(
        "rms_norm",
        "rms_norm_grad",
        "Tensor input, SymInt[] normalized_shape, Tensor gamma, float? eps",
        _fused_rms_norm,
        more=lambda _, output: {"rstd": output[1]},
        saved=lambda _: ("input", "gamma", "rstd"),
        is_linear=False,
        fold=fold_into_rows,
        returns="(Tensor, Tensor)",
    ),
    Operation(
        "group_norm",
        "group_norm_backward",
        "Tensor input, int num_groups, Tensor? gamma, Tensor? bias, float eps",
        group_norm,
        group_norm_shapes,
        more=group_norm_sizes,
        saved=lambda _: ("input", "gamma", "mean", "rstd"),
        sent=sent_groups,
        is_linear=False,
        fold=call_each,
        returns="(Tensor, Tensor, Tensor)",
    ),
    Operation(
        "batch_norm",
        "batch_norm_backward",
        _BATCH_NORM,
        batch_norm,
        batch_norm_shapes,
        more=lambda _, output: {"save_mean": output[1], "save_invstd": output[2]},
        saved=lambda _: ("input", "running_mean", "running_var", "weight", "save_mean", "save_invstd"),
        sent=sent_statistics,
        is_linear=False,
        fold=fold_into_channels,
        returns="(Tensor, Tensor, Tensor, Tensor, Tensor)",
    ),
    Operation(
        "grid_sampler_2d",
        "grid_sampler2d_backward",
        "Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners",
        aten.grid_sampler_2d,
        saved=lambda _: ("grid", "input"),
        is_linear=False,
        function="grid_sample",
    ),
    _elementwise(
        "gelu", ", str approximate", operator="gelu_backward_v2", forward=_formulas.gelu, local=_formulas.gelu_backward
    ),
    _elementwise("hardswish"),
    _elementwise("leaky_relu", ", float negative_slope"),
    _elementwise(
        "relu",
        operator="threshold_backward",
        # PyTorch, too, keeps the result alone.
        more=lambda _, output: {"input": output, "threshold": 0.0},
    ),
    _elementwise("sigmoid", **_OF_OUTPUT),
    _elementwise("silu", local=_formulas.silu_backward),
    Operation(
        "swiglu",
        "swi_glu_grad",
        "Tensor x, int dim",
        _formulas.swiglu,
        saved=lambda _: ("x",),
        is_linear=False,
        local=_formulas.swiglu_backward,
        fold=fold_elements,
    ),
    _elementwise("tanh", **_OF_OUTPUT),
    _elementwise("threshold", ", float threshold, float value"),
)
OPERATIONS: Final = {row.name: row for row in _ROWS}


def _without_autocast(device: str) -> AbstractContextManager[Any]:
    """Keeps the output in the input's dtype: autocast would make some float32, and the operators want equal dtypes."""
    is_on = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    return torch.autocast(device, enabled=False) if is_on else nullcontext()


def _check(row: Operation, values: Sequence[Any], output: Any) -> None:
    """Raises InvalidFieldError or OperatorNotSupportedError for a backward pass that the server would refuse."""
    spec, known, name = row.spec, row.sent(row.known(values, output)), row.operator
    inputs = {each.name: known[each.python_name] for each in spec.inputs[1:] if known[each.python_name] is not None}
    inputs = {spec.inputs[0].name: output[0] if isinstance(output, tuple) else output, **inputs}
    attributes = {each.name: known[each.name] for each in spec.attributes}
    attributes = {name: tuple(value) if isinstance(value, list) else value for name, value in attributes.items()}
    try:
        served = served_by(client_of(values[-1]))
        name = served.operator(name)
        served.check(name, {each: type_of(tensor) for each, tensor in inputs.items()}, attributes)
    except AclgradError as error:
        error.operator = name
        if not isinstance(error, REFUSALS):
            place = Place(row.function, layer_of(sys._getframe(1)), None)  # noqa: SLF001
            error.message = f"{place}: {error.message}"
        raise


def _registered(row: Operation) -> Any:
    def forward(*values: Any) -> Any:
        with _without_autocast(values[0].device.type):
            output = row.forward(*values[:-1])
        _check(row, values, output)
        note_remote(row.function, values[-1])
        return output

    def infer(*values: Any) -> Any:
        with _without_autocast(values[0].device.type):
            return (row.fake or row.forward)(*values[:-1])

    schema = f"({row.parameters}, SymInt client) -> {row.returns}"
    torch.library.custom_op(f"aclgrad::{row.name}", forward, mutates_args=(), schema=schema).register_fake(infer)
    return getattr(torch.ops.aclgrad, row.name).default


FORWARD: Final = {name: _registered(row) for name, row in OPERATIONS.items()}
"""The operators of PyTorch by the names of their rows."""
