"""What autograd's graph tells of local gradients that no block has seen being made, as those of TorchScript."""

from collections.abc import Iterable, Iterator
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
    **{f"Upsample{rule}Backward": "interpolate" for rule in ("Linear1D", "Trilinear3D")},
    **{f"Upsample{rule}2D{aa}Backward": "interpolate" for rule in ("Bilinear", "Bicubic") for aa in ("", "Aa")},
    **{f"Upsample{rule}{axes}DBackward": "interpolate" for rule in ("Nearest", "NearestExact") for axes in (1, 2, 3)},
}
"""The functions by the nodes of PyTorch; a mean over one window is not told from other means."""
_NOTED: Final = "aclgrad"


def nodes_of(tensors: Iterable[Any]) -> set[Node]:
    """Returns the nodes that have computed these tensors."""
    return {each.grad_fn for each in tensors if isinstance(each, Tensor) and each.grad_fn is not None}


def mark(result: Any, inputs: set[Node]) -> None:
    """Marks what a local function has added to the graph as noted, from its result back to the nodes of its inputs.

    They may be those of other functions in `_NODES`: interpolate with "area" pools, and cross_entropy has a softmax.
    """
    for node in _behind(nodes_of(result if isinstance(result, tuple) else (result,)), inputs):
        node.metadata[_NOTED] = True


def _function_of(node: Node) -> str | None:
    return _NODES.get(node.name().rstrip("0123456789"))


def unnoted(tensors: Any) -> Iterator[str]:
    """Yields the functions whose gradients PyTorch computes in the graph of these tensors, each node once for ever."""
    for node in _behind(nodes_of(tensors if isinstance(tensors, list | tuple) else (tensors,)), set()):
        function = _function_of(node)
        if function is not None and _NOTED not in node.metadata:
            node.metadata[_NOTED] = True
            yield function


def _behind(first: set[Node], seen: set[Node]) -> Iterator[Node]:
    """Yields these nodes and all that they follow from, but for those that were seen before."""
    waiting = list(first - seen)
    seen |= first
    while waiting:
        node = waiting.pop()
        yield node
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
