"""What a benchmark calls: an operator's sample call, the program in a file, or a program of ten steps."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

import numpy as np

from aclgrad._client.aio.client import AsyncClient
from aclgrad.commands.load import Send
from aclgrad.commands.programs import read_program
from aclgrad.judge.programs.program import Program, Returned, work_of
from aclgrad.judge.programs.sending import add_steps
from aclgrad.operators.cases import TypedCase
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.parts import samples_of
from aclgrad.products import Product

TEN: Final = 10
_DTYPE: Final = "float32"
_SHAPE: Final = 16, 256
"""Of the tensors of the ten steps: 16 KB."""
_STEPS: Final = ("tanh_backward", "sigmoid_backward", "hardswish_backward", "gelu_backward", "silu_backward")


@dataclass(frozen=True, slots=True)
class Called:
    """What is called: its name and how many steps it has, what JSON says of it, and how a client makes it ready.

    `unit` is what follows the number of a rate. `operations` are the floating-point ones of matrix products, 0 if it
    has none.
    """

    name: str
    unit: str
    steps: int
    operations: float
    about: Mapping[str, Any]
    sender: Callable[[AsyncClient], Send]


def operator_called(product: Product, operator: str, dtype: str | None, size: str) -> Called:
    """Returns the operator's call of this size, with the requested dtype or the product's first.

    Raises ValueError if the product does not have the operator or the dtype.
    """
    spec = OPERATORS[operator]
    dtypes = spec.dtypes_on(product)
    if dtype is not None and dtype not in dtypes:
        raise ValueError(f"{spec.name} on {product} takes {', '.join(dtypes) or 'no dtype'}, not {dtype}")
    if not dtypes:
        raise ValueError(f"product {product} has no {spec.name}")
    typed = TypedCase(spec, samples_of(spec.name).timed[size], dtype or dtypes[0])
    about = {"operator": operator, "dtype": typed.dtype, "size": size}
    return Called(
        f"{operator} of {size} in {typed.dtype}",
        f"calls/s of {size}",
        1,
        spec.matrix_operations(typed.arguments),
        about,
        partial(_case_sender, typed),
    )


def program_called(path: Path) -> Called:
    """Returns the program in a file; raises ValueError or OSError if it cannot be read."""
    program, returned = read_program(path)
    about = {"program": str(path), "steps": len(program.steps)}
    operations = sum(work_of(each).matrix_operations for each in program.steps)
    sender = partial(_program_sender, program, returned)
    return Called(program.title, f"programs/s of {path.name}", len(program.steps), operations, about, sender)


def ten_steps_called(product: Product) -> Called:
    """Returns a program of ten connected steps of 16 KB, of those operators that the product has."""
    names = [name for name in _STEPS if _DTYPE in OPERATORS[name].dtypes_on(product)]
    if not names:
        raise ValueError(
            f"product {product} has none of {', '.join(_STEPS)}, of which the program of ten steps is made"
        )
    steps = list(islice(cycle(names), TEN))
    about = {"operators": steps, "dtype": _DTYPE, "size": "16 KB", "steps": TEN}
    return Called("ten steps of 16 KB", "programs/s of ten steps", TEN, 0.0, about, partial(_steps_sender, steps))


def _case_sender(typed: TypedCase, client: AsyncClient) -> Send:
    return partial(client.execute, typed.spec.name, typed.arrays(), typed.attributes)


def _program_sender(program: Program, returned: Sequence[Returned], client: AsyncClient) -> Send:
    built = client.program()
    return partial(built.run, *add_steps(program, built, returned))


def _steps_sender(steps: Sequence[str], client: AsyncClient) -> Send:
    generator = np.random.default_rng(0)
    built = client.program()
    gradient: Any = generator.standard_normal(_SHAPE, np.float32)
    for name in steps:
        second = generator.uniform(-0.9, 0.9, _SHAPE).astype(np.float32)
        gradient = getattr(built, name)(gradient, second)
    return partial(built.run, gradient)
