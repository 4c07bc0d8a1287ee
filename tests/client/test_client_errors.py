"""Both clients against a scripted service: what each failure is raised as."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc import status_pb2
from google.rpc.error_details_pb2 import RetryInfo

import aclgrad
from aclgrad.errors import from_status, to_status
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1 import tensor_pb2
from tests.calling import maybe_await

from .scripted_service import REPLY, ScriptedService, abort_with

ONES = np.ones((1, 1, 1), np.float32)


async def test_error_of_ours_is_raised_with_its_fields(connect: Callable[..., Any], service: ScriptedService) -> None:
    status = to_status(aclgrad.ServerBusyError("full", retry_after_s=0.5, metadata={"limit": "8"}), "5f0c")
    service.answer = abort_with(grpc.StatusCode.RESOURCE_EXHAUSTED, "full", status.SerializeToString())
    client = connect(service.address, retries=0)
    with pytest.raises(aclgrad.ServerBusyError, match=r"^full$") as caught:
        await maybe_await(client.execute("pool", {"a": ONES}))
    assert (caught.value.retry_after_s, caught.value.request_id) == (0.5, "5f0c")
    assert caught.value.metadata == {"limit": "8"}


@pytest.mark.parametrize("details", [None, b"\xff", status_pb2.Status(code=14).SerializeToString()], ids=repr)
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (grpc.StatusCode.UNAVAILABLE, aclgrad.ConnectionLostError),
        (grpc.StatusCode.DEADLINE_EXCEEDED, aclgrad.DeadlinePassedError),
        (grpc.StatusCode.CANCELLED, aclgrad.ConnectionLostError),
        (grpc.StatusCode.UNIMPLEMENTED, aclgrad.MethodNotServedError),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, aclgrad.AclgradError),
        (grpc.StatusCode.DATA_LOSS, aclgrad.AclgradError),
    ],
    ids=lambda value: value.name if isinstance(value, grpc.StatusCode) else "",
)
async def test_status_that_is_none_of_ours_becomes_an_error_of_its_code(
    connect: Callable[..., Any],
    service: ScriptedService,
    code: grpc.StatusCode,
    kind: type[aclgrad.AclgradError],
    details: bytes | None,
) -> None:
    service.answer = abort_with(code, "by the proxy", details)
    client = connect(service.address, retries=0)
    with pytest.raises(aclgrad.AclgradError) as caught:
        await maybe_await(client.execute("pool", {"a": ONES}))
    assert type(caught.value) is kind
    assert (caught.value.code, caught.value.reason) == (code, kind.reason)
    assert service.address in str(caught.value)


async def test_a_proxy_may_ask_for_another_attempt(connect: Callable[..., Any], service: ScriptedService) -> None:
    status = status_pb2.Status(code=grpc.StatusCode.RESOURCE_EXHAUSTED.value[0])
    status.details.add().Pack(RetryInfo(retry_delay=Duration(nanos=1_000_000)))
    answers = iter([abort_with(grpc.StatusCode.RESOURCE_EXHAUSTED, "by the proxy", status.SerializeToString())])
    service.answer = lambda context: next(answers, lambda context: REPLY)(context)
    await maybe_await(connect(service.address).execute("pool", {"a": ONES}))


@pytest.mark.parametrize(
    ("delay", "seconds"), [(Duration(seconds=-5), 0), (Duration(seconds=2**62), 2**62), (Duration(nanos=-(2**31)), 0)]
)
def test_a_delay_that_makes_no_sense_is_read_all_the_same(delay: Duration, seconds: float) -> None:
    status = to_status(aclgrad.ServerBusyError("full"), "")
    status.details.add().Pack(RetryInfo(retry_delay=delay))
    error = from_status(status)
    assert error is not None
    assert error.retry_after_s == seconds


BAD_REPLIES = {
    "no_message": b"\x0f",
    "no_output": b"",
    "no_data": pb.ExecuteOperatorResponse(outputs=[tensor_pb2.Tensor(data_type=1, shape=[2])]).SerializeToString(),
    "short": pb.ExecuteOperatorResponse(
        outputs=[tensor_pb2.Tensor(data_type=1, shape=[2], data=b"1234")]
    ).SerializeToString(),
}


@pytest.mark.parametrize("reply", BAD_REPLIES.values(), ids=BAD_REPLIES)
async def test_reply_that_makes_no_sense_is_a_fault_of_the_server(
    connect: Callable[..., Any], service: ScriptedService, reply: bytes
) -> None:
    service.answer = lambda context: reply
    client = connect(service.address)
    with pytest.raises(aclgrad.ServerFaultError, match="the reply of the server cannot be read"):
        await maybe_await(client.execute("pool", {"a": ONES}))


async def test_no_answer_within_the_time_limit(connect: Callable[..., Any], service: ScriptedService) -> None:
    released = threading.Event()
    service.answer = lambda context: REPLY if released.wait(60) else b""
    client = connect(service.address, timeout_s=0.05)
    try:
        with pytest.raises(aclgrad.DeadlinePassedError, match="larger timeout_s"):
            await maybe_await(client.execute("pool", {"a": ONES}))
    finally:
        released.set()


async def test_no_server_at_the_target(connect: Callable[..., Any], tmp_path: Path) -> None:
    client = connect(f"unix:{tmp_path}/nobody", retries=0)
    with pytest.raises(aclgrad.ConnectionLostError, match=r"nobody.*check that a server listens"):
        await maybe_await(client.list_operators())


async def test_message_over_the_limit_of_the_client(connect: Callable[..., Any], service: ScriptedService) -> None:
    client = connect(service.address, max_message_bytes=1000)
    with pytest.raises(aclgrad.MessageTooLargeError, match=r"limit of 1000 bytes.*max_message_bytes") as caught:
        await maybe_await(client.execute("pool", {"a": np.zeros(1000, np.float32)}))
    assert caught.value.metadata["limit"] == "1000"
    service.answer = lambda context: bytes(2000)
    with pytest.raises(aclgrad.MessageTooLargeError, match="2000 bytes exceeds the limit of 1000"):
        await maybe_await(client.execute("pool", {"a": ONES}))
