"""The gradients of a convolution's gradients are gradients of convolutions, so there are derivatives of any order.

A convolution and its gradients are derivatives of one sum of products, which is linear in a small image (the result, or
the input of a transposed one), a big image and a weight. So all are outputs of one operator; negating `transposed`
swaps the images.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import suggest_memory_format

from aclgrad.torch._flops import convolution_flops

Known = Mapping[str, Any]


def flops(known: Known, grad_output: Tensor, wanted: Sequence[bool]) -> int:
    """Returns the operations of the wanted gradients of the input and the weight."""
    shapes = tuple(grad_output.shape), (tuple(known["input"].shape), tuple(known["weight"].shape))
    return convolution_flops(*shapes, known["transposed"], *wanted[:2])


def flops_again(known: Known, needed: Sequence[bool]) -> int:
    """Returns the operations of `gradients_again`."""
    of_grad, of_input, of_weight = needed[:3]
    is_wanted = known["wanted"]
    products = [(True, False)] * (is_wanted[0] * of_grad + is_wanted[1] * (of_grad + of_input))
    products += [(False, True)] * (is_wanted[0] * of_weight)
    return sum(flops(known, known["grad_output"], each) for each in products)


class WithZeros(torch.autograd.Function):
    """Pads the last axes with zeros at their ends; its gradient is as contiguous as that of PyTorch's padding."""

    @staticmethod
    def forward(image: Tensor, cells: Sequence[int]) -> Tensor:
        # In the image's memory format. The last axis comes first.
        return torch.constant_pad_nd(image, [each for count in reversed(cells) for each in (0, count)])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.cells = inputs[1]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        form = suggest_memory_format(gradient)
        for axis, cells in enumerate(ctx.cells, gradient.dim() - len(ctx.cells)):
            gradient = gradient.narrow(axis, 0, gradient.shape[axis] - cells)
        return gradient.contiguous(memory_format=form), None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: Any) -> Tensor:
        return WithZeros.forward(tangent, ctx.cells)

    @staticmethod
    def vmap(info: Any, in_dims: Sequence[Any], image: Tensor, cells: Sequence[int]) -> tuple[Tensor, int]:
        return with_zeros(image.movedim(in_dims[0], 0), cells), 0


def with_zeros(image: Tensor, cells: Sequence[int]) -> Tensor:
    """Returns the image with this many zeros at the end of its last axes."""
    padded: Tensor = WithZeros.apply(image, cells) if any(cells) else image
    return padded


def gradients_again(
    known: Known, given: Sequence[Tensor | None], needed: Sequence[bool]
) -> tuple[list[Known], Callable[[Sequence[Any]], list[Tensor | None]]]:
    """Returns the calls for the gradients of grad_output, input and weight, and how to read these.

    `given` are the gradients of the operator's outputs for the `known` arguments. Each call replaces some of these.
    """
    grad_output, of_bias = known["grad_output"], given[2]
    attributes, further = _exchanged(known)
    calls: list[Known] = []
    targets: list[tuple[int, ...]] = []
    """The arguments whose gradients are the first two outputs of each call."""

    def call(of: tuple[int, ...], wanted: Sequence[bool], **other: Any) -> None:
        if True in wanted:
            calls.append({**other, "wanted": [*wanted, False]})
            targets.append(of)

    def exchanged(image: Tensor) -> dict[str, Any]:
        return {"grad_output": with_zeros(image, further), "input": grad_output, **attributes}

    if given[0] is not None:
        call((0, 2), (needed[0], needed[2]), **exchanged(given[0]))
    if given[1] is not None:
        call((0, 2), (needed[0], False), **exchanged(known["input"]), weight=given[1])
        call((1, 2), (needed[1], False), weight=given[1])

    def joined(results: Sequence[Any]) -> list[Tensor | None]:
        found: list[list[Tensor]] = [[], [], []]
        for each, of, result in zip(calls, targets, results, strict=True):
            for target, is_wanted, gradient in zip(of, each["wanted"], result, strict=False):
                found[target] += [gradient] if is_wanted else []
        if of_bias is not None and needed[0]:
            found[0].append(of_bias.reshape(-1, *[1] * (grad_output.dim() - 2)).expand(grad_output.shape))
        return [sum(each[1:], each[0]) if each else None for each in found]

    return calls, joined


def _exchanged(known: Known) -> tuple[dict[str, Any], list[int]]:
    """Returns the attributes with the images swapped, and the zeros at the end of the new grad_output."""
    big, small = (known[name].shape[2:] for name in ("input", "grad_output"))
    kernel, axes = known["weight"].shape[2:], len(big)
    stride, padding, dilation, more = (
        list(known[name]) * (axes // len(known[name])) for name in ("stride", "padding", "dilation", "output_padding")
    )
    attributes = {"transposed": not known["transposed"], "bias_sizes": None, "output_padding": [0] * axes}
    if known["transposed"]:
        # A result with this many more cells belongs to a larger image.
        return attributes, [cells // step for cells, step in zip(more, stride, strict=True)]
    sizes = zip(big, small, stride, padding, dilation, kernel, strict=True)
    attributes["output_padding"] = [
        size - (steps - 1) * step + 2 * pad - width * (cells - 1) - 1 for size, steps, step, pad, width, cells in sizes
    ]
    return attributes, []
