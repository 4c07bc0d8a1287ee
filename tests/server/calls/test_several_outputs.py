"""An operator with two outputs: each has its section of the reply, its memory and its chunks."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from aclgrad.errors import InvalidFieldError
from aclgrad.operators import validation
from aclgrad.operators.describe import describe_operator
from aclgrad.products import Product
from aclgrad.tensors import Announced, SharedRange, TensorView
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.chunks import chunk_prefix, decode_chunk, decode_response_header, encode_header
from aclgrad.wire.messages import (
    OperatorCall,
    decode_batch,
    decode_request,
    decode_response,
    encode_batch,
    encode_request,
)
from aclgrad_server.calls.batch import execute_batch
from aclgrad_server.calls.chunked import execute_chunked
from aclgrad_server.calls.unary import run_plan
from aclgrad_server.devices import planning
from aclgrad_server.devices.device import Content
from aclgrad_server.devices.planning import OperatorPlan, plan_call
from tests.server.fakes import FakeContext, FakeDevice, new_call, runner_of, tensor
from tests.two_outputs import NAME, SPEC, register

DATA = bytes(range(24 + 12))
"""What the device writes: 24 bytes to the first output and 12 to the second."""


SHAPES = (("grad", (2, 3), 6), ("self", (2, 3), 6), ("weight", (3,), 3))


class Counting(FakeDevice):
    async def _execute(
        self, plan: OperatorPlan, contents: Sequence[Content], deadline: float, workspace_limit: int
    ) -> bytes:
        await super()._execute(plan, contents, deadline, workspace_limit)
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
    plan = plan_call(call(), Product.ATLAS_A2, 2**20)
    assert (plan.output_bytes, plan.size_bytes) == (36, 36 + 60)
    reply = await run_plan(runner_of(Counting()), new_call(), plan, ())
    assert len(reply) == plan.reply_bytes
    check(decode_response(reply))


async def test_a_batch_has_the_outputs_of_each_call() -> None:
    request = encode_batch([encode_request(call())] * 2)
    for result in decode_batch(await execute_batch(runner_of(Counting()), request, new_call())):
        check(result)


async def test_chunks_come_by_output() -> None:
    grad = TensorView("grad", tensor("grad", 2, 3).type, Announced(0, 24))
    given = OperatorCall(NAME, (TensorView("grad", grad.type), *call().inputs[1:]), {})
    context = FakeContext([encode_header(given, ("grad",), 20), chunk_prefix(0, 0, 24) + bytes(24)])
    await execute_chunked(runner_of(Counting()), 2**20, new_call(context))
    header, *chunks = context.replies
    assert [each.name for each in decode_response_header(header)] == ["grad_input", "grad_weight"]
    found = [decode_chunk(each) for each in chunks]
    assert [(each.tensor, each.offset, bytes(each.data)) for each in found] == [
        (0, 0, DATA[:20]), (0, 20, DATA[20:24]), (1, 0, DATA[24:])
    ]  # fmt: skip


def test_memory_is_given_for_outputs_by_name() -> None:
    plan = plan_call(call(grad_weight=SharedRange("/aclgrad-x", 0, 12)), Product.ATLAS_A2, 2**20)
    assert [each.memory is None for each in plan.outputs] == [True, False]
    for name, size_bytes, told in (
        ("grad_weight", 24, "takes 12"),
        ("grad_bias", 12, "is for no wanted output; name grad_input or grad_weight"),
    ):
        with pytest.raises(InvalidFieldError, match=told):
            plan_call(call(**{name: SharedRange("/aclgrad-x", 0, size_bytes)}), Product.ATLAS_A2, 2**20)


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
    plan = plan_call(call(*outputs), Product.ATLAS_A2, 2**20)
    assert [each.name for each in plan.outputs] == names
    assert (plan.output_bytes, plan.size_bytes) == (returned_bytes, size_bytes)


@pytest.mark.parametrize(
    ("outputs", "field", "told"),
    [
        (
            ("grad_bias",),
            "outputs[grad_bias]",
            "is not known; call it grad_input or grad_weight: the operator returns",
        ),
        (("grad_input",) * 2, "outputs[grad_input]", "is given 2 times; send it once"),
        (("",), "outputs[]", "is not known"),
        (("grad_input",) * 17, "outputs", "has 17 entries; send at most 16"),
    ],
)
def test_outputs_that_nobody_can_want_are_refused(outputs: tuple[str, ...], field: str, told: str) -> None:
    with pytest.raises(InvalidFieldError) as caught:
        plan_call(decode_request(encode_request(call(*outputs))), Product.ATLAS_A2, 2**20)
    assert (caught.value.field, told in str(caught.value)) == (field, True)


def test_memory_for_an_output_that_is_not_wanted_is_refused() -> None:
    with pytest.raises(
        InvalidFieldError, match="is for no wanted output; name grad_input, the outputs that are wanted"
    ):
        plan_call(call("grad_input", grad_weight=SharedRange("/aclgrad-x", 0, 12)), Product.ATLAS_A2, 2**20)


@pytest.mark.parametrize(("offset", "is_apart"), [(24, True), (23, False), (0, False)])
def test_memory_of_two_outputs_has_to_be_apart(offset: int, is_apart: bool) -> None:
    memory = {"grad_input": SharedRange("/aclgrad-x", 0, 24), "grad_weight": SharedRange("/aclgrad-x", offset, 12)}
    if is_apart:
        assert plan_call(call(**memory), Product.ATLAS_A2, 2**20).uses_shared_memory
        return
    with pytest.raises(InvalidFieldError, match=r"output_memory\[grad_\w+\] shares bytes with output_memory\[grad_"):
        plan_call(call(**memory), Product.ATLAS_A2, 2**20)


def test_an_input_that_is_optional_may_be_left_out_and_no_other() -> None:
    plan = plan_call(call(without="weight"), Product.ATLAS_A2, 2**20)
    assert plan.inputs[2] is None
    assert plan.contents(())[2] is None
    assert plan.size_bytes == 48 + 36
    with pytest.raises(
        InvalidFieldError, match=r"inputs\[grad\] is missing; send it: the operator takes grad, self, weight"
    ):
        plan_call(call(without="grad"), Product.ATLAS_A2, 2**20)


def test_an_optional_input_has_to_be_as_the_operator_takes_it() -> None:
    shapes = {"grad": (2, 3), "self": (2, 3), "weight": (3, 1)}
    inputs = tuple(tensor(name, *shape, data=bytes(4 * math.prod(shape))) for name, shape in shapes.items())
    with pytest.raises(InvalidFieldError, match=r"inputs\[weight\].shape has 2 dimensions; send 1 sizes"):
        plan_call(OperatorCall(NAME, inputs, {}), Product.ATLAS_A2, 2**20)


def test_a_text_has_to_be_one_of_the_choices() -> None:
    with pytest.raises(InvalidFieldError, match=r"attributes\[mode\] is 'thrice'; send 'once' or 'twice'"):
        plan_call(replace(call(), attributes={"mode": "thrice"}), Product.ATLAS_A2, 2**20)
    with pytest.raises(InvalidFieldError, match=r"attributes\[mode\] is 2; send a text"):
        plan_call(replace(call(), attributes={"mode": 2}), Product.ATLAS_A2, 2**20)


def test_what_is_listed_has_all_outputs_and_what_may_be_left_out() -> None:
    told: pb.OperatorDescription = describe_operator(SPEC, Product.ATLAS_A2)
    assert [each.name for each in told.outputs] == ["grad_input", "grad_weight"]
    assert [each.name for each in told.inputs if each.may_be_absent] == ["weight"]
    (mode,) = told.attributes
    assert (mode.kind, list(mode.choices)) == (pb.ATTRIBUTE_KIND_TEXT, ["once", "twice"])
