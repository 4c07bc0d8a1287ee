"""The functions that PyTorch computes here and a server differentiates: one row for each.

A row is registered as `torch.ops.aclgrad.NAME`. The forward pass runs on the tensors' own device, and the fake kernel
on fake tensors. The backward pass calls the row's operator.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.torch._gradients import refuse_vmap
from aclgrad.torch._roi_align import roi_align, roi_align_shape

aten: Final = torch.ops.aten


def _nothing(arguments: Mapping[str, Any], output: Any) -> dict[str, Any]:
    return {}


@dataclass(frozen=True, slots=True)
class Operation:
    """A differentiable function of its first argument.

    The operator's inputs and attributes are taken by name from the arguments, and from the result of `more`, which
    derives values from arguments and output. The others have their defaults.
    """

    name: str
    operator: str
    parameters: str
    forward: Callable[..., Any]
    fake: Callable[..., Any] | None = None
    more: Callable[[Mapping[str, Any], Any], dict[str, Any]] = _nothing
    returns: str = "Tensor"


def _adaptive_avg_pool(axes: int) -> Operation:
    name = f"adaptive_avg_pool{axes}d"
    return Operation(name, f"{name}_backward", "Tensor input, SymInt[] output_size", getattr(aten, name))


def _max_unpool(axes: int) -> Operation:
    name = f"max_unpool{axes}d"
    return Operation(
        name,
        f"{name}_backward",
        _UNPOOL,
        getattr(functional, name),
        # The operator has a stride too, and does not use it.
        more=lambda _, output: {"output_size": output.shape[-axes:], "stride": (1,) * axes},
    )


def _pad(rule: str, axes: int) -> Operation:
    name = f"{rule}_pad{axes}d"
    return Operation(name, f"{name}_backward", "Tensor input, SymInt[] padding", getattr(aten, name))


_WINDOW: Final = "Tensor input, SymInt[] kernel_size, SymInt[] stride, SymInt[] padding"
_UNPOOL: Final = (
    "Tensor input, Tensor indices, SymInt[] kernel_size, SymInt[]? stride, SymInt[] padding, SymInt[]? output_size"
)
_ROI_ALIGN: Final = (
    "Tensor input, Tensor boxes, SymInt pooled_height, SymInt pooled_width, float spatial_scale, "
    "SymInt sampling_ratio, bool aligned"
)

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
        returns="(Tensor, Tensor)",
    ),
    *(_max_unpool(axes) for axes in (2, 3)),
    Operation(
        "upsample_nearest2d",
        "upsample_nearest2d_backward",
        "Tensor input, SymInt[] output_size, float scales_h, float scales_w",
        lambda input, size, *scales: aten.upsample_nearest2d(input, size, *(each or None for each in scales)),
        more=lambda arguments, _: {"input_size": arguments["input"].shape},
    ),
    Operation(
        "roi_align",
        "roi_align_v2_backward",
        _ROI_ALIGN,
        roi_align,
        roi_align_shape,
        more=lambda arguments, _: {"input_shape": arguments["input"].shape},
    ),
    *(_pad(rule, axes) for rule in ("replication", "reflection") for axes in (1, 2, 3)),
)
OPERATIONS: Final = {row.name: row for row in _ROWS}


def _without_autocast(device: str) -> AbstractContextManager[Any]:
    """Keeps the output in the input's dtype: autocast would make some float32, and the operators want equal dtypes."""
    is_on = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    return torch.autocast(device, enabled=False) if is_on else nullcontext()


def _register(row: Operation) -> None:
    spec = OPERATORS[row.operator]
    gradient = getattr(torch.ops.aclgrad, row.operator).default
    names = [each.split()[-1] for each in row.parameters.split(", ")]
    # After the gradient of the output, in the order of the operator.
    wanted = [each.python_name for each in spec.inputs[1:]] + [each.name for each in spec.attributes]

    def remember(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        arguments = dict(zip(names, inputs, strict=False))
        known = {**spec.defaults, **arguments, **row.more(arguments, output)}
        values = [known[name] for name in wanted]
        ctx.save_for_backward(*(each for each in values if isinstance(each, Tensor)))
        ctx.values = [None if isinstance(each, Tensor) else each for each in values]
        ctx.client = inputs[-1]

    def differentiate(ctx: Any, grad_output: Tensor, *_: Tensor) -> tuple[Any, ...]:
        saved = iter(ctx.saved_tensors)
        values = [next(saved) if each is None else each for each in ctx.values]
        return gradient(grad_output, *values, ctx.client), *[None] * len(names)

    def forward(*values: Any) -> Any:
        with _without_autocast(values[0].device.type):
            return row.forward(*values[:-1])

    def infer(*values: Any) -> Any:
        with _without_autocast(values[0].device.type):
            return (row.fake or row.forward)(*values[:-1])

    schema = f"({row.parameters}, SymInt client) -> {row.returns}"
    operation = torch.library.custom_op(f"aclgrad::{row.name}", forward, mutates_args=(), schema=schema)
    operation.register_fake(infer)
    operation.register_autograd(differentiate, setup_context=remember)
    operation.register_vmap(refuse_vmap(row.name))


for _row in _ROWS:
    _register(_row)
