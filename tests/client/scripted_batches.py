"""Batches for a scripted service: calls that carry a number, and a server that answers each by it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import grpc
import numpy as np

import aclgrad
from aclgrad.errors import to_status
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1 import tensor_pb2

from .scripted_service import ONES, ScriptedService

Outcome = float | aclgrad.AclgradError


def add(batch: Any, numbers: Sequence[int]) -> Any:
    """Adds a call for each number."""
    for number in numbers:
        batch.execute("any", {"a": ONES}, {"number": number})
    return batch


def number_of(call: pb.ExecuteOperatorRequest) -> int:
    return call.attributes["number"].int_value


def result_of(outcome: Outcome) -> pb.StepResult:
    if isinstance(outcome, aclgrad.AclgradError):
        return pb.StepResult(error=to_status(outcome, "5f0c"))
    data = np.array([outcome], np.float32).tobytes()
    return pb.StepResult(outputs=[tensor_pb2.Tensor(name="out", data_type="DATA_TYPE_FLOAT32", shape=[1], data=data)])


def calls_of(request: bytes) -> list[pb.ExecuteOperatorRequest]:
    """Returns the calls of a batch, with what their inputs have of its table."""
    program = pb.ExecuteProgramRequest.FromString(request)
    for call in program.steps:
        for each in call.inputs:
            if each.HasField("table_index"):
                each.data = program.tensors[each.table_index].data
    return list(program.steps)


def answer_each(service: ScriptedService, outcome: Callable[[pb.ExecuteOperatorRequest], Outcome]) -> None:
    """Has the service answer every call of every batch with what `outcome` says."""

    def answer(context: grpc.ServicerContext) -> bytes:
        results = [result_of(outcome(call)) for call in calls_of(service.current.request)]
        return pb.ExecuteProgramResponse(results=results).SerializeToString()

    service.answer = answer


def answer_in_turn(service: ScriptedService, *attempts: Mapping[int, aclgrad.AclgradError]) -> None:
    """Answers with the calls' numbers, but with these errors in each attempt; the last one stands for all further."""

    def outcome(call: pb.ExecuteOperatorRequest) -> Outcome:
        errors = attempts[min(len(service.requests), len(attempts)) - 1]
        return errors.get(number_of(call), number_of(call))

    answer_each(service, outcome)


def sent(service: ScriptedService) -> list[list[pb.ExecuteOperatorRequest]]:
    """Returns the calls of each batch that came."""
    return [calls_of(request) for _, request in service.requests]


def numbers_sent(service: ScriptedService) -> list[list[int]]:
    return [[number_of(call) for call in batch] for batch in sent(service)]


def plain(outcomes: Sequence[Any]) -> list[Any]:
    """Returns gradients as their only element, and errors as their type."""
    return [type(each) if isinstance(each, aclgrad.AclgradError) else each.item() for each in outcomes]
