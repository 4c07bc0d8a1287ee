"""The messages of programs in chunks, compared with what the generated messages write and read."""

import random
from dataclasses import replace

import pytest

from aclgrad.errors import InvalidFieldError, LimitExceededError, MalformedRequestError, to_status
from aclgrad.sources import InChunks, TableEntry, in_message
from aclgrad.tensors import DTYPES, TensorType, TensorView, View
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1 import tensor_pb2
from aclgrad.wire.chunks import (
    Chunk,
    check_chunk,
    chunk_prefix,
    decode_answer,
    decode_chunk,
    decode_header,
    encode_header,
    encode_results,
    encode_step_header,
)
from aclgrad.wire.limits import DEFAULT_CHUNK_BYTES, MAX_CHUNK_BYTES, MAX_TABLE_TENSORS
from aclgrad.wire.messages import OperatorCall, encode_request
from aclgrad.wire.programs import encode_program

from .agreement import KINDS, assert_agrees_with_protobuf
from .wire_format import UNKNOWN_FIELDS

FLOAT32 = DTYPES["float32"]
TYPE = TensorType(FLOAT32, (2, 3))
BARE = TensorView("", TYPE)
HERE = replace(BARE, source=in_message(memoryview(bytes(24))))
EMPTY = TensorView("", TensorType(FLOAT32, (0, 3)))
FAILED = to_status(InvalidFieldError("wrong"), "5f0c")
OUTPUTS = (TensorView("grad_input", TYPE), TensorView("grad_weight", TensorType(FLOAT32, (3,))))


def header(*table: TensorView, chunk_bytes: int = 2**10) -> bytes:
    inputs = [TensorView(f"i{index}", each.type, TableEntry(index, 24)) for index, each in enumerate(table)]
    steps = [encode_request(OperatorCall("x", (each,), {})) for each in inputs]
    return encode_header(encode_program(steps, table, product="910B"), chunk_bytes)


def chunk(data: bytes, tensor: int = 2, offset: int = 2**33) -> bytes:
    return chunk_prefix(tensor, offset, len(data)) + data


def test_what_has_no_content_in_the_table_comes_in_chunks() -> None:
    found = decode_header(header(BARE, HERE, BARE, EMPTY))
    announced = [each.source if each.source.in_chunks else None for each in found.tensors]
    assert announced == [InChunks(0, 24), None, InChunks(2, 24), InChunks(3, 0)]
    assert found.tensors[1] == HERE
    assert (found.chunk_bytes, found.product, found.step_count) == (2**10, "910B", 4)
    assert found.step(2).inputs == (TensorView("i2", TYPE, TableEntry(2, 24)),)


def test_a_single_call_is_a_step_whose_inputs_refer_to_the_table() -> None:
    strided = replace(HERE, name="a", type=TensorType(FLOAT32, (3, 2)), view=View(0, (1, 3)))
    call = OperatorCall("x", (strided, replace(HERE, name="b"), replace(HERE, name="c")), {"scale": 2.0})
    found = decode_header(encode_step_header(call, ["c", "a"], 7))
    assert [(each.type.shape, each.source) for each in found.tensors] == [
        ((2, 3), InChunks(0, 24)),
        ((6,), InChunks(1, 24)),
    ]
    first, second, third = call.inputs
    inputs = (replace(first, source=TableEntry(1, 24)), second, replace(third, source=TableEntry(0, 24)))
    assert list(found.steps()) == [replace(call, inputs=inputs)]
    assert found.chunk_bytes == 7


@pytest.mark.parametrize("unknown", [b"", *UNKNOWN_FIELDS.values()], ids=["none", *UNKNOWN_FIELDS])
def test_messages_are_read_as_protobuf_reads_them(unknown: bytes) -> None:
    assert_agrees_with_protobuf(KINDS["header"], unknown + header(BARE, HERE, EMPTY) + unknown)
    assert_agrees_with_protobuf(KINDS["chunk"], unknown + chunk(b"data") + unknown)
    for each in (chunk(b"data"), encode_results([OUTPUTS, FAILED, ()]), encode_results([])):
        assert_agrees_with_protobuf(KINDS["answer"], unknown + each + unknown)


def test_a_header_in_two_pieces_is_one_and_a_chunk_replaces_it() -> None:
    """As protobuf merges a message that comes twice, and keeps the last of a oneof."""
    for data in (header(HERE) + header(BARE), header(HERE) + chunk(b"1"), chunk(b"1") + chunk(b""), chunk(b"1") * 2):
        for kind in ("header", "chunk"):
            assert_agrees_with_protobuf(KINDS[kind], data)


@pytest.mark.parametrize("size", [-1, MAX_CHUNK_BYTES + 1, 2**63 - 1])
def test_chunks_of_the_answer_have_a_size_that_messages_hold(size: int) -> None:
    with pytest.raises(InvalidFieldError, match=rf"header\.chunk_size_bytes is {size}"):
        decode_header(header(BARE, chunk_bytes=size))
    assert decode_header(header(BARE, chunk_bytes=0)).chunk_bytes == DEFAULT_CHUNK_BYTES


def test_one_message_does_not_pass_for_another() -> None:
    for decode, data in (
        (decode_header, chunk(b"data")),
        (decode_header, b""),
        (decode_chunk, header(BARE)),
        (decode_chunk, b""),
        (decode_answer, b""),
        (decode_answer, b"\xff"),
    ):
        with pytest.raises(MalformedRequestError):
            decode(data)


def test_a_table_of_a_million_entries_is_refused() -> None:
    entry = pb.ExecuteProgramRequest(tensors=[tensor_pb2.Tensor(data_type=FLOAT32.wire)]).SerializeToString()
    for count, error in ((MAX_TABLE_TENSORS + 1, LimitExceededError), (10**6, MalformedRequestError)):
        with pytest.raises(error):
            decode_header(encode_header(entry * count, 1))


def test_chunks_arrive_as_they_were_sent() -> None:
    for size in (0, 1, 2**16):
        assert decode_chunk(chunk(bytes(size))) == Chunk(2, 2**33, memoryview(bytes(size)))
        assert decode_answer(chunk(bytes(size))) == Chunk(2, 2**33, memoryview(bytes(size)))


def test_results_arrive_without_elements_in_as_many_messages_as_they_are_ready() -> None:
    for outcomes in ([OUTPUTS, FAILED], [()], []):
        assert decode_answer(encode_results(outcomes)) == outcomes


def test_elements_among_results_in_chunks_are_no_reason_to_fail() -> None:
    output = tensor_pb2.Tensor(name="o", data_type=FLOAT32.wire, shape=(6,), data=bytes(24))
    results = pb.ExecuteProgramResponse(results=[pb.StepResult(outputs=[output])])
    data = pb.ExecuteProgramChunkedResponse(results=results).SerializeToString()
    assert_agrees_with_protobuf(KINDS["answer"], data)


WRONG = {
    "tensor": Chunk(1, 8, memoryview(b"1234")),
    "gap": Chunk(0, 12, memoryview(b"1234")),
    "again": Chunk(0, 4, memoryview(b"1234")),
    "empty": Chunk(0, 8, memoryview(b"")),
    "beyond": Chunk(0, 8, memoryview(bytes(17))),
    "large": Chunk(0, 8, memoryview(bytes(MAX_CHUNK_BYTES + 1))),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_chunk_continues_its_tensor(wrong: Chunk) -> None:
    check_chunk(Chunk(0, 8, memoryview(bytes(16))), 0, 8, 24)
    with pytest.raises(InvalidFieldError) as caught:
        check_chunk(wrong, 0, 8, 24 if len(wrong.data) < 100 else 2**30)
    assert caught.value.field == "tensors[0]"


@pytest.mark.parametrize("kind", ["header", "chunk", "answer"])
def test_damaged_and_cut_bytes_are_read_as_protobuf_reads_them(kind: str) -> None:
    generator = random.Random(kind)
    good = {"header": header(BARE, HERE), "chunk": chunk(b"data"), "answer": encode_results([OUTPUTS, FAILED])}[kind]
    for cut in range(len(good)):
        assert_agrees_with_protobuf(KINDS[kind], good[:cut])
    for _ in range(1000):
        damaged = bytearray(good)
        for _ in range(generator.randrange(1, 4)):
            damaged[generator.randrange(len(good))] = generator.randrange(256)
        assert_agrees_with_protobuf(KINDS[kind], bytes(damaged))
