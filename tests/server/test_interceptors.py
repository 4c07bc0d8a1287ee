"""What surrounds every call: request ids, statuses and log lines, on a gRPC server with a scripted service."""

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from aclgrad import errors
from aclgrad.errors import from_status
from aclgrad_server.active_calls import ActiveCalls
from aclgrad_server.client_waits import ClientWaits
from aclgrad_server.interceptors import CallInterceptor

SERVICE = "test.Service"


@dataclass
class Script:
    """A service whose only unary method does what `behaviour` says."""

    behaviour: Callable[[bytes, grpc.ServicerContext], bytes] = lambda request, context: request[::-1]
    channel: grpc.Channel = field(init=False)

    def call(self, method: str = f"/{SERVICE}/Call", **metadata: str) -> grpc.Call:
        keys = tuple((key.replace("_", "-"), value) for key, value in metadata.items())
        call = self.channel.unary_unary(method).future(b"abc", metadata=keys, timeout=60)
        call.code()  # waits for the end
        return call


@pytest.fixture
def script() -> Iterator[Script]:
    script = Script()
    call = grpc.unary_unary_rpc_method_handler(lambda request, context: script.behaviour(request, context))
    stream = grpc.unary_stream_rpc_method_handler(lambda request, context: iter((request, request)))
    handlers = [
        grpc.method_handlers_generic_handler(SERVICE, {"Call": call, "Stream": stream}),
        grpc.method_handlers_generic_handler("other.Service", {"Call": call}),
    ]
    with ThreadPoolExecutor(2) as pool:
        interceptor = CallInterceptor(SERVICE, ActiveCalls(), ClientWaits(60))
        server = grpc.server(pool, handlers=handlers, interceptors=[interceptor])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as script.channel:
            yield script
        server.stop(None).wait()


def trailer(call: grpc.Call, key: str) -> str | bytes | None:
    return dict(call.trailing_metadata()).get(key)


def error_of(call: grpc.Call) -> errors.AclgradError:
    status = status_pb2.Status.FromString(trailer(call, "grpc-status-details-bin"))
    assert (status.code, status.message) == (call.code().value[0], call.details())
    error = from_status(status)
    assert error is not None
    return error


def raising(error: Exception) -> Callable[[bytes, grpc.ServicerContext], bytes]:
    def behaviour(request: bytes, context: grpc.ServicerContext) -> bytes:
        raise error

    return behaviour


def test_reply_passes_through_with_the_request_id(script: Script) -> None:
    call = script.call(x_request_id="mine-42")
    assert call.result() == b"cba"
    assert trailer(call, "x-request-id") == "mine-42"
    assert trailer(call, "grpc-status-details-bin") is None


def test_call_without_a_request_id_is_given_one(script: Script) -> None:
    made = [trailer(script.call(), "x-request-id") for _ in range(2)]
    assert all(made)
    assert made[0] != made[1]


@pytest.mark.parametrize("given", ["", "x" * 129], ids=["empty", "long"])
def test_unfit_request_id_is_replaced(script: Script, given: str) -> None:
    answered = trailer(script.call(x_request_id=given), "x-request-id")
    assert answered
    assert answered != given


def test_longest_request_id_is_kept(script: Script) -> None:
    assert trailer(script.call(x_request_id="x" * 128), "x-request-id") == "x" * 128


def test_error_of_ours_becomes_its_status(script: Script) -> None:
    violation = errors.Violation("inputs[self].shape", "has 2 dimensions", "send 3")
    script.behaviour = raising(errors.InvalidFieldError.of(violation))
    call = script.call(x_request_id="mine-42")
    assert call.code() is grpc.StatusCode.INVALID_ARGUMENT
    error = error_of(call)
    assert type(error) is errors.InvalidFieldError
    assert error.violations == (violation,)
    assert error.request_id == trailer(call, "x-request-id") == "mine-42"


def test_retryable_error_tells_the_delay(script: Script) -> None:
    script.behaviour = raising(errors.ServerBusyError("full", retry_after_s=0.1))
    call = script.call()
    assert call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert error_of(call).retry_after_s == 0.1


@pytest.mark.parametrize("kind", [RuntimeError, KeyError, AssertionError, OSError], ids=lambda kind: kind.__name__)
def test_unexpected_exception_is_internal_and_keeps_its_text(
    script: Script, caplog: pytest.LogCaptureFixture, kind: type[Exception]
) -> None:
    script.behaviour = raising(kind("the secret path"))
    call = script.call()
    assert call.code() is grpc.StatusCode.INTERNAL
    error = error_of(call)
    assert type(error) is errors.ServerFaultError
    assert error.request_id == trailer(call, "x-request-id")
    assert error.request_id in call.details()
    assert "secret" not in call.details()
    assert b"secret" not in trailer(call, "grpc-status-details-bin")
    (record,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert error.request_id in record.getMessage()
    assert "the secret path" in record.exc_text


def test_server_that_is_out_of_memory_says_so(script: Script) -> None:
    script.behaviour = raising(MemoryError())
    call = script.call()
    assert call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert type(error_of(call)) is errors.DeviceMemoryError
    assert error_of(call).retry_after_s


def test_cause_of_an_error_goes_to_the_log_alone(script: Script, caplog: pytest.LogCaptureFixture) -> None:
    def behaviour(request: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            raise RuntimeError("what the device told")
        except RuntimeError as error:
            raise errors.DeviceLostError("the device failed") from error

    script.behaviour = behaviour
    caplog.set_level(logging.INFO)
    assert script.call().details() == "the device failed"
    assert "what the device told" in caplog.text


def test_every_status_has_exactly_one_error_info(script: Script) -> None:
    script.behaviour = raising(errors.MalformedRequestError("no message"))
    status = status_pb2.Status.FromString(trailer(script.call(), "grpc-status-details-bin"))
    assert [each.Is(error_details_pb2.ErrorInfo.DESCRIPTOR) for each in status.details].count(True) == 1


def test_other_services_and_streams_are_left_alone(script: Script) -> None:
    call = script.call("/other.Service/Call", x_request_id="mine-42")
    assert call.result() == b"cba"
    assert trailer(call, "x-request-id") is None
    assert list(script.channel.unary_stream(f"/{SERVICE}/Stream")(b"x", timeout=60)) == [b"x", b"x"]
    assert script.call(f"/{SERVICE}/Nothing").code() is grpc.StatusCode.UNIMPLEMENTED
