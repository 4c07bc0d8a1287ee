"""Calls without the client library: bytes to a method, and bytes or a status back."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import grpc
from google.rpc import status_pb2

import aclgrad
from aclgrad.errors import from_status
from aclgrad.operators.cases import typed_cases
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from aclgrad.tensors import TensorView, view_of_array
from aclgrad.wire.chunks import Chunk, chunk_prefix, decode_answer, encode_step_header
from aclgrad.wire.messages import OperatorCall, decode_response, encode_request
from aclgrad.wire.programs import decode_results, encode_program
from aclgrad.wire.service import SERVICE
from tools.calling import calls_in, wait_until
from tools.serving import Server

TIMEOUT_S = 60
CALLS = {
    str(typed): OperatorCall(
        typed.spec.name,
        tuple(view_of_array(name, array) for name, array in typed.arrays().items()),
        typed.case.attributes,
    )
    for typed in typed_cases(Product.ATLAS_A2)
    if typed.dtype == "float32"
}
"""Every case of every operator, by its name."""
SMALL = {operator: next(call for call in CALLS.values() if call.operator == operator) for operator in OPERATORS}
"""One call of each operator."""
BAD = OperatorCall("adaptive_avg_pool2d_backward", (), {})


def open_channel(server: Server, address: str = "") -> grpc.Channel:
    """Returns a channel that takes replies of any size, with a connection of its own.

    The server closes the connection of a client that does not read, and no other call is to go with it.
    """
    options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    return grpc.insecure_channel(address or server.address, options)


def execute(channel: grpc.Channel, call: OperatorCall) -> bytes:
    """Returns the data of the outputs as a unary call gives it."""
    reply = channel.unary_unary(SERVICE + "ExecuteOperator")(encode_request(call), timeout=TIMEOUT_S)
    return data_of(decode_response(reply))


def execute_batch(channel: grpc.Channel, calls: Sequence[OperatorCall]) -> list[bytes | aclgrad.AclgradError]:
    return send_program(channel, encode_program(map(encode_request, calls)))


def send_program(channel: grpc.Channel, request: bytes) -> list[bytes | aclgrad.AclgradError]:
    """Returns the data of the outputs, or the error, of each step of a program."""
    reply = channel.unary_unary(SERVICE + "ExecuteProgram")(request, timeout=TIMEOUT_S)
    return [_error_of(each) if isinstance(each, status_pb2.Status) else data_of(each) for each in decode_results(reply)]


def data_of(outputs: Sequence[TensorView]) -> bytes:
    """Returns the data of all outputs, one behind the other."""
    return b"".join(each.data for each in outputs if each.data is not None)


def chunked_messages(call: OperatorCall, chunked: Sequence[str], chunk_bytes: int) -> Iterator[bytes]:
    """Yields what a client sends for a call whose inputs of these names go in chunks."""
    data = {each.name: each.data for each in call.inputs}
    yield encode_step_header(call, chunked, chunk_bytes)
    for index, name in enumerate(chunked):
        content = data[name]
        assert content is not None
        for offset in range(0, len(content), chunk_bytes):
            piece = content[offset : offset + chunk_bytes]
            yield chunk_prefix(index, offset, len(piece)) + piece


def open_chunked(channel: grpc.Channel, messages: Iterable[bytes], timeout_s: float | None = TIMEOUT_S) -> Any:
    return channel.stream_stream(SERVICE + "ExecuteProgramChunked")(iter(messages), timeout=timeout_s)


def send_chunked(channel: grpc.Channel, messages: Iterable[bytes], timeout_s: float = TIMEOUT_S) -> list[bytes]:
    """Returns the chunks of one step's outputs, which are complete and in order; raises the step's error."""
    answer = [decode_answer(each) for each in open_chunked(channel, messages, timeout_s)]
    (outputs,) = next(each for each in answer if not isinstance(each, Chunk))
    if isinstance(outputs, status_pb2.Status):
        raise _error_of(outputs)
    chunks = [each for each in answer[1:] if isinstance(each, Chunk)]
    assert len(chunks) == len(answer) - 1
    offsets = [0] * len(outputs)
    for chunk in chunks:
        assert chunk.offset == offsets[chunk.tensor]
        offsets[chunk.tensor] += len(chunk.data)
    assert offsets == [each.type.size_bytes for each in outputs]
    assert [each.tensor for each in chunks] == sorted(each.tensor for each in chunks)
    return [bytes(chunk.data) for chunk in chunks]


def execute_chunked(
    channel: grpc.Channel, call: OperatorCall, chunked: Sequence[str] | None = None, chunk_bytes: int = 2**20
) -> bytes:
    """Returns the data of the outputs, with every input in chunks unless told otherwise."""
    names = [each.name for each in call.inputs] if chunked is None else chunked
    return b"".join(send_chunked(channel, chunked_messages(call, names, chunk_bytes)))


def error_of(failure: Any) -> aclgrad.AclgradError:
    """Returns our error in a failed call; every error of the server's own is one."""
    for key, value in failure.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            return _error_of(status_pb2.Status.FromString(value))
    raise AssertionError(f"the call ended with {failure.code()} and no details: {failure.details()}")


def _error_of(status: status_pb2.Status) -> aclgrad.AclgradError:
    error = from_status(status)
    assert error is not None
    return error


def wait_until_idle(server: Server, address: str = "") -> None:
    """Returns as soon as no call holds anything."""
    with aclgrad.Client(address or server.address) as client:

        def is_idle() -> bool:
            status = client.server_status()
            device, queue = status.devices[0], status.queue
            in_use = (device.pool.allocated_bytes, device.leased_stream_count, queue.running_bytes)
            return (*in_use, calls_in(queue)) == (0, 0, 0, 0)

        wait_until(is_idle, 30)


def assert_idle(server: Server, address: str = "") -> None:
    """Soon nothing is in use, every operator is answered, and the server has told of no surprise.

    The address is the one that takes calls from everybody: the first, unless given.
    """
    wait_until_idle(server, address)
    with open_channel(server, address) as channel:
        for call in SMALL.values():
            assert execute_chunked(channel, call) == execute(channel, call)
    assert "Traceback" not in server.log
