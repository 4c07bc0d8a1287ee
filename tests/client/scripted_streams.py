"""A service whose chunked method answers what a test tells it to, and calls that are large enough to go in chunks."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import grpc
import numpy as np

from aclgrad.tensors import DTYPES, TensorType, TensorView
from aclgrad.wire.chunks import Header, chunk_prefix, decode_chunk, decode_header, encode_response_header

from .scripted_service import is_a_look

OPERATOR = "adaptive_avg_pool2d_backward"
GRAD = np.random.default_rng(0).standard_normal((3, 1024, 1024), np.float32)
"""12 MiB."""
SHAPE = (3, 1, 2)
SMALL = np.ones((1, 1, 1), np.float32)
ANSWER = np.arange(6, dtype=np.float32)
HEADER = encode_response_header(TensorView("grad_input", TensorType(DTYPES["float32"], (6,))))
Script = Callable[[Iterator[bytes], grpc.ServicerContext], Iterator[bytes]]


def chunk(offset: int, data: bytes, tensor: int = 0) -> bytes:
    return chunk_prefix(tensor, offset, len(data)) + data


@dataclass
class Received:
    """What came of one call."""

    header: Header
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
        if not details.method.endswith("/ExecuteOperatorChunked"):
            if not is_a_look(details):
                self.other_methods.append(details.method)
            return None
        return grpc.stream_stream_rpc_method_handler(self.script or self.complete)

    def receive(self, messages: Iterator[bytes], context: grpc.ServicerContext, count: int | None = None) -> Received:
        """Takes the header, says that it is ready, and takes so many chunks, or all."""
        header = decode_header(next(messages))
        received = Received(header, {name: bytearray() for name in header.chunked})
        self.attempts.append(received)
        if count == 0:
            return received
        if self.says_ready:
            context.send_initial_metadata(())
        for taken, message in enumerate(messages, 1):
            piece = decode_chunk(message)
            content = received.data[header.chunked[piece.tensor]]
            assert len(content) == piece.offset
            content += piece.data
            if taken == count:
                break
        return received

    def complete(self, messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """Takes all and answers."""
        self.receive(messages, context)
        yield HEADER
        yield chunk(0, ANSWER.tobytes())
