"""An operator with two outputs: each has its section of the reply, its memory and its chunks."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from aclgrad.errors import InvalidFieldError
from aclgrad.operators import validation
from aclgrad.operators.describe import describe_operator
from aclgrad.products import Product
from aclgrad.sources import SharedRange
from aclgrad.tensors import TensorView
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.chunks import Chunk, chunk_prefix, decode_answer, encode_header
from aclgrad.wire.messages import OperatorCall, decode_request, decode_response, encode_request
from aclgrad.wire.programs import decode_results
from aclgrad_server.devices import planning
from aclgrad_server.devices.plan import Limits, StepPlan, plan_call
from aclgrad_server.services.chunked import execute_chunked
from aclgrad_server.services.programs import execute_program
from tests.server.fake_device import FakeDevice
from tests.server.fakes import FakeContext, new_call, runner_of
from tests.server.sent import entry, program_of, step_of, tensor
from tests.two_outputs import NAME, SPEC, register

DATA = bytes(range(24 + 12))
"""What the device writes: 24 bytes to the first output and 12 to the second."""


SHAPES = (("grad", (2, 3), 6), ("self", (2, 3), 6), ("weight", (3,), 3))


class Counting(FakeDevice):
    def compute(self, plan: StepPlan, contents: Sequence[bytes | None]) -> bytes:
        return DATA


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, validation, planning)


def call(*outputs: str, without: str = "", **memory: SharedRange) -> OperatorCall:
    inputs = (tensor(name, *shape, data=bytes(4 * count)) for name, shape, count in SHAPES if name != without)
    return OperatorCall(NAME, tuple(inputs), {}, memory, outputs)


def check(outputs: tuple[TensorView, ...]) -> None:
    assert [(each.name, each.type.shape, bytes(each.data)) for each in outputs] == [
        ("grad_input", (2, 3), DATA[:24]), ("grad_weight", (3,), DATA[24:])
    ]  # fmt: skip


async def test_a_reply_has_a_section_for_each() -> None:
    plan = plan_call(call(), Product.ATLAS_A2, Limits(2**20))
    assert (plan.output_bytes, plan.size_bytes) == (36, 36 + 60)
    reply = await runner_of(Counting()).run_step(new_call(), step_of(call(), plan), ())
    assert len(reply) == plan.reply_bytes
    check(decode_response(reply))


async def test_a_program_has_the_outputs_of_each_step() -> None:
    request = program_of(call(), call())
    for result in decode_results(await execute_program(runner_of(Counting()), request, new_call())):
        assert isinstance(result, tuple)
        check(result)


async def test_chunks_come_by_output() -> None:
    given = OperatorCall(NAME, (entry(0, "grad", 2, 3), *call().inputs[1:]), {})
    header = encode_header(program_of(given, tensors=[tensor("", 2, 3)]), 20)
    context = FakeContext([header, chunk_prefix(0, 0, 24) + bytes(24)])
    await execute_chunked(runner_of(Counting()), new_call(context))
    results, *chunks = map(decode_answer, context.replies)
    assert isinstance(results, list)
    assert [[each.name for each in result] for result in results] == [["grad_input", "grad_weight"]]
    found = [each for each in chunks if isinstance(each, Chunk)]
    assert [(each.tensor, each.offset, bytes(each.data)) for each in found] == [
        (0, 0, DATA[:20]), (0, 20, DATA[20:24]), (1, 0, DATA[24:])
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("outputs", "names", "returned_bytes", "size_bytes"),
    [
        ((), ["grad_input", "grad_weight"], 36, 60 + 36),
        (("grad_weight", "grad_input"), ["grad_input", "grad_weight"], 36, 60 + 36),
        # The operator takes null for the one that is not wanted,
        (("grad_input",), ["grad_input"], 24, 60 + 24),
        # and here it has to write it.
        (("grad_weight",), ["grad_weight"], 12, 60 + 36),
    ],
)
def test_what_is_not_wanted_is_not_sent_and_its_memory_is_counted_if_it_is_written(
    outputs: tuple[str, ...], names: list[str], returned_bytes: int, size_bytes: int
) -> None:
    plan = plan_call(call(*outputs), Product.ATLAS_A2, Limits(2**20))
    assert [each.name for each in plan.outputs] == names
    assert (plan.output_bytes, plan.size_bytes) == (returned_bytes, size_bytes)


def test_an_input_that_is_optional_may_be_left_out() -> None:
    step = step_of(call(without="weight"))
    assert step.sources[2] is None
    assert step.plan.size_bytes == 48 + 36


def test_memory_is_given_for_outputs_by_name() -> None:
    memory = {"grad_input": SharedRange("/aclgrad-x", 0, 24), "grad_weight": SharedRange("/aclgrad-x", 24, 12)}
    assert step_of(call(**memory)).sinks == tuple(memory.values())


SHARED = SharedRange("/aclgrad-x", 0, 12)
TALL = (*call(without="weight").inputs, tensor("weight", 3, 1, data=bytes(12)))
REFUSED = {
    "an unknown output": (call("grad_bias"), "outputs[grad_bias] is not known; call it grad_input or grad_weight"),
    "an output twice": (call("grad_input", "grad_input"), "outputs[grad_input] is given 2 times; send it once"),
    "no name": (call(""), "outputs[] is not known"),
    "many": (call(*["grad_input"] * 17), "outputs has 17 entries; send at most 16"),
    "memory of another size": (call(grad_weight=SharedRange("/aclgrad-x", 0, 24)), "takes 12"),
    "memory for what is not wanted": (
        call("grad_input", grad_weight=SHARED),
        "is for no wanted output; name grad_input, the outputs that are wanted",
    ),
    "memory for an unknown output": (call(grad_bias=SHARED), "name grad_input or grad_weight"),
    "memory that is shared": (
        call(grad_input=SharedRange("/aclgrad-x", 0, 24), grad_weight=SharedRange("/aclgrad-x", 23, 12)),
        "shares bytes with output_memory[grad_",
    ),
    "an input that is left out": (
        call(without="grad"),
        "inputs[grad] is missing; send it: the operator takes grad, self, weight",
    ),
    "an optional input of another rank": (
        OperatorCall(NAME, TALL, {}),
        "inputs[weight].shape has 2 dimensions; send 1 sizes",
    ),
    "another choice": (
        replace(call(), attributes={"mode": "thrice"}),
        "attributes[mode] is 'thrice'; send 'once' or 'twice'",
    ),
    "no text": (replace(call(), attributes={"mode": 2}), "attributes[mode] is 2; send a text"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused(name: str) -> None:
    wrong, told = REFUSED[name]
    with pytest.raises(InvalidFieldError) as caught:
        step_of(decode_request(encode_request(wrong)))
    assert told in str(caught.value)


def test_what_is_listed_has_all_outputs_and_what_may_be_left_out() -> None:
    told: pb.OperatorDescription = describe_operator(SPEC, Product.ATLAS_A2)
    assert [each.name for each in told.outputs] == ["grad_input", "grad_weight"]
    assert [each.name for each in told.inputs if each.may_be_absent] == ["weight"]
    (mode,) = told.attributes
    assert (mode.kind, list(mode.choices)) == (pb.ATTRIBUTE_KIND_TEXT, ["once", "twice"])
