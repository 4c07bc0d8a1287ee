"""Chunked calls that break the protocol: a typed error, nothing kept, and the next call is served."""

from collections.abc import Callable, Iterator

import grpc
import pytest

import aclgrad
from aclgrad.tensors import DTYPES, TensorType, TensorView
from aclgrad.wire.chunks import chunk_prefix, encode_header
from aclgrad.wire.limits import MAX_CHUNK_BYTES
from aclgrad.wire.messages import OperatorCall
from tools.raw_calls import SMALL, chunked_messages, error_of, open_channel, send_chunked
from tools.serving import Server

CALL = SMALL["adaptive_avg_pool2d_backward"]
NAMES = [each.name for each in CALL.inputs]
FLOAT32 = DTYPES["float32"]


@pytest.fixture
def channel(shared_server: Server) -> Iterator[grpc.Channel]:
    with open_channel(shared_server) as channel:
        yield channel


def refused(channel: grpc.Channel, messages: list[bytes]) -> aclgrad.AclgradError:
    with pytest.raises(grpc.RpcError) as caught:
        send_chunked(channel, messages)
    return error_of(caught.value)


def good_messages() -> list[bytes]:
    return list(chunked_messages(CALL, NAMES, 256))


def chunk(tensor: int, offset: int, data: bytes) -> bytes:
    return chunk_prefix(tensor, offset, len(data)) + data


WRONG: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "one_too_few": lambda good: good[:-1],
    "one_too_many": lambda good: [*good, chunk(0, 0, b"more")],
    "exchanged": lambda good: [good[0], good[2], good[1], *good[3:]],
    "overlong_chunk": lambda good: [good[0], chunk(0, 0, bytes(2**20))],
    "negative_tensor": lambda good: [good[0], chunk(-1, 0, b"data")],
    "negative_offset": lambda good: [good[0], chunk(0, -4, b"data")],
    "largest_offset": lambda good: [good[0], chunk(0, 2**63 - 1, b"data")],
}
NO_MESSAGES: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "two_headers": lambda good: [good[0], *good],
    "cut_chunk": lambda good: [good[0], good[1][:-1], *good[2:]],
    "no_protobuf": lambda good: [b"\x0f", *good[1:]],
}


@pytest.mark.parametrize("break_", WRONG.values(), ids=WRONG)
def test_chunks_that_are_not_what_the_header_said(channel: grpc.Channel, break_: Callable) -> None:
    error = refused(channel, break_(good_messages()))
    assert type(error) is aclgrad.InvalidFieldError
    assert error.remedy


@pytest.mark.parametrize("break_", NO_MESSAGES.values(), ids=NO_MESSAGES)
def test_messages_that_are_not_those_of_the_protocol(channel: grpc.Channel, break_: Callable) -> None:
    assert type(refused(channel, break_(good_messages()))) is aclgrad.MalformedRequestError


def header(*inputs: TensorView, chunked: list[str] = NAMES, chunk_bytes: int = 256) -> list[bytes]:
    return [encode_header(OperatorCall(CALL.operator, inputs, {}), chunked, chunk_bytes)]


BARE = tuple(TensorView(each.name, each.type) for each in CALL.inputs)
PETABYTE = tuple(TensorView(name, TensorType(FLOAT32, (1, 2**24, 2**24))) for name in NAMES)
OVERFLOWING = tuple(TensorView(name, TensorType(FLOAT32, (2**62, 2**62, 2**62))) for name in NAMES)
WRONG_HEADERS = {
    "petabyte": (header(*PETABYTE), "inputs[grad_output].shape"),
    "overflowing": (header(*OVERFLOWING), "inputs[grad_output].shape"),
    "unknown_name": (header(*BARE, chunked=["grad_output", "other"]), "header.chunked_inputs"),
    "name_twice": (header(*BARE, chunked=["self", "self"]), "header.chunked_inputs"),
    "both_ways": (header(*CALL.inputs), "inputs[grad_output]"),
    "missing_values": (header(*BARE, chunked=["self"]), "inputs[grad_output].data"),
    "negative_chunks": (header(*BARE, chunk_bytes=-1), "header.chunk_size_bytes"),
    "large_chunks": (header(*BARE, chunk_bytes=MAX_CHUNK_BYTES + 1), "header.chunk_size_bytes"),
}


@pytest.mark.parametrize(("messages", "field"), WRONG_HEADERS.values(), ids=WRONG_HEADERS)
def test_a_header_that_cannot_be_kept_names_its_field(channel: grpc.Channel, messages: list[bytes], field: str) -> None:
    error = refused(channel, messages)
    assert isinstance(error, aclgrad.InvalidFieldError | aclgrad.LimitExceededError)
    assert error.field == field


def test_a_header_of_very_many_names_is_refused_soon(channel: grpc.Channel) -> None:
    names = [f"n{index}" for index in range(19_000)]
    tensors = (TensorView(name, TensorType(FLOAT32, (1,))) for name in names)
    with pytest.raises(grpc.RpcError) as caught:
        send_chunked(channel, header(*tensors, chunked=names), timeout_s=10)
    assert isinstance(error_of(caught.value), aclgrad.LimitExceededError)
