"""Convolutions, computed here; one operator computes their gradients from arrays in the user's layout."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import Any, Final

import jax
import numpy as np
from jax import numpy as jnp
from jax.lax import ConvDimensionNumbers

from aclgrad._client.calls.handles import Handle
from aclgrad._client.sync.client import Client
from aclgrad.bridges.served_operators import served_by
from aclgrad.errors import AclgradError
from aclgrad.jax._callbacks import Array, RemoteCall, Wanted, raise_named
from aclgrad.jax._checks import check_call
from aclgrad.jax._gradients import varying_alike
from aclgrad.jax._multilinear import multilinear

OPERATOR: Final = "convolution_backward"
_GRADIENTS: Final = ("grad_input", "grad_weight")
_PARAMETERS: Final = {
    "grad_output": "output",
    "input": "lhs",
    "weight": "rhs",
    "stride": "window_strides",
    "dilation": "rhs_dilation",
    "groups": "feature_group_count",
}
"""JAX's names of the operator's inputs and attributes."""

Sizes = tuple[int, ...]
Sent = Array | Sizes
"""An array, or the shape of one whose values are not needed."""


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution in the operator's form, with the axes of its arrays.

    A transposed one has its strides between the elements of `lhs`.
    """

    axes: ConvDimensionNumbers
    stride: Sizes
    padding: Sizes
    dilation: Sizes
    transposed: bool
    output_padding: Sizes
    groups: int

    def forward(self, precision: Any, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
        """Computes it by JAX; sums of 16 bits are float32."""
        ones = (1,) * len(self.stride)
        strides, between, pads = self.stride, ones, [(each, each) for each in self.padding]
        if self.transposed:
            strides, between = ones, self.stride
            kernel = [rhs.shape[axis] for axis in self.axes.rhs_spec[2:]]
            ends = [d * (k - 1) - p for d, k, p in zip(self.dilation, kernel, self.padding, strict=True)]
            pads = [(end, end + more) for end, more in zip(ends, self.output_padding, strict=True)]
        found = jax.lax.conv_general_dilated(
            lhs,
            rhs,
            strides,
            pads,
            between,
            self.dilation,
            self.axes,
            self.groups,
            precision=precision,
            preferred_element_type=jnp.promote_types(lhs.dtype, jnp.float32),
        )
        return found.astype(lhs.dtype)

    def attributes(self, groups: int) -> dict[str, Any]:
        """Returns the operator's attributes for this many groups."""
        sizes = {name: list(getattr(self, name)) for name in ("stride", "padding", "dilation", "output_padding")}
        return {**sizes, "transposed": self.transposed, "groups": groups}

    def weight(self, rhs: Array) -> Array:
        """Returns the kernels in the operator's form, behind a leading axis: flipped if it is transposed."""
        own = _behind(rhs, self.axes.rhs_spec)
        return self._turned(own) if self.transposed else own

    def of_weight(self, gradient: Array) -> Array:
        """Returns the gradient of `weight` in JAX's layout."""
        own = self._turned(gradient) if self.transposed else gradient
        return _back(own, self.axes.rhs_spec)

    def _turned(self, kernels: Array) -> Array:
        """Returns the kernels flipped, with the channels of both sides of each group swapped."""
        leading, outer, inner, *sizes = kernels.shape
        each = outer // self.groups
        apart = kernels.reshape(leading, self.groups, each, inner, *sizes).swapaxes(2, 3)
        turned = apart.reshape(leading, self.groups * inner, each, *sizes)
        return np.flip(turned, tuple(range(3, turned.ndim)))


def convolution(own: Convolution, client: Client, lhs: jax.Array, rhs: jax.Array, precision: Any) -> jax.Array:
    """Returns the convolution of two arrays of one dtype, with gradients of both from the client's server.

    Raises a RequestError, with JAX's names, if the server does not differentiate it. Functions are cached like those of
    `contraction`.
    """
    types = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in (lhs, rhs)]
    key = served_by(client), own, str(precision), *((each.shape, each.dtype) for each in types)
    function = client.bridge_functions.get(key)
    if function is None:
        forward = jax.jit(partial(own.forward, precision))
        output = jax.eval_shape(forward, *types)
        call = _ConvolutionCall(client, own, types, output)
        check_call(client, OPERATOR, call.sent_types(), own.attributes(own.groups), _PARAMETERS)
        function = client.bridge_functions.keep(key, multilinear(call, forward))
    found: jax.Array = function(*varying_alike([lhs, rhs]))
    return found


class _ConvolutionCall(RemoteCall):
    """Gets the gradients of both operands, given the output's and both operands."""

    def __init__(
        self, client: Client, own: Convolution, types: Sequence[jax.ShapeDtypeStruct], output: jax.ShapeDtypeStruct
    ) -> None:
        super().__init__(types, len(output.shape))
        self._client = client
        self._own = own
        self._output = output

    def sent_types(self) -> dict[str, jax.ShapeDtypeStruct]:
        """Returns the types of sent arrays; an empty batch is not sent, so it is legal."""
        given = [np.broadcast_to(np.int8(0), (1, *each.shape)) for each in (self._output, *self._types)]
        grad_output, input, weight = (each.shape[1:] for each in self._laid(given))
        shapes = {"grad_output": _with_batch(grad_output), "input": _with_batch(input), "weight": weight}
        return {name: jax.ShapeDtypeStruct(shape, self._output.dtype) for name, shape in shapes.items()}

    def _is_empty(self, mapped: tuple[int, ...], own: Sequence[tuple[int, ...]]) -> bool:
        return any(0 in each for each in (mapped, *own))

    def _laid(self, arrays: Sequence[Array]) -> tuple[Array, Array, Array]:
        """Returns gradient, input and weight in the operator's form, behind a leading axis."""
        gradient, lhs, rhs = arrays
        axes = self._own.axes
        return _behind(gradient, axes.out_spec), _behind(lhs, axes.lhs_spec), self._own.weight(rhs)

    def _compute(self, wanted: Wanted, arrays: Sequence[Array], mapped: tuple[int, ...]) -> Sequence[Array]:
        """Sends one message. Elements that vmap maps become images of a batch, or groups if each has its own kernels.

        They also become groups if gradients of kernels, which are sums over a batch, are wanted.
        """
        added, count = len(mapped), math.prod(mapped)
        gradient, input, weight = self._laid([_joined(each, mapped, added) for each in arrays])
        program = self._client.program()
        handles: dict[str, Handle] = {}
        try:
            if is_of_images := wanted[0] and count > 1 and len(weight) == 1:
                images = _joined_first(gradient, count), _joined_first(input, count, is_sent=False)
                handles |= self._added(program, *images, weight[0], ["grad_input"], 1)
            rest = wanted[0] and not is_of_images, wanted[1]
            if any(rest):
                groups = _joined_channels(gradient, count), _joined_channels(input, count, is_sent=rest[1])
                kernels = _joined_first(weight, count, is_sent=rest[0])
                handles |= self._added(program, *groups, kernels, [*compress(_GRADIENTS, rest)], count)
            found = dict(zip(handles, program.run(*handles.values()), strict=True))
        except AclgradError as error:
            raise_named(error, OPERATOR)
        gradients = []
        if wanted[0]:
            batch, channels, *sizes = found["grad_input"].shape
            if is_of_images:
                own = found["grad_input"].reshape(count, batch // count, channels, *sizes)
            else:
                own = found["grad_input"].reshape(batch, count, channels // count, *sizes).swapaxes(0, 1)
            gradients.append(_back(own, self._own.axes.lhs_spec))
        if wanted[1]:
            kernels, *sizes = found["grad_weight"].shape
            gradients.append(self._own.of_weight(found["grad_weight"].reshape(count, kernels // count, *sizes)))
        return gradients

    def _added(
        self, program: Any, grad_output: Array, input: Sent, weight: Sent, outputs: Sequence[str], times: int
    ) -> dict[str, Handle]:
        """Adds a step for these outputs, with this many times the groups."""
        inputs = {"grad_output": grad_output, "input": input, "weight": weight}
        made: Any = program.execute(OPERATOR, inputs, self._own.attributes(self._own.groups * times), outputs=outputs)
        return {name: getattr(made, name) for name in outputs}


def _with_batch(shape: Sizes) -> Sizes:
    return (shape[0] or 1, *shape[1:])


def _behind(array: Array, axes: Sequence[int]) -> Array:
    """Returns a view with its axes in this order, behind a leading axis."""
    return array.transpose(0, *(1 + axis for axis in axes))


def _back(array: Array, axes: Sequence[int]) -> Array:
    """Returns the inverse view of `_behind`."""
    return array.transpose(0, *(1 + int(place) for place in np.argsort(axes)))


def _joined(array: Array, mapped: tuple[int, ...], added: int) -> Array:
    """Returns the array with vmap's axes joined, of size 1 if none is mapped."""
    own = array.shape[added:]
    if math.prod(array.shape[:added]) == 1:
        return array.reshape(1, *own)
    return np.broadcast_to(array, (*mapped, *own)).reshape(math.prod(mapped), *own)


def _joined_first(array: Array, count: int, *, is_sent: bool = True) -> Any:
    """Returns the elements joined along their first axis, or the shape of that."""
    shape = count * array.shape[1], *array.shape[2:]
    return np.broadcast_to(array, (count, *array.shape[1:])).reshape(shape) if is_sent else shape


def _joined_channels(array: Array, count: int, *, is_sent: bool = True) -> Any:
    """Returns the elements as channels of the same images, or the shape of that."""
    batch, channels, *sizes = array.shape[1:]
    shape = batch, count * channels, *sizes
    return np.broadcast_to(array, (count, *array.shape[1:])).swapaxes(0, 1).reshape(shape) if is_sent else shape
