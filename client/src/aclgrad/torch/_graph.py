"""What autograd's graph tells of local gradients that no block has seen being made, as those of TorchScript."""

from collections.abc import Iterator
from typing import Any, Final

from torch import Tensor
from torch.autograd.graph import Node

_NODES: Final = {
    **{f"AdaptiveAvgPool{axes}DBackward": f"adaptive_avg_pool{axes}d" for axes in (2, 3)},
    **{f"MaxUnpool{axes}DBackward": f"max_unpool{axes}d" for axes in (2, 3)},
    **{f"{rule}Pad{axes}DBackward": "pad" for rule in ("Reflection", "Replication") for axes in (1, 2, 3)},
    "AvgPool2DBackward": "avg_pool2d",
    **{f"{kernel}BatchNormBackward": "batch_norm" for kernel in ("Native", "Cudnn", "Miopen")},
    "EmbeddingBackward": "embedding",
    **{f"GridSampler{axes}DBackward": "grid_sample" for axes in (2, 3)},
    "NativeGroupNormBackward": "group_norm",
    "NativeLayerNormBackward": "layer_norm",
    "GeluBackward": "gelu",
    "HardswishBackward": "hardswish",
    "LeakyReluBackward": "leaky_relu",
    "ReluBackward": "relu",
    "SigmoidBackward": "sigmoid",
    "SiluBackward": "silu",
    "TanhBackward": "tanh",
    "ThresholdBackward": "threshold",
    "LogSoftmaxBackward": "log_softmax",
    "MaxPool2DWithIndicesBackward": "max_pool2d",
    "SoftmaxBackward": "softmax",
    "UpsampleNearest2DBackward": "interpolate",
}
"""The functions by the nodes of PyTorch; a mean over one window is not told from other means."""
_NOTED: Final = "aclgrad"


def mark(result: Any, function: str) -> None:
    """Marks the node of a function's local result as noted."""
    first = result[0] if isinstance(result, tuple) else result
    node = first.grad_fn if isinstance(first, Tensor) else None
    # A shape may have been changed after the function.
    for each in (node, *(following for following, _ in getattr(node, "next_functions", ()))):
        if each is not None and function.startswith(_function_of(each) or " "):
            each.metadata[_NOTED] = True
            return


def _function_of(node: Node) -> str | None:
    return _NODES.get(node.name().rstrip("0123456789"))


def unnoted(tensors: Any) -> Iterator[str]:
    """Yields the functions whose gradients PyTorch computes in the graph of these tensors, each node once for ever."""
    given = tensors if isinstance(tensors, list | tuple) else (tensors,)
    waiting = [each.grad_fn for each in given if isinstance(each, Tensor) and each.grad_fn is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        function = _function_of(node)
        if function is not None and _NOTED not in node.metadata:
            node.metadata[_NOTED] = True
            yield function
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
