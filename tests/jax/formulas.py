"""Activations and losses by the names of JAX and Optax, each with the same formula, which JAX itself differentiates."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import jax
import numpy as np
from jax import numpy as jnp

import aclgrad
import aclgrad.jax

_GENERATOR: Final = np.random.default_rng(58)
SHAPE: Final = (3, 4, 6)


@dataclass(frozen=True)
class FormulaCall:
    """A function with its arrays, the options of both sides, and the operator that has the gradient of the first."""

    name: str
    operator: str
    theirs: Callable[..., Any] = field(hash=False)
    arrays: tuple[Any, ...] = field(hash=False)
    options: dict[str, Any] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return "-".join([self.name, *(f"{name}_{each}" for name, each in self.options.items())])

    @property
    def by(self) -> tuple[int, ...]:
        """The places of the arrays that have a gradient."""
        return tuple(place for place, each in enumerate(self.arrays) if each.dtype.kind == "f")

    def ours(self, client: aclgrad.Client) -> Callable[..., jax.Array]:
        function = getattr(aclgrad.jax, self.name)
        return lambda *arrays: function(*arrays, **self.options, client=client)

    def right(self, *arrays: Any) -> Any:
        return self.theirs(*arrays, **self.options)


def drawn(*shape: int) -> Any:
    return 2 * _GENERATOR.standard_normal(shape, np.float32)


def shares(*shape: int) -> Any:
    """Returns numbers above 0 whose rows sum up to 1."""
    return _GENERATOR.dirichlet(np.ones(shape[-1]), shape[:-1]).astype(np.float32)


def _activation(name: str, operator: str, **options: Any) -> FormulaCall:
    return FormulaCall(name, f"{operator}_backward", getattr(jax.nn, name), (drawn(*SHAPE),), options)


def _hardshrink(x: Any, lambd: float) -> Any:
    return jnp.where(jnp.abs(x) > lambd, x, 0)


def _softshrink(x: Any, lambd: float) -> Any:
    return jnp.maximum(x - lambd, 0) + jnp.minimum(x + lambd, 0)


ACTIVATIONS: Final = (
    _activation("celu", "elu", alpha=0.7),
    _activation("elu", "elu", alpha=1.5),
    _activation("hard_sigmoid", "hardsigmoid"),
    _activation("hard_tanh", "hardtanh"),
    _activation("log_sigmoid", "log_sigmoid"),
    _activation("mish", "mish"),
    _activation("relu6", "hardtanh"),
    _activation("selu", "elu"),
    _activation("softplus", "softplus"),
    _activation("glu", "glu"),
    _activation("glu", "glu", axis=1),
    FormulaCall("hardshrink", "hardshrink_backward", _hardshrink, (drawn(*SHAPE),), {"lambd": 0.6}),
    FormulaCall("softshrink", "softshrink_backward", _softshrink, (drawn(*SHAPE),), {"lambd": 0.6}),
)


def _squared(predictions: Any, targets: Any = None) -> Any:
    return jnp.square(predictions if targets is None else predictions - targets)


def _huber(predictions: Any, targets: Any, delta: float) -> Any:
    error = jnp.abs(predictions - targets)
    small = jnp.minimum(error, delta)
    return 0.5 * small**2 + delta * (error - small)


def _binary(logits: Any, labels: Any) -> Any:
    return jnp.logaddexp(0, logits) - logits * labels


def _kl(log_predictions: Any, targets: Any, axis: int = -1) -> Any:
    return (jax.scipy.special.xlogy(targets, targets) - targets * log_predictions).sum(axis)


def _kl_of_logs(log_predictions: Any, log_targets: Any, axis: int = -1) -> Any:
    return (jnp.exp(log_targets) * (log_targets - log_predictions)).sum(axis)


_PAIR: Final = drawn(*SHAPE), drawn(*SHAPE)
LOSSES: Final = (
    FormulaCall("squared_error", "mse_loss_backward", _squared, _PAIR),
    FormulaCall("squared_error", "mse_loss_backward", _squared, _PAIR[:1]),
    FormulaCall("l2_loss", "mse_loss_backward", lambda *pair: 0.5 * _squared(*pair), _PAIR),
    FormulaCall("huber_loss", "smooth_l1_loss_backward", _huber, _PAIR, {"delta": 0.8}),
    FormulaCall(
        "sigmoid_binary_cross_entropy",
        "binary_cross_entropy_with_logits_backward",
        _binary,
        (drawn(*SHAPE), shares(*SHAPE)),
    ),
    FormulaCall(
        "sigmoid_binary_cross_entropy",
        "binary_cross_entropy_with_logits_backward",
        _binary,
        (drawn(*SHAPE), _GENERATOR.integers(0, 2, SHAPE) == 1),
    ),
    FormulaCall("kl_divergence", "kl_div_backward", _kl, (drawn(*SHAPE), shares(*SHAPE))),
    FormulaCall("kl_divergence_with_log_targets", "kl_div_backward", _kl_of_logs, _PAIR, {"axis": 1}),
)
FORMULAS: Final = (*ACTIVATIONS, *LOSSES)
FIRST_FORMULA: Final = {each.name: each for each in reversed(FORMULAS)}
