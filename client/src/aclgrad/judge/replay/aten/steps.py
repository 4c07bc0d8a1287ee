"""The steps that rows add to a program, and what several rows do."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from aclgrad._client.calls.handles import Handle
from aclgrad._client.programs.program import BaseProgram
from aclgrad.errors import InvalidFieldError
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType
from aclgrad.torch.calls import Array, LocalError

Value = Any
"""What stands for a tensor: the handle of an output or of a view of one, or an array that needs no step."""
Number = bool | int | float
Row = Callable[..., Any]
"""Takes the steps and an operator's own arguments, and returns what stands for its results."""


@dataclass(frozen=True, slots=True)
class Steps:
    """A program that rows add steps to, and the product that it is for, if that is known."""

    program: BaseProgram[Any]
    product: Product | None = None

    def __call__(self, operator: str, inputs: Mapping[str, Any], **attributes: Any) -> Any:
        """Adds a step, and returns the handle of its output, or a tuple of several; None leaves an attribute out."""
        plain = {name: tuple(each) if isinstance(each, list) else each for name, each in attributes.items()}
        return self.program.execute(operator, inputs, {name: each for name, each in plain.items() if each is not None})


def of_one(operator: str, input: str = "self") -> Row:
    """Returns the row of a function of one tensor, which the operator calls by this name."""
    return lambda steps, self: steps(operator, {input: self})


def scalar_like(self: Value, number: Number) -> Array:
    """Returns a number as a scalar of the tensor's type."""
    return np.asarray(number, self.dtype)


def type_like(self: Value, dtype: torch.dtype | np.dtype[Any] | None = None) -> TensorType:
    """Returns the type of a tensor, or that of its shape with another data type."""
    name = str(dtype or self.dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise LocalError(f"no operator has the data type {name}")
    return TensorType(DTYPES[name], tuple(self.shape))


def cast(steps: Steps, self: Value, dtype: torch.dtype | np.dtype[Any]) -> Value:
    """Returns the tensor in another data type."""
    type = type_like(self, dtype)
    return self if self.dtype == type.dtype.numpy else steps("inplace_copy", {"self": type, "src": self})


def reshaped(steps: Steps, self: Value, shape: Sequence[int]) -> Value:
    """Returns the tensor in another shape, and copies it first if no view has that shape."""
    try:
        return self.reshape(tuple(shape))
    except InvalidFieldError:
        return laid_out(steps, self).reshape(tuple(shape))


def laid_out(steps: Steps, self: Handle) -> Handle:
    """Returns a copy in the order of the axes."""
    made: Handle = steps("inplace_copy", {"self": type_like(self), "src": self})
    return made


def along(self: Value, dim: int, item: Any) -> Value:
    """Returns the view with this item of the index along one axis."""
    return self[(*(slice(None),) * (dim % self.ndim), item)]
