"""The functions that a block reroutes, of all subjects."""

from collections.abc import Callable
from typing import Any

from aclgrad.torch import _elementwise, _pooling, _sampling, _several, _softmax


def rerouted() -> dict[Any, Callable[..., Any]]:
    """Returns the functions by those of PyTorch that they stand for, as far as they are loaded."""
    tables = (_pooling.REROUTED, _sampling.rerouted(), _several.REROUTED, _elementwise.REROUTED, _softmax.REROUTED)
    return {function: remote for table in tables for function, remote in table.items()}
