"""Convolutions as in torch.nn.functional, with gradients from the server of a client."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional

from aclgrad._client.sync.client import Client
from aclgrad.bridges.rows import ROWS
from aclgrad.torch._account import LocalError
from aclgrad.torch._convolution_backward import with_zeros
from aclgrad.torch._run import Size, cast_alike, per_axis, run


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
    *,
    client: Client,
) -> Tensor:
    """Convolves (N, C, L) or (C, L), as `torch.nn.functional.conv1d` does.

    One call has the gradients of all three tensors, and they have derivatives of any order. Raises InvalidFieldError
    if the product of the client's server cannot compute it.
    """
    return _convolved("conv1d", input, weight, bias, stride, padding, dilation, groups, client)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
    *,
    client: Client,
) -> Tensor:
    """Convolves (N, C, H, W) or (C, H, W), as `torch.nn.functional.conv2d` does. As `conv1d`."""
    return _convolved("conv2d", input, weight, bias, stride, padding, dilation, groups, client)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
    *,
    client: Client,
) -> Tensor:
    """Convolves (N, C, D, H, W) or (C, D, H, W), as `torch.nn.functional.conv3d` does. As `conv1d`."""
    return _convolved("conv3d", input, weight, bias, stride, padding, dilation, groups, client)


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
    *,
    client: Client,
) -> Tensor:
    """Applies a transposed convolution, as `torch.nn.functional.conv_transpose1d` does. As `conv1d`."""
    return _transposed(
        "conv_transpose1d", input, weight, bias, stride, padding, dilation, output_padding, groups, client
    )


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
    *,
    client: Client,
) -> Tensor:
    """Applies a transposed convolution, as `torch.nn.functional.conv_transpose2d` does. As `conv1d`."""
    return _transposed(
        "conv_transpose2d", input, weight, bias, stride, padding, dilation, output_padding, groups, client
    )


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
    *,
    client: Client,
) -> Tensor:
    """Applies a transposed convolution, as `torch.nn.functional.conv_transpose3d` does. As `conv1d`."""
    return _transposed(
        "conv_transpose3d", input, weight, bias, stride, padding, dilation, output_padding, groups, client
    )


def _convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    # They choose a GPU kernel.
    benchmark: bool = False,
    deterministic: bool = False,
    cudnn_enabled: bool = True,
    allow_tf32: bool = True,
    *,
    client: Client,
) -> Tensor:
    name = f"conv{'_transpose' if transposed else ''}{weight.dim() - 2}d"
    if name not in ROWS or input.dim() != weight.dim():
        raise LocalError(
            f"the operator takes 3, 4 or 5 dims, of input and weight alike, not {input.dim()} and {weight.dim()}"
        )
    lists: list[Any] = [list(each) for each in (stride, padding, dilation)]
    if transposed:
        lists.append(list(output_padding))
    elif any(output_padding):
        raise LocalError("a convolution that is not transposed takes no output_padding")

    def called(*tensors: Tensor) -> Tensor:
        return torch.convolution(*tensors, *([1], [0], [1]), transposed, [0], 1)

    return _run(name, cast_alike(called, input, weight, bias), lists, groups, client)


def _convolved(
    name: str,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Size,
    padding: Size | str,
    dilation: Size,
    groups: int,
    client: Client,
) -> Tensor:
    axes = _axes_of(name, input, weight)
    steps, spread = per_axis(stride, axes), per_axis(dilation, axes)
    if isinstance(padding, str):
        input, pads = _padded(padding, input, weight, steps, spread)
    else:
        pads = per_axis(padding, axes)
    return _of_any_batch(name, input, weight, bias, [steps, pads, spread], groups, client)


def _transposed(
    name: str,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Size,
    padding: Size,
    dilation: Size,
    output_padding: Size,
    groups: int,
    client: Client,
) -> Tensor:
    axes = _axes_of(name, input, weight)
    lists = [per_axis(each, axes) for each in (stride, padding, dilation, output_padding)]
    return _of_any_batch(name, input, weight, bias, lists, groups, client)


def _of_any_batch(
    name: str,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    lists: Sequence[Sequence[int]],
    groups: int,
    client: Client,
) -> Tensor:
    tensors = cast_alike(getattr(functional, name), input, weight, bias)
    if input.dim() == weight.dim():
        return _run(name, tensors, lists, groups, client)
    return _run(name, (tensors[0].unsqueeze(0), *tensors[1:]), lists, groups, client).squeeze(0)


def _run(name: str, tensors: Sequence[Any], lists: Sequence[Sequence[int]], groups: int, client: Client) -> Tensor:
    result: Tensor = run(name, client, *tensors, *lists, groups)
    return result


def _axes_of(name: str, input: Tensor, weight: Tensor) -> int:
    axes = int(name[-2])
    if weight.dim() != axes + 2 or input.dim() not in (axes + 1, axes + 2):
        raise LocalError(f"PyTorch refuses an input of {input.dim()} dims with a weight of {weight.dim()}")
    return axes


def _padded(
    padding: str, input: Tensor, weight: Tensor, stride: Sequence[int], dilation: Sequence[int]
) -> tuple[Tensor, list[int]]:
    """Returns the input, with another row of zeros if the two sides differ, and the padding of either side."""
    kernel = weight.shape[2:]
    if padding == "valid":
        return input, [0] * len(kernel)
    if padding != "same" or any(each != 1 for each in stride):
        raise LocalError(f"PyTorch refuses the padding {padding} with a stride of {stride}")
    reach = [step * (size - 1) for size, step in zip(kernel, dilation, strict=True)]
    return with_zeros(input, [cells % 2 for cells in reach]), [cells // 2 for cells in reach]


REROUTED: Final[dict[Any, Callable[..., Tensor]]] = {
    functional.conv1d: conv1d,
    functional.conv2d: conv2d,
    functional.conv3d: conv3d,
    functional.conv_transpose1d: conv_transpose1d,
    functional.conv_transpose2d: conv_transpose2d,
    functional.conv_transpose3d: conv_transpose3d,
    **dict.fromkeys((torch.convolution, torch._convolution), _convolution),  # noqa: SLF001 - a function of its own
}
"""Our functions by the functions of PyTorch that they replace."""
