"""Both clients against a scripted service: what each failure is raised as."""

import re
import threading

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
from tools.calling import maybe_await

from .conftest import Connect
from .scripted_service import INPUTS, REPLY, ScriptedService, abort_with, failing


async def test_error_of_ours_is_raised_with_its_fields(connect: Connect, service: ScriptedService) -> None:
    service.answer = failing(aclgrad.ServerBusyError("full", retry_after_s=0.5, metadata={"limit": "8"}))
    client = connect(service.address, retries=0)
    with pytest.raises(aclgrad.ServerBusyError, match=r"^full$") as caught:
        await maybe_await(client.execute("pool", INPUTS))
    assert (caught.value.retry_after_s, caught.value.request_id) == (0.5, "5f0c")
    assert caught.value.metadata == {"limit": "8"}


KINDS = {
    grpc.StatusCode.UNAVAILABLE: aclgrad.ConnectionLostError,
    grpc.StatusCode.DEADLINE_EXCEEDED: aclgrad.DeadlinePassedError,
    grpc.StatusCode.CANCELLED: aclgrad.CallCutError,
    grpc.StatusCode.UNIMPLEMENTED: aclgrad.MethodNotServedError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: aclgrad.AclgradError,
    grpc.StatusCode.DATA_LOSS: aclgrad.AclgradError,
}


async def test_status_that_is_none_of_ours_becomes_an_error_of_its_code(
    connect: Connect, service: ScriptedService
) -> None:
    client = connect(service.address, retries=0)
    for code, kind in KINDS.items():
        for details in (None, b"\xff", status_pb2.Status(code=14).SerializeToString()):
            service.answer = abort_with(code, "by the proxy", details)
            with pytest.raises(aclgrad.AclgradError) as caught:
                await maybe_await(client.execute("pool", INPUTS))
            assert type(caught.value) is kind
            assert (caught.value.code, caught.value.reason) == (code, kind.reason)
            assert service.address in str(caught.value)


async def test_a_host_that_nobody_knows_is_named(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name or that of a proxy, without gRPC's own words."""
    host, remedy = "its host", "check the name of the host, and that a name server answers"
    for proxy in ("", "nowhere.invalid:3128"):
        if proxy:
            monkeypatch.setenv("http_proxy", f"http://{proxy}")
            host = f"the proxy {proxy} of http_proxy"
            remedy = "correct http_proxy, or add the host to no_proxy if there is a direct way"
        for target in ("gpu-7.invalid:50051", "dns:///gpu-7.invalid:50051"):
            with pytest.raises(aclgrad.ServerUnreachableError) as caught:
                await maybe_await(connect(target, connect_timeout_s=0).list_operators())
            told = str(caught.value)
            assert told.startswith(f"{target}: {host} cannot be looked up: ")
            assert told.endswith(f"; {remedy}")
            assert not re.search(r"[][]|resol", told)


async def test_a_proxy_may_ask_for_another_attempt(connect: Connect, service: ScriptedService) -> None:
    status = status_pb2.Status(code=grpc.StatusCode.RESOURCE_EXHAUSTED.value[0])
    status.details.add().Pack(RetryInfo(retry_delay=Duration(nanos=1_000_000)))
    answers = iter([abort_with(grpc.StatusCode.RESOURCE_EXHAUSTED, "by the proxy", status.SerializeToString())])
    service.answer = lambda context: next(answers, lambda context: REPLY)(context)
    await maybe_await(connect(service.address).execute("pool", INPUTS))


@pytest.mark.parametrize(
    ("delay", "seconds"), [(Duration(seconds=-5), 0), (Duration(seconds=2**62), 2**62), (Duration(nanos=-(2**31)), 0)]
)
def test_a_delay_that_makes_no_sense_is_read_all_the_same(delay: Duration, seconds: float) -> None:
    status = to_status(aclgrad.ServerBusyError("full"), "")
    status.details.add().Pack(RetryInfo(retry_delay=delay))
    error = from_status(status)
    assert error is not None
    assert error.retry_after_s == seconds


BAD_REPLIES = [
    b"\x0f",
    b"",
    pb.ExecuteOperatorResponse(outputs=[tensor_pb2.Tensor(data_type=1, shape=[2])]).SerializeToString(),
    pb.ExecuteOperatorResponse(outputs=[tensor_pb2.Tensor(data_type=1, shape=[2], data=b"1234")]).SerializeToString(),
]


async def test_reply_that_makes_no_sense_is_a_fault_of_the_server(connect: Connect, service: ScriptedService) -> None:
    client = connect(service.address)
    for reply in BAD_REPLIES:
        service.answer = lambda context, reply=reply: reply
        with pytest.raises(aclgrad.ServerFaultError, match="the reply of the server cannot be read"):
            await maybe_await(client.execute("pool", INPUTS))
    for reply in (b"\x0f", b"\x0a\x05abc"):
        service.answer = lambda context, reply=reply: reply
        for query in (client.list_operators, client.server_status):
            with pytest.raises(aclgrad.ServerFaultError, match=r"the reply of the server cannot be read: .*Response"):
                await maybe_await(query())


async def test_no_answer_within_the_time_limit(connect: Connect, service: ScriptedService) -> None:
    released = threading.Event()
    service.answer = lambda context: REPLY if released.wait(60) else b""
    client = connect(service.address, timeout_s=0.05)
    try:
        with pytest.raises(aclgrad.DeadlinePassedError, match=r"time limit.*larger timeout_s \(.*was 0\.05 s\)"):
            await maybe_await(client.execute("pool", INPUTS))
        with pytest.raises(aclgrad.DeadlinePassedError, match=r"\(timeout_s was 0\.1 s\)"):
            await maybe_await(client.execute("pool", INPUTS, timeout_s=0.1))
    finally:
        released.set()


LARGE_FAILURES = [aclgrad.LimitExceededError("too large for us"), aclgrad.ServerBusyError("full")]


@pytest.mark.parametrize("error", LARGE_FAILURES, ids=lambda error: type(error).__name__)
async def test_large_messages_fail_like_small_ones(
    connect: Connect, service: ScriptedService, error: aclgrad.AclgradError
) -> None:
    service.answer = failing(error)
    with pytest.raises(type(error), match=f"^{error.message}$"):
        await maybe_await(connect(service.address).execute("pool", {"a": np.zeros((1, 3, 2**18), np.float32)}))
    service.answer = lambda context: b"\x0f" * 2
    with pytest.raises(aclgrad.ServerFaultError, match="cannot be read"):
        await maybe_await(connect(service.address).execute("pool", {"a": np.zeros((1, 3, 2**18), np.float32)}))


def garbled(error: aclgrad.AclgradError) -> status_pb2.Status:
    """Returns the error's status with details that have the right type and the wrong bytes."""
    status = to_status(error, "5f0c")
    for detail in status.details:
        detail.value = b"\x0a\x05abc"
    return status


async def test_details_that_make_no_sense_leave_the_code(connect: Connect, service: ScriptedService) -> None:
    details = garbled(aclgrad.ServerBusyError("full", retry_after_s=0.1)).SerializeToString()
    service.answer = abort_with(grpc.StatusCode.UNIMPLEMENTED, "by the proxy", details)
    with pytest.raises(aclgrad.MethodNotServedError, match="by the proxy"):
        await maybe_await(connect(service.address, retries=0).execute("pool", INPUTS))


async def test_details_in_a_batch_that_make_no_sense_leave_the_message(
    connect: Connect, service: ScriptedService
) -> None:
    failed = pb.StepResult(error=garbled(aclgrad.InvalidFieldError("wrong")))
    service.answer = lambda context: pb.ExecuteProgramResponse(results=[failed]).SerializeToString()
    batch = connect(service.address).batch()
    batch.execute("pool", INPUTS)
    with pytest.raises(aclgrad.AclgradError, match=r"^wrong$"):
        await maybe_await(batch.run())
