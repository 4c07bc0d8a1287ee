"""The kinds of calls that scenarios name: each makes one caller, a function that makes one call and tells its bytes.

A caller has a connection of its own and raises an AclgradError where the call fails. What has to fail raises
UnexpectedReplyError where it does not.
"""

from __future__ import annotations  # grpc's classes are generic in their stubs alone

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import grpc

import aclgrad
from aclgrad.operators.cases import arrays_of
from aclgrad.tensors import TensorType, TensorView, array_of_view, view_of_array
from aclgrad.wire.chunks import decode_chunk, decode_response_header
from aclgrad.wire.messages import OperatorCall, decode_response, encode_request
from aclgrad.wire.service import SERVICE
from tools.benchmarks import ceilings
from tools.benchmarks.sizes import SIZES
from tools.lab.gradients import BAD_REQUESTS, Sampler, of_all_operators, of_size
from tools.lab.known import UnexpectedReplyError
from tools.raw_calls import chunked_messages, error_of

DEADLINE_S: Final = 30.0
CHUNK_BYTES: Final = 2**20
Caller = Callable[[], int]


@dataclass(frozen=True, slots=True)
class Targets:
    """Where the callers go."""

    server: str
    echo: str


def echo(targets: Targets, sampler: Sampler, size: str) -> Caller:
    """The ceiling of `unary`: as many bytes each way, and nothing done with them."""
    reply_bytes = SIZES[size].tensor_bytes
    request = ceilings.request_for(len(encode_request(_call(size))), reply_bytes)
    send = _method(targets.echo, ceilings.UNARY)

    def call() -> int:
        return len(request) + _of_length(send(request), reply_bytes)

    return call


def stream_echo(targets: Targets, sampler: Sampler, size: str) -> Caller:
    """The ceiling of large calls: as many chunks each way."""
    send: Any = channel_to(targets.echo).stream_stream(ceilings.CHUNKS)
    messages = _chunks(size)

    def call() -> int:
        received = sum(map(len, send(iter(messages), timeout=DEADLINE_S)))
        return sum(map(len, messages)) + received

    return call


def unary(targets: Targets, sampler: Sampler, size: str, timeout_s: float = DEADLINE_S) -> Caller:
    """ExecuteOperator with bytes that were made once, without retries: what the server does, not what a client does."""
    known = of_size(size)
    request, reply_bytes = encode_request(_call(size)), SIZES[size].tensor_bytes
    send = _method(targets.server, SERVICE + "ExecuteOperator", timeout_s)

    def call() -> int:
        reply = send(request)
        if sampler.wants_next():
            (output,) = decode_response(reply)
            sampler.compare(known, array_of_view(output))
        return len(request) + _of_length(reply, reply_bytes)

    return call


def client(
    targets: Targets,
    sampler: Sampler,
    sizes: list[str],
    operators: bool = False,
    retries: int = 4,
    timeout_s: float = DEADLINE_S,
) -> Caller:
    """`aclgrad.Client` as users have it: one of the sizes at random, or any case of any operator."""
    connection = aclgrad.Client(targets.server, retries=retries, timeout_s=timeout_s, channel_options=_OWN)
    groups = [[of_size(size)] for size in sizes] + ([of_all_operators()] if operators else [])

    def call() -> int:
        known = random.choice(random.choice(groups))
        reply = connection.execute(known.operator, known.inputs, known.attributes)
        if sampler.wants_next():
            sampler.compare(known, reply)
        return known.sent_bytes + sum(gradient.nbytes for gradient in arrays_of(reply))

    return call


def batch(targets: Targets, sampler: Sampler, size: str, count: int = 64) -> Caller:
    """`aclgrad.Client.batch` of so many equal gradients."""
    connection = aclgrad.Client(targets.server, timeout_s=DEADLINE_S, channel_options=_OWN)
    known = of_size(size)

    def call() -> int:
        calls = connection.batch()
        for _ in range(count):
            calls.adaptive_avg_pool2d_backward(known.inputs["grad_output"], known.inputs["self"])
        gradients = calls.run()
        if sampler.wants_next():
            sampler.compare(known, random.choice(gradients))
        return sum(gradient.nbytes for gradient in gradients) + count * known.sent_bytes

    return call


def slow(targets: Targets, sampler: Sampler, size: str, pause_s: float, writes: bool = False) -> Caller:
    """A call in chunks that rests before each chunk that it reads, or writes."""
    send: Any = channel_to(targets.server).stream_stream(SERVICE + "ExecuteOperatorChunked")
    known = of_size(size)
    messages = _chunks(size)

    def resting(each: Iterator[bytes]) -> Iterator[bytes]:
        for message in each:
            time.sleep(pause_s)
            yield message

    def call() -> int:
        replies = _own_errors(send(resting(iter(messages)) if writes else iter(messages), timeout=DEADLINE_S))
        header, *chunks = replies if writes else resting(replies)
        (output,) = decode_response_header(header)
        data = b"".join(decode_chunk(each).data for each in chunks)
        sampler.compare(known, array_of_view(TensorView(output.name, output.type, memoryview(data))))
        return 2 * SIZES[size].tensor_bytes

    return call


def bad(targets: Targets, sampler: Sampler) -> Caller:
    """A request that the server has to refuse, with a reason."""
    connection = aclgrad.Client(targets.server, timeout_s=DEADLINE_S, channel_options=_OWN)

    def call() -> int:
        name, inputs, attributes = random.choice(BAD_REQUESTS)
        try:
            connection.execute(name, inputs, attributes)
        except aclgrad.RequestError as error:
            if error.reason:
                return 0
            raise
        raise UnexpectedReplyError(f"{name} was answered")

    return call


def too_large(targets: Targets, sampler: Sampler, size: str) -> Caller:
    """A message over the server's limit; gRPC's core refuses it."""
    send = _method(targets.server, SERVICE + "ExecuteOperator")
    request = encode_request(_call(size))

    def call() -> int:
        try:
            send(request)
        except aclgrad.AclgradError as error:
            if "larger than max" in error.message:
                return len(request)
            raise
        raise UnexpectedReplyError(f"a message of {len(request)} bytes was answered")

    return call


def late(targets: Targets, sampler: Sampler, size: str, timeout_s: float) -> Caller:
    """A call with too little time: it ends late, or, if the server is fast, with its gradient."""
    in_time = client(targets, sampler, [size], retries=0, timeout_s=timeout_s)

    def call() -> int:
        try:
            return in_time()
        except aclgrad.DeadlinePassedError:
            return 0

    return call


KINDS: Final[dict[str, Callable[..., Caller]]] = {
    each.__name__: each for each in (echo, stream_echo, unary, client, batch, slow, bad, too_large, late)
}
_OWN: Final = [("grpc.use_local_subchannel_pool", 1)]
"""A connection of its own: channels with equal options would share one."""


def channel_to(address: str) -> grpc.Channel:
    return grpc.insecure_channel(address, [*aclgrad.channel_options(ceilings.LIMIT), *_OWN])


def _call(size: str) -> OperatorCall:
    known = of_size(size)
    sent = view_of_array("grad_output", known.inputs["grad_output"])
    shape_only = TensorView("self", TensorType(sent.type.dtype, SIZES[size].shape))
    return OperatorCall(known.operator, (sent, shape_only), {})


@cache
def _chunks(size: str) -> list[bytes]:
    return list(chunked_messages(_call(size), ("grad_output",), CHUNK_BYTES))


def _method(address: str, name: str, timeout_s: float = DEADLINE_S) -> Callable[[bytes], bytes]:
    method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel_to(address).unary_unary(name)

    def send(request: bytes) -> bytes:
        try:
            return method(request, timeout=timeout_s)
        except grpc.RpcError as failure:
            raise _own_error(failure, address) from None

    return send


def _own_errors(replies: Iterator[bytes]) -> Iterator[bytes]:
    try:
        yield from replies
    except grpc.RpcError as failure:
        raise _own_error(failure, "the server") from None


def _own_error(failure: Any, address: str) -> aclgrad.AclgradError:
    """Returns the server's error, or one with the status that gRPC's core gave the call."""
    if any(key == "grpc-status-details-bin" for key, _ in failure.trailing_metadata() or ()):
        return error_of(failure)
    error = aclgrad.AclgradError(f"{address}: {failure.details()}")
    error.code = failure.code()
    return error


def _of_length(reply: bytes, least_bytes: int) -> int:
    if len(reply) < least_bytes:
        raise UnexpectedReplyError(f"{len(reply)} bytes came back, and the gradient has {least_bytes}")
    return len(reply)
