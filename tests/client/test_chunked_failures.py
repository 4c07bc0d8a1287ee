"""Both clients against a scripted service: chunked calls that fail, at the header or in the middle."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

import aclgrad
from aclgrad.errors import to_status
from tools.calling import maybe_await

from .scripted_streams import ANSWER, GRAD, SHAPE, SMALL, Script, ScriptedStreams

Connect = Callable[..., Any]
PROMPTLY_S = 20
"""Far less than the time limit of a call."""


def refuse(error: aclgrad.AclgradError, context: grpc.ServicerContext) -> None:
    details = to_status(error, "5f0c").SerializeToString()
    context.set_trailing_metadata((("grpc-status-details-bin", details),))
    context.abort(error.code, error.message)


def failing(streams: ScriptedStreams, error: aclgrad.AclgradError, after: int | None = 0, times: int = 1000) -> Script:
    """Refuses after so many chunks, or after all of them; answers after so many attempts."""

    def script(messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        if len(streams.attempts) >= times:
            yield from streams.complete(messages, context)
            return
        streams.receive(messages, context, after)
        refuse(error, context)

    return script


REFUSALS = [
    aclgrad.UnknownOperatorError("no such"),
    aclgrad.InvalidFieldError("wrong", field="inputs[self]"),
    aclgrad.LimitExceededError("too large"),
    aclgrad.ServerBusyError("full"),
    aclgrad.DeviceLostError("lost"),
]


@pytest.mark.parametrize("after", [0, None], ids=["header", "all"])
@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: type(error).__name__)
async def test_a_refusal_is_typed_and_prompt(
    connect: Connect, streams: ScriptedStreams, error: aclgrad.AclgradError, after: int | None
) -> None:
    streams.script = failing(streams, error, after)
    start = time.monotonic()
    with pytest.raises(type(error), match=f"^{error.message}$") as caught:
        await maybe_await(connect(streams.address).adaptive_avg_pool2d_backward(GRAD, SHAPE))
    assert time.monotonic() - start < PROMPTLY_S
    assert (caught.value.field, caught.value.request_id) == (error.field, "5f0c")
    assert len(streams.attempts) == 1


@pytest.mark.parametrize("after", range(1, 9))
async def test_a_failure_amid_the_chunks_is_typed_and_prompt(
    connect: Connect, streams: ScriptedStreams, after: int
) -> None:
    streams.script = failing(streams, aclgrad.DeviceLostError("lost"), after)
    client = connect(streams.address)
    start = time.monotonic()
    for _ in range(10):
        with pytest.raises(aclgrad.DeviceLostError):
            await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, SHAPE))
    assert time.monotonic() - start < PROMPTLY_S


@pytest.mark.parametrize("after", [0, 3, None], ids=["header", "middle", "all"])
async def test_another_attempt_sends_everything_again(
    connect: Connect, streams: ScriptedStreams, after: int | None
) -> None:
    streams.script = failing(streams, aclgrad.ServerDrainingError("stopping", retry_after_s=0.001), after, times=2)
    gradient = await maybe_await(connect(streams.address).adaptive_avg_pool2d_backward(GRAD, SHAPE))
    assert gradient.tolist() == ANSWER.tolist()
    assert len(streams.attempts) == 3
    assert streams.attempts[-1].data["grad_output"] == GRAD.tobytes()


async def test_values_that_the_server_asks_for_come_in_chunks_too(connect: Connect, streams: ScriptedStreams) -> None:
    required = aclgrad.InputValuesRequiredError("send the array", field="inputs[self]")
    streams.script = failing(streams, required, times=1)
    client = connect(streams.address, retries=0)
    for _ in range(2):
        await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, GRAD))
    assert [each.header.chunked for each in streams.attempts] == [("grad_output",), *[("grad_output", "self")] * 2]
    assert streams.attempts[1].data["self"] == GRAD.tobytes()
    streams.script = failing(streams, required)
    with pytest.raises(aclgrad.InputValuesRequiredError):
        await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, SHAPE))


async def test_an_older_server_has_no_chunks(connect: Connect, streams: ScriptedStreams) -> None:
    streams.script = lambda messages, context: context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
    start = time.monotonic()
    with pytest.raises(aclgrad.MethodNotServedError, match="this version or a newer one"):
        await maybe_await(connect(streams.address).adaptive_avg_pool2d_backward(GRAD, SHAPE))
    assert time.monotonic() - start < PROMPTLY_S


async def test_nobody_is_there(connect: Connect, tmp_path: Any) -> None:
    client = connect(f"unix:{tmp_path}/nobody", connect_timeout_s=0.5)
    with pytest.raises(aclgrad.ServerUnreachableError, match="nobody"):
        await maybe_await(client.adaptive_avg_pool2d_backward(SMALL, (1, 2048, 2048)))
