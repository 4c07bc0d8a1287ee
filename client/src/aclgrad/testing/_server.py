"""The server of `aclgrad.testing`: the service of the wire, on a thread pool."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from typing import Any, Final

import grpc

from aclgrad.errors import (
    AclgradError,
    InvalidFieldError,
    MalformedRequestError,
    ServerFaultError,
    to_status,
)
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.describe import describe_operator
from aclgrad.operators.validation import call_alone
from aclgrad.products import Product
from aclgrad.sources import InMessage, in_message
from aclgrad.tensors import TensorView
from aclgrad.testing._compute import MAX_TENSOR_BYTES, compute
from aclgrad.testing._programs import check_program, resolve, run_program
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.chunks import check_chunk, chunk_prefix, decode_chunk, decode_header, encode_results
from aclgrad.wire.limits import DEFAULT_MESSAGE_BYTES, MAX_PROGRAM_REST_BYTES, MAX_STEPS, MAX_TABLE_TENSORS
from aclgrad.wire.messages import OperatorCall, decode_request, response_of
from aclgrad.wire.programs import (
    SentProgram,
    StepOutcome,
    decode_program,
    failed_result,
    result_prefix,
)
from aclgrad.wire.service import REQUEST_ID, SERVER

_SERVICE: Final = pb.DESCRIPTOR.services_by_name["OperatorService"].full_name
_DETAILS: Final = "grpc-status-details-bin"
_THREADS: Final = 16
_SERVING: Final = b"\x08\x01"


class TestServer:
    """A running server of `serve`. All methods may be called from any thread."""

    __test__ = False  # pytest would collect a class with this name

    def __init__(self, product: Product, shape_only: bool, max_message_bytes: int) -> None:
        self.target = ""
        """The target for `aclgrad.Client`: HOST:PORT on loopback."""
        self.delay_s = 0.0
        """A delay that is added to every call."""
        self.calls: list[str] = []
        """The operators of the calls that were computed, in order; a program counts each of its steps."""
        self._product = product
        self._shape_only = shape_only
        self._max_message_bytes = max_message_bytes
        self._failures: deque[AclgradError] = deque()
        self._lock = threading.Lock()

    def fail(self, error: AclgradError, *, times: int = 1) -> None:
        """Ends each of the next `times` calls with the error, as a real server ends them: the client may retry.

        A step of a program, or a call of a batch, counts as a call. `ServerBusyError("full", retry_after_s=0.01)` is
        retried, `ServerFaultError("broken")` is not. Raises ValueError for an error that no server sends.
        """
        if not isinstance(error, AclgradError) or not error.reason:
            raise ValueError(f"{error!r} is no error that a server sends; give one, for example ServerFaultError(...)")
        with self._lock:
            self._failures.extend([error] * times)

    def handler(self) -> grpc.GenericRpcHandler:
        """Returns the handlers for a gRPC server."""
        unary: dict[str, Callable[[bytes, str], bytes]] = {
            "ListOperators": self._list,
            "GetServerStatus": self._status,
            "ExecuteOperator": self._operator,
            "ExecuteProgram": self._program,
        }
        methods: dict[str, Any] = {
            name: grpc.unary_unary_rpc_method_handler(_answering(behaviour, self)) for name, behaviour in unary.items()
        }
        methods["ExecuteProgramChunked"] = grpc.stream_stream_rpc_method_handler(self._chunked)
        return grpc.method_handlers_generic_handler(_SERVICE, methods)

    def _execute(self, call: OperatorCall) -> tuple[TensorView, ...]:
        with self._lock:
            failure = self._failures.popleft() if self._failures else None
        if failure is not None:
            raise failure
        time.sleep(self.delay_s)
        outputs = compute(call, self._product, self._shape_only)
        with self._lock:
            self.calls.append(call.operator)
        return outputs

    def _operator(self, message: bytes, request_id: str) -> bytes:
        return response_of(*self._execute(call_alone(resolve(decode_request(message)))))

    def _program(self, message: bytes, request_id: str) -> bytes:
        program = decode_program(message)
        check_program(program, self._product)
        return b"".join(map(_result, run_program(program, self._execute, request_id)))

    def _chunked(self, messages: Iterator[bytes], context: Any) -> Iterator[bytes]:
        with _statuses(context, self.target):
            first = next(messages, None)
            if first is None:
                raise MalformedRequestError("the call ended before its message")
            program = decode_header(first)
            check_program(program, self._product)
            # The client now sends chunks.
            context.send_initial_metadata(())
            program = _complete(program, messages)
            for outcome in run_program(program, self._execute, _request_id(context)):
                yield from _send(outcome, program.chunk_bytes)

    def _list(self, message: bytes, request_id: str) -> bytes:
        served = [spec for spec in OPERATORS.values() if self._product in spec.products]
        described = [describe_operator(spec, self._product, self._shape_only) for spec in served]
        return pb.ListOperatorsResponse(operators=described).SerializeToString()

    def _status(self, message: bytes, request_id: str) -> bytes:
        limits = pb.Limits(
            message_bytes=self._max_message_bytes,
            tensor_bytes=MAX_TENSOR_BYTES,
            program_steps=MAX_STEPS,
            program_tensors=MAX_TABLE_TENSORS,
            program_rest_bytes=MAX_PROGRAM_REST_BYTES,
        )
        return pb.GetServerStatusResponse(
            version=version("aclgrad"),
            library="aclgrad.testing",
            product=self._product,
            limits=limits,
            computes_on_cpu=True,
        ).SerializeToString()


@contextmanager
def serve(
    *,
    product: Product | str = Product.ATLAS_A2,
    shape_only: bool = True,
    max_message_bytes: int = DEFAULT_MESSAGE_BYTES,
) -> Iterator[TestServer]:
    """Runs a server on a free port of loopback, and stops it at the end of the block.

    It follows the rules of `product` ("910A", "910B", "910_93", "310P" or "950"). With `shape_only=False` it asks
    clients for the values of every input. Messages of more than `max_message_bytes` are refused.
    """
    server = TestServer(Product(product), shape_only, max_message_bytes)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="aclgrad-testing") as threads:
        options = [
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", max_message_bytes),
            ("grpc.max_send_message_length", max_message_bytes),
        ]
        core = grpc.server(threads, options=options)
        core.add_generic_rpc_handlers((server.handler(), _health()))
        server.target = f"127.0.0.1:{core.add_insecure_port('127.0.0.1:0')}"
        core.start()
        try:
            yield server
        finally:
            # Again: gRPC does not cancel a watch that arrives while it cancels the others, but waits for it.
            while not core.stop(0).wait(1):
                pass


def _result(outcome: StepOutcome) -> bytes:
    if not isinstance(outcome, tuple):
        return failed_result(outcome)
    outputs = response_of(*outcome)
    return result_prefix(len(outputs)) + outputs


def _complete(program: SentProgram, messages: Iterator[bytes]) -> SentProgram:
    """Returns the program with the tensors that come in chunks."""
    tensors = list(program.tensors)
    for index, each in enumerate(tensors):
        if each.source.in_chunks:
            tensors[index] = replace(each, source=_take(messages, index, each.source.nbytes))
    if next(messages, None) is not None:
        remedy = "send exactly the elements of the shapes"
        raise InvalidFieldError.at("chunk", "has more chunks than its tensors take", remedy)
    return replace(program, tensors=tuple(tensors))


def _take(messages: Iterator[bytes], index: int, size_bytes: int) -> InMessage:
    data = bytearray()
    while len(data) < size_bytes:
        message = next(messages, None)
        if message is None:
            problem = f"ended after {len(data)} of {size_bytes} bytes"
            raise InvalidFieldError.at(f"tensors[{index}]", problem, "send all chunks")
        chunk = decode_chunk(message)
        check_chunk(chunk, index, len(data), size_bytes)
        data += chunk.data
    return in_message(memoryview(data))


def _send(outcome: StepOutcome, chunk_bytes: int) -> Iterator[bytes]:
    """Yields the result of a step and then the chunks of its outputs."""
    outputs = outcome if isinstance(outcome, tuple) else ()
    yield encode_results([tuple(TensorView(each.name, each.type) for each in outputs) if outputs else outcome])
    for index, output in enumerate(outputs):
        assert output.data is not None
        for offset in range(0, output.data.nbytes, chunk_bytes):
            piece = output.data[offset : offset + chunk_bytes]
            yield chunk_prefix(index, offset, piece.nbytes) + piece


def _answering(behaviour: Callable[[bytes, str], bytes], server: TestServer) -> Callable[[bytes, Any], bytes]:
    def answer(message: bytes, context: Any) -> bytes:
        with _statuses(context, server.target):
            return behaviour(message, _request_id(context))
        raise AssertionError("abort raises")

    return answer


def _health() -> grpc.GenericRpcHandler:
    """Returns `grpc.health.v1` of a server that is ready; a watch takes no thread."""
    check: Any = grpc.unary_unary_rpc_method_handler(lambda message, context: _SERVING)
    watch: Any = grpc.unary_stream_rpc_method_handler(_watch)
    return grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": check, "Watch": watch})


def _watch(message: bytes, context: Any, send: Callable[[bytes | None], None]) -> None:
    send(_SERVING)


_watch.experimental_non_blocking = True  # type: ignore[attr-defined]


def _request_id(context: Any) -> str:
    return str(dict(context.invocation_metadata()).get(REQUEST_ID, "testing"))


@contextmanager
def _statuses(context: Any, name: str) -> Iterator[None]:
    """Ends the call with the status of an error, as `aclgrad-server` does."""
    sent = _request_id(context)
    context.set_trailing_metadata(((REQUEST_ID, sent), (SERVER, name)))
    try:
        yield
        return
    except AclgradError as error:
        told = error
    except (ArithmeticError, MemoryError) as error:
        told = ServerFaultError(f"the definition failed: {error}")
    details = to_status(told, sent).SerializeToString()
    context.set_trailing_metadata(((REQUEST_ID, sent), (SERVER, name), (_DETAILS, details)))
    context.abort(told.code, told.message)
