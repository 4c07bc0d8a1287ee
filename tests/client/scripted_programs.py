"""Programs whose steps a test server computes, behind a service that keeps what comes and may fail some steps."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import grpc

import aclgrad
from aclgrad.errors import InputFailedError, to_status
from aclgrad.testing import serve
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1 import tensor_pb2

from .scripted_service import ScriptedService, relay_to, serving

Errors = Mapping[int, aclgrad.AclgradError]
"""By the step's number in the message."""


@dataclass
class ScriptedPrograms:
    """Answers as the test server does, but for the errors of each attempt; those of the last stand for all further."""

    service: ScriptedService
    attempts: list[Errors] = field(default_factory=lambda: [{}])

    @property
    def address(self) -> str:
        return self.service.address

    @property
    def sent(self) -> list[pb.ExecuteProgramRequest]:
        """The programs that came."""
        return [pb.ExecuteProgramRequest.FromString(request) for _, request in self.service.requests]

    def operators_sent(self) -> list[list[str]]:
        return [[step.operator.removesuffix("_backward") for step in program.steps] for program in self.sent]

    def fail(self, *attempts: Errors) -> None:
        self.attempts = list(attempts)
        self.service.requests.clear()

    def spoil(self, reply: bytes) -> bytes:
        """Puts the errors of the attempt in place of results, and those that follow from them."""
        errors = self.attempts[min(len(self.service.requests), len(self.attempts)) - 1]
        program = pb.ExecuteProgramRequest.FromString(self.service.current.request)
        results = pb.ExecuteProgramResponse.FromString(reply).results
        causes: dict[int, int] = {}
        for number, (step, result) in enumerate(zip(program.steps, results, strict=True)):
            used = [
                causes[each.output_of.step]
                for each in step.inputs
                if each.HasField("output_of") and each.output_of.step in causes
            ]
            if number in errors:
                result.CopyFrom(pb.StepResult(error=to_status(errors[number], "5f0c")))
            elif used:
                cause = InputFailedError("no input", metadata={"step": str(min(used))})
                result.CopyFrom(pb.StepResult(error=to_status(cause, "5f0c")))
            if result.HasField("error"):
                causes[number] = min(used, default=number) if number not in errors else number
        return pb.ExecuteProgramResponse(results=results).SerializeToString()


@contextmanager
def scripted_programs(shape_only: bool = True) -> Iterator[ScriptedPrograms]:
    with serving() as service, serve(shape_only=shape_only) as server, grpc.insecure_channel(server.target) as channel:
        scripted = ScriptedPrograms(service)
        relay: Callable[[grpc.ServicerContext], bytes] = relay_to(service, channel)
        service.answer = lambda context: scripted.spoil(relay(context))
        yield scripted


def source_of(tensor: tensor_pb2.Tensor) -> object:
    """Returns where the elements of an input come from: a step with its output, a table entry, "data" or "shape"."""
    if tensor.HasField("output_of"):
        return (tensor.output_of.step, tensor.output_of.output)
    if tensor.HasField("table_index"):
        return tensor.table_index
    return "data" if tensor.HasField("data") else "shape"


def sources_of(step: pb.ExecuteOperatorRequest) -> dict[str, object]:
    return {each.name: source_of(each) for each in step.inputs}
