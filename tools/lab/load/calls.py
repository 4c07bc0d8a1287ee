"""The kinds of calls that scenarios name: each makes one caller, a function that makes one call and tells its bytes.

A caller has a connection of its own and raises an AclgradError where the call fails.
"""

from __future__ import annotations  # grpc's classes are generic in their stubs alone

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import grpc

import aclgrad
from aclgrad.operators.cases import returned_arrays
from aclgrad.tensors import array_of_view
from aclgrad.wire.messages import decode_response
from tools.benchmarks import ceilings, loads
from tools.benchmarks.sizes import SIZES
from tools.lab.chains import ELEMENTWISE, OF_ROWS, chain, known_chain
from tools.lab.gradients import Sampler, of_all_operators, of_size
from tools.lab.known import WrongGradientError
from tools.raw_calls import error_of

DEADLINE_S: Final = 30.0
Caller = Callable[[], int]


@dataclass(frozen=True, slots=True)
class Targets:
    """Where the callers go."""

    server: str
    echo: str


def echo(targets: Targets, sampler: Sampler, size: str) -> Caller:
    """The ceiling of `unary`: as many bytes each way, and nothing done with them."""
    request, reply_bytes = loads.echo_request(SIZES[size]), SIZES[size].tensor_bytes
    send = _method(targets.echo, ceilings.UNARY)

    def call() -> int:
        return len(request) + _of_length(send(request), reply_bytes)

    return call


def stream_echo(targets: Targets, sampler: Sampler, size: str) -> Caller:
    """The ceiling of large calls: as many chunks each way."""
    load = loads.chunk_echo(SIZES[size])
    send, messages = load.send(loads.channel_to(targets.echo)), load.messages

    def call() -> int:
        received = sum(map(len, send(iter(messages), timeout=DEADLINE_S)))
        return sum(map(len, messages)) + received

    return call


def unary(targets: Targets, sampler: Sampler, size: str) -> Caller:
    """ExecuteOperator with bytes that were made once, without retries: what the server does, not what a client does."""
    known = of_size(size)
    request, reply_bytes = loads.unary_request(SIZES[size]), SIZES[size].tensor_bytes
    send = _method(targets.server, loads.EXECUTE)

    def call() -> int:
        reply = send(request)
        if sampler.wants_next():
            (output,) = decode_response(reply)
            sampler.compare(known, array_of_view(output))
        return len(request) + _of_length(reply, reply_bytes)

    return call


def client(targets: Targets, sampler: Sampler, sizes: list[str], operators: bool = False) -> Caller:
    """`aclgrad.Client` as users have it: one of the sizes at random, or any case of any operator."""
    connection = aclgrad.Client(targets.server, timeout_s=DEADLINE_S, channel_options=_OWN)
    groups = [[of_size(size)] for size in sizes] + ([of_all_operators()] if operators else [])

    def call() -> int:
        known = random.choice(random.choice(groups))
        reply = connection.execute(known.operator, known.inputs, known.attributes)
        if sampler.wants_next():
            sampler.compare(known, reply)
        return known.sent_bytes + sum(gradient.nbytes for gradient in returned_arrays(reply))

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


def program(targets: Targets, sampler: Sampler, rows: int, steps: int = 20, shares: bool = True) -> Caller:
    """A chain of so many steps, elementwise and of rows, of which the last returns its output; it is built once."""
    operators = [(*ELEMENTWISE, *OF_ROWS)[number % 6] for number in range(steps)]
    drawn = chain(operators, rows, shares=shares)
    known = known_chain(drawn, [steps - 1])
    both_bytes = sum(each.nbytes for each in (*drawn.table, *known.truths.values()))
    built = aclgrad.Client(targets.server, timeout_s=DEADLINE_S, channel_options=_OWN, retries=0).program()
    wanted = known.add_to(built)

    def call() -> int:
        found = built.run(*wanted)
        if sampler.wants_next():
            sampler.compare(known, found)
        return both_bytes

    return call


KINDS: Final[dict[str, Callable[..., Caller]]] = {
    each.__name__: each for each in (echo, stream_echo, unary, client, batch, program)
}
_OWN: Final = [("grpc.use_local_subchannel_pool", 1)]
"""A connection of its own: channels with equal options would share one."""


def _method(address: str, name: str) -> Callable[[bytes], bytes]:
    method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = loads.channel_to(address).unary_unary(name)

    def send(request: bytes) -> bytes:
        try:
            return method(request, timeout=DEADLINE_S)
        except grpc.RpcError as failure:
            raise _own_error(failure, address) from None

    return send


def _own_error(failure: Any, address: str) -> aclgrad.AclgradError:
    """Returns the server's error, or one with the status that gRPC's core gave the call."""
    if any(key == "grpc-status-details-bin" for key, _ in failure.trailing_metadata() or ()):
        return error_of(failure)
    error = aclgrad.AclgradError(f"{address}: {failure.details()}")
    error.code = failure.code()
    return error


def _of_length(reply: bytes, least_bytes: int) -> int:
    if len(reply) < least_bytes:
        raise WrongGradientError(f"{len(reply)} bytes came back, and the gradient has {least_bytes}")
    return len(reply)
