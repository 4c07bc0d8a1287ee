"""The remote call of gradients, as JAX makes it: with arrays on the host, and for all that vmap maps at once."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from itertools import compress
from typing import Any

import jax
import numpy as np

from aclgrad._client.sync.client import Client
from aclgrad.bridges.folding import Mapped
from aclgrad.bridges.rows import Row
from aclgrad.bridges.served import served_operator
from aclgrad.errors import AclgradError
from aclgrad.jax._checks import sent_dtype
from aclgrad.operators.cases import arrays_of

try:
    from jax.experimental.buffer_callback import buffer_callback
except ImportError:  # before JAX 0.6
    buffer_callback = None

Host = np.ndarray[Any, Any]
Wanted = tuple[bool, ...]
"""Which of the operator's outputs are wanted."""


class RemoteCall:
    """Calls a row's operator with the gradient of the output and the inputs that are `sent`.

    `types` are those of the function's arguments, its input first, without what vmap maps.
    """

    def __init__(
        self,
        client: Client,
        row: Row,
        attributes: Mapping[str, Any],
        types: Mapping[str, jax.ShapeDtypeStruct],
        sent: tuple[str, ...],
    ) -> None:
        self.row = row
        self.sent = sent
        self._client = client
        self._attributes = attributes
        self._shape = next(iter(types.values())).shape
        self._types = [types.get(each) for each in row.targets]
        # JAX compiles a callback once for each that is not the same.
        self._callbacks: dict[Wanted, tuple[Callable[..., Any], Callable[..., Any]]] = {}

    def __call__(self, *arrays: jax.Array, wanted: Wanted) -> list[jax.Array]:
        """Returns the gradients that are wanted, computed when JAX gets there."""
        types = list(compress(self._types, wanted))
        made = partial(self._gradients, wanted), partial(self._write, wanted)
        gradients, write = self._callbacks.setdefault(wanted, made)
        if buffer_callback is None or jax.default_backend() != "cpu":
            return list(jax.pure_callback(gradients, types, *arrays, vmap_method="expand_dims"))
        # On the CPU, pure_callback waits for copies by the threads that run callbacks: a few at once wait for ever.
        return list(buffer_callback(write, types, vmap_method="expand_dims")(*arrays))

    def _write(self, wanted: Wanted, _: Any, outputs: Any, *arrays: Any) -> None:
        for output, gradient in zip(outputs, self._gradients(wanted, *arrays), strict=True):
            np.asarray(output)[...] = gradient

    def _gradients(self, wanted: Wanted, *arrays: Any) -> list[Host]:
        """Makes the call. All arrays have the axes that vmap added in front, of size 1 if they are not mapped."""
        values = dict(zip(("grad_output", *self.sent), map(np.asarray, arrays), strict=True))
        types: list[Any] = list(compress(self._types, wanted))
        # The output has as many dimensions as the input.
        added = values["grad_output"].ndim - len(self._shape)
        own = {name: each.shape[added:] for name, each in values.items()}
        mapped = np.broadcast_shapes(*(each.shape[:added] for each in values.values()))
        if 0 in (*mapped, *self._shape, *own["grad_output"]):
            return [np.zeros((*mapped, *type.shape), type.dtype) for type in types]
        more = {**self._attributes, "wanted": wanted}
        if mapped:
            size, most = math.prod(mapped), max(self.row.spec.inputs[0].ranks)
            are_common = {name for name, each in values.items() if math.prod(each.shape[:added]) == 1}
            common = {name: values[name].reshape(own[name]) for name in are_common}
            whole = {
                name: np.broadcast_to(each, (*mapped, *own[name])).reshape(size, *own[name])
                for name, each in values.items()
            }
            found = self.row.fold(Mapped(self._execute, size, {**whole, **more}, common, most, np))
        else:
            found = self._execute(*values.values(), *more.values())
        return [
            each.reshape((*mapped, *type.shape)).astype(type.dtype, copy=False)
            for each, type in zip(compress(arrays_of(found), wanted), types, strict=True)
        ]

    def _execute(self, *values: Any) -> Any:
        """Returns the gradient, or those of several outputs, as empty arrays if they are not wanted."""
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
            # JAX keeps the text alone, with every frame of the traceback.
            if error.operator is None:
                error.operator = name
                error.message = f"{name}: {error.message}"
            raise error.with_traceback(None) from None
        return found[0] if outputs is None else tuple(np.empty(0) if each is None else each for each in found)
