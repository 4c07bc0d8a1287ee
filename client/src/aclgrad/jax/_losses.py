"""Losses by Optax's names and arguments: of elements, of rows of classes, and of sequences."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from aclgrad._client.sync.client import Client
from aclgrad.bridges.rows import ROWS
from aclgrad.bridges.served_operators import served_by
from aclgrad.errors import AclgradError, InvalidFieldError
from aclgrad.jax import _callbacks
from aclgrad.jax._activations import wide
from aclgrad.jax._callbacks import RemoteCall, Wanted, raise_named
from aclgrad.jax._checks import check_array, check_call, check_client, checked_dtype
from aclgrad.jax._gradients import differentiable, varying_alike, with_gradient
from aclgrad.operators.catalogue import OPERATORS

_LEAST_DELTA: Final = 1e-6
_STEPS: Final = ("nll_loss_backward", "log_softmax_backward")


def squared_error(predictions: Array, targets: Array | None = None, *, client: Client) -> Array:
    """Returns the square of each error, as `optax.squared_error`; without targets, of each prediction.

    Takes float32, float16 and bfloat16, and targets of the same shape, whose gradient is JAX's own. The gradient has no
    derivative of its own.
    """
    return _of_each("mse_loss", client, {"predictions": predictions, "targets": targets})


def l2_loss(predictions: Array, targets: Array | None = None, *, client: Client) -> Array:
    """Returns half the square of each error, as `optax.l2_loss`. As `squared_error`."""
    return 0.5 * squared_error(predictions, targets, client=client)


def huber_loss(predictions: Array, targets: Array | None = None, delta: float = 1.0, *, client: Client) -> Array:
    """Returns half the square of errors up to `delta`, and lines beyond, as `optax.huber_loss`. As `squared_error`."""
    if not isinstance(delta, float | int) or not _LEAST_DELTA <= delta < math.inf:
        raise InvalidFieldError.at("delta", f"is {delta!r}", f"give a number of at least {_LEAST_DELTA:g}")
    given = {"predictions": predictions, "targets": targets}
    return delta * _of_each("smooth_l1_loss", client, given, beta=float(delta))


def sigmoid_binary_cross_entropy(logits: Array, labels: Array, *, client: Client) -> Array:
    """Returns the cross-entropy of each logit with its probability, as `optax.sigmoid_binary_cross_entropy`.

    As `squared_error`; labels may also be truth values or integers.
    """
    return _of_each("binary_cross_entropy_with_logits", client, {"logits": logits, "labels": labels})


def kl_divergence(log_predictions: Array, targets: Array, axis: int = -1, *, client: Client) -> Array:
    """Returns the divergence from the logarithms to the targets, summed along `axis`, as `optax.kl_divergence`.

    As `squared_error`.
    """
    given = {"log_predictions": log_predictions, "targets": targets}
    return _of_each("kl_div", client, given, log_target=False).sum(axis)


def kl_divergence_with_log_targets(
    log_predictions: Array, log_targets: Array, axis: int = -1, *, client: Client
) -> Array:
    """Does so for logarithms of targets, as `optax.kl_divergence_with_log_targets`. As `squared_error`."""
    given = {"log_predictions": log_predictions, "log_targets": log_targets}
    return _of_each("kl_div", client, given, log_target=True).sum(axis)


def _of_each(name: str, client: Client, given: dict[str, Any], **static: Any) -> Array:
    """Returns the loss of each element; the second of the arrays may be None, for zeros."""
    (first, predictions), (second, targets) = given.items()
    input = checked_dtype(first, predictions, ROWS[name].spec.dtypes)
    if targets is None:
        target = jnp.zeros_like(input)
    else:
        check_array(second, targets)
        if jnp.shape(targets) != input.shape:
            raise InvalidFieldError.at(f"{second}.shape", f"is {jnp.shape(targets)}", f"give {input.shape}")
        target = jnp.asarray(targets).astype(input.dtype)
    arrays, rule = {"input": input, "target": target}, {**static, "reduction": 0}
    found: Array = differentiable(name, client, _FORWARD[name], arrays, rule)
    return found


def _smooth_l1(input: Array, target: Array, beta: float) -> Array:
    error = jnp.abs(input - target)
    return jnp.where(error < beta, 0.5 * jnp.square(error) / beta, error - 0.5 * beta)


def _binary_cross_entropy(logits: Array, labels: Array) -> Array:
    return -labels * jax.nn.log_sigmoid(logits) - (1 - labels) * jax.nn.log_sigmoid(-logits)


def _kl_div(input: Array, target: Array, log_target: bool) -> Array:
    if log_target:
        return jnp.exp(target) * (target - input)
    logarithm = jnp.where(target == 0, 0.0, jnp.log(jnp.where(target == 0, 1.0, target)))
    return target * (logarithm - input)


def _unreduced(function: Callable[..., Array]) -> Callable[..., Array]:
    def loss(input: Array, target: Array, *, reduction: int, **static: Any) -> Array:
        return function(wide(input), wide(target), **static).astype(input.dtype)

    return loss


_FORWARD: Final = {
    "mse_loss": _unreduced(lambda input, target: jnp.square(input - target)),
    "smooth_l1_loss": _unreduced(_smooth_l1),
    "binary_cross_entropy_with_logits": _unreduced(_binary_cross_entropy),
    "kl_div": _unreduced(_kl_div),
}


def softmax_cross_entropy_with_integer_labels(logits: Array, labels: Array, axis: int = -1, *, client: Client) -> Array:
    """Returns the cross-entropy of each row of logits with its class, as Optax's function of this name.

    One message has the gradient of the logits, and that one has no derivative. Takes float32, float16 and bfloat16, and
    int32 or int64 labels. The server refuses labels that are no classes in the backward pass.
    """
    check_client(client)
    given = checked_dtype("logits", logits, OPERATORS[_STEPS[0]].dtypes)
    classes = checked_dtype("labels", labels, ("int32", "int64"))
    if isinstance(axis, bool) or not isinstance(axis, int) or not -given.ndim <= axis < given.ndim:
        raise InvalidFieldError.at("axis", f"is {axis!r} for logits of {given.shape}", "give one of their axes")
    moved = jnp.moveaxis(given, axis, -1)
    if classes.shape != moved.shape[:-1]:
        raise InvalidFieldError.at("labels.shape", f"is {classes.shape}", f"give {moved.shape[:-1]}")
    key = served_by(client), "cross_entropy", moved.shape, moved.dtype, classes.dtype
    function = client.bridge_functions.get(key)
    if function is None:
        call = _CrossEntropyCall(client, moved, classes)
        forward = jax.jit(_log_likelihood)
        made = with_gradient(call, "softmax_cross_entropy_with_integer_labels", forward)
        function = client.bridge_functions.keep(key, made)
    found: Array = function(*varying_alike([moved, classes]))
    return found


def _log_likelihood(logits: Array, labels: Array) -> tuple[Array, Array, Array]:
    """Returns the losses and the sent arrays: the log probabilities and the labels."""
    logs = jax.nn.log_softmax(wide(logits), -1)
    losses = -jnp.take_along_axis(logs, labels[..., None], -1)[..., 0]
    return losses.astype(logits.dtype), logs.astype(logits.dtype), labels


class _CrossEntropyCall(RemoteCall):
    """Gets the gradient of the logits by one message, given the losses' gradient, log probabilities and labels.

    Elements that vmap maps become rows.
    """

    def __init__(self, client: Client, logits: Array, labels: Array) -> None:
        super().__init__([jax.ShapeDtypeStruct(logits.shape, logits.dtype)], labels.ndim)
        self._client = client
        self._classes = logits.shape[-1]
        if self._classes:
            row, rows, weight = (
                jax.ShapeDtypeStruct(shape, logits.dtype) for shape in ((1,), (1, self._classes), (self._classes,))
            )
            target = jax.ShapeDtypeStruct((1,), labels.dtype)
            types = {"grad_output": row, "self": rows, "target": target, "weight": weight, "total_weight": row}
            names = {"self": "logits", "grad_output": "logits", "output": "logits", "target": "labels"}
            check_call(client, _STEPS[0], types, {"reduction": 0}, names)
            check_call(client, _STEPS[1], {"grad_output": rows, "output": rows}, {"dim": -1}, names)

    def _is_empty(self, mapped: tuple[int, ...], own: Sequence[tuple[int, ...]]) -> bool:
        return any(0 in each for each in (mapped, *own))

    def _compute(
        self, wanted: Wanted, arrays: Sequence[_callbacks.Array], mapped: tuple[int, ...]
    ) -> Sequence[_callbacks.Array]:
        added = len(mapped)
        gradient, logs, labels = (np.broadcast_to(each, (*mapped, *each.shape[added:])) for each in arrays)
        dtype, output = gradient.dtype, logs.reshape(-1, self._classes)
        losses: dict[str, Any] = {
            "grad_output": gradient.reshape(-1),
            "self": output,
            "target": labels.reshape(-1),
            "weight": np.ones(self._classes, dtype),
            "total_weight": np.ones((), dtype),
        }
        program = self._client.program()
        try:
            step: Any = program.execute(_STEPS[0], losses, {"reduction": 0})
            logits: Any = program.execute(_STEPS[1], {"grad_output": step, "output": output}, {"dim": -1})
            return list(program.run(logits))
        except AclgradError as error:
            raise_named(error, _STEPS[0])
