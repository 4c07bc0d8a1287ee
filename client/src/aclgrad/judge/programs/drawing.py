"""Draws programs: steps of any operators, whose inputs are arrays, tensors of a table, or views of earlier outputs."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from aclgrad.judge.programs.program import Array, Given, Program, Step
from aclgrad.operators.cases import TypedCase, served_dtypes
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.parts import samples_of
from aclgrad.operators.samples import Integer
from aclgrad.operators.spec import OperatorSpec
from aclgrad.products import Product
from aclgrad.tensors import TensorType, View, row_major

MOST_ELEMENTS: Final = 20_000
"""Most elements of a tensor; larger cases are drawn again."""
FAULTS: Final = ("attribute", "name", "values")
"""Faults of a step: an attribute or an input that no operator has, or indices out of range."""


@dataclass(slots=True)
class DrawnProgram(Program):
    """A program with steps that have to fail."""

    faults: dict[int, str] = field(default_factory=dict)
    """Faults by step."""

    def failed(self) -> dict[int, int]:
        """Returns the steps that have to fail, each with the first step that causes its failure.

        Values are checked when steps run, everything else before.
        """
        found: dict[int, int] = {}
        for faults in (FAULTS[:2], FAULTS[2:]):
            for number, step in enumerate(self.steps):
                causes = [found[each.step] for each in step.inputs if each.step in found]
                if number not in found and (causes or self.faults.get(number) in faults):
                    found[number] = min(causes, default=number)
        return found


def draw_program(
    integer: Integer,
    product: Product,
    most_steps: int = 60,
    operators: Sequence[str] = (),
    dtype: str = "float32",
    *,
    faults: bool = True,
) -> DrawnProgram:
    """Draws a program of 1 to `most_steps` steps of these operators, or of all of the product's.

    All steps have the dtype, so that they can use each other's outputs.
    """
    names = [name for name in operators or OPERATORS if dtype in OPERATORS[name].dtypes_on(product)]
    program = DrawnProgram()
    generator = np.random.default_rng(integer(0, 2**32 - 1))
    for _ in range(integer(1, most_steps)):
        spec = OPERATORS[names[integer(0, len(names) - 1)]]
        typed = _draw_case(integer, spec, product, dtype)
        if typed is not None:
            program.steps.append(_draw_step(integer, generator, program, typed))
            if faults and integer(0, 15) == 0:
                program.faults[len(program.steps) - 1] = _spoil(integer, program.steps[-1], _ruled(typed))
    return program


def _draw_case(integer: Integer, spec: OperatorSpec, product: Product, dtype: str) -> TypedCase | None:
    samples = samples_of(spec.name)
    for _ in range(8):
        case = samples.draw(integer) if integer(0, 1) else samples.cases[integer(0, len(samples.cases) - 1)]
        typed = TypedCase(spec, case, dtype)
        arguments = typed.arguments
        types = [*arguments.inputs.values(), *typed.outputs.values()]
        is_small = max(each.element_count for each in types) <= MOST_ELEMENTS
        is_served = dtype in served_dtypes(spec, case, product)
        if is_small and is_served and not any(spec.check(arguments, product)):
            return typed
    return None


def _draw_step(integer: Integer, generator: np.random.Generator, program: DrawnProgram, typed: TypedCase) -> Step:
    spec, case, arguments = typed.spec, typed.case, typed.arguments
    drawn = {name: _array(generator, type) for name, type in arguments.inputs.items()}
    arrays = samples_of(spec.name).values(generator, case, dict(drawn))
    inputs, ruled = [], _ruled(typed)
    for each in spec.inputs_of(arguments.inputs):
        if each.name not in arguments.inputs:
            continue
        given = Given(each.name, arguments.inputs[each.name])
        # Such values stay the sample's: they may be legal, or far from a jump, because of another input.
        has_rule = arrays[each.name] is not drawn[each.name] or each.name in ruled
        if has_rule or not _refer(integer, program, given):
            given.array = arrays[each.name]
            _share(integer, program, given, has_rule)
        inputs.append(given)
    types = typed.outputs
    wanted: tuple[str, ...] = ()
    if len(types) > 1 and integer(0, 1):
        wanted = tuple(name for name in types if integer(0, 1)) or (next(iter(types)),)
        types = {name: types[name] for name in wanted}
    return Step(spec.name, inputs, dict(case.attributes), wanted, types)


def _array(generator: np.random.Generator, type: TensorType) -> Array:
    if type.dtype.numpy.kind in "iub":
        return generator.integers(0, 2, type.shape).astype(type.dtype.numpy)
    return generator.standard_normal(type.shape).astype(type.dtype.numpy)


def _refer(integer: Integer, program: DrawnProgram, given: Given) -> bool:
    """Makes the input an output of an earlier step, if there is one of its dtype, or a view of it."""
    dtype = given.type.dtype
    candidates = [
        (number, name, type)
        for number, step in enumerate(program.steps)
        for name, type in step.types.items()
        if type.dtype is dtype and type.element_count
    ]
    if not candidates or integer(0, 3) == 0:
        return False
    same = [each for each in candidates if each[2].shape == given.type.shape]
    few = same if same and integer(0, 3) else candidates[-8:]
    given.step, given.output, type = few[integer(0, len(few) - 1)]
    if type.shape != given.type.shape or integer(0, 7) == 0:
        given.view = _draw_view(integer, given.type.shape, type.element_count)
    return True


def _share(integer: Integer, program: DrawnProgram, given: Given, has_rule: bool) -> None:
    """Puts the array into the table, or makes the input refer to one of the table."""
    assert given.array is not None
    if integer(0, 2):
        return
    same = [i for i, each in enumerate(program.table) if each.dtype == given.array.dtype and each.size]
    if same and not has_rule and given.array.size and integer(0, 1):
        given.entry = same[integer(0, len(same) - 1)]
        entry = program.table[given.entry]
        if entry.shape != given.array.shape:
            given.view = _draw_view(integer, given.array.shape, entry.size)
    else:
        given.entry = len(program.table)
        program.table.append(given.array)
    given.array = None


def _draw_view(integer: Integer, shape: tuple[int, ...], count: int) -> View:
    """Draws a view of this many elements: dense, transposed, or with fitting strides."""
    if 0 in shape:
        return View(0, tuple(0 for _ in shape))
    dense = row_major(shape)
    if int(np.prod(shape, dtype=np.int64)) <= count and integer(0, 2):
        strides = tuple(reversed(row_major(shape[::-1]))) if integer(0, 1) else dense
    else:
        left, chosen = count - 1, []
        for size in shape:
            most = left // (size - 1) if size > 1 else left
            chosen.append(integer(0, min(most, 50)))
            left -= (size - 1) * chosen[-1]
        strides = tuple(chosen)
    end = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) + 1
    return View(integer(0, count - end), strides)


def _ruled(typed: TypedCase) -> set[str]:
    """Returns the inputs whose values follow a rule on some product."""
    given = typed.arguments
    specs = [each for each in typed.spec.inputs_of(given.inputs) if each.name in given.inputs]
    return {each.name for each in specs if any(each.rule(given, product) is not None for product in each.dtypes)}


def _spoil(integer: Integer, step: Step, ruled: Collection[str]) -> str:
    """Makes a step wrong, and returns its fault; integers that follow a rule may change."""
    given_indices = [each for each in step.inputs if each.name in ruled]
    indices = [(each, each.array) for each in given_indices if each.array is not None and each.array.dtype.kind == "i"]
    fault = FAULTS[integer(0, 2 if indices and indices[0][1].size else 1)]
    if fault == "attribute":
        step.attributes["no_such_attribute"] = 1
    elif fault == "name":
        step.inputs[0].name = "no_such_input"
    else:
        given, array = indices[0]
        given.array = np.full_like(array, np.iinfo(array.dtype).max)
    return fault
