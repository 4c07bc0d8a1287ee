"""Sources and sinks tell by themselves what differs between their kinds."""

import pytest

from aclgrad.sources import (
    CHUNKS,
    REPLY,
    SHAPE_ONLY,
    InChunks,
    InMessage,
    OutputOf,
    SharedRange,
    Source,
    TableEntry,
    in_message,
)
from aclgrad.v1 import tensor_pb2

HERE, PAYLOADS = memoryview(b"here"), [memoryview(b"zero"), memoryview(b"one ")]
RANGE = SharedRange("/aclgrad-x", 8, 4)


@pytest.mark.parametrize(
    ("source", "content", "is_beside"),
    [
        (in_message(HERE), HERE, False),
        (InMessage(4, 1), PAYLOADS[1], False),
        (InChunks(0, 4), None, True),
        (RANGE, None, True),
        (OutputOf(0, "out", 4), None, True),
    ],
)
def test_a_source_gives_what_is_in_the_message(source: Source, content: object, is_beside: bool) -> None:
    assert source.content(PAYLOADS) is content
    assert (source.is_beside, source.has_values, source.nbytes) == (is_beside, True, 4)


def test_only_references_name_a_step_or_an_entry_of_the_table() -> None:
    output, entry = OutputOf(3, "out", 4), TableEntry(2, 4)
    assert (output.step, output.output, entry.entry) == (3, "out", 2)
    assert [each.step for each in (entry, RANGE, SHAPE_ONLY, InChunks(0, 4))] == [None] * 4
    assert [each.entry for each in (output, RANGE, SHAPE_ONLY, InChunks(0, 4))] == [None] * 4
    assert SHAPE_ONLY.content(PAYLOADS) is None


def test_each_source_beside_the_message_has_its_form_on_the_wire() -> None:
    forms = {
        RANGE: tensor_pb2.Tensor(
            shared_memory=tensor_pb2.SharedMemory(name="/aclgrad-x", offset_bytes=8, size_bytes=4)
        ),
        OutputOf(3, "out", 4): tensor_pb2.Tensor(output_of=tensor_pb2.OutputOf(step=3, output="out")),
        TableEntry(0, 4): tensor_pb2.Tensor(table_index=0),
        SHAPE_ONLY: tensor_pb2.Tensor(),
    }
    for source, form in forms.items():
        tensor = tensor_pb2.Tensor()
        source.write(tensor)
        assert tensor == form


def test_only_a_reply_counts_as_one() -> None:
    assert [each.in_reply for each in (REPLY, CHUNKS, RANGE)] == [True, False, False]
    assert [each.in_chunks for each in (REPLY, CHUNKS, RANGE)] == [False, True, False]
