"""The server's side of a chunked call: joins chunks to a call, and splits outputs into chunks."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from aclgrad.errors import InvalidFieldError, MalformedRequestError
from aclgrad.sources import in_message
from aclgrad.tensors import TensorView
from aclgrad.wire.chunks import (
    Header,
    check_chunk,
    chunk_prefix,
    decode_chunk,
    decode_header,
    encode_response_header,
)
from aclgrad.wire.messages import OperatorCall


def receive_call(messages: Iterator[bytes], is_ready: Callable[[], None]) -> tuple[Header, OperatorCall]:
    """Returns the header and the call with all of its chunks; calls `is_ready` to let the client send them."""
    first = next(messages, None)
    if first is None:
        raise MalformedRequestError("the call ended before its message")
    header = decode_header(first)
    is_ready()
    received = {name: _receive(messages, name, index, header) for index, name in enumerate(header.chunked)}
    if next(messages, None) is not None:
        remedy = "send exactly the elements of the shapes"
        raise InvalidFieldError.at("chunk", "has more chunks than its inputs take", remedy)
    inputs = tuple(
        replace(each, source=in_message(received[each.name])) if each.name in received else each
        for each in header.call.inputs
    )
    return header, replace(header.call, inputs=inputs)


def _receive(messages: Iterator[bytes], name: str, index: int, header: Header) -> memoryview:
    tensor = next(each for each in header.call.inputs if each.name == name)
    size_bytes = tensor.source.nbytes
    data = bytearray()
    while len(data) < size_bytes:
        message = next(messages, None)
        if message is None:
            problem = f"ended after {len(data)} of {size_bytes} bytes"
            raise InvalidFieldError.at(f"inputs[{name}]", problem, "send all chunks")
        chunk = decode_chunk(message)
        check_chunk(chunk, name, index, len(data), size_bytes)
        data += chunk.data
    return memoryview(data)


def send_outputs(outputs: Sequence[TensorView], chunk_bytes: int) -> Iterator[bytes]:
    """Yields the header of the answer and then the chunks of its outputs."""
    yield encode_response_header(*(TensorView(each.name, each.type) for each in outputs))
    for index, output in enumerate(outputs):
        assert output.data is not None
        for offset in range(0, output.data.nbytes, chunk_bytes):
            piece = output.data[offset : offset + chunk_bytes]
            yield chunk_prefix(index, offset, piece.nbytes) + piece
