"""The client for synchronous code."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc

from aclgrad import _calls, _channel
from aclgrad._batch import BatchCall, CollectedCalls
from aclgrad._calls import LARGE_BYTES, Array, Call, ExecuteCall, Input, SentValues
from aclgrad._channel import DEFAULT_TARGET, DEFAULT_TIMEOUT_S, ChannelOption, Compression
from aclgrad._chunked import ChunkedAnswer, chunked_messages
from aclgrad._message_limit import MessageLimit
from aclgrad._operator_methods import OperatorMethods
from aclgrad._retry import DEFAULT_CONNECT_TIMEOUT_S, DEFAULT_RETRIES, Attempts, RetryPolicy
from aclgrad._settings import checked_seconds
from aclgrad._shared_memory import RegionPool, SharedCall
from aclgrad._target import checked_target
from aclgrad.errors import AclgradError
from aclgrad.operators.attributes import AttributeLike
from aclgrad.v1.operator_service_pb2 import GetServerStatusResponse, OperatorDescription
from aclgrad.wire.limits import DEFAULT_MESSAGE_BYTES
from aclgrad.wire.messages import OperatorCall, encode_request

CLOSE_TIMEOUT_S = 1.0
_Result = TypeVar("_Result")


class Client(OperatorMethods[Array]):
    """Computes gradients on the server at `target` (`host:port` or `unix:path`); safe to share between threads.

        with aclgrad.Client("127.0.0.1:50051") as client:
            gradient = client.adaptive_avg_pool2d_backward(grad_output, (8, 64, 56, 56))

    A call that takes longer than `timeout_s` seconds, with all its attempts, raises DeadlinePassedError; None sets no
    limit. If the connection breaks, or the server asks for it, a call is sent again up to `retries` times, after delays
    that grow; the error of the last attempt is raised. If no server can be reached, a call waits up to
    `connect_timeout_s` seconds for one; that takes none of its retries. `compression="gzip"` compresses requests.
    Whatever a call raises is an `aclgrad.AclgradError`.

    Of an array that an operator needs only the shape of, such as `input` of most, the shape alone is sent. A server
    whose device may read the values asks for them; the array is then sent, and in later calls of that operator at
    once. `shape_only=False` sends every array. `channel_options` are options of gRPC that go before the client's own.

    A message has at most `max_message_bytes`, 16 MiB as on a server by default. A larger call goes in chunks, a larger
    batch in several messages. If a server takes less, it refuses a message and names its limit; the client keeps that
    limit from then on and sends the call again in smaller pieces. Raise `max_message_bytes` if the server takes more.

    With `shared_memory=True` and a server on the same host at a `unix:` target, large tensors
    go through shared memory, where the returned arrays stay; a forked child gets a copy of them, taken at the fork.
    Tensors that do not fit in /dev/shm are sent over the connection. If the server takes no shared memory from this
    client, its calls raise SharedMemoryUnavailableError.
    """

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        retries: int = DEFAULT_RETRIES,
        connect_timeout_s: float = DEFAULT_CONNECT_TIMEOUT_S,
        max_message_bytes: int = DEFAULT_MESSAGE_BYTES,
        compression: Compression = None,
        shape_only: bool = True,
        shared_memory: bool = False,
        channel_options: Iterable[ChannelOption] = (),
    ) -> None:
        self.target = checked_target(target)
        self.timeout_s = None if timeout_s is None else checked_seconds("timeout_s", timeout_s)
        self._retry_policy = RetryPolicy(retries, connect_timeout_s)
        self._sent_values = SentValues(shape_only=shape_only)
        self._limit = MessageLimit(max_message_bytes)
        self._channel = grpc.insecure_channel(
            target,
            _channel.channel_options(self._limit.size_bytes, channel_options),
            compression=_channel.grpc_compression(compression),
        )
        self._closed = threading.Event()
        self._regions = RegionPool() if shared_memory else None
        self._methods: dict[str, grpc.UnaryUnaryMultiCallable[bytes, bytes]] = {}

    def execute(
        self,
        name: str,
        inputs: Mapping[str, Input],
        attributes: Mapping[str, AttributeLike] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> Array:
        """Returns the gradient of any operator of the server, by its wire names.

        A tuple of sizes as an input sends the shape alone; its dtype is that of the first array. Where a server needs
        the values, it raises InputValuesRequiredError.
        """
        return self._run(ExecuteCall(name, inputs, attributes, self._sent_values, self._limit), timeout_s)

    def batch(self) -> "Batch":
        """Returns an empty batch: calls that share messages, which makes many small gradients cheap."""
        return Batch(self, self._sent_values, self._limit)

    def list_operators(self, *, timeout_s: float | None = None) -> list[OperatorDescription]:
        """Returns what the server can compute, and what each operator takes."""
        return self._run(_calls.list_operators_call(), timeout_s)

    def server_status(self, *, timeout_s: float | None = None) -> GetServerStatusResponse:
        """Returns what the server runs on and how busy it is."""
        return self._run(_calls.server_status_call(), timeout_s)

    def close(self) -> None:
        """Closes the connection; calls in flight, or waiting for their next attempt, end with CallCancelledError."""
        self._closed.set()
        try:
            self._close_channel()
        finally:
            # After the calls: they would be told that their memory cannot be found.
            if self._regions is not None:
                self._regions.close()

    def _close_channel(self) -> None:
        """Ends all calls at once, but does not wait for a connection that a stopped server has left full of bytes.

        grpc would, until the kernel gives the connection up.
        """
        closer = threading.Thread(target=self._channel.close, name="aclgrad-close", daemon=True)
        try:
            closer.start()
        except RuntimeError:
            # The interpreter ends and starts no more threads.
            self._channel.close()
        else:
            closer.join(CLOSE_TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, call: Call[_Result], timeout_s: float | None) -> _Result:
        return self._repeat(call, self._start(timeout_s))

    def _run_batch(self, call: BatchCall, timeout_s: float | None) -> list[Any]:
        """Sends the messages of a batch one after the other, each with its own retries, within one time limit."""
        attempts = self._start(timeout_s)
        while call.next_message():
            try:
                self._repeat(call, attempts)
            except AclgradError as error:
                call.fail(error)
            attempts = attempts.of_another_message()
        return call.results()

    def _start(self, timeout_s: float | None) -> Attempts:
        return self._retry_policy.start(_calls.time_limit(self.timeout_s if timeout_s is None else timeout_s))

    def _repeat(self, call: Call[_Result], attempts: Attempts) -> _Result:
        """Makes the call, within the time that is left, until it succeeds or its error is final."""
        while True:
            try:
                return self._send(call, attempts.time_left_s())
            except AclgradError as error:
                amended = call.amend(error)
                delay_s = 0.0 if amended else attempts.delay_after_s(error)
                if delay_s is None:
                    attempts.explain(error)
                    raise
            call = amended or call
            self._pause(delay_s)

    def _send(self, call: Call[_Result], limit_s: float | None) -> _Result:
        """Makes one attempt."""
        if self._closed.is_set():
            raise _calls.closed_error(self.target)
        try:
            if isinstance(call, ExecuteCall) and self._regions is not None:
                return self._send_shared(call, self._regions, limit_s)
            if isinstance(call, ExecuteCall | BatchCall) and (chunked := call.in_chunks(call.size_bytes)):
                return call.take(self._send_chunks(*chunked, limit_s))
            return call.read(self._send_message(call.method, call.request, limit_s))
        except grpc.RpcError as failure:
            raise _calls.error_of(failure, self.target, is_closed=self._closed.is_set()) from None
        except ValueError:
            # What grpc raises for a channel that another thread closed since it was asked.
            if self._closed.is_set():
                raise _calls.closed_error(self.target) from None
            raise

    def _send_message(self, name: str, request: bytes, limit_s: float | None) -> bytes:
        method = self._methods.get(name)
        if method is None:
            method = self._methods[name] = self._channel.unary_unary(_calls.SERVICE + name)
        if len(request) <= LARGE_BYTES:
            return method(request, timeout=limit_s)
        # As a stream of one message. A unary call would wait for a full connection to take the rest of the message,
        # even after its deadline.
        return _calls.only_reply(self._stream(name, iter((request,)), limit_s))

    def _stream(self, name: str, messages: Iterator[bytes], limit_s: float | None) -> Iterator[bytes]:
        method: Any = self._channel.stream_stream(_calls.SERVICE + name)
        replies: Iterator[bytes] = method(messages, timeout=limit_s)
        return replies

    def _send_chunks(self, call: OperatorCall, chunk_bytes: int, limit_s: float | None) -> Array:
        answer = ChunkedAnswer()
        for message in self._stream("ExecuteOperatorChunked", chunked_messages(call, chunk_bytes), limit_s):
            answer.take(message)
        return answer.gradient()

    def _send_shared(self, call: ExecuteCall, regions: RegionPool, limit_s: float | None) -> Array:
        with SharedCall(regions, call.planned) as shared:
            planned = shared.lend()
            if chunked := call.in_chunks(planned.size_bytes):
                # There was no room for all of it.
                return self._send_chunks(*chunked, limit_s)
            return shared.read(self._send_message(call.method, encode_request(planned.call), limit_s))

    def _pause(self, delay_s: float) -> None:
        """Waits for the next attempt; a client that is closed meanwhile has none."""
        if self._closed.wait(delay_s):
            raise _calls.closed_error(self.target)


class Batch(CollectedCalls):
    """Calls that are sent together; a method of an operator adds its call and returns its position.

    batch = client.batch()
    for grad_output in grads:
        batch.adaptive_avg_pool2d_backward(grad_output, (8, 64, 56, 56))
    gradients = batch.run()
    """

    def __init__(self, client: Client, sent_values: SentValues, limit: MessageLimit) -> None:
        super().__init__(sent_values, limit)
        self._client = client

    def run(self, *, return_errors: bool = False, timeout_s: float | None = None) -> list[Any]:
        """Makes the calls and returns their gradients, in the order in which they were added.

        Where a call fails, raises its error, the first if there are several; with `return_errors` it stands in the
        list instead, and the others' gradients are not lost. Raises an AclgradError of its own where no call was made.

        Calls that exceed a message together go in several, one after the other; a call that alone exceeds one goes in
        chunks. `timeout_s` bounds all of them together.
        """
        return self._client._run_batch(self.to_send(return_errors), timeout_s)  # noqa: SLF001 - the two are one
