"""Sources and sinks tell by themselves what differs between their kinds."""

import pytest

from aclgrad.sources import CHUNKS, REPLY, SHAPE_ONLY, InChunks, OutputOf, SharedRange, Source, TableEntry, in_message
from aclgrad.v1 import tensor_pb2

HERE, PAYLOADS = memoryview(b"here"), [memoryview(b"zero"), memoryview(b"one ")]
RANGE = SharedRange("/aclgrad-x", 8, 4)
BESIDE = object()


@pytest.mark.parametrize(
    ("source", "content", "is_beside"),
    [
        (in_message(HERE), HERE, False),
        (TableEntry(1, 4), PAYLOADS[1], False),
        (InChunks(0, 4), BESIDE, True),
        (RANGE, BESIDE, True),
        (OutputOf(0, "out", 4), BESIDE, True),
    ],
)
def test_a_source_gives_what_is_in_the_message_and_otherwise_what_came_beside_it(
    source: Source, content: object, is_beside: bool
) -> None:
    assert source.content(PAYLOADS, BESIDE) is content
    assert (source.is_beside, source.has_values, source.nbytes) == (is_beside, True, 4)


def test_only_an_output_of_another_step_names_a_step() -> None:
    assert OutputOf(3, "out", 4).step == 3
    assert [each.step for each in (RANGE, SHAPE_ONLY, InChunks(0, 4))] == [None] * 3
    assert SHAPE_ONLY.content(PAYLOADS) is None


def test_what_has_no_form_on_the_wire_is_not_written_as_something_else() -> None:
    tensor = tensor_pb2.Tensor()
    for source in (OutputOf(0, "out", 4), TableEntry(0, 4)):
        with pytest.raises(TypeError, match="no form on the wire"):
            source.write(tensor)
    RANGE.write(tensor)
    assert (tensor.shared_memory.offset_bytes, tensor.shared_memory.size_bytes) == (8, 4)


def test_only_a_reply_counts_as_one() -> None:
    assert [each.in_reply for each in (REPLY, CHUNKS, RANGE)] == [True, False, False]
    assert [each.in_chunks for each in (REPLY, CHUNKS, RANGE)] == [False, True, False]
