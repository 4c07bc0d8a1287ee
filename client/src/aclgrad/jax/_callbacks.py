"""Calls that are made when JAX executes them, for all elements of vmap at once."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from itertools import compress
from typing import Any, NoReturn

import jax
import numpy as np

from aclgrad.errors import AclgradError

try:
    from jax.experimental.buffer_callback import buffer_callback
except ImportError:  # before JAX 0.6
    buffer_callback = None

Array = np.ndarray[Any, Any]
Wanted = tuple[bool, ...]
"""Flags of the wanted gradients."""


class RemoteCall(ABC):
    """Computes gradients of these types, None for one that is never wanted."""

    def __init__(self, types: Sequence[jax.ShapeDtypeStruct | None], axes: int) -> None:
        self._types: list[Any] = list(types)
        self._axes = axes
        """The rank of the output's gradient, without vmap's axes in front."""
        # JAX compiles once for each distinct callback.
        self._callbacks: dict[Wanted, tuple[Callable[..., Any], Callable[..., Any]]] = {}

    def __call__(self, *arrays: jax.Array, wanted: Wanted) -> list[jax.Array]:
        """Returns the wanted gradients, given the output's gradient and the other sent arrays."""
        types = list(compress(self._types, wanted))
        made = partial(self._gradients, wanted), partial(self._write, wanted)
        gradients, write = self._callbacks.setdefault(wanted, made)
        if buffer_callback is None or jax.default_backend() != "cpu":
            return list(jax.pure_callback(gradients, types, *arrays, vmap_method="expand_dims"))
        # On the CPU, pure_callback waits for copies by the callbacks' own threads, so a few at once would deadlock.
        return list(buffer_callback(write, types, vmap_method="expand_dims")(*arrays))

    def _write(self, wanted: Wanted, _: Any, outputs: Any, *arrays: Any) -> None:
        for output, gradient in zip(outputs, self._gradients(wanted, *arrays), strict=True):
            np.asarray(output)[...] = gradient

    def _gradients(self, wanted: Wanted, *given: Any) -> list[Array]:
        """Makes the call. All arrays have vmap's axes in front, of size 1 if they are not mapped."""
        arrays, types = [np.asarray(each) for each in given], list(compress(self._types, wanted))
        added = arrays[0].ndim - self._axes
        mapped = np.broadcast_shapes(*(each.shape[:added] for each in arrays))
        if self._is_empty(mapped, [each.shape[added:] for each in arrays]):
            return [np.zeros((*mapped, *type.shape), type.dtype) for type in types]
        found = self._compute(wanted, arrays, mapped)
        return [
            each.reshape((*mapped, *type.shape)).astype(type.dtype, copy=False)
            for each, type in zip(found, types, strict=True)
        ]

    @abstractmethod
    def _is_empty(self, mapped: tuple[int, ...], own: Sequence[tuple[int, ...]]) -> bool:
        """Returns whether all gradients are zeros, given the mapped axes, and the other axes of each array."""

    @abstractmethod
    def _compute(self, wanted: Wanted, arrays: Sequence[Array], mapped: tuple[int, ...]) -> Sequence[Array]:
        """Returns the wanted gradients, with elements in the order of the mapped axes."""


def raise_named(error: AclgradError, name: str) -> NoReturn:
    """Raises the error with the function's name: JAX keeps only the text, with all frames of the traceback."""
    if error.operator is None:
        error.operator = name
        error.message = f"{name}: {error.message}"
    raise error.with_traceback(None) from None
