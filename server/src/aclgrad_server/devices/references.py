"""Checks the references of a step's inputs to outputs of earlier steps and to tensors of the table.

Every program is checked, because cached plans do not contain references.
"""

from collections.abc import Mapping, Sequence

from aclgrad.errors import InvalidFieldError
from aclgrad.operators.values import guarantees, is_read_as_sent, words_of
from aclgrad.sources import Source
from aclgrad.tensors import TensorType, TensorView
from aclgrad.wire.limits import MAX_NAME
from aclgrad.wire.messages import OperatorCall
from aclgrad_server.devices.steps import PlannedStep, first_failure, input_failed

Made = Mapping[int, PlannedStep]
"""The earlier steps that are legal."""


def check_references(
    index: int, call: OperatorCall, made: Made, failures: Mapping[int, Exception], table: Sequence[TensorView]
) -> None:
    """Raises InvalidFieldError if the reference's target is missing or has another type or size.

    Raises InputFailedError for a reference to a step that is not legal.
    """
    failed: list[int] = []
    for tensor in call.inputs:
        source, field = tensor.source, f"inputs[{tensor.name[:MAX_NAME]}]"
        if (entry := source.entry) is not None:
            if not 0 <= entry < len(table):
                problem = f"is {entry}, and the program has a table of {len(table)} tensors"
                raise InvalidFieldError.at(f"{field}.table_index", problem, "name a tensor of the table")
            _check_type(field, tensor, f"tensor {entry} of the table", table[entry].type)
        elif (producer := source.step) is not None:
            if not 0 <= producer < index:
                problem = f"is {producer}, and this is step {index}"
                raise InvalidFieldError.at(f"{field}.output_of.step", problem, "name an earlier step of the program")
            if producer in failures:
                failed.append(first_failure(producer, failures[producer]))
                continue
            type = _output_type(field, tensor, made[producer], producer)
            _check_type(field, tensor, f"output {source.output_name!r} of step {producer}", type)
    if failed:
        raise input_failed(min(failed))


def _output_type(field: str, tensor: TensorView, producer: PlannedStep, number: int) -> TensorType:
    name, outputs = tensor.source.output_name, {each.name: each.type for each in producer.plan.outputs}
    if name in outputs:
        return outputs[name]
    all_names = [each.name for each in producer.plan.spec.outputs]
    what = "is not wanted by" if name in all_names else "is no output of"
    problem = f"is {name[:MAX_NAME]!r}, which {what} step {number}"
    raise InvalidFieldError.at(f"{field}.output_of.output", problem, f"name {' or '.join(outputs)}, which it makes")


def _check_type(field: str, tensor: TensorView, what: str, type: TensorType) -> None:
    if tensor.type.dtype is not type.dtype:
        problem = f"is {tensor.type.dtype}, and {what} is {type}"
        raise InvalidFieldError.at(f"{field}.data_type", problem, f"declare {type.dtype}")
    if tensor.view is None:
        if tensor.type.shape != type.shape:
            problem = f"is {tensor.type.shape}, and {what} is {type}"
            raise InvalidFieldError.at(f"{field}.shape", problem, "declare its shape, or send a view of it")
    elif tensor.source.nbytes > type.size_bytes:
        problem = f"ends at element {tensor.source.nbytes // type.dtype.itemsize}, and {what} is {type}"
        raise InvalidFieldError.at(f"{field}.view", problem, "send a view of elements that it has")


def check_values(step: PlannedStep, call: OperatorCall, made: Made) -> None:
    """Raises InvalidFieldError if a rule of this input's values is not guaranteed by the step that makes them.

    The host does not see these values, and an index out of range makes the device read outside its tensors. So the
    attributes and sizes of the producer have to guarantee the rule, in the form that the device reads.
    """
    given = {each.name: each for each in call.inputs}
    _check_inside(step, call, made)
    for index in step.unseen:
        spec, rule = step.plan.inputs[index], step.plan.rules[index]
        tensor, source = given[spec.name], step.sources[index]
        assert rule is not None
        assert source is not None
        assert source.step is not None
        field = f"inputs[{spec.name}].output_of"
        remedy = "send the values themselves"
        if tensor.view is not None:
            problem = "has a view, and its values have a rule that is checked for whole tensors"
            raise InvalidFieldError.at(field, problem, remedy)
        if not is_read_as_sent(rule, tensor.type) and not _stays_inside(source, made):
            problem = f"is {tensor.type}, of which the device reads another form"
            raise InvalidFieldError.at(field, problem, remedy)
        guaranteed = made[source.step].plan.guarantees.get(source.output_name)
        if guaranteed is None or not guarantees(guaranteed, rule):
            promise = "guarantees no values" if guaranteed is None else f"guarantees {words_of(guaranteed)}"
            problem = f"names step {source.step}, which {promise}, and this input needs {words_of(rule)}"
            raise InvalidFieldError.at(field, problem, remedy)


def _check_inside(step: PlannedStep, call: OperatorCall, made: Made) -> None:
    """Raises InvalidFieldError if an input without a rule names an output in a device-specific form."""
    for spec, source, rule in zip(step.plan.inputs, step.sources, step.plan.rules, strict=True):
        if source is not None and source.step is not None and rule is None and _stays_inside(source, made):
            field = f"inputs[{spec.name}].output_of"
            problem = f"names {source.output_name!r} of step {source.step}, which has a form of the device's own"
            raise InvalidFieldError.at(field, problem, "name it in the gradient of that step, or another output")


def _stays_inside(source: Source, made: Made) -> bool:
    """Returns whether the output has a device-specific form, according to its guarantee."""
    assert source.step is not None
    outputs = made[source.step].plan.spec.outputs
    return any(each.stays_inside for each in outputs if each.name == source.output_name)
