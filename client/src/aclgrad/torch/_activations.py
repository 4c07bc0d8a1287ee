"""Activations: functions of each element, and softmax along an axis, under all of its names."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional

from aclgrad._client.sync.client import Client
from aclgrad.torch._account import LocalError
from aclgrad.torch._activation_rows import per_channel
from aclgrad.torch._gemm import HOOKED, has_hooks
from aclgrad.torch._run import in_order, of_autocast, run


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False, *, client: Client) -> Tensor:
    """Returns max(x, 0) + min(0, alpha * (exp(x / alpha) - 1)), as `torch.nn.functional.celu`.

    The gradient is that of the client's server. Raises InvalidFieldError if its product cannot compute it.
    """
    if not alpha:
        raise LocalError("PyTorch refuses to divide by alpha")
    return _run("celu", input, float(alpha), inplace=inplace, client=client)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False, *, client: Client) -> Tensor:
    """Returns max(x, 0) + min(0, alpha * (exp(x) - 1)), as `torch.nn.functional.elu`.

    The gradient is that of the client's server. Raises InvalidFieldError if its product cannot compute it.
    """
    return _run("elu", input, float(alpha), inplace=inplace, client=client)


def gelu(input: Tensor, approximate: str = "none", *, client: Client) -> Tensor:
    """Returns input * Phi(input), or the approximation "tanh" of it, as `torch.nn.functional.gelu`.

    The gradient is that of the client's server. Raises InvalidFieldError if its product cannot compute it.
    """
    return _run("gelu", input, approximate, client=client)


def glu(input: Tensor, dim: int = -1, *, client: Client) -> Tensor:
    """Returns a * sigmoid(b) of the halves a and b of `input` along `dim`, as `torch.nn.functional.glu`.

    The gradient is that of the client's server. Raises InvalidFieldError if its product cannot compute it.
    """
    rank = input.dim()
    if not -rank <= dim < rank or input.shape[dim] % 2:
        raise LocalError("PyTorch wants an axis of two halves")
    halved: Tensor = run("glu", client, input, dim if dim < 0 else dim - rank)
    return halved


def hardshrink(input: Tensor, lambd: float = 0.5, *, client: Client) -> Tensor:
    """Zeroes numbers within `lambd` of 0, as `torch.nn.functional.hardshrink`.

    The gradient is that of the client's server. Raises InvalidFieldError if its product cannot compute it.
    """
    return _run("hardshrink", input, float(lambd), client=client)


def hardsigmoid(input: Tensor, inplace: bool = False, *, client: Client) -> Tensor:
    """Returns relu6(input + 3) / 6, as `torch.nn.functional.hardsigmoid`.

    The gradient is that of the client's server. Raises InvalidFieldError if its product cannot compute it.
    """
    return _run("hardsigmoid", input, inplace=inplace, client=client)


def hardswish(input: Tensor, inplace: bool = False, *, client: Client) -> Tensor:
    """Returns input * relu6(input + 3) / 6, as `torch.nn.functional.hardswish`.

    The gradient is that of the client's server, which has other slopes than PyTorch at -3 and 3. Raises
    InvalidFieldError if its product cannot compute it.
    """
    return _run("hardswish", input, inplace=inplace, client=client)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False, *, client: Client
) -> Tensor:
    """Clips to `min_val` and `max_val`, as `torch.nn.functional.hardtanh`.

    The gradient is that of the client's server. Raises InvalidFieldError if its product cannot compute it.
    """
    if not min_val <= max_val:
        raise LocalError("PyTorch refuses a least value above the largest")
    return _run("hardtanh", input, float(min_val), float(max_val), inplace=inplace, client=client)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False, *, client: Client) -> Tensor:
    """Multiplies negative numbers by `negative_slope`, as `torch.nn.functional.leaky_relu`.

    The gradient is that of the client's server. Raises InvalidFieldError if its product cannot compute it.
    """
    if inplace and negative_slope < 0:
        raise LocalError("PyTorch refuses a negative slope in place")
    return _run("leaky_relu", input, float(negative_slope), inplace=inplace, client=client)


def logsigmoid(input: Tensor, *, client: Client) -> Tensor:
    """Returns the logarithm of the sigmoid, as `torch.nn.functional.logsigmoid`.

    The gradient is that of the client's server. Raises InvalidFieldError if its product cannot compute it.
    """
    result: Tensor = run("logsigmoid", client, input)[0]
    return result


def mish(input: Tensor, inplace: bool = False, *, client: Client) -> Tensor:
    """Returns input * tanh(softplus(input)), as `torch.nn.functional.mish`.

    The gradient is that of the client's server. Raises InvalidFieldError if its product cannot compute it.
    """
    return _run("mish", input, inplace=inplace, client=client)


def prelu(input: Tensor, weight: Tensor, *, client: Client) -> Tensor:
    """Multiplies negative numbers by `weight`, one number or one for each channel, as `torch.nn.functional.prelu`.

    The gradients of both are those of the client's server. Raises InvalidFieldError if its product cannot
    compute it.
    """
    channels = input.shape[1] if input.dim() > 1 else 1
    if weight.dim() > 1 or weight.numel() not in (1, channels) or weight.dtype != input.dtype:
        raise LocalError("PyTorch wants a weight of the input's dtype for each channel")
    return run("prelu", client, input, weight if weight.dim() == input.dim() else per_channel(weight, input))


def relu(input: Tensor, inplace: bool = False, *, client: Client) -> Tensor:
    """Returns max(input, 0), as `torch.nn.functional.relu`.

    The gradient is that of the client's server. Raises InvalidFieldError if its product cannot compute it.
    """
    return _run("relu", input, inplace=inplace, client=client)


def relu6(input: Tensor, inplace: bool = False, *, client: Client) -> Tensor:
    """Returns min(max(input, 0), 6), as `torch.nn.functional.relu6`.

    The gradient is that of the client's server. Raises InvalidFieldError if its product cannot compute it.
    """
    return _run("relu6", input, inplace=inplace, client=client)


def selu(input: Tensor, inplace: bool = False, *, client: Client) -> Tensor:
    """Returns ELU with the two factors that keep mean and variance, as `torch.nn.functional.selu`.

    The gradient is that of the client's server. Raises InvalidFieldError if its product cannot compute it.
    """
    return _run("selu", input, inplace=inplace, client=client)


def sigmoid(input: Tensor, *, client: Client) -> Tensor:
    """Returns 1 / (1 + exp(-input)), as `torch.sigmoid`.

    The gradient is that of the client's server. Raises InvalidFieldError if its product cannot compute it.
    """
    return _run("sigmoid", input, client=client)


def silu(input: Tensor, inplace: bool = False, *, client: Client) -> Tensor:
    """Returns input * sigmoid(input), as `torch.nn.functional.silu`.

    The gradient is that of the client's server. Raises InvalidFieldError if its product cannot compute it.
    """
    return _run("silu", input, inplace=inplace, client=client)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0, *, client: Client) -> Tensor:
    """Returns log(1 + exp(beta * input)) / beta, the input above `threshold`, as `torch.nn.functional.softplus`.

    The gradient is that of the client's server. Raises InvalidFieldError if its product cannot compute it.
    """
    return _run("softplus", input, float(beta), float(threshold), client=client)


def softshrink(input: Tensor, lambd: float = 0.5, *, client: Client) -> Tensor:
    """Moves numbers by `lambd` towards 0, as `torch.nn.functional.softshrink`.

    The gradient is that of the client's server. Raises InvalidFieldError if its product cannot compute it.
    """
    return _run("softshrink", input, float(lambd), client=client)


def swiglu(x: Tensor, dim: int = -1, *, client: Client) -> Tensor:
    """Returns silu(a) * b of the halves a and b of `x` along `dim`, as `torch_npu.npu_swiglu`.

    The gradient is that of the client's server. Raises InvalidFieldError if its product cannot compute it.
    """
    axis = range(x.dim())[dim]
    if x.shape[axis] % 2:
        raise LocalError(f"there are no equal halves of {x.shape[axis]}")
    # With three axes, so that vmap can add its own.
    rows = run("swiglu", client, x.reshape(x.shape[:axis].numel(), x.shape[axis], -1), -2)
    halved: Tensor = rows.reshape(*x.shape[:axis], x.shape[axis] // 2, *x.shape[axis + 1 :])
    return halved


def tanh(input: Tensor, *, client: Client) -> Tensor:
    """Returns the hyperbolic tangent, as `torch.tanh`.

    The gradient is that of the client's server. Raises InvalidFieldError if its product cannot compute it.
    """
    return _run("tanh", input, client=client)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False, *, client: Client) -> Tensor:
    """Replaces numbers that are not above `threshold` by `value`, as `torch.nn.functional.threshold`.

    The gradient is that of the client's server. Raises InvalidFieldError if its product cannot compute it.
    """
    return _run("threshold", input, float(threshold), float(value), inplace=inplace, client=client)


_OF_RESULT: Final = {"celu", "elu", "selu"}
"""PyTorch's in-place forms save the result, from which the gradient is another function."""


def _run(name: str, input: Tensor, *arguments: Any, inplace: bool = False, client: Client) -> Tensor:
    if not inplace:
        result: Tensor = run(name, client, input, *arguments)
        return result
    if name in _OF_RESULT and has_hooks():
        raise LocalError(HOOKED)
    # Like PyTorch, which saves a copy if the gradient needs the overwritten values.
    return input.copy_(run(name, client, input.clone(), *arguments))


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None, *, client: Client
) -> Tensor:
    """Divides the powers of e by their sum along `dim`, as `torch.nn.functional.softmax` does.

    The gradient is that of the client's server, and has no second derivative. Raises InvalidFieldError if its product
    cannot compute it.
    """
    return _run_softmax("softmax", input, dim, dtype, client)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None, *, client: Client
) -> Tensor:
    """Returns the logarithm of softmax along `dim`, as `torch.nn.functional.log_softmax` does. As `softmax`."""
    return _run_softmax("log_softmax", input, dim, dtype, client)


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
    **dict.fromkeys((functional.celu, torch.celu), celu),
    torch.celu_: partial(celu, inplace=True),
    functional.elu: elu,
    functional.elu_: partial(elu, inplace=True),
    functional.gelu: gelu,
    functional.glu: glu,
    **dict.fromkeys((functional.hardshrink, Tensor.hardshrink), hardshrink),
    functional.hardsigmoid: hardsigmoid,
    functional.hardswish: hardswish,
    functional.hardtanh: hardtanh,
    functional.hardtanh_: partial(hardtanh, inplace=True),
    functional.leaky_relu: leaky_relu,
    functional.leaky_relu_: partial(leaky_relu, inplace=True),
    functional.logsigmoid: logsigmoid,
    functional.mish: mish,
    **dict.fromkeys((torch.prelu, Tensor.prelu), prelu),
    functional.relu6: relu6,
    **dict.fromkeys((functional.selu, torch.selu), selu),
    torch.selu_: partial(selu, inplace=True),
    functional.silu: silu,
    functional.softplus: softplus,
    functional.softshrink: softshrink,
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
    **dict.fromkeys((torch.softmax, Tensor.softmax), in_order("input dim dtype", softmax)),
    **dict.fromkeys((torch.log_softmax, Tensor.log_softmax), in_order("input dim dtype", log_softmax)),
}
"""Our functions by the functions of PyTorch that they replace."""
