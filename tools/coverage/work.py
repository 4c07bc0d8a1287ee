"""Floating-point operations and bytes of what PyTorch computes here and of what a server computes, from shapes.

Convolutions, products and attention have operations, in the convention of `torch.utils.flop_counter`; everything else
has the bytes that it reads and writes. The formulas of the server's operators are written out here: the bridge has its
own.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

Shape = tuple[int, ...]
Shapes = Mapping[str, Shape]
aten: Final = torch.ops.aten


@dataclass(frozen=True, slots=True)
class Work:
    """What one function or operator did."""

    name: str
    operations: int
    """Of convolutions, products and attention alone."""
    size_bytes: int
    """Read and written; 0 if it has operations."""


def of_pytorch(function: Any, args: tuple[Any, ...], options: Mapping[str, Any], result: Any) -> Work:
    """Returns the work of a function of ATen."""
    name = function.overloadpacket.__name__
    formula = _OF_CPU.get(function.overloadpacket)
    if formula is not None:
        return Work(name, formula(*args), 0)
    if function.overloadpacket in flop_registry:
        return Work(name, flop_registry[function.overloadpacket](*args, **options, out_val=result), 0)
    return Work(name, 0, sum(each.nbytes for each in tensors_in([args, list(options.values()), result])))


def of_server(operator: str, inputs: Shapes, outputs: Shapes, attributes: Mapping[str, Any], size_bytes: int) -> Work:
    """Returns the work of an operator, whose inputs and outputs have so many bytes."""
    formula = _OF_SERVER.get(operator)
    return Work(operator, 0, size_bytes) if formula is None else Work(operator, formula(inputs, outputs, attributes), 0)


def tensors_in(values: Any) -> Iterator[Tensor]:
    """Yields the tensors of nested lists and tuples."""
    for each in values:
        if isinstance(each, Tensor):
            yield each
        elif isinstance(each, tuple | list):
            yield from tensors_in(each)


def _attention(query: Tensor, key: Tensor, value: Tensor, *_: Any) -> int:
    return int(sdpa_flop_count(query.shape, key.shape, value.shape))


def _attention_backward(gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, *_: Any) -> int:
    return int(sdpa_backward_flop_count(gradient.shape, query.shape, key.shape, value.shape))


def _vector_product(matrix: Tensor, *_: Any) -> int:
    return 2 * matrix.numel()


def _recurrent(input: Tensor, weight: Tensor, hidden_weight: Tensor, *_: Any) -> int:
    return 2 * math.prod(input.shape[:2]) * (weight.numel() + hidden_weight.numel())


def _recurrent_backward(input: Tensor, weight: Tensor, hidden_weight: Tensor, *_: Any) -> int:
    return 2 * _recurrent(input, weight, hidden_weight)


_OF_CPU: Final[dict[Any, Callable[..., int]]] = {
    aten._scaled_dot_product_flash_attention_for_cpu: _attention,  # noqa: SLF001 - its only name
    aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,  # noqa: SLF001
    aten.mv: _vector_product,
    aten.dot: _vector_product,
    aten.mkldnn_rnn_layer: _recurrent,
    aten.mkldnn_rnn_layer_backward: _recurrent_backward,
}
"""Functions that PyTorch's table lacks."""


def _product(first: str) -> Callable[[Shapes, Shapes, Mapping[str, Any]], int]:
    def operations(inputs: Shapes, outputs: Shapes, attributes: Mapping[str, Any]) -> int:
        return 2 * math.prod(outputs["out"]) * inputs[first][-1]

    return operations


def _convolution(inputs: Shapes, outputs: Shapes, attributes: Mapping[str, Any]) -> int:
    """Each element of the smaller end meets each element of its filters once."""
    places = inputs["input"] if attributes.get("transposed") else outputs["output"]
    return 2 * inputs["input"][0] * math.prod(places[2:]) * math.prod(inputs["weight"])


def _convolution_backward(inputs: Shapes, outputs: Shapes, attributes: Mapping[str, Any]) -> int:
    """The gradient of the weight counts products between all channels, also of groups, as PyTorch's formula does."""
    gradient, input, weight = (inputs[name] for name in ("grad_output", "input", "weight"))
    is_transposed = attributes.get("transposed")
    each = 2 * input[0] * math.prod((input if is_transposed else gradient)[2:]) * math.prod(weight[2:])
    of_input = each * weight[0] * weight[1] if "grad_input" in outputs else 0
    of_weight = each * input[1] * gradient[1] if "grad_weight" in outputs else 0
    return of_input + of_weight


def _scores(inputs: Shapes, key: str, attributes: Mapping[str, Any]) -> tuple[int, int]:
    """Returns the operations of queries with keys, and those of shares with values."""
    layout = attributes["input_layout"]
    keys, query = inputs[key], inputs["query"]
    count = keys[layout.index("S")]
    wide = math.prod(query)
    # Values are as many as keys, and heads may share both.
    narrow = wide // query[-1] * inputs["value"][-1] if "D" in layout else wide
    return 2 * count * wide, 2 * count * narrow


def _attention_of_server(inputs: Shapes, outputs: Shapes, attributes: Mapping[str, Any]) -> int:
    return sum(_scores(inputs, "key", attributes))


def _attention_gradient(inputs: Shapes, outputs: Shapes, attributes: Mapping[str, Any]) -> int:
    """Scores are computed again."""
    of_keys, of_values = _scores(inputs, "key_in", attributes)
    return 3 * of_keys + 2 * of_values


_OF_SERVER: Final[dict[str, Callable[[Shapes, Shapes, Mapping[str, Any]], int]]] = {
    "mm": _product("self"),
    "matmul": _product("self"),
    "batch_mat_mul": _product("self"),
    "addmm": _product("mat1"),
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "flash_attention_score": _attention_of_server,
    "flash_attention_score_v2": _attention_of_server,
    "flash_attention_score_grad": _attention_gradient,
    "flash_attention_score_grad_v2": _attention_gradient,
}
