"""Programs of connected steps: each step takes the gradient of the one before and a tensor that all of them share."""

import random
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from aclgrad import reference
from aclgrad.judge.programs.program import Given, Program, Step
from aclgrad.operators.cases import arrays_of
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.tensors import DTYPES, TensorType
from tools.lab.known import Array, KnownProgram, KnownStep

COLUMNS: Final = 256
ROWS: Final = (16, 128, 1024)
"""Of the tensors of a chain: 16 KB, 128 KB and 1 MB."""
GRADIENT, SHARED, MEANS, DEVIATIONS = range(4)
"""The tensors of the table."""
ATTRIBUTES: Final[dict[str, dict[str, Any]]] = {
    "softmax_backward": {"dim": 1},
    "layer_norm_backward": {"normalized_shape": (COLUMNS,)},
}
ELEMENTWISE: Final = ("tanh_backward", "sigmoid_backward", "hardswish_backward", "gelu_backward")
OF_ROWS: Final = tuple(ATTRIBUTES)
LEAST_LARGE: Final = 9
"""Steps of 1 MB that a client sends in chunks: more than 8 MiB either way."""


def chain(operators: Sequence[str], rows: int, *, shares: bool = True, columns: int = COLUMNS) -> Program:
    """Returns a chain of these operators; unless they share it, each step has a second input of its own."""
    generator = np.random.default_rng(len(operators) + rows)
    shape = rows, columns
    program = Program(table=[generator.standard_normal(shape, np.float32)])
    program.table.append(_second(generator, shape))
    if any(each == "layer_norm_backward" for each in operators):
        program.table += [np.zeros((rows, 1), np.float32), np.ones((rows, 1), np.float32)]
    for number, operator in enumerate(operators):
        if number and not shares:
            program.table.append(_second(generator, shape))
        entry = SHARED if shares or not number else len(program.table) - 1
        program.steps.append(_step(program, operator, entry))
    return program


def _second(generator: np.random.Generator, shape: tuple[int, int]) -> Array:
    return generator.uniform(-0.9, 0.9, shape).astype(np.float32)


def _step(program: Program, operator: str, second: int) -> Step:
    before = len(program.steps) - 1
    spec = OPERATORS[operator]
    float32, shape = DTYPES["float32"], program.table[GRADIENT].shape
    first = Given(spec.inputs[0].name, TensorType(float32, shape), entry=GRADIENT)
    if before >= 0:
        first.entry, first.step, (first.output,) = None, before, program.steps[before].types
    entries = [second, *((MEANS, DEVIATIONS) if operator == "layer_norm_backward" else ())]
    others = [
        Given(each.name, TensorType(float32, program.table[entry].shape), entry=entry)
        for each, entry in zip(spec.inputs[1:], entries, strict=False)
    ]
    output = spec.outputs[0].name
    wanted = (output,) if len(spec.outputs) > 1 else ()
    types = {output: TensorType(float32, shape)}
    return Step(operator, [first, *others], ATTRIBUTES.get(operator, {}), wanted, types)


def known_chain(program: Program, returned: Sequence[int]) -> KnownProgram:
    """Returns the chain with the outputs of these steps by the definitions, each rounded as the wire rounds it."""
    steps = []
    truths: dict[int, Array] = {}
    gradient = program.table[GRADIENT]
    for number, step in enumerate(program.steps):
        (output,) = step.types
        tensors = {each.name: program.table[each.entry] for each in step.inputs if each.entry is not None}
        first = step.inputs[0].name
        made = arrays_of(reference.define(step.operator, tensors | {first: gradient}, step.attributes))
        gradient = made[0].astype(np.float32)
        given = {first: number - 1} if number else {}
        steps.append(KnownStep(step.operator, tensors | given, step.attributes, output))
        if number in returned:
            truths[number] = gradient
    return KnownProgram(steps, truths)


def draw_chains(count: int, seed: int = 0) -> list[KnownProgram]:
    """Draws chains of 5 to 20 steps, most of them small; every other one returns what it makes on the way."""
    source = random.Random(seed)
    found = []
    for number in range(count):
        operators = source.choices((*ELEMENTWISE, *OF_ROWS), k=source.randint(5, 20))
        rows = source.choices(ROWS, (6, 3, 1))[0]
        every = range(len(operators))
        # All outputs of a large chain would not fit in a message.
        few = sorted({source.choice(every), every[-1]})
        returned = every if number % 2 and rows < ROWS[-1] else few
        found.append(known_chain(chain(operators, rows), returned))
    return found


def draw_large_chains(count: int, seed: int = 0) -> list[KnownProgram]:
    """Draws chains that go in chunks: every other one for what it returns, the others for what is sent."""
    source = random.Random(seed)
    found = []
    for number in range(count):
        operators = source.choices((*ELEMENTWISE, *OF_ROWS), k=source.randint(LEAST_LARGE, LEAST_LARGE + 3))
        every = range(len(operators))
        returns_all = bool(number % 2)
        found.append(known_chain(chain(operators, ROWS[-1], shares=returns_all), every if returns_all else every[-1:]))
    return found
