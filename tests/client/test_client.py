"""Both clients against a service that the test scripts: what is sent, and what is made of each answer."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import grpc
import numpy as np
import pytest
from google.rpc import status_pb2

import aclgrad
from aclgrad.errors import to_status
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1 import tensor_pb2
from tests.conftest import maybe_await

GRADIENT = np.array([1.5, -2.5], np.float32)
ONES = np.ones((1, 1, 1), np.float32)
REPLY = pb.ExecuteOperatorResponse(
    outputs=[tensor_pb2.Tensor(name="out", data_type=1, shape=[2], data=GRADIENT.tobytes())]
).SerializeToString()


@dataclass
class ScriptedService(grpc.GenericRpcHandler):
    """Answers every method with what `answer` returns, and keeps the requests."""

    answer: Callable[[grpc.ServicerContext], bytes] = lambda context: REPLY
    requests: list[tuple[str, bytes]] = field(default_factory=list)
    address: str = ""

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        def behaviour(request: bytes, context: grpc.ServicerContext) -> bytes:
            self.requests.append((details.method, request))
            return self.answer(context)

        return grpc.unary_unary_rpc_method_handler(behaviour)


@pytest.fixture
def service() -> Iterator[ScriptedService]:
    scripted = ScriptedService()
    with ThreadPoolExecutor(4) as pool:
        server = grpc.server(pool, handlers=[scripted])
        scripted.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        yield scripted
        server.stop(None).wait()


def abort_with(code: grpc.StatusCode, message: str, details: bytes | None = None) -> Callable[..., bytes]:
    def answer(context: grpc.ServicerContext) -> bytes:
        if details is not None:
            context.set_trailing_metadata((("grpc-status-details-bin", details),))
        context.abort(code, message)
        raise AssertionError

    return answer


async def test_execute_sends_the_call_and_returns_the_gradient(
    connect: Callable[..., Any], service: ScriptedService
) -> None:
    values = np.arange(6, dtype=np.float16).reshape(1, 2, 3)
    client = connect(service.address)
    gradient = await maybe_await(client.execute("pool", {"b": (4, 5), "a": values}, {"sizes": [1, 2], "flag": False}))
    assert gradient.tolist() == GRADIENT.tolist()
    ((method, request),) = service.requests
    assert method == "/aclgrad.v1.OperatorService/ExecuteOperator"
    expected = pb.ExecuteOperatorRequest(operator="pool")
    expected.inputs.add(name="b", data_type="DATA_TYPE_FLOAT16", shape=[4, 5])
    expected.inputs.add(name="a", data_type="DATA_TYPE_FLOAT16", shape=[1, 2, 3], data=values.tobytes())
    expected.attributes["sizes"].ints_value.values.extend([1, 2])
    expected.attributes["flag"].bool_value = False
    assert pb.ExecuteOperatorRequest.FromString(request) == expected


async def test_lists_and_numbers_are_arrays(connect: Callable[..., Any], service: ScriptedService) -> None:
    await maybe_await(connect(service.address).execute("pool", {"a": [[1, 2], [3, 4]], "b": 2.5}))
    a, b = pb.ExecuteOperatorRequest.FromString(service.requests[0][1]).inputs
    assert (a.data_type, list(a.shape)) == (tensor_pb2.DATA_TYPE_INT64, [2, 2])
    assert (b.data_type, list(b.shape), len(b.data)) == (tensor_pb2.DATA_TYPE_FLOAT64, [], 8)


@pytest.mark.parametrize(
    ("inputs", "at_fault"),
    [({"self": (2, 3)}, "inputs[self]"), ({"a": np.array(["x"])}, "inputs[a]")],
    ids=["only_shapes", "text"],
)
async def test_inputs_without_a_form_on_the_wire_are_refused_before_sending(
    connect: Callable[..., Any], service: ScriptedService, inputs: dict[str, Any], at_fault: str
) -> None:
    client = connect(service.address)
    with pytest.raises(aclgrad.InvalidFieldError) as caught:
        await maybe_await(client.execute("pool", inputs))
    assert caught.value.field == at_fault
    assert not service.requests


async def test_error_of_ours_is_raised_with_its_fields(connect: Callable[..., Any], service: ScriptedService) -> None:
    status = to_status(aclgrad.ServerBusyError("full", retry_after_s=0.5, metadata={"limit": "8"}), "5f0c")
    service.answer = abort_with(grpc.StatusCode.RESOURCE_EXHAUSTED, "full", status.SerializeToString())
    client = connect(service.address)
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
        (grpc.StatusCode.CANCELLED, aclgrad.CallCancelledError),
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
    client = connect(service.address)
    with pytest.raises(aclgrad.AclgradError) as caught:
        await maybe_await(client.execute("pool", {"a": ONES}))
    assert type(caught.value) is kind
    assert (caught.value.code, caught.value.reason) == (code, kind.reason)
    assert service.address in str(caught.value)


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


async def test_time_limit_of_the_call_goes_before_that_of_the_client(
    connect: Callable[..., Any], service: ScriptedService
) -> None:
    remaining: list[float] = []

    def note_deadline(context: grpc.ServicerContext) -> bytes:
        remaining.append(context.time_remaining())
        return REPLY

    service.answer = note_deadline
    client = connect(service.address, timeout_s=1000)
    await maybe_await(client.execute("pool", {"a": ONES}))
    await maybe_await(client.execute("pool", {"a": ONES}, timeout_s=5000))
    # Deadlines travel rounded to a few digits.
    assert 900 < remaining[0] < 1100
    assert 4900 < remaining[1] < 5100


async def test_no_answer_within_the_time_limit(connect: Callable[..., Any], service: ScriptedService) -> None:
    released = threading.Event()
    service.answer = lambda context: REPLY if released.wait(60) else b""
    client = connect(service.address, timeout_s=0.05)
    try:
        with pytest.raises(aclgrad.DeadlinePassedError, match="larger timeout_s"):
            await maybe_await(client.execute("pool", {"a": ONES}))
    finally:
        released.set()


async def test_no_server_at_the_target(connect: Callable[..., Any], tmp_path: Any) -> None:
    client = connect(f"unix:{tmp_path}/nobody")
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
