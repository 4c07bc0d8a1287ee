"""Both clients: programs that fail as a whole, and replies that make no sense."""

from typing import Any

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad.errors import InputFailedError, to_status
from aclgrad.v1 import operator_service_pb2 as pb
from tools.calling import maybe_await

from .conftest import Connect
from .scripted_service import ScriptedService, abort_with, failing

X = np.full((1, 4, 4), 0.5, np.float32)


def add_two(program: Any) -> list[aclgrad.Handle]:
    first = program.tanh_backward(X, X)
    return [first, program.gelu_backward(first, X)]


WHOLE = {
    "another product": aclgrad.OtherProductError("made for 310P", field="product", metadata={"product": "910B"}),
    "no program": aclgrad.InvalidFieldError("is used by no step", field="tensors[0]"),
    "a malformed one": aclgrad.MalformedRequestError("cut off"),
    "busy": aclgrad.ServerBusyError("full", retry_after_s=1000.0),
}


@pytest.mark.parametrize("error", WHOLE.values(), ids=WHOLE)
@pytest.mark.parametrize("return_errors", [True, False])
async def test_a_program_that_fails_as_a_whole(
    connect: Connect, service: ScriptedService, error: aclgrad.AclgradError, return_errors: bool
) -> None:
    service.answer = failing(error)
    program = connect(service.address, timeout_s=30).program("310P")
    with pytest.raises(type(error)) as caught:
        await maybe_await(program.run(*add_two(program), return_errors=return_errors))
    assert caught.value.message == error.message
    assert caught.value.metadata == error.metadata
    ((_, request),) = service.requests
    assert pb.ExecuteProgramRequest.FromString(request).product == "310P"


async def test_a_server_of_the_last_version(connect: Connect, service: ScriptedService) -> None:
    service.answer = abort_with(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
    program = connect(service.address).program()
    with pytest.raises(aclgrad.MethodNotServedError, match="of this version or a newer one"):
        await maybe_await(program.run(*add_two(program)))
    assert len(service.requests) == 1


def result_of(*arrays: Any) -> pb.StepResult:
    kinds = {"float32": 1, "float16": 2}
    outputs = [
        {"name": "grad_input", "data_type": kinds[each.dtype.name], "shape": each.shape, "data": each.tobytes()}
        for each in arrays
    ]
    return pb.StepResult(outputs=outputs)


GOOD, OTHER = result_of(X), result_of(X.astype(np.float16))
NAMELESS = to_status(InputFailedError("no input", metadata={"step": "7"}), "5f0c")
ANSWERS = {
    "no results": [],
    "one": [GOOD],
    "three": [GOOD, GOOD, GOOD],
    "nothing": [pb.StepResult(), pb.StepResult()],
    "two outputs": [result_of(X, X), GOOD],
    "an output that was not asked for": [GOOD, GOOD],
    "another dtype": [pb.StepResult(), OTHER],
    "another shape": [pb.StepResult(), result_of(X[0])],
    "a cause that there is not": [pb.StepResult(), pb.StepResult(error=NAMELESS)],
}


@pytest.mark.parametrize("results", ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("wants_view", [False, True])
async def test_replies_that_make_no_sense(
    connect: Connect, service: ScriptedService, results: list[pb.StepResult], wants_view: bool
) -> None:
    """One of two outputs is wanted; the answer to it has no outputs of the first step."""
    program = connect(service.address).program()
    made = program.tanh_backward(X, X)
    last = program.gelu_backward(made, X)
    service.answer = lambda context: pb.ExecuteProgramResponse(results=results).SerializeToString()
    with pytest.raises(aclgrad.ServerFaultError):
        await maybe_await(program.run(last.T if wants_view else last))
    service.answer = lambda context: b"\xff"
    with pytest.raises(aclgrad.ServerFaultError, match="cannot be read"):
        await maybe_await(program.run(last))
    good = pb.ExecuteProgramResponse(results=[pb.StepResult(), GOOD])
    service.answer = lambda context: good.SerializeToString()
    [found] = await maybe_await(program.run(last))
    np.testing.assert_array_equal(found, X)
