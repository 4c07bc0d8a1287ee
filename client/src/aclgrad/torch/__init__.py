"""PyTorch with gradients from a server: forward passes run here, backward passes are calls of a client.

import aclgrad.torch

with aclgrad.Client("127.0.0.1:50051") as client, aclgrad.torch.remote_backward(client):
    loss = model(images).sum()
    loss.backward()

The functions are those of `torch.nn.functional` under the same names, and `roi_align` that of torchvision, with the
client as a keyword: `aclgrad.torch.max_pool2d(images, 2, client=client)`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from aclgrad.extras import of_extra

try:
    from aclgrad.torch import _activations, _convolutions, _einsum, _pooling, _products, _sampling, _several
except ModuleNotFoundError as error:
    raise of_extra(error, "torch") from None

from aclgrad.torch._mode import remote_backward
from aclgrad.torch._run import public

if TYPE_CHECKING:
    from aclgrad.judge.replay.steps import compare_backward

__all__ = [
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "addbmm",
    "addmm",
    "avg_pool2d",
    "baddbmm",
    "batch_norm",
    "bilinear",
    "bmm",
    "compare_backward",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "dot",
    "einsum",
    "embedding",
    "gelu",
    "grid_sample",
    "group_norm",
    "hardswish",
    "interpolate",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "matmul",
    "max_pool2d",
    "max_unpool2d",
    "max_unpool3d",
    "mm",
    "mv",
    "outer",
    "pad",
    "relu",
    "remote_backward",
    "rms_norm",
    "roi_align",
    "sigmoid",
    "silu",
    "softmax",
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
bmm = public(_products.bmm)
conv1d = public(_convolutions.conv1d)
conv2d = public(_convolutions.conv2d)
conv3d = public(_convolutions.conv3d)
conv_transpose1d = public(_convolutions.conv_transpose1d)
conv_transpose2d = public(_convolutions.conv_transpose2d)
conv_transpose3d = public(_convolutions.conv_transpose3d)
dot = public(_products.dot)
einsum = public(_einsum.einsum)
embedding = public(_sampling.embedding)
gelu = public(_activations.gelu)
grid_sample = public(_several.grid_sample)
group_norm = public(_several.group_norm)
hardswish = public(_activations.hardswish)
interpolate = public(_sampling.interpolate)
layer_norm = public(_several.layer_norm)
leaky_relu = public(_activations.leaky_relu)
linear = public(_products.linear)
log_softmax = public(_activations.log_softmax)
matmul = public(_products.matmul)
max_pool2d = public(_pooling.max_pool2d)
max_unpool2d = public(_pooling.max_unpool2d)
max_unpool3d = public(_pooling.max_unpool3d)
mm = public(_products.mm)
mv = public(_products.mv)
outer = public(_products.outer)
pad = public(_sampling.pad)
relu = public(_activations.relu)
rms_norm = public(_several.rms_norm)
roi_align = public(_sampling.roi_align)
sigmoid = public(_activations.sigmoid)
silu = public(_activations.silu)
softmax = public(_activations.softmax)
swiglu = public(_activations.swiglu)
tanh = public(_activations.tanh)
threshold = public(_activations.threshold)


def __getattr__(name: str) -> Any:
    # It judges gradients, which the bridge knows nothing of: so it is found when it is asked for.
    if name == "compare_backward":
        return import_module("aclgrad.judge.replay.steps").compare_backward
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
