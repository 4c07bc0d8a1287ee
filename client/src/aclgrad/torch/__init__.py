"""PyTorch with gradients from a server: forward passes run here, backward passes are calls of a client.

import aclgrad.torch

with aclgrad.Client("127.0.0.1:50051") as client, aclgrad.torch.remote_backward(client):
    loss = model(images).sum()
    loss.backward()

`remote_step` has a server compute whole steps. The functions are those of `torch.nn.functional` under the same names,
and `roi_align` that of torchvision, with the client as a keyword: `aclgrad.torch.max_pool2d(images, 2, client=client)`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from aclgrad.extras import of_extra

try:
    from aclgrad.torch import (
        _activations,
        _attention,
        _class_losses,
        _convolutions,
        _dropout,
        _einsum,
        _losses,
        _pooling,
        _products,
        _sampling,
        _several,
    )
except ModuleNotFoundError as error:
    raise of_extra(error, "torch") from None

from aclgrad.torch._mode import remote_backward
from aclgrad.torch._run import public
from aclgrad.torch.step.remote_step import RemoteStep, remote_step

if TYPE_CHECKING:
    from aclgrad.judge.replay.steps import compare_backward
    from aclgrad.judge.steps.compare_step import compare_step

__all__ = [
    "RemoteStep",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "addbmm",
    "addmm",
    "avg_pool2d",
    "baddbmm",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "bmm",
    "celu",
    "compare_backward",
    "compare_step",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cross_entropy",
    "ctc_loss",
    "dot",
    "dropout",
    "einsum",
    "elu",
    "embedding",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "logsigmoid",
    "matmul",
    "max_pool2d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mm",
    "mse_loss",
    "mv",
    "nll_loss",
    "outer",
    "pad",
    "prelu",
    "relu",
    "relu6",
    "remote_backward",
    "remote_step",
    "rms_norm",
    "roi_align",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "softmax",
    "softplus",
    "softshrink",
    "swiglu",
    "tanh",
    "threshold",
]


adaptive_avg_pool2d = public(_pooling.adaptive_avg_pool2d)
adaptive_avg_pool3d = public(_pooling.adaptive_avg_pool3d)
addbmm = public(_products.addbmm)
addmm = public(_products.addmm)
avg_pool2d = public(_pooling.avg_pool2d)
baddbmm = public(_products.baddbmm)
batch_norm = public(_several.batch_norm)
bilinear = public(_products.bilinear)
binary_cross_entropy = public(_losses.binary_cross_entropy)
binary_cross_entropy_with_logits = public(_losses.binary_cross_entropy_with_logits)
bmm = public(_products.bmm)
celu = public(_activations.celu)
conv1d = public(_convolutions.conv1d)
conv2d = public(_convolutions.conv2d)
conv3d = public(_convolutions.conv3d)
conv_transpose1d = public(_convolutions.conv_transpose1d)
conv_transpose2d = public(_convolutions.conv_transpose2d)
conv_transpose3d = public(_convolutions.conv_transpose3d)
cross_entropy = public(_class_losses.cross_entropy)
ctc_loss = public(_class_losses.ctc_loss)
dot = public(_products.dot)
dropout = public(_dropout.dropout)
einsum = public(_einsum.einsum)
elu = public(_activations.elu)
embedding = public(_sampling.embedding)
gelu = public(_activations.gelu)
glu = public(_activations.glu)
grid_sample = public(_several.grid_sample)
group_norm = public(_several.group_norm)
hardshrink = public(_activations.hardshrink)
hardsigmoid = public(_activations.hardsigmoid)
hardswish = public(_activations.hardswish)
hardtanh = public(_activations.hardtanh)
interpolate = public(_sampling.interpolate)
kl_div = public(_losses.kl_div)
l1_loss = public(_losses.l1_loss)
layer_norm = public(_several.layer_norm)
leaky_relu = public(_activations.leaky_relu)
linear = public(_products.linear)
log_softmax = public(_activations.log_softmax)
logsigmoid = public(_activations.logsigmoid)
matmul = public(_products.matmul)
max_pool2d = public(_pooling.max_pool2d)
max_unpool2d = public(_pooling.max_unpool2d)
max_unpool3d = public(_pooling.max_unpool3d)
mish = public(_activations.mish)
mm = public(_products.mm)
mse_loss = public(_losses.mse_loss)
mv = public(_products.mv)
nll_loss = public(_class_losses.nll_loss)
outer = public(_products.outer)
pad = public(_sampling.pad)
prelu = public(_activations.prelu)
relu = public(_activations.relu)
relu6 = public(_activations.relu6)
rms_norm = public(_several.rms_norm)
roi_align = public(_sampling.roi_align)
scaled_dot_product_attention = public(_attention.scaled_dot_product_attention)
selu = public(_activations.selu)
sigmoid = public(_activations.sigmoid)
silu = public(_activations.silu)
smooth_l1_loss = public(_losses.smooth_l1_loss)
softmax = public(_activations.softmax)
softplus = public(_activations.softplus)
softshrink = public(_activations.softshrink)
swiglu = public(_activations.swiglu)
tanh = public(_activations.tanh)
threshold = public(_activations.threshold)


_JUDGES: Final = {
    "compare_backward": "aclgrad.judge.replay.steps",
    "compare_step": "aclgrad.judge.steps.compare_step",
}


def __getattr__(name: str) -> Any:
    # Loaded on demand: they belong to the judge, on which the bridge does not depend.
    if name in _JUDGES:
        return getattr(import_module(_JUDGES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
