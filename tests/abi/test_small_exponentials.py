"""Derivatives that decay with e^-x, down to the least subnormal number: gradients of any size, infinity too, keep what
is left of them."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from aclgrad import reference
from tools.abi.acl import Library

from .table_gradients import call, gradient_of

STEP = 2.0**-149
"""Between subnormal numbers of float32."""
GRADS = np.array([1e-38, 1.0, 1e38], np.float32)
INPUTS = np.concatenate([np.linspace(-106, 106, 4001), np.linspace(-14.6, -13, 801)]).astype(np.float32)

Derivative = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]
"""Returns the derivative, the sum of the absolute values of its terms, and what the decay is multiplied by in them."""


def sigmoid(x: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0, -x))


def silu(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    factor = 1 + np.abs(x) * sigmoid(-x)
    return sigmoid(x) * (1 + x * sigmoid(-x)), sigmoid(x) * factor, factor


def gelu_tanh(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    scale, cube = 2 * np.sqrt(2 / np.pi), 0.044715
    z = scale * (x + cube * x**3)
    slope = x * scale * (1 + 3 * cube * x**2) * sigmoid(-z)
    factor = 1 + np.abs(slope)
    return sigmoid(z) * (1 + slope), sigmoid(z) * factor, factor


def gelu_exact(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    density = np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    derivative = reference.gelu_backward_v2(np.ones_like(x), x, "none")
    return derivative, derivative - x * density + np.abs(x) * density, 1 + np.abs(x)


@dataclass(frozen=True)
class Decay:
    operator: str
    derivative: Derivative
    relative: float
    """Of float32's rounding of the exponent."""
    attributes: dict[str, str] = field(default_factory=dict)


DECAYS = {
    "silu": Decay("silu_backward", silu, 2e-6),
    "gelu": Decay("gelu_backward", gelu_tanh, 5e-5),
    "gelu_v2 none": Decay("gelu_backward_v2", gelu_exact, 2e-5, {"approximate": "none"}),
    "gelu_v2 tanh": Decay("gelu_backward_v2", gelu_tanh, 5e-5, {"approximate": "tanh"}),
}


def found_by(acl: Library, decay: Decay, grads: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    typed = call(decay.operator, grad_output=grads.shape, self=inputs.shape, **decay.attributes)
    found: np.ndarray = gradient_of(acl, typed, grad_output=grads, self=inputs)
    return found.astype(np.float64)


@pytest.mark.parametrize("decay", DECAYS.values(), ids=DECAYS)
def test_gradients_keep_what_is_left_of_the_derivative(acl: Library, decay: Decay) -> None:
    derivative, terms, factor = decay.derivative(INPUTS.astype(np.float64))
    for grad in GRADS:
        found = found_by(acl, decay, np.full_like(INPUTS, grad), INPUTS)
        limit = float(grad) * (decay.relative * terms + STEP * (1 + factor)) + STEP
        assert (np.abs(found - derivative * float(grad)) <= limit).all()
    left = np.abs(derivative) > 300 * STEP
    infinite = found_by(acl, decay, np.full_like(INPUTS, np.inf), INPUTS)
    np.testing.assert_array_equal(infinite[left], np.copysign(np.inf, derivative[left]))


@pytest.mark.parametrize("grad", [*GRADS, np.inf], ids=str)
def test_both_halves_of_a_gated_unit(acl: Library, grad: float) -> None:
    a, b = INPUTS[np.abs(INPUTS) < 100], np.float32(0.75)
    x = np.stack([a, np.full_like(a, b)])
    typed = call("swi_glu_grad", grad_output=(1, a.size), x=x.shape, dim=0)
    found = gradient_of(acl, typed, grad_output=np.full((1, a.size), grad, np.float32), x=x).astype(np.float64)
    wide = a.astype(np.float64)
    derivative, terms, factor = silu(wide)
    truths = np.stack([derivative * float(b), wide * sigmoid(wide)])
    if np.isinf(grad):
        left = np.abs(truths) > 300 * STEP
        np.testing.assert_array_equal(found[left], np.copysign(np.inf, truths[left]))
        return
    scales, factors = np.stack([terms, np.abs(truths[1])]), np.stack([factor, np.abs(wide)])
    # The gradient is multiplied by the sigmoid first, so their product may be subnormal.
    limit = float(grad) * (2e-6 * scales + STEP * (1 + factors)) + STEP * (1 + factors)
    held = np.abs(truths * float(grad)) < np.finfo(np.float32).max
    assert (np.abs(found - truths * float(grad)) <= limit)[held].all()


def test_powers_of_e_are_right_to_the_last_subnormal(acl: Library) -> None:
    """The first element of each row has the gradient 0, so what is left is the power times the sum, which is 1."""
    exponents = np.concatenate([INPUTS[np.abs(INPUTS) < 88], np.linspace(-105, -86, 4001)]).astype(np.float32)
    output = np.stack([exponents, np.zeros_like(exponents)], 1)
    grad = np.zeros_like(output)
    grad[:, 1] = -1
    typed = call("log_softmax_backward", grad_output=grad.shape, output=output.shape, dim=-1)
    found = gradient_of(acl, typed, grad_output=grad, output=output)[:, 0].astype(np.float64)
    truth = np.exp(exponents.astype(np.float64))
    assert (np.abs(found - truth) <= 2.0**-22 * truth + 0.75 * STEP).all()
