"""The remote call of gradients, as JAX makes it: with arrays on the host, and for all that vmap maps at once."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from aclgrad._client.sync.client import Client
from aclgrad.bridges.served import served_operator
from aclgrad.errors import AclgradError
from aclgrad.jax._checks import sent_dtype
from aclgrad.jax._folding import PARAMETERS, Host, fold
from aclgrad.operators.cases import arrays_of
from aclgrad.operators.spec import INPUT_SHAPES, OperatorSpec, OutputSpec

try:
    from jax.experimental.buffer_callback import buffer_callback
except ImportError:  # before JAX 0.6
    buffer_callback = None


def argument_of(output: OutputSpec) -> str:
    """Returns the function's argument that the output is the gradient of."""
    return "input" if output.of == "self" else output.of


class RemoteCall:
    """Calls an operator of the server.

    `types` are those of the function's arguments, its input first, without what vmap maps, and `given` the inputs that
    the operator gets, by default all. Not every operator takes the function's input (`takes_input`).
    """

    def __init__(
        self,
        client: Client,
        spec: OperatorSpec,
        static: Mapping[str, Any],
        types: Mapping[str, jax.ShapeDtypeStruct],
        given: Sequence[str] | None = None,
    ) -> None:
        self.client = client
        self.spec = spec
        self.types = types
        self.input_type = next(iter(types.values()))
        self.takes_input = any(each.name == "self" for each in spec.inputs)
        self._inputs = [each for each in spec.inputs if given is None or each.name in given]
        self._attributes = {each.name: static[each.name] for each in spec.attributes if each.name in static}
        # JAX compiles a callback once for each that is not the same.
        self._callbacks: dict[tuple[bool, ...], tuple[Callable[..., Any], Callable[..., Any]]] = {}

    def attributes(self, shape: tuple[int, ...]) -> dict[str, Any]:
        """Returns the attributes for an input of this shape."""
        return self._attributes | {each.name: shape for each in self.spec.attributes if each.name in INPUT_SHAPES}

    def inputs(self, grad_output: Any, input: Any, others: Any) -> list[Any]:
        """Returns what an operator with one output takes, in its order."""
        return [grad_output, *([input] if self.takes_input else []), *others]

    def __call__(self, *arrays: jax.Array, wanted: tuple[bool, ...] = (True,)) -> list[jax.Array]:
        """Returns the gradients that are wanted of the operator's outputs, computed when JAX gets there."""
        outputs = [each for each, is_wanted in zip(self.spec.outputs, wanted, strict=True) if is_wanted]
        types = [self.types[argument_of(each)] for each in outputs]
        made = partial(self._gradients, outputs), partial(self._write, outputs)
        gradients, write = self._callbacks.setdefault(wanted, made)
        if buffer_callback is None or jax.default_backend() != "cpu":
            return list(jax.pure_callback(gradients, types, *arrays, vmap_method="expand_dims"))
        # On the CPU, pure_callback waits for copies by the threads that run callbacks: a few at once wait for ever.
        return list(buffer_callback(write, types, vmap_method="expand_dims")(*arrays))

    def _write(self, wanted: Sequence[OutputSpec], _: Any, outputs: Any, *arrays: Any) -> None:
        for output, gradient in zip(outputs, self._gradients(wanted, *arrays), strict=True):
            np.asarray(output)[...] = gradient

    def _gradients(self, wanted: Sequence[OutputSpec], *arrays: Any) -> list[Host]:
        """Makes the call. All arrays have the axes that vmap added in front, of size 1 if they are not mapped."""
        values = [np.asarray(each) for each in arrays]
        types = [self.types[argument_of(each)] for each in wanted]
        # The output has as many dimensions as the input.
        added = values[0].ndim - len(self.input_type.shape)
        mapped = np.broadcast_shapes(*(each.shape[:added] for each in values))
        if 0 in (*mapped, *self.input_type.shape) or values[0].size == 0:
            return [np.zeros((*mapped, *type.shape), type.dtype) for type in types]
        whole = {
            spec.name: np.broadcast_to(array, (*mapped, *array.shape[added:]))
            for spec, array in zip(self._inputs, values, strict=True)
        }
        has_common_weight = all(
            spec.name not in PARAMETERS or math.prod(array.shape[:added]) == 1
            for spec, array in zip(self._inputs, values, strict=True)
        )
        is_of_input = has_common_weight and all(argument_of(each) == "input" for each in wanted)
        shape = self.input_type.shape
        calls = fold(self.spec, whole, mapped, shape, self._attributes, is_of_input=is_of_input)
        found = [calls.unfolded(self._execute(wanted, each, calls.shape), wanted) for each in calls.inputs]
        joined = found[0] if len(found) == 1 else [np.stack(each) for each in zip(*found, strict=True)]
        return [
            each.reshape((*mapped, *type.shape)).astype(type.dtype, copy=False)
            for each, type in zip(joined, types, strict=True)
        ]

    def _execute(self, wanted: Sequence[OutputSpec], inputs: Mapping[str, Host], shape: tuple[int, ...]) -> list[Host]:
        name, is_several = self.spec.name, len(self.spec.outputs) > 1
        sent = {
            spec.name: inputs[spec.name].astype(sent_dtype(spec, inputs[spec.name].dtype.name), copy=False)
            for spec in self._inputs
        }
        outputs = [each.name for each in wanted] if is_several else None
        try:
            name = served_operator(name, self.client)
            found = arrays_of(self.client.execute(name, sent, self.attributes(shape), outputs=outputs))
            return [each for each in found if each is not None]
        except AclgradError as error:
            # JAX keeps the text alone, with every frame of the traceback.
            if error.operator is None:
                error.operator = name
                error.message = f"{name}: {error.message}"
            raise error.with_traceback(None) from None
