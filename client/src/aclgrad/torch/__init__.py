"""PyTorch with gradients from a server: forward passes run here, backward passes are calls of a client.

import aclgrad.torch

with aclgrad.Client("127.0.0.1:50051") as client, aclgrad.torch.remote_backward(client):
    loss = model(images).sum()
    loss.backward()

The functions are those of `torch.nn.functional` under the same names, and `roi_align` that of torchvision, with the
client as a keyword: `aclgrad.torch.max_pool2d(images, 2, client=client)`.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from aclgrad._client.sync.client import Client
from aclgrad.errors import InvalidFieldError
from aclgrad.torch import _functions
from aclgrad.torch._account import LocalError
from aclgrad.torch._clients import number_of
from aclgrad.torch._mode import remote_backward

__all__ = [
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "avg_pool2d",
    "interpolate",
    "max_pool2d",
    "max_unpool2d",
    "max_unpool3d",
    "pad",
    "remote_backward",
    "roi_align",
]


def _public(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function for a client, which raises InvalidFieldError for what stays local in a block."""

    @wraps(function)
    def call(*args: Any, client: Client, **options: Any) -> Any:
        try:
            return function(*args, **options, client=number_of(client))
        except LocalError as reason:
            problem = f"has a gradient that no operator computes: {reason}"
            raise InvalidFieldError.at(function.__name__, problem, "call PyTorch's own function") from None

    call.__doc__ = f"Is PyTorch's {function.__name__}, with a gradient from the client's server."
    return call


adaptive_avg_pool2d = _public(_functions.adaptive_avg_pool2d)
adaptive_avg_pool3d = _public(_functions.adaptive_avg_pool3d)
avg_pool2d = _public(_functions.avg_pool2d)
interpolate = _public(_functions.interpolate)
max_pool2d = _public(_functions.max_pool2d)
max_unpool2d = _public(_functions.max_unpool2d)
max_unpool3d = _public(_functions.max_unpool3d)
pad = _public(_functions.pad)
roi_align = _public(_functions.roi_align)
