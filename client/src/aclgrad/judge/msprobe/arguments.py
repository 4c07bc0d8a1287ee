"""The arguments of a PyTorch function for a sample case, and whether acc_check can check it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from aclgrad.operators.cases import TypedCase
from aclgrad.operators.samples import Arrays

Array = np.ndarray[Any, Any]

OF_16_BITS: Final = "acc_check would compute the saved output again, from an input that 16 bits do not hold."


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor among the arguments. `gradient` names the operator's output that is its gradient, if any."""

    values: Array
    gradient: str | None = None

    @property
    def dtype(self) -> str:
        return str(self.values.dtype.name)


Argument = Tensor | bool | int | float | str | Sequence[int] | None
Arguments = tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Given:
    """A case: its inputs as arguments, and its attributes."""

    typed: TypedCase
    arrays: Arrays

    def __getitem__(self, attribute: str) -> Any:
        return self.typed.attributes[attribute]

    def tensor(self, name: str) -> Tensor | None:
        """Returns the input of this name, or None if the case omits it."""
        values = self.arrays.get(name)
        return None if values is None else self.with_gradient(name, values)

    def with_gradient(self, name: str, values: Array) -> Tensor:
        """Returns the tensor of this name, with the output that is its gradient or stands for it."""
        return Tensor(values, next((each.name for each in self.typed.spec.outputs if each.of == name), None))


@dataclass(frozen=True, slots=True)
class Api:
    """A PyTorch function with its arguments for a case, and the gradient of its result.

    `refusal` is why acc_check cannot check it; single cases may have one, too.
    """

    name: str | Callable[[TypedCase], str]
    arguments: Callable[[Given], Arguments] = lambda _: ()
    keywords: Callable[[Given], Mapping[str, Argument]] = lambda _: {}
    refusal: str = ""
    grad_output: Callable[[Given], Array] = lambda given: given.arrays["grad_output"]
    refuses: Callable[[TypedCase], str] = lambda _: ""

    def name_of(self, typed: TypedCase) -> str:
        """Returns msprobe's name for the function, which may depend on the case."""
        return self.name if isinstance(self.name, str) else self.name(typed)
