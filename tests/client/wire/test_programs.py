"""Programs and their results, compared with what the generated messages write and read."""

import random
from dataclasses import replace

import pytest

from aclgrad.errors import AclgradError, InvalidFieldError, LimitExceededError, MalformedRequestError, to_status
from aclgrad.sources import SHAPE_ONLY, OutputOf, SharedRange, TableEntry, in_message
from aclgrad.tensors import DTYPES, TensorType, TensorView, View
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1 import tensor_pb2
from aclgrad.wire.limits import MAX_STEPS, MAX_TABLE_TENSORS
from aclgrad.wire.messages import OperatorCall, encode_request, response_of
from aclgrad.wire.programs import (
    decode_program,
    decode_results,
    encode_program,
    failed_result,
    result_prefix,
)

from . import wire_format as wire
from .agreement import KINDS, assert_agrees_with_protobuf
from .wire_format import UNKNOWN_FIELDS, length_field

FLOAT32 = DTYPES["float32"]
TYPE = TensorType(FLOAT32, (2, 3))
DATA = bytes(range(24))
HERE = TensorView("", TYPE, in_message(memoryview(DATA)))
SHARED = TensorView("", TYPE, SharedRange("/aclgrad-x", 8, 24))
STEPS = (
    OperatorCall("silu_backward", (replace(HERE, name="grad_output"), TensorView("self", TYPE, TableEntry(0, 24))), {}),
    OperatorCall(
        "softmax_backward",
        (
            TensorView("grad_output", TYPE, OutputOf(0, "grad_input", 24)),
            TensorView("output", TensorType(FLOAT32, (3, 2)), TableEntry(1, 24), View(0, (1, 3))),
        ),
        {"dim": -1},
        outputs=("grad_input",),
    ),
)
FAILED = to_status(InvalidFieldError("wrong"), "5f0c")


def encoded(*steps: OperatorCall) -> list[bytes]:
    return [encode_request(each) for each in steps]


def program() -> bytes:
    return encode_program(encoded(*STEPS), (HERE, SHARED), [OutputOf(1, "grad_input", 24)], "910B")


def results(*outcomes: TensorView | None) -> bytes:
    """Returns a reply with an output for each step, or the error."""
    found = b""
    for each in outcomes:
        body = b"" if each is None else response_of(each)
        found += failed_result(FAILED) if each is None else result_prefix(len(body)) + body
    return found


def test_a_program_arrives_as_it_was_sent() -> None:
    data = program()
    found = decode_program(data)
    assert (found.step_count, found.tensors) == (2, (HERE, SHARED))
    assert tuple(found.steps()) == STEPS
    assert (found.returned, found.product) == (((1, "grad_input"),), "910B")
    assert_agrees_with_protobuf(KINDS["program"], data)


def test_the_bytes_are_those_of_a_stub() -> None:
    message = pb.ExecuteProgramRequest.FromString(program())
    first, second = message.steps
    assert first.inputs[1] == tensor_pb2.Tensor(name="self", data_type=FLOAT32.wire, shape=(2, 3), table_index=0)
    producer = tensor_pb2.OutputOf(step=0, output="grad_input")
    assert second.inputs[0] == tensor_pb2.Tensor(
        name="grad_output", data_type=FLOAT32.wire, shape=(2, 3), output_of=producer
    )
    assert (message.tensors[0].data, message.tensors[1].shared_memory.name) == (DATA, "/aclgrad-x")
    assert list(message.returned) == [tensor_pb2.OutputOf(step=1, output="grad_input")]
    assert decode_program(message.SerializeToString()).tensors == (HERE, SHARED)


def test_a_view_of_what_it_refers_to_has_the_bytes_up_to_its_last_element() -> None:
    tail = TensorView("self", TensorType(FLOAT32, (2,)), TableEntry(0, 20), View(2, (2,)))
    wrong = replace(tail, source=TableEntry(0, 8), view=View(2, (2, 1)))
    nothing = replace(tail, type=TensorType(FLOAT32, (0,)), source=TableEntry(0, 0))
    (step,) = decode_program(encode_program(encoded(OperatorCall("x", (tail, wrong, nothing), {})), [HERE])).steps()
    assert step.inputs == (tail, wrong, nothing)


def test_an_empty_program_has_nothing() -> None:
    found = decode_program(b"")
    assert (found.step_count, found.tensors, found.returned, found.product) == (0, (), (), "")
    assert encode_program([]) == b""


WRONG_ENTRIES = {
    "reference": TensorView("", TYPE, OutputOf(0, "grad_input", 24)),
    "index": TensorView("", TYPE, TableEntry(0, 24)),
    "view": replace(HERE, view=View(0, (0, 0))),
    "name": replace(HERE, name="self"),
}


@pytest.mark.parametrize("entry", WRONG_ENTRIES.values(), ids=WRONG_ENTRIES)
def test_a_table_holds_tensors_and_nothing_that_inputs_alone_have(entry: TensorView) -> None:
    with pytest.raises(InvalidFieldError) as caught:
        decode_program(encode_program(encoded(*STEPS), [HERE, entry]))
    assert caught.value.field == "tensors[1]"


def test_a_wrong_entry_is_named_by_its_position() -> None:
    wrong = tensor_pb2.Tensor(data_type=99)
    long = tensor_pb2.Tensor(data_type=FLOAT32.wire, shape=[1] * 9)
    for entry, problem in ((wrong, "data_type is 99"), (long, "shape has 9 entries")):
        with pytest.raises(InvalidFieldError, match=problem) as caught:
            decode_program(pb.ExecuteProgramRequest(tensors=[entry]).SerializeToString())
        assert caught.value.field == "tensors[0]"


def test_a_step_that_has_no_meaning_is_none_of_the_others_business() -> None:
    wrong = pb.ExecuteOperatorRequest(operator="x", attributes={"scale": tensor_pb2.Attribute()}).SerializeToString()
    found = decode_program(encode_program([wrong, *encoded(STEPS[0])], [HERE]))
    with pytest.raises(InvalidFieldError, match="holds no value"):
        found.step(0)
    assert found.step(1) == STEPS[0]


PARTS = {
    "steps": (pb.ExecuteProgramRequest(steps=[{}]), MAX_STEPS),
    "tensors": (pb.ExecuteProgramRequest(tensors=[{"data_type": FLOAT32.wire}]), MAX_TABLE_TENSORS),
    "returned": (pb.ExecuteProgramRequest(returned=[{"output": "o"}]), MAX_STEPS),
}


@pytest.mark.parametrize("field", PARTS)
def test_parts_have_limits(field: str) -> None:
    one, limit = PARTS[field][0].SerializeToString(), PARTS[field][1]
    decode_program(one * limit)
    with pytest.raises(LimitExceededError, match=f"are {limit + 1} and the limit is {limit}") as caught:
        decode_program(one * (limit + 1))
    assert caught.value.field == field
    with pytest.raises(AclgradError):
        decode_program(one * 1_000_000)


def test_results_arrive_as_they_were_sent() -> None:
    output, other = replace(HERE, name="grad_input"), replace(SHARED, name="grad_input")
    data = results(output, None, other)
    assert decode_results(data) == [(output,), FAILED, (other,)]
    assert_agrees_with_protobuf(KINDS["results"], data)


def test_no_output_of_a_step_has_a_view() -> None:
    with pytest.raises(MalformedRequestError, match="an output has a view"):
        decode_results(results(replace(HERE, view=View(0, (0, 0)))))


@pytest.mark.parametrize("unknown", UNKNOWN_FIELDS.values(), ids=UNKNOWN_FIELDS)
def test_unknown_fields_are_passed_over_everywhere(unknown: bytes) -> None:
    tensor = length_field(4, b"1234") + unknown + wire.varint_field(2, 1)
    inputs = length_field(2, tensor) + unknown
    steps = length_field(1, unknown + inputs * 2)
    assert_agrees_with_protobuf(KINDS["program"], unknown + steps + length_field(2, tensor) + unknown)
    assert_agrees_with_protobuf(KINDS["results"], unknown + length_field(1, unknown + length_field(1, tensor) * 2))


MERGED = [length_field(4, b"1234"), wire.varint_field(8, 3), length_field(7, wire.varint_field(1, 2)), b""]


@pytest.mark.parametrize("first", range(4))
@pytest.mark.parametrize("second", range(4))
def test_a_content_that_is_set_twice_is_the_last(first: int, second: int) -> None:
    tensor = wire.varint_field(2, 1) + MERGED[first] + MERGED[second]
    assert_agrees_with_protobuf(KINDS["program"], length_field(1, length_field(2, tensor)))
    assert_agrees_with_protobuf(KINDS["program"], length_field(2, tensor))


def test_every_cut_is_an_error_of_ours_or_a_program() -> None:
    data = program()
    for cut in range(len(data)):
        assert_agrees_with_protobuf(KINDS["program"], data[:cut])


@pytest.mark.parametrize("kind", ["program", "results"])
def test_damaged_bytes_are_read_as_protobuf_reads_them(kind: str) -> None:
    generator = random.Random(kind)
    good = program() if kind == "program" else results(HERE, None, SHARED)
    for _ in range(1000):
        damaged = bytearray(good)
        for _ in range(generator.randrange(1, 4)):
            damaged[generator.randrange(len(good))] = generator.randrange(256)
        assert_agrees_with_protobuf(KINDS[kind], bytes(damaged))


def test_a_shape_alone_is_an_input_of_a_step_or_an_entry() -> None:
    bare = TensorView("", TYPE, SHAPE_ONLY)
    step = OperatorCall("x", (replace(bare, name="self"),), {})
    found = decode_program(encode_program(encoded(step), [bare]))
    assert (found.tensors, tuple(found.steps())) == ((bare,), (step,))
