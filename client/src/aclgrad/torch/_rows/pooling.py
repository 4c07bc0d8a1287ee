"""Pooling, and its reverse at the places of maxima."""

from typing import Final

import torch
from torch import Tensor

from aclgrad.torch._rows.row import Operation

aten: Final = torch.ops.aten

_WINDOW: Final = "Tensor input, SymInt[] kernel_size, SymInt[] stride, SymInt[] padding"
_UNPOOL: Final = "Tensor input, Tensor indices, SymInt[] output_size"


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


def _at_indices(grad_input: Tensor, indices: Tensor, client: int) -> Tensor:
    """Returns the elements that are the maxima, shape of `indices`."""
    # Not by flatten, which autograd's own vmap cannot do.
    planes, cells = (each.reshape(*each.shape[:-2], each.shape[-2:].numel()) for each in (grad_input, indices))
    return planes.gather(-1, cells).reshape(indices.shape)


ROWS: Final = (
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
)
