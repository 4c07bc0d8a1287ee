"""Checks whether a module is a root mean square normalisation, by its outputs and by the gradients of a probe."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import _disable_current_modes

DTYPES: Final = (torch.float32, torch.float16, torch.bfloat16)
OTHER: Final = "its output is no root mean square normalisation by `weight` and `variance_epsilon` or `eps`"
OTHER_GRADIENT: Final = "its gradient is not that of root mean square normalisation"
_ROWS: Final = 3


def rstd_of(input: Tensor, axes: int, epsilon: float) -> Tensor:
    return (input.float().square().mean(tuple(range(-axes, 0)), keepdim=True) + epsilon).rsqrt()


def probed(forward: Callable[..., Any], module: nn.Module, input: Tensor, weight: Tensor, epsilon: float) -> str:
    """Computes a probe by a copy of the module with another weight, and returns why the module stays unchanged."""
    try:
        with ExitStack() as stack:
            # Hidden from everything around the module: transforms, checkpoints that count computed or saved tensors,
            # and the block.
            stack.enter_context(temporarily_clear_interpreter_stack())
            stack.enter_context(_disable_current_modes())
            if torch._C._autograd._saved_tensors_hooks_is_enabled():  # noqa: SLF001 - transforms allow none
                stack.enter_context(saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor))
            stack.enter_context(torch._C.DisableTorchFunction())  # noqa: SLF001 - the block would count its parts
            stack.enter_context(torch.random.fork_rng([]))
            return _of_probe(forward, module, input, weight, epsilon)
    except Exception as error:  # of foreign code
        return f"it cannot be computed by itself ({type(error).__name__})"


def _of_probe(forward: Callable[..., Any], module: nn.Module, input: Tensor, weight: Tensor, epsilon: float) -> str:
    # Not random, so that later random numbers are the same as without a block.
    options = {"dtype": torch.float32, "device": weight.device}
    columns = weight.numel()
    other = (torch.arange(columns, **options) * 0.7).sin() * 0.6 + 1.2
    places = torch.arange(_ROWS * columns, **options).reshape(_ROWS, columns)
    rows = (places * 0.37 + 0.5).sin()
    # The last row is so small that epsilon matters, if the dtype has such numbers.
    factors = torch.tensor([1.0, 20.0, max(epsilon, 1e-12) ** 0.5], **options)[:, None]
    # The normalisation removes its part along the input. Large factors of small rows' gradients might overflow a narrow
    # dtype.
    grad = (rows + 0.5 * (places * 0.9).cos()) * factors.sqrt()
    axes = (1,) * (input.dim() - weight.dim() - 1) if input.dim() > weight.dim() else ()
    shape = (*axes, _ROWS, *weight.shape)
    probe, grad = (each.to(input.dtype).reshape(shape) for each in (rows * factors, grad))
    if input.dim() == weight.dim():
        probe, grad = probe[0], grad[0]
    copy: nn.Module = object.__new__(type(module))
    copy.__dict__.update(module.__dict__)
    parameter = nn.Parameter(other.to(weight.dtype).reshape(weight.shape))
    copy.__dict__["_parameters"] = {"weight": parameter}
    with torch.enable_grad():
        probe.requires_grad_()
        output = forward(copy, probe)
    with torch.no_grad():
        if because := difference(output, probe, parameter, epsilon):
            return because
    if not output.requires_grad:
        return OTHER_GRADIENT
    found = torch.autograd.grad(output, (probe, parameter), grad.to(output.dtype), allow_unused=True)
    with torch.no_grad():
        return _difference_of_gradients(found, probe, parameter, grad, epsilon, _unit(output, probe, parameter))


def difference(output: Any, input: Tensor, weight: Tensor, epsilon: float) -> str:
    """Returns why the output is not the normalisation of the input; empty if it is, up to rounding."""
    if not isinstance(output, Tensor) or output.shape != input.shape or output.dtype not in DTYPES:
        return OTHER
    expected = input.float() * rstd_of(input, weight.dim(), epsilon) * weight.float()
    unit = _unit(output, input, weight)
    # A module may round after each of its steps.
    rtol = 1e-5 if unit < 1e-6 else 4 * unit
    is_close = torch.isclose(output.float(), expected, rtol=rtol, atol=rtol * 1e-2, equal_nan=True)
    return "" if bool(is_close.all()) else OTHER


def _unit(*tensors: Tensor) -> float:
    return max(float(torch.finfo(each.dtype).eps) for each in tensors)


def _difference_of_gradients(
    found: tuple[Tensor | None, ...], input: Tensor, weight: Tensor, grad: Tensor, epsilon: float, unit: float
) -> str:
    """Returns why these are not gradients of the normalisation; empty if they are, up to rounding."""
    if any(each is None for each in found):
        return OTHER_GRADIENT
    axes, rows = tuple(range(-weight.dim(), 0)), tuple(range(input.dim() - weight.dim()))
    rstd, grad = rstd_of(input, weight.dim(), epsilon), grad.float()
    normal, scaled = input.float() * rstd, grad * weight.float()
    along = normal * (scaled * normal).mean(axes, keepdim=True)
    products = grad * normal
    expected = rstd * (scaled - along), products.sum(rows) if rows else products
    # Rounding errors of numbers of this size: each step may round one of them.
    sizes = rstd * (scaled.abs() + along.abs()).amax(axes, keepdim=True), products.abs().amax()
    tolerance = 1e-4 if unit < 1e-6 else 8 * unit
    pairs = zip(found, expected, sizes, strict=True)
    is_close = (bool(((each.float() - other).abs() <= tolerance * size).all()) for each, other, size in pairs)  # type: ignore[union-attr]
    return "" if all(is_close) else OTHER_GRADIENT
