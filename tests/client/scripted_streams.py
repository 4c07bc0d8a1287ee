"""A service whose chunked method answers what a test tells it to, and calls that are large enough to go in chunks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import grpc
import numpy as np

import aclgrad
from aclgrad.tensors import DTYPES, TensorType, TensorView
from aclgrad.wire.chunks import chunk_prefix, decode_chunk, decode_header, encode_results
from aclgrad.wire.messages import OperatorCall

from .scripted_service import ScriptedService, failing, is_a_look, listening

OPERATOR = "adaptive_avg_pool2d_backward"
GRAD = np.random.default_rng(0).standard_normal((3, 1024, 1024), np.float32)
"""12 MiB."""
SHAPE = (3, 1, 2)
SMALL = np.ones((1, 1, 1), np.float32)
ANSWER = np.arange(6, dtype=np.float32)
RESULTS = encode_results([(TensorView("grad_input", TensorType(DTYPES["float32"], (6,))),)])
Script = Callable[[Iterator[bytes], grpc.ServicerContext], Iterator[bytes]]


def chunk(offset: int, data: bytes, tensor: int = 0) -> bytes:
    return chunk_prefix(tensor, offset, len(data)) + data


@dataclass
class Received:
    """What came of one call, and of its inputs that come in chunks."""

    call: OperatorCall
    chunk_bytes: int
    data: dict[str, bytearray]


@dataclass
class ScriptedStreams(grpc.GenericRpcHandler):
    """Answers every attempt of a chunked call by `script`, and keeps what came."""

    script: Script | None = None
    attempts: list[Received] = field(default_factory=list)
    other_methods: list[str] = field(default_factory=list)
    says_ready: bool = True
    """Whether the initial metadata goes out before the chunks come; if not, gRPC sends it with the answer."""
    address: str = ""
    server: grpc.Server | None = None

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        if not details.method.endswith("/ExecuteProgramChunked"):
            if not is_a_look(details):
                self.other_methods.append(details.method)
            return None
        return grpc.stream_stream_rpc_method_handler(self.script or self.complete)

    def receive(self, messages: Iterator[bytes], context: grpc.ServicerContext, count: int | None = None) -> Received:
        """Takes the header, says that it is ready, and takes so many chunks, or all."""
        program = decode_header(next(messages))
        (call,) = program.steps()
        entries = {each.source.entry: each.name for each in call.inputs if each.source.entry is not None}
        assert list(entries) == list(range(len(program.tensors)))
        assert all(each.source.in_chunks for each in program.tensors)
        received = Received(call, program.chunk_bytes, {name: bytearray() for name in entries.values()})
        self.attempts.append(received)
        if count == 0:
            return received
        if self.says_ready:
            context.send_initial_metadata(())
        for taken, message in enumerate(messages, 1):
            piece = decode_chunk(message)
            content = received.data[entries[piece.tensor]]
            assert len(content) == piece.offset
            content += piece.data
            if taken == count:
                break
        return received

    def complete(self, messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """Takes all and answers."""
        self.receive(messages, context)
        yield RESULTS
        yield chunk(0, ANSWER.tobytes())


def refusing(streams: ScriptedStreams, error: aclgrad.AclgradError, after: int | None = 0, times: int = 1000) -> Script:
    """Refuses after so many chunks, or after all of them; answers after so many attempts."""

    def script(messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        if len(streams.attempts) < times:
            streams.receive(messages, context, after)
            failing(error)(context)
        yield from streams.complete(messages, context)

    return script


class LimitedServer:
    """Answers messages by `service` and calls in chunks by `streams`; gRPC's core refuses what is too large."""

    def __init__(self) -> None:
        self.service = ScriptedService()
        self.streams = ScriptedStreams()
        self.address = ""

    @property
    def messages_begun(self) -> int:
        """How many calls began that were not in chunks; a refused message is one, though nobody sees it."""
        return len(self.streams.other_methods)


@contextmanager
def limited_server(limit_bytes: int) -> Iterator[LimitedServer]:
    limited = LimitedServer()
    options = [("grpc.max_receive_message_length", limit_bytes)]
    with listening(limited.streams, limited.service, options=options) as (limited.address, _):
        yield limited
