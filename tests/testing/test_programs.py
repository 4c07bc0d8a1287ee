"""The server of `aclgrad.testing` runs programs step by step, in one message and in chunks."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import grpc
import numpy as np
import pytest
from google.rpc import status_pb2

import aclgrad
import aclgrad.testing
from aclgrad import reference
from aclgrad.errors import from_status
from aclgrad.sources import OutputOf, TableEntry
from aclgrad.tensors import TensorView, View, array_of_view, type_of_array, view_of_array
from aclgrad.testing import TestServer
from aclgrad.wire.chunks import Chunk, chunk_prefix, decode_answer, encode_header
from aclgrad.wire.messages import OperatorCall, encode_request
from aclgrad.wire.programs import StepOutcome, decode_results, encode_program
from aclgrad.wire.service import SERVICE
from tools.raw_calls import error_of

Array = np.ndarray[Any, Any]
X, Y = np.random.default_rng(54).standard_normal((2, 3, 4), np.float32)
RESULT = "grad_input"
SILU = "silu_backward"


@pytest.fixture
def testing() -> Iterator[TestServer]:
    with aclgrad.testing.serve() as server:
        yield server


@pytest.fixture
def channel(testing: TestServer) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(testing.target) as channel:
        yield channel


def silu(grad_output: Array | TensorView, input: Array | TensorView, *outputs: str) -> OperatorCall:
    given = {"grad_output": grad_output, "self": input}
    inputs = [
        replace(each, name=name) if isinstance(each, TensorView) else view_of_array(name, each)
        for name, each in given.items()
    ]
    return OperatorCall(SILU, tuple(inputs), {}, outputs=outputs)


def output_of(step: int, like: Array = X, name: str = RESULT, view: View | None = None) -> TensorView:
    return TensorView("", type_of_array("", like), OutputOf(step, name, like.nbytes), view)


def entry(index: int, like: Array = X, view: View | None = None) -> TensorView:
    return TensorView("", type_of_array("", like), TableEntry(index, like.nbytes), view)


def whole(channel: grpc.Channel, steps: Sequence[OperatorCall], table: Sequence[Array] = (), **rest: Any) -> Any:
    """Returns the outcomes of a program in one message."""
    tensors = [view_of_array("", each) for each in table]
    request = encode_program(map(encode_request, steps), tensors, **rest)
    return list(map(told, decode_results(channel.unary_unary(SERVICE + "ExecuteProgram")(request))))


def in_chunks(channel: grpc.Channel, steps: Sequence[OperatorCall], table: Sequence[Array] = (), **rest: Any) -> Any:
    """Returns the outcomes of a program whose table comes in chunks of 7 bytes, as its answer does."""
    bare = [TensorView("", type_of_array("", each)) for each in table]
    messages = [encode_header(encode_program(map(encode_request, steps), bare, **rest), 7)]
    for index, array in enumerate(table):
        data = array.tobytes()
        for offset in range(0, len(data), 7):
            piece = data[offset : offset + 7]
            messages.append(chunk_prefix(index, offset, len(piece)) + piece)
    outcomes: list[Any] = []
    latest: list[bytearray] = []
    for message in channel.stream_stream(SERVICE + "ExecuteProgramChunked")(iter(messages)):
        answer = decode_answer(message)
        if isinstance(answer, Chunk):
            assert len(latest[answer.tensor]) == answer.offset
            latest[answer.tensor] += answer.data
            continue
        latest = [bytearray() for each in answer if isinstance(each, tuple) for _ in each]
        places = iter(latest)
        outcomes += [
            [(output, next(places)) for output in each] if isinstance(each, tuple) else told(each) for each in answer
        ]
    return [
        [np.frombuffer(data, output.type.dtype.numpy).reshape(output.type.shape) for output, data in each]
        if isinstance(each, list)
        else each
        for each in outcomes
    ]


def told(outcome: StepOutcome) -> Any:
    if isinstance(outcome, status_pb2.Status):
        return from_status(outcome)
    return list(map(array_of_view, outcome))


ways = pytest.mark.parametrize("way", [whole, in_chunks], ids=["whole", "in_chunks"])


def derived(grad_output: Array, input: Array) -> Array:
    return reference.define(SILU, {"grad_output": grad_output, "self": input}, {}).astype(np.float32)


@ways
def test_steps_use_outputs_of_earlier_ones_and_the_table(channel: grpc.Channel, way: Any) -> None:
    steps = [silu(entry(0), entry(1)), silu(output_of(0), entry(1)), silu(output_of(1), output_of(0))]
    (first,), (second,), (third,) = way(channel, steps, [X, Y])
    np.testing.assert_array_equal(first, derived(X, Y))
    np.testing.assert_array_equal(second, derived(first, Y))
    np.testing.assert_array_equal(third, derived(second, first))


@ways
def test_views_lie_over_references(channel: grpc.Channel, way: Any) -> None:
    wide, narrow = np.empty((4, 3), np.float32), np.empty((2,), np.float32)
    steps = [
        silu(entry(0), entry(0)),
        silu(output_of(0, wide, view=View(0, (1, 4))), entry(0, wide, View(0, (1, 4)))),
        silu(output_of(0, narrow, view=View(2, (5,))), entry(0, narrow, View(1, (0,)))),
    ]
    (first,), (second,), (third,) = way(channel, steps, [X])
    np.testing.assert_array_equal(second, derived(first.T, X.T))
    np.testing.assert_array_equal(third, derived(first.ravel()[[2, 7]], X.ravel()[[1, 1]]))


@ways
def test_only_what_is_named_is_returned(testing: TestServer, channel: grpc.Channel, way: Any) -> None:
    steps = [silu(X, Y), silu(output_of(0), Y)]
    first, (second,) = way(channel, steps, returned=[OutputOf(1, RESULT, 0)])
    assert first == []
    np.testing.assert_array_equal(second, derived(derived(X, Y), Y))
    assert testing.calls == [SILU] * 2


@ways
def test_what_uses_a_failed_step_names_the_first_and_the_others_go_on(channel: grpc.Channel, way: Any) -> None:
    steps = [silu(X, Y), silu(X, Y[:2]), silu(X, output_of(1)), silu(output_of(2), Y), silu(Y, X)]
    good, bad, next_one, last, other = way(channel, steps)
    assert isinstance(bad, aclgrad.InvalidFieldError)
    for each in (next_one, last):
        assert isinstance(each, aclgrad.InputFailedError)
        assert each.metadata["step"] == "1"
    np.testing.assert_array_equal(good[0], derived(X, Y))
    np.testing.assert_array_equal(other[0], derived(Y, X))


WRONG_REFERENCES = {
    "forward": (output_of(2), "inputs[grad_output].output_of.step"),
    "itself": (output_of(1), "inputs[grad_output].output_of.step"),
    "negative": (output_of(-1), "inputs[grad_output].output_of.step"),
    "unknown": (output_of(0, name="nothing"), "inputs[grad_output].output_of.output"),
    "type": (output_of(0, X.astype(np.float16)), "inputs[grad_output].data_type"),
    "shape": (output_of(0, X.T), "inputs[grad_output].shape"),
    "view": (output_of(0, X, view=View(1)), "inputs[grad_output].view"),
    "entry": (entry(1), "inputs[grad_output].table_index"),
    "entry_type": (entry(0, X.astype(np.float64)), "inputs[grad_output].data_type"),
    "entry_shape": (entry(0, X[:1]), "inputs[grad_output].shape"),
    "entry_view": (entry(0, X, View(0, (5, 1))), "inputs[grad_output].view"),
}


@ways
@pytest.mark.parametrize(("wrong", "field"), WRONG_REFERENCES.values(), ids=WRONG_REFERENCES)
def test_a_wrong_reference_fails_its_step_alone(channel: grpc.Channel, way: Any, wrong: TensorView, field: str) -> None:
    good, bad, other = way(channel, [silu(entry(0), Y), silu(wrong, Y), silu(X, Y)], [X])
    assert isinstance(bad, aclgrad.InvalidFieldError)
    assert bad.field == field
    np.testing.assert_array_equal(good[0], other[0])


def test_a_single_call_refers_to_nothing(channel: grpc.Channel) -> None:
    for each in (output_of(0), entry(0)):
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(SERVICE + "ExecuteOperator")(encode_request(silu(each, Y)))
        assert isinstance(error_of(caught.value), aclgrad.InvalidFieldError)


@ways
def test_values_that_have_to_follow_a_rule_are_no_output_of_a_step(channel: grpc.Channel, way: Any) -> None:
    """An operator whose outputs follow no rule could make a device read elsewhere."""
    boxes = np.array([[0, 0, 0, 3, 3]], np.float32)
    like = np.ones((1, 1, 1, 1), np.float32)
    attributes = {"input_shape": (1, 1, 4, 4), "pooled_height": 1, "pooled_width": 1}
    attributes |= {"spatial_scale": 1.0, "sampling_ratio": 1, "aligned": True}
    align = OperatorCall(
        "roi_align_v2_backward",
        (view_of_array("grad_output", like), replace(output_of(0, boxes), name="boxes")),
        attributes,
    )
    _, refused = way(channel, [silu(boxes, boxes), align])
    assert isinstance(refused, aclgrad.InvalidFieldError)
    assert refused.field == "inputs[boxes].output_of"


WRONG_PROGRAMS = {
    "product": (([silu(X, Y)], []), {"product": "910A"}, aclgrad.OtherProductError, "product"),
    "unused": (([silu(X, Y)], [X]), {}, aclgrad.InvalidFieldError, "tensors[0]"),
    "returned_step": (
        ([silu(X, Y)], []),
        {"returned": [OutputOf(1, RESULT, 0)]},
        aclgrad.InvalidFieldError,
        "returned[0].step",
    ),
    "returned_output": (
        ([silu(X, Y)], []),
        {"returned": [OutputOf(0, "nothing", 0)]},
        aclgrad.InvalidFieldError,
        "returned[0].output",
    ),
}


@ways
@pytest.mark.parametrize(("program", "rest", "error", "field"), WRONG_PROGRAMS.values(), ids=WRONG_PROGRAMS)
def test_what_is_wrong_with_the_whole_is_the_error_of_the_method(
    testing: TestServer,
    channel: grpc.Channel,
    way: Any,
    program: Any,
    rest: dict[str, Any],
    error: type[aclgrad.AclgradError],
    field: str,
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        way(channel, *program, **rest)
    found = error_of(caught.value)
    assert (type(found), found.field) == (error, field)
    assert testing.calls == []


def test_an_entry_without_content_comes_in_chunks_or_not_at_all(channel: grpc.Channel) -> None:
    bare = TensorView("", type_of_array("", X))
    request = encode_program([encode_request(silu(entry(0), Y))], [bare])
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(SERVICE + "ExecuteProgram")(request)
    assert error_of(caught.value).field == "tensors[0]"


def test_tensors_in_chunks_come_as_they_are_used(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        in_chunks(channel, [silu(entry(1), X), silu(entry(0), X)], [X, Y])
    assert error_of(caught.value).field == "tensors[1]"


def test_a_lost_device_ends_the_whole(testing: TestServer, channel: grpc.Channel) -> None:
    testing.fail(aclgrad.DeviceLostError("lost"))
    with pytest.raises(grpc.RpcError) as caught:
        whole(channel, [silu(X, Y), silu(X, Y)])
    assert isinstance(error_of(caught.value), aclgrad.DeviceLostError)
    testing.fail(aclgrad.ServerFaultError("broken"))
    broken, (good,) = whole(channel, [silu(X, Y), silu(X, Y)])
    assert isinstance(broken, aclgrad.ServerFaultError)
    np.testing.assert_array_equal(good, derived(X, Y))


def test_it_tells_its_limits(testing: TestServer) -> None:
    with aclgrad.Client(testing.target) as client:
        limits = client.server_status().limits
    assert (limits.program_steps, limits.program_tensors, limits.program_rest_bytes) == (4096, 4096, 2**20)
