"""The functions of each element by itself."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional

from aclgrad._client.sync.client import Client
from aclgrad.torch._account import LocalError
from aclgrad.torch._run import run


def gelu(input: Tensor, approximate: str = "none", *, client: Client) -> Tensor:
    """Returns input * Phi(input), or the approximation "tanh" of it, as `torch.nn.functional.gelu`.

    The gradient is that of the client's server. Raises InvalidFieldError for what its product does not compute.
    """
    return _run("gelu", input, approximate, client=client)


def hardswish(input: Tensor, inplace: bool = False, *, client: Client) -> Tensor:
    """Returns input * relu6(input + 3) / 6, as `torch.nn.functional.hardswish`.

    The gradient is that of the client's server, which has other slopes than PyTorch at -3 and 3. Raises
    InvalidFieldError for what its product does not compute.
    """
    return _run("hardswish", input, inplace=inplace, client=client)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False, *, client: Client) -> Tensor:
    """Multiplies negative numbers by `negative_slope`, as `torch.nn.functional.leaky_relu`.

    The gradient is that of the client's server. Raises InvalidFieldError for what its product does not compute.
    """
    return _run("leaky_relu", input, float(negative_slope), inplace=inplace, client=client)


def relu(input: Tensor, inplace: bool = False, *, client: Client) -> Tensor:
    """Returns max(input, 0), as `torch.nn.functional.relu`.

    The gradient is that of the client's server. Raises InvalidFieldError for what its product does not compute.
    """
    return _run("relu", input, inplace=inplace, client=client)


def sigmoid(input: Tensor, *, client: Client) -> Tensor:
    """Returns 1 / (1 + exp(-input)), as `torch.sigmoid`.

    The gradient is that of the client's server. Raises InvalidFieldError for what its product does not compute.
    """
    return _run("sigmoid", input, client=client)


def silu(input: Tensor, inplace: bool = False, *, client: Client) -> Tensor:
    """Returns input * sigmoid(input), as `torch.nn.functional.silu`.

    The gradient is that of the client's server. Raises InvalidFieldError for what its product does not compute.
    """
    return _run("silu", input, inplace=inplace, client=client)


def swiglu(x: Tensor, dim: int = -1, *, client: Client) -> Tensor:
    """Returns silu(a) * b of the halves a and b of `x` along `dim`, as `torch_npu.npu_swiglu`.

    The gradient is that of the client's server. Raises InvalidFieldError for what its product does not compute.
    """
    axis = range(x.dim())[dim]
    if x.shape[axis] % 2:
        raise LocalError(f"there are no equal halves of {x.shape[axis]}")
    # Of three axes, so that vmap can add its own.
    rows = run("swiglu", client, x.reshape(x.shape[:axis].numel(), x.shape[axis], -1), -2)
    halved: Tensor = rows.reshape(*x.shape[:axis], x.shape[axis] // 2, *x.shape[axis + 1 :])
    return halved


def tanh(input: Tensor, *, client: Client) -> Tensor:
    """Returns the hyperbolic tangent, as `torch.tanh`.

    The gradient is that of the client's server. Raises InvalidFieldError for what its product does not compute.
    """
    return _run("tanh", input, client=client)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False, *, client: Client) -> Tensor:
    """Puts `value` in the place of what is not above `threshold`, as `torch.nn.functional.threshold`.

    The gradient is that of the client's server. Raises InvalidFieldError for what its product does not compute.
    """
    return _run("threshold", input, float(threshold), float(value), inplace=inplace, client=client)


def _run(name: str, input: Tensor, *arguments: Any, inplace: bool = False, client: Client) -> Tensor:
    if not inplace:
        result: Tensor = run(name, client, input, *arguments)
        return result
    # As PyTorch, which saves a copy where the gradient needs what is overwritten.
    return input.copy_(run(name, client, input.clone(), *arguments))


REROUTED: Final[dict[Any, Callable[..., Tensor]]] = {
    functional.gelu: gelu,
    functional.hardswish: hardswish,
    functional.leaky_relu: leaky_relu,
    functional.leaky_relu_: partial(leaky_relu, inplace=True),
    functional.silu: silu,
    **dict.fromkeys((functional.relu, torch.relu, Tensor.relu), relu),
    **dict.fromkeys((torch.relu_, Tensor.relu_), partial(relu, inplace=True)),
    **dict.fromkeys((torch.sigmoid, Tensor.sigmoid, functional.sigmoid), sigmoid),
    **dict.fromkeys((torch.sigmoid_, Tensor.sigmoid_), partial(_run, "sigmoid", inplace=True)),
    **dict.fromkeys((functional.threshold, torch.threshold), threshold),
    torch.threshold_: partial(threshold, inplace=True),
    **dict.fromkeys((torch.tanh, Tensor.tanh, functional.tanh), tanh),
    **dict.fromkeys((torch.tanh_, Tensor.tanh_), partial(_run, "tanh", inplace=True)),
}
"""The functions by those of PyTorch that they stand for."""
