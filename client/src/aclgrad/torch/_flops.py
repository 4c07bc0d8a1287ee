"""Floating-point operations of the backward passes of convolutions, products and attention, by PyTorch's formulas.

They are computed from the graph, whether backward() has run or not. No saved tensor is unpacked for its shape: within a
checkpoint, that would recompute the forward pass.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from torch import Tensor
from torch.autograd.graph import Node
from torch.utils.flop_counter import conv_backward_flop, sdpa_backward_flop

from aclgrad.torch._nodes import base_of, kernel_of, own_call_site

Shape = tuple[int, ...]


def flops_of(node: Node) -> int:
    """Returns the operations of the node's gradients in the graph; 0 if PyTorch has no formula."""
    own: int | None = getattr(node, "flops", None) if own_call_site(node) else None
    if own is not None:
        return own
    base = base_of(node)
    if base in _PRODUCTS:
        return _PRODUCTS[base](node)
    if base == "MkldnnRnnLayer":
        return _recurrent_layer(node)
    kernel = kernel_of(node)
    if kernel.startswith("conv"):
        return _convolution(node)
    return _attention(node) if kernel == "scaled_dot_product_attention" else 0


def _wants(node: Node, index: int) -> bool:
    return node.next_functions[index][0] is not None


def _output(node: Node) -> Shape:
    return tuple(node._input_metadata[0].shape)  # noqa: SLF001 - the only way to know it


def _input(node: Node, index: int, name: str) -> Shape | None:
    """Returns the shape of an input: of the previous node's output, or of the saved tensor."""
    before, output = node.next_functions[index]
    if before is not None:
        return tuple(before._input_metadata[output].shape)  # noqa: SLF001
    try:
        saved = getattr(node, f"_raw_saved_{name}")
        data = None if saved.unpack_hook is not None else saved.data
    except (AttributeError, RuntimeError):  # an older PyTorch, or backward() has freed it
        return None
    return tuple(data.shape) if isinstance(data, Tensor) else None


def _convolution(node: Node) -> int:
    inputs = _input(node, 0, "input"), _input(node, 1, "weight")
    return convolution_flops(
        _output(node), inputs, getattr(node, "_saved_transposed", False), _wants(node, 0), _wants(node, 1)
    )


# PyTorch's formulas are slow, and most training steps have the same shapes.
@lru_cache(4096)
def convolution_flops(output: Shape, inputs: tuple[Shape | None, ...], is_transposed: bool, *wanted: bool) -> int:
    """Returns the operations of the wanted gradients of input and weight, whose shapes are `inputs`."""
    if None in inputs:
        return 0
    rest = None, None, None, None, is_transposed, None, None, [*wanted, False]
    flops: int = conv_backward_flop(output, *inputs, *rest, out_val=inputs)
    return flops


def _attention(node: Node) -> int:
    inputs = [_input(node, index, name) for index, name in enumerate(("query", "key", "value"))]
    flops: int = 0 if None in inputs else sdpa_backward_flop(_output(node), *inputs)
    return flops


def _recurrent_layer(node: Node) -> int:
    """Returns those of oneDNN's LSTM, for which PyTorch has no formula: it computes all gradients, wanted or not."""
    input, *weights = (_input(node, index, name) for index, name in enumerate(("input", "weight0", "weight1")))
    if input is None or None in weights:
        return 0
    return 2 * 2 * math.prod(input[:2]) * sum(math.prod(each) for each in weights if each is not None)


def _product(first: int) -> Callable[[Node], int]:
    """Returns the formula of products whose first operand has this index among the inputs."""

    def flops(node: Node) -> int:
        left, right = _input(node, first, ""), _input(node, first + 1, "")
        inner = left[-1] if left is not None else right[-2:][0] if right is not None else 0
        return 2 * math.prod(_output(node)) * inner * (_wants(node, first) + _wants(node, first + 1))

    return flops


_PRODUCTS: Final = {
    **dict.fromkeys(("Mm", "Mv", "Bmm"), _product(0)),
    **dict.fromkeys(("Addmm", "Addmv", "Baddbmm"), _product(1)),
}
