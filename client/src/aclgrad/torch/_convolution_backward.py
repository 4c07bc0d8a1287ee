"""The gradients of a convolution's gradients: those of convolutions again, so there are derivatives of any order.

A convolution and its gradients are the derivatives of one sum of products, linear in a small image (the result, or the
input of a transposed one), a big image and a weight. So all of them are outputs of one operator; with `transposed` the
other way round, the images change places.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from aclgrad.torch._flops import convolution_flops

Known = Mapping[str, Any]


def flops(known: Known, grad_output: Tensor, wanted: Sequence[bool]) -> int:
    """Returns the operations of the wanted gradients of the input and the weight."""
    shapes = tuple(grad_output.shape), (tuple(known["input"].shape), tuple(known["weight"].shape))
    return convolution_flops(*shapes, known["transposed"], *wanted[:2])


def flops_again(known: Known, needed: Sequence[bool]) -> int:
    """Returns the operations of what `gradients_again` computes."""
    of_grad, of_input, of_weight = needed[:3]
    is_wanted = known["wanted"]
    products = [(True, False)] * (is_wanted[0] * of_grad + is_wanted[1] * (of_grad + of_input))
    products += [(False, True)] * (is_wanted[0] * of_weight)
    return sum(flops(known, known["grad_output"], each) for each in products)


def with_zeros(image: Tensor, axis: int, cells: int) -> Tensor:
    """Returns the image with so many zeros after its axis, by a function that only moves data in its backward pass."""
    if not cells:
        return image
    # In the image's memory format.
    zeros = torch.zeros_like(image.narrow(axis, 0, 1))
    return torch.cat([image, zeros.expand(*image.shape[:axis], cells, *image.shape[axis + 1 :])], axis)


def gradients_again(
    gradients_of: Callable[..., Any], known: Known, given: Sequence[Tensor | None], needed: Sequence[bool]
) -> list[Tensor | None]:
    """Returns the gradients of grad_output, input and weight, from those of the three gradients that were computed.

    `known` are the arguments of the operator, which `gradients_of` calls with others in their place.
    """
    grad_output, attributes, further = known["grad_output"], *_exchanged(known)

    def exchanged(image: Tensor, weight: Tensor, *wanted: bool) -> Any:
        for axis, cells in enumerate(further, 2):
            image = with_zeros(image, axis, cells)
        again = {"grad_output": image, "input": grad_output, "weight": weight, **attributes}
        return gradients_of(**again, wanted=[*wanted, False])

    of_input, of_weight, of_bias = given
    of_grad: list[Tensor] = []
    found: list[Tensor | None] = [None, None, None]
    if of_input is not None and (needed[0] or needed[2]):
        one, other, _ = exchanged(of_input, known["weight"], needed[0], needed[2])
        of_grad += [one] if needed[0] else []
        found[2] = other if needed[2] else None
    if of_weight is not None and needed[0]:
        of_grad.append(exchanged(known["input"], of_weight, True, False)[0])
    if of_weight is not None and needed[1]:
        found[1] = gradients_of(weight=of_weight, wanted=[True, False, False])[0]
    if of_bias is not None and needed[0]:
        of_grad.append(of_bias.reshape(-1, *[1] * (grad_output.dim() - 2)).expand(grad_output.shape))
    if of_grad:
        found[0] = sum(of_grad[1:], of_grad[0])
    return found


def _exchanged(known: Known) -> tuple[dict[str, Any], list[int]]:
    """Returns the attributes with which the images change places, and the zeros after what is now grad_output."""
    big, small = (known[name].shape[2:] for name in ("input", "grad_output"))
    kernel, axes = known["weight"].shape[2:], len(big)
    stride, padding, dilation, more = (
        list(known[name]) * (axes // len(known[name])) for name in ("stride", "padding", "dilation", "output_padding")
    )
    attributes = {"transposed": not known["transposed"], "bias_sizes": None, "output_padding": [0] * axes}
    if known["transposed"]:
        # A result with so many further cells is that of a larger image.
        return attributes, [cells // step for cells, step in zip(more, stride, strict=True)]
    sizes = zip(big, small, stride, padding, dilation, kernel, strict=True)
    attributes["output_padding"] = [
        size - (steps - 1) * step + 2 * pad - width * (cells - 1) - 1 for size, steps, step, pad, width, cells in sizes
    ]
    return attributes, []
