"""Differentiation by a server: a custom_vjp whose backward pass is a call of a client."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import compress, product
from types import MappingProxyType
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

from aclgrad._client.sync.client import Client
from aclgrad.bridges.folding import Mapped
from aclgrad.bridges.rows import ROWS, Row
from aclgrad.bridges.served_operators import served_by, served_operator
from aclgrad.errors import AclgradError, InvalidFieldError
from aclgrad.jax._callbacks import Array, RemoteCall, Wanted, raise_named
from aclgrad.jax._checks import Shapes, check_call, check_client, checked_arrays, checked_attributes, sent_dtype
from aclgrad.operators.cases import arrays_of

Forward = Callable[..., Any]


def differentiable(
    name: str,
    client: Client,
    forward: Forward,
    arguments: Mapping[str, Any],
    static: Mapping[str, Any],
    shapes: Shapes = MappingProxyType({}),
    again: Forward | None = None,
    unsent: Sequence[str] = (),
) -> Any:
    """Returns `forward(**arguments, **static)`, whose first output has the gradients of this row.

    `arguments` are the row's arrays, the input first, None if absent; `shapes` are their required shapes. The
    operator's attributes are among `static`. If the row is linear in the input, so is its gradient, whose gradient is
    the function again, or `again` of a gradient of the input and the sent arrays. No gradient depends on `unsent`
    arguments.

    The gradients of other arguments, such as the targets of a loss, are JAX's own of `forward`, unless the row is
    linear. JAX caches compiled code per function, so the client keeps the function for arguments like these.
    """
    check_client(client)
    row = ROWS[name]
    given = checked_arrays(row, arguments, shapes)
    static = checked_attributes(row, static)
    key = served_by(client), name, forward, *static.items(), *((each, x.shape, x.dtype) for each, x in given.items())
    function = client.bridge_functions.get(key)
    if function is None:
        compiled, derived = jax.jit(partial(forward, **static)), {**static, **dict.fromkeys(unsent)}

        def known_of(arrays: Mapping[str, Any], output: Any) -> Mapping[str, Any]:
            return row.sent(row.known({**arrays, **derived}, output), _cast)

        types = {each: jax.ShapeDtypeStruct(x.shape, x.dtype) for each, x in given.items()}
        call = _checked_call(client, row, compiled, known_of, types)
        function = client.bridge_functions.keep(key, _function(call, compiled, known_of, tuple(types), again))
    return function(*varying_alike(list(given.values())))


class _OperatorCall(RemoteCall):
    """Calls a row's operator with the gradient of the output and the inputs that are `sent`.

    `types` are the types of the function's arguments, its input first, without vmap's axes.
    """

    def __init__(
        self,
        client: Client,
        row: Row,
        attributes: Mapping[str, Any],
        types: Mapping[str, jax.ShapeDtypeStruct],
        sent: tuple[str, ...],
    ) -> None:
        self._shape = next(iter(types.values())).shape
        # The output has the input's rank.
        super().__init__([types.get(each) for each in row.targets], len(self._shape))
        self.row = row
        self.sent = sent
        self._client = client
        self._attributes = attributes

    def _is_empty(self, mapped: tuple[int, ...], own: Sequence[tuple[int, ...]]) -> bool:
        return 0 in (*mapped, *self._shape, *own[0])

    def _compute(self, wanted: Wanted, arrays: Sequence[Array], mapped: tuple[int, ...]) -> Sequence[Array]:
        values = dict(zip(("grad_output", *self.sent), arrays, strict=True))
        more = {**self._attributes, "wanted": wanted}
        if not mapped:
            return list(compress(arrays_of(self._execute(*values.values(), *more.values())), wanted))
        added = len(mapped)
        own = {name: each.shape[added:] for name, each in values.items()}
        size, most = math.prod(mapped), max(self.row.spec.leading_input.ranks)
        are_common = {name for name, each in values.items() if math.prod(each.shape[:added]) == 1}
        common = {name: values[name].reshape(own[name]) for name in are_common}
        whole = {
            name: np.broadcast_to(each, (*mapped, *own[name])).reshape(size, *own[name])
            for name, each in values.items()
        }
        found = self.row.fold(Mapped(self._execute, size, {**whole, **more}, common, most, np))
        return list(compress(arrays_of(found), wanted))

    def _execute(self, *values: Any) -> Any:
        """Returns the gradient, or several, as empty arrays if not wanted."""
        spec, name = self.row.spec, self.row.operator
        given = dict(zip(("grad_output", *self.sent, *self._attributes), values, strict=False))
        inputs = {
            each.name: given[each.python_name].astype(sent_dtype(each, given[each.python_name].dtype.name), copy=False)
            for each in spec.inputs
            if each.python_name in given
        }
        attributes = {name: given[name] for name in self._attributes}
        outputs = [each.name for each in compress(spec.outputs, values[-1])] if len(spec.outputs) > 1 else None
        try:
            name = served_operator(name, self._client)
            found = arrays_of(self._client.execute(name, inputs, attributes, outputs=outputs))
        except AclgradError as error:
            raise_named(error, name)
        return found[0] if outputs is None else tuple(np.empty(0) if each is None else each for each in found)


def _cast(array: Any, dtype: Any) -> Any:
    is_type = isinstance(array, jax.ShapeDtypeStruct)
    return jax.ShapeDtypeStruct(array.shape, dtype) if is_type else array.astype(dtype)


def _first(output: Any) -> Any:
    return output[0] if isinstance(output, tuple) else output


def _checked_call(
    client: Client, row: Row, forward: Forward, known_of: Forward, types: Mapping[str, jax.ShapeDtypeStruct]
) -> _OperatorCall:
    """Returns the call of the operator; raises a RequestError if the server does not differentiate it."""
    # An empty batch is not sent, so it is legal.
    sizes = {name: tuple(size or row.is_linear for size in each.shape) for name, each in types.items()}
    checked = {name: jax.ShapeDtypeStruct(sizes[name], each.dtype) for name, each in types.items()}
    output = jax.eval_shape(forward, **checked)
    known = known_of(checked, output)
    attributes = {each.name: known[each.name] for each in row.spec.attributes if each.name in known}
    first, *others = row.spec.inputs
    sent = {each.python_name: each.name for each in others if known.get(each.python_name) is not None}
    inputs = {first.name: _first(output), **{name: known[argument] for argument, name in sent.items()}}
    if row.is_linear or all(each.size for each in inputs.values()):
        check_call(client, row.operator, inputs, attributes, row.parameters)
    return _OperatorCall(client, row, attributes, types, tuple(sent))


def _function(
    call: _OperatorCall, forward: Forward, known_of: Forward, names: tuple[str, ...], again: Forward | None
) -> Any:
    """Returns the function of the arrays of these names."""
    row, sent = call.row, call.sent

    def remember(*primals: Any) -> Any:
        arrays, perturbed = dict(zip(names, primals, strict=True)), {"input"}
        own: tuple[str, ...] = ()
        if row.is_linear:
            # The function itself and not its parts, so that second derivatives are remote, too.
            output = function(*primals)
        else:
            perturbed = {name for name, each in arrays.items() if each.perturbed}
            arrays = {name: each.value for name, each in arrays.items()}
            own = _own_gradients(row, arrays, perturbed)
            output = forward(**arrays)
        known = known_of(arrays, output)
        # In the structure, because JAX would trace values.
        marks = tuple(() if each in perturbed else None for each in row.targets)
        return output, ([known[each] for each in sent], marks, dict.fromkeys(own, ()), arrays if own else {})

    def pull(residuals: Any, cotangents: Any) -> tuple[Any, ...]:
        inputs, marks, own, arrays = residuals
        cotangent, wanted = _first(cotangents), tuple(each is not None for each in marks)
        if isinstance(cotangent, jax.custom_derivatives.SymbolicZero):
            return (None,) * len(names)
        found: dict[str, Any] = {}
        if any(wanted):
            found |= zip(compress(row.targets, wanted), remote[wanted](cotangent, *inputs), strict=True)
        if own:
            _, pull_own = jax.vjp(lambda given: forward(**{**arrays, **given}), {name: arrays[name] for name in own})
            found |= pull_own(cotangent)[0]
        return tuple(map(found.get, names))

    def remote_of(wanted: Wanted) -> Any:
        def differentiate(*inputs: Any) -> Any:
            gradients = call(*inputs, wanted=wanted)
            return tuple(varying_alike([*gradients, *inputs])[: len(gradients)])

        def remember_again(grad_output: Any, *inputs: Any) -> Any:
            kept = [each for name, each in zip(sent, inputs, strict=True) if again or name in names[1:]]
            return remote(grad_output, *inputs), kept

        def pull_again(kept: Any, cotangents: Any) -> Any:
            if not row.is_linear:
                raise second_derivative(row.function)
            return linear(cotangents[0], *kept), *[None] * len(sent)

        remote = jax.custom_vjp(differentiate)
        remote.defvjp(remember_again, pull_again)
        return remote

    remote = {wanted: remote_of(wanted) for wanted in product([False, True], repeat=len(row.targets))}
    function = jax.custom_vjp(lambda *arrays: forward(**dict(zip(names, arrays, strict=True))))
    # shard_map without jit takes no symbolic zeros.
    function.defvjp(remember, pull, symbolic_zeros=not row.is_linear)
    linear = function
    if again is not None:
        linear = jax.custom_vjp(lambda gradient, *inputs: again(gradient, **dict(zip(sent, inputs, strict=True))))
        linear.defvjp(
            lambda gradient, *inputs: (linear(gradient, *inputs), inputs),
            lambda inputs, cotangent: (*remote[True,](cotangent, *inputs), *[None] * len(sent)),
        )
    return function


def _own_gradients(row: Row, arrays: Mapping[str, Any], perturbed: set[str]) -> tuple[str, ...]:
    """Returns the arguments that JAX itself differentiates by: numbers without a gradient by the operator."""
    others = (name for name in arrays if name in perturbed and name not in row.targets)
    return tuple(name for name in others if jnp.issubdtype(arrays[name].dtype, jnp.inexact))


def with_gradient(call: RemoteCall, name: str, forward: Forward, *, is_linear: bool = False) -> Any:
    """Returns the function whose gradient by its first array `call` computes; the other arrays have none.

    `forward` returns the output, and the arrays sent with its gradient. If the function is linear, so is its gradient,
    whose gradient is the same call again.
    """

    def remember(*arrays: Any) -> Any:
        output, *sent = forward(*arrays)
        return output, (sent, (None,) * (len(arrays) - 1))

    def differentiate(*given: Any) -> Any:
        return varying_alike([*call(*given, wanted=(True,)), *given])[0]

    def pull_again(sent: Any, cotangent: Any) -> Any:
        if not is_linear:
            raise second_derivative(name)
        return remote(cotangent, *sent), *[None] * len(sent)

    remote = jax.custom_vjp(differentiate)
    remote.defvjp(lambda gradient, *sent: (remote(gradient, *sent), sent), pull_again)
    function = jax.custom_vjp(lambda *arrays: forward(*arrays)[0])
    function.defvjp(remember, lambda residuals, cotangent: (remote(cotangent, *residuals[0]), *residuals[1]))
    return function


def second_derivative(name: str) -> InvalidFieldError:
    """Returns the error for a second derivative."""
    problem = "has no second derivative on a server"
    return InvalidFieldError.at(name, problem, "write it with jax.numpy where one is needed")


def varying_alike(arrays: Sequence[Any]) -> list[Any]:
    """Returns the arrays varying along the same axes of shard_map, as its checks require; it sums shared gradients."""
    own = [_varying_axes(each) for each in arrays]
    every: frozenset[Any] = frozenset().union(*own)
    return [
        jax.lax.pcast(each, tuple(every - axes), to="varying") if every - axes else each
        for each, axes in zip(arrays, own, strict=True)
    ]


def _varying_axes(array: Any) -> frozenset[Any]:
    """Returns none before JAX 0.8, whose shard_map needs `check_rep=False` or `check_vma=False`."""
    if not hasattr(jax.lax, "pcast"):
        return frozenset()
    type = jax.typeof(array)
    axes: frozenset[Any] = type.manual_axis_type.varying if hasattr(type, "manual_axis_type") else type.vma
    return axes
