"""Runs the steps of a program one after the other, by the rules of a server."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from aclgrad.errors import (
    AclgradError,
    DeviceLostError,
    InputFailedError,
    InvalidFieldError,
    OtherProductError,
    to_status,
)
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from aclgrad.sources import Source
from aclgrad.tensors import TensorType, TensorView
from aclgrad.testing._compute import Made, check_size
from aclgrad.wire.messages import OperatorCall
from aclgrad.wire.programs import SentProgram, StepOutcome

Outputs = Mapping[int, tuple[TensorView, ...]]
"""The outputs of earlier successful steps."""


def check_program(program: SentProgram, product: Product) -> None:
    """Raises a RequestError if a program is wrong as a whole, and not in one of its steps."""
    if program.product not in ("", product):
        problem = f"the program is made for product {program.product!r}, and this server's is {product}"
        metadata = {"product": product, "made_for": program.product}
        raise OtherProductError(problem, field="product", remedy="make it for this product", metadata=metadata)
    _check_table(program)
    for position, (number, output) in enumerate(program.returned):
        field = f"returned[{position}]"
        if not 0 <= number < program.step_count:
            problem = f"is {number}, and the program has {program.step_count} steps"
            raise InvalidFieldError.at(f"{field}.step", problem, "name a step of the program")
        step = program.message.steps[number]
        spec = OPERATORS.get(step.operator)
        names = [output] if spec is None else step.outputs or [each.name for each in spec.returned]
        if output not in names:
            problem = f"is {output!r}, and step {number} makes {' and '.join(names)}"
            raise InvalidFieldError.at(f"{field}.output", problem, "name an output that the step wants")
        if spec is not None and output not in (each.name for each in spec.returned):
            problem = f"is {output!r}, which has a form of the device's own"
            raise InvalidFieldError.at(f"{field}.output", problem, "use it in later steps alone")


def _check_table(program: SentProgram) -> None:
    first_uses: dict[int, int] = {}
    for number, step in enumerate(program.message.steps):
        for each in step.inputs:
            if each.HasField("table_index"):
                first_uses.setdefault(each.table_index, number)
    latest = 0
    for index, tensor in enumerate(program.tensors):
        field, source = f"tensors[{index}]", tensor.source
        if min((0, *tensor.type.shape)) < 0:
            problem = f"has the shape {tensor.type.shape}, with a negative size"
            raise InvalidFieldError.at(f"{field}.shape", problem, "send sizes of at least 0")
        check_size(field, tensor.type)
        if not source.has_values and tensor.type.element_count:
            raise InvalidFieldError.at(field, "has no content", "send its elements, or a shape in each input instead")
        if source.has_values and source.nbytes != tensor.type.size_bytes:
            problem = f"has {source.nbytes} bytes, but {tensor.type} takes {tensor.type.size_bytes}"
            raise InvalidFieldError.at(f"{field}.data", problem, "send exactly the elements of the shape")
        if index not in first_uses:
            raise InvalidFieldError.at(field, "is used by no step", "leave it out")
        if source.in_chunks:
            if first_uses[index] < latest:
                problem = f"comes behind one that step {latest} is the first to use"
                raise InvalidFieldError.at(field, problem, "order them as the steps first use them")
            latest = first_uses[index]


def run_program(
    program: SentProgram, execute: Callable[[OperatorCall], tuple[TensorView, ...]], request_id: str
) -> Iterator[StepOutcome]:
    """Yields each step's returned outputs, or its error; raises DeviceLostError, which ends the program."""
    made: dict[int, tuple[TensorView, ...]] = {}
    causes: dict[int, int] = {}
    for number in range(program.step_count):
        try:
            call = resolve(program.step(number), number, program.tensors, made, causes)
            made[number] = execute(call)
        except DeviceLostError:
            raise
        except AclgradError as error:
            causes[number] = int(error.metadata["step"]) if isinstance(error, InputFailedError) else number
            yield to_status(error, request_id)
        else:
            returned = program.returned
            yield tuple(each for each in _returned(made[number]) if not returned or (number, each.name) in returned)


def _returned(outputs: Iterable[TensorView]) -> Iterator[TensorView]:
    """Yields the outputs that do not stay inside."""
    return (each for each in outputs if not (isinstance(each.source, Made) and each.source.stays_inside))


def resolve(
    call: OperatorCall,
    number: int = 0,
    table: Sequence[TensorView] = (),
    made: Outputs | None = None,
    causes: Mapping[int, int] | None = None,
) -> OperatorCall:
    """Returns the call of a step with resolved references; `causes` has the first cause of each failed step."""
    references = [each.source.step for each in call.inputs if each.source.step is not None]
    inputs = tuple(replace(each, source=_source(each, number, table, made or {}, causes or {})) for each in call.inputs)
    failed = [causes[each] for each in references if causes and each in causes]
    if failed:
        problem = f"step {failed[0]} failed, whose output this one needs"
        remedy = "see the status of that step"
        raise InputFailedError(problem, remedy=remedy, metadata={"step": str(failed[0])})
    return replace(call, inputs=inputs)


def _source(
    tensor: TensorView, number: int, table: Sequence[TensorView], made: Outputs, causes: Mapping[int, int]
) -> Source:
    source, field = tensor.source, f"inputs[{tensor.name}]"
    if (entry := source.entry) is not None:
        if not 0 <= entry < len(table):
            problem = f"is {entry}, and the program has a table of {len(table)} tensors"
            raise InvalidFieldError.at(f"{field}.table_index", problem, "name a tensor of the table")
        _check_type(tensor, table[entry].type)
        return table[entry].source
    if (producer := source.step) is None:
        return source
    if not 0 <= producer < number:
        problem = f"is {producer}, and this is step {number}"
        raise InvalidFieldError.at(f"{field}.output_of.step", problem, "name an earlier step of the program")
    if producer in causes:
        return source
    outputs = {each.name: each for each in made[producer]}
    output = outputs.get(source.output_name)
    if output is None:
        problem = f"is {source.output_name!r}, and step {producer} makes {' and '.join(outputs)}"
        raise InvalidFieldError.at(f"{field}.output_of.output", problem, "name an output that the step wants")
    _check_type(tensor, output.type)
    assert isinstance(output.source, Made)
    return replace(output.source, producer=producer)


def _check_type(tensor: TensorView, type: TensorType) -> None:
    """Raises InvalidFieldError unless the input has its reference's type, or is a view of its elements."""
    field = f"inputs[{tensor.name}]"
    if tensor.type.dtype is not type.dtype:
        raise InvalidFieldError.at(
            f"{field}.data_type", f"is {tensor.type.dtype}, and refers to {type}", f"declare {type.dtype}"
        )
    if tensor.view is None and tensor.type.shape != type.shape:
        problem = f"is {tensor.type.shape}, and refers to {type}"
        raise InvalidFieldError.at(f"{field}.shape", problem, "declare its shape, or send a view of it")
    if tensor.view is not None and tensor.source.nbytes > type.size_bytes:
        problem = f"ends after {tensor.source.nbytes} bytes, and refers to {type}"
        raise InvalidFieldError.at(f"{field}.view", problem, "send a view of elements that it has")
