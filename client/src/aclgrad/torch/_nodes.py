"""Kinds of autograd's nodes by their backward passes: moving data, plain arithmetic, or a named kernel."""

import re
from enum import Enum, auto
from functools import cache
from typing import Final

from torch.autograd.function import FunctionCtx
from torch.autograd.graph import Node

from aclgrad.torch._account import CallSite


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_MOVES: Final = _names(
    """
    AccumulateGrad CopySlices UndefinedGrad
    Clone LazyClone Copy PinMemory ToMkldnn Lift LiftFresh Zero Fill
    Alias AsStrided Conj Diagonal Expand MkldnnReshape NegView Permute ReshapeAlias ReshapeCopy Select Slice Squeeze T
    Transpose Unbind Unfold UnsafeView Unsqueeze Values View ViewAsComplex ViewAsReal
    NestedGetValues NestedViewFromBuffer NestedViewFromJagged
    Cat Chunk Split SplitWithSizes Stack UnsafeSplit UnsafeSplitWithSizes NarrowCopy
    AsStridedScatter DiagonalScatter SelectScatter SliceInverse SliceScatter
    ChannelShuffle Flip PixelShuffle PixelUnshuffle Roll Rot90
    """
)
"""Leaves, copies, views, joins and splits of tensors, which do not count as calls."""

_ARITHMETIC: Final = _names(
    """
    Add Sub Rsub Mul Div Reciprocal Neg Pow Sqrt Rsqrt Exp Exp2 Expm1 Log Log10 Log1P Log2 Abs
    Sum Repeat Mean Where MaskedFill Clamp ClampMax ClampMin Max Maximum Amax Min Minimum Amin
    Norm LinalgVectorNorm Cumsum ToCopy
    """
)
"""Plain arithmetic, which the account counts on one line."""

_KERNELS: Final = {
    **dict.fromkeys(("Addmm", "Linear", "MkldnnLinear"), "linear"),
    **dict.fromkeys(("Addbmm", "Addmv", "Baddbmm", "Bmm", "Dot", "Matmul", "Mm", "Mv"), "matmul"),
    **{
        f"ScaledDotProduct{kernel}": "scaled_dot_product_attention"
        for kernel in (
            "CudnnAttention",
            "EfficientAttention",
            "FlashAttention",
            "FlashAttentionForCpu",
            "FusedAttentionOverrideable",
        )
    },
    **{f"{rule}Pad{axes}D": "pad" for rule in ("Reflection", "Replication") for axes in (1, 2, 3)},
    "ConstantPadNd": "pad",
    **{f"{kernel}BatchNorm": "batch_norm" for kernel in ("Native", "Cudnn", "Miopen")},
    **dict.fromkeys(("GridSampler2D", "GridSampler2DCpuFallback", "GridSampler3D"), "grid_sample"),
    "NativeGroupNorm": "group_norm",
    "NativeLayerNorm": "layer_norm",
    "FusedRmsNorm": "rms_norm",
    **{f"MaxPool{axes}DWithIndices": f"max_pool{axes}d" for axes in (2, 3)},
    **{f"Upsample{rule}": "interpolate" for rule in ("Linear1D", "Trilinear3D", "Lanczos2DAa")},
    **{f"Upsample{rule}2D{aa}": "interpolate" for rule in ("Bilinear", "Bicubic") for aa in ("", "Aa")},
    **{f"Upsample{rule}{axes}D": "interpolate" for rule in ("Nearest", "NearestExact") for axes in (1, 2, 3)},
    **dict.fromkeys(("NativeDropout", "FusedDropout"), "dropout"),
    "NllLoss2D": "nll_loss",
    "PreluKernel": "prelu",
    "LogSigmoid": "logsigmoid",
    "Im2Col": "unfold",
    "Col2Im": "fold",
    **dict.fromkeys(("IndexPut", "IndexPutImpl"), "index_put"),
    **dict.fromkeys(("MkldnnRnnLayer", "ThnnFusedLstmCell"), "lstm"),
    "ThnnFusedGruCell": "gru",
}
"""PyTorch's functions by kernels with other names; a mean over one window looks like any other mean."""


class Kind(Enum):
    """The kind of a node's backward pass."""

    MOVE = auto()
    CONTAINER = auto()
    """Backward passes of other nodes."""
    ARITHMETIC = auto()
    KERNEL = auto()


_CLASSES: Final = {
    "BackwardHookFunction": Kind.MOVE,  # of modules with hooks
    "CheckpointFunction": Kind.CONTAINER,
    "CompiledFunction": Kind.CONTAINER,
    "WithZeros": Kind.MOVE,  # of convolutions
}
"""Python classes whose backward passes are copies, or other nodes' of a checkpoint or a compiled graph."""


@cache
def _base_of(name: str) -> str:
    return re.sub(r"Backward(s|\d*(Autograd\w+?\d+)?)(_copy)?$", "", name.rpartition("::")[2])


def base_of(node: Node) -> str:
    """Returns the name of the differentiated function: "Convolution" of ConvolutionBackward0."""
    return _base_of(node.name())


@cache
def _kind_of(name: str, is_class: bool) -> Kind:
    base = _base_of(name)
    if is_class:
        return _CLASSES.get(base, Kind.KERNEL)
    return (
        Kind.MOVE
        if base.removesuffix("Backward") in _MOVES
        else Kind.ARITHMETIC
        if base in _ARITHMETIC
        else Kind.KERNEL
    )


def kind_of(node: Node) -> Kind:
    return _kind_of(node.name(), isinstance(node, FunctionCtx))


def kernel_of(node: Node) -> str:
    """Returns the name of the PyTorch function that the node differentiates, or of its Python class."""
    base = base_of(node)
    if isinstance(node, FunctionCtx):  # a class of a user, which may have any name
        return base
    if "Conv" in base and not base.startswith("ConvTbc"):
        transposed = "_transpose" if getattr(node, "_saved_transposed", "Transpose" in base) else ""
        return f"conv{transposed}{len(node._input_metadata[0].shape) - 2}d"  # noqa: SLF001 - the shape of the output
    return _kernel_of(base)


@cache
def _kernel_of(base: str) -> str:
    if base.endswith("Backward"):  # as GeluBackward of GeluBackwardBackward0
        return f"{_kernel_of(base.removesuffix('Backward'))}_backward"
    if base in _KERNELS:
        return _KERNELS[base]
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", re.sub(r"(\d)D", r"\1d", base)).lower()


_COMPOSED: Final = _names(
    """
    absolute bfloat16 broadcast_to clip concat concatenate contiguous cpu cuda divide double expand_as flatten float get
    getitem half hstack itruediv mT movedim multiply narrow negative ravel requires_grad reshape reshape_as rtruediv
    square subtract swapaxes swapdims to true_divide truediv type type_as unflatten view_as vstack
    """
)
"""Functions without a node of their own, which consist of those above."""
_NO_KERNELS: Final = _COMPOSED.union(_kernel_of(base) for base in _MOVES | _ARITHMETIC)


def may_be_kernel(function: str) -> bool:
    """Returns whether a function may have a kernel, from its name alone.

    torch.compile traces this function; it supports slicing a name, but not stripping it.
    """
    name = function[2:-2] if function[:2] == "__" else function[:-1] if function[-1:] == "_" else function
    return name not in _NO_KERNELS and name[1:] not in _NO_KERNELS  # as iadd and radd


def own_call_site(node: Node) -> CallSite | None:
    """Returns where the function was called if the node is aclgrad's."""
    site = getattr(node, "call_site", None) if isinstance(node, FunctionCtx) else None
    return site if isinstance(site, CallSite) else None
