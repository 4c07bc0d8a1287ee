"""Activations: functions of each element, and softmax along an axis, under all of its names."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional

from aclgrad._client.sync.client import Client
from aclgrad.torch._account import LocalError
from aclgrad.torch._run import in_order, of_autocast, run


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


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None, *, client: Client
) -> Tensor:
    """Divides the powers of e by their sum along `dim`, as `torch.nn.functional.softmax` does.

    The gradient is that of the client's server, and has no second derivative. Raises InvalidFieldError for what its
    product does not compute.
    """
    return _run_softmax("softmax", input, dim, dtype, client)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None, *, client: Client
) -> Tensor:
    """Returns the logarithm of softmax along `dim`, as `torch.nn.functional.log_softmax` does. As `softmax`."""
    return _run_softmax("log_softmax", input, dim, dtype, client)


def _cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    client: Client,
) -> Tensor:
    """Is PyTorch's own, which computes both parts at once."""
    if label_smoothing or target.is_floating_point():
        raise LocalError("log_softmax is a part of it for targets that are classes, without label_smoothing")
    input, weight = of_autocast(
        lambda input, weight: functional.cross_entropy(input.new_empty(0, 1), target.new_empty(0)), input, weight
    )
    likelihoods = log_softmax(input, min(1, max(input.dim() - 1, 0)), client=client)
    return functional.nll_loss(likelihoods, target, weight, size_average, ignore_index, reduce, reduction)


def _run_softmax(name: str, input: Tensor, dim: int | None, dtype: torch.dtype | None, client: Client) -> Tensor:
    rank = max(input.dim(), 1)
    if not isinstance(dim, int) or not -rank <= dim < rank:
        raise LocalError(f"the operator takes an axis, and dim is {dim}")
    if dtype is None:
        (cast,) = of_autocast(lambda each: getattr(torch, name)(each.new_empty(0), 0), input)
    else:
        cast = input.to(dtype)
    result: Tensor = run(name, client, cast, dim if dim < 0 else dim - rank)
    return result


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
    functional.softmax: softmax,
    functional.log_softmax: log_softmax,
    functional.cross_entropy: _cross_entropy,
    **dict.fromkeys((torch.softmax, Tensor.softmax), in_order("input dim dtype", softmax)),
    **dict.fromkeys((torch.log_softmax, Tensor.log_softmax), in_order("input dim dtype", log_softmax)),
}
"""The functions by those of PyTorch that they stand for."""
