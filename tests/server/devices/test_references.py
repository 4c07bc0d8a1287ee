"""What an input may refer to, and what is refused: each wrong reference has its field, and fails its step alone."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from aclgrad.errors import (
    AclgradError,
    InputFailedError,
    InvalidFieldError,
    LimitExceededError,
    UnknownOperatorError,
)
from aclgrad.products import Product
from aclgrad.sources import OutputOf, SharedRange, TableEntry
from aclgrad.tensors import TensorView, View
from aclgrad.wire.limits import MAX_LIST_LENGTH
from aclgrad.wire.messages import OperatorCall, encode_request
from aclgrad_server.devices.plan import Limits
from aclgrad_server.devices.planning import Planner
from aclgrad_server.devices.programs import ProgramPlanner
from aclgrad_server.devices.steps import PlannedProgram
from tests.server.fakes import at_once
from tests.server.sent import NO_LIMIT, call_of, entry, output_of, pooling_call, program_of, tanh_call, tensor

COUNT = 4
DATA = bytes(4 * COUNT)
OTHER = tensor("output", COUNT, data=DATA)
FIRST = tanh_call(tensor("grad_output", COUNT, data=DATA), OTHER)
UNKNOWN = OperatorCall("unknown", (), {})
TABLE = [tensor("", COUNT, data=DATA)]
POOLED = pooling_call(1, 2, 2)
"""Its output has the shape (1, 2, 2)."""


def planner() -> ProgramPlanner:
    return ProgramPlanner(Planner(Product.ATLAS_A2, Limits(NO_LIMIT)))


async def planned(
    *calls: OperatorCall | bytes, tensors: Sequence[TensorView] = (), returned: Sequence[tuple[int, str]] = ()
) -> PlannedProgram:
    program, _ = await planner().read(program_of(*calls, tensors=tensors, returned=returned), at_once)
    return program


async def refusal(*calls: OperatorCall, tensors: Sequence[TensorView] = ()) -> AclgradError:
    """Returns the error of the last step, which has the only one."""
    program = await planned(*calls, tensors=tensors)
    assert set(program.steps) == set(range(len(calls) - 1))
    (error,) = program.failures.values()
    return error


def after(
    step: int, *shape: int, output: str = "grad_input", dtype: str = "float32", view: View | None = None
) -> OperatorCall:
    """Returns a step that refers to an output, as if it had this shape."""
    gradient = output_of(step, "grad_output", *shape, output=output, dtype=dtype, view=view)
    size_bytes = math.prod(shape) * gradient.type.dtype.itemsize
    return tanh_call(gradient, tensor("output", *shape, dtype=dtype, data=bytes(size_bytes)))


REFUSED = {
    "its own step": (after(1, COUNT), "output_of.step", "is 1, and this is step 1"),
    "a later step": (after(2, COUNT), "output_of.step", "is 2, and this is step 1"),
    "a negative step": (after(-1, COUNT), "output_of.step", "is -1, and this is step 1"),
    "a huge step": (after(2**31 - 1, COUNT), "output_of.step", f"is {2**31 - 1}, and this is step 1"),
    "an unknown output": (after(0, COUNT, output="out"), "output_of.output", "which is no output of step 0"),
    "a name as long as it may be": (after(0, COUNT, output="x" * 9000), "output_of.output", "is no output of step 0"),
    "no output": (after(0, COUNT, output=""), "output_of.output", "name grad_input, which it makes"),
    "another type": (after(0, COUNT, dtype="float16"), "data_type", "is float16, and output 'grad_input' of step 0 is"),
    "another shape": (after(0, 2, 2), "shape", "declare its shape, or send a view of it"),
    "a larger shape": (after(0, COUNT + 1), "shape", "is (5,), and output 'grad_input' of step 0 is float32[4]"),
    "a view beyond its end": (after(0, 2, view=View(3, (1,))), "view", "ends at element 5"),
    "a view of nothing there": (after(0, 2, view=View(2**40, (0,))), "view", f"ends at element {2**40 + 1}"),
    "a view of a huge stride": (after(0, 2, view=View(0, (2**60,))), "view", "send a view of elements that it has"),
    "a view of another type": (after(0, 2, dtype="float16", view=View(0, (1,))), "data_type", "declare float32"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_reference_to_what_is_not_there_is_refused(name: str) -> None:
    call, field, told = REFUSED[name]
    error = await refusal(FIRST, call)
    assert isinstance(error, InvalidFieldError)
    assert error.field == f"inputs[grad_output].{field}"
    assert told in str(error)
    assert len(str(error)) < 400


VIEWS = {"first": View(0, (1,)), "last": View(2, (1,)), "repeated": View(3, (0,)), "backwards of rows": View(0, (2,))}


@pytest.mark.parametrize("name", VIEWS)
async def test_a_view_may_lie_over_all_elements_that_there_are(name: str) -> None:
    program = await planned(FIRST, after(0, 2, view=VIEWS[name]))
    assert program.failures == {}
    source = program.steps[1].sources[0]
    assert source is not None
    assert source.nbytes == 4 * VIEWS[name].end((2,)) <= len(DATA)


async def test_a_view_without_elements_needs_none() -> None:
    program = await planned(FIRST, after(0, 0, view=View(2**40, (1,))))
    assert program.failures == {}


def using(index: int, *shape: int, dtype: str = "float32", view: View | None = None) -> OperatorCall:
    """Returns a step that refers to the table."""
    gradient = entry(index, "grad_output", *shape, dtype=dtype, view=view)
    size_bytes = math.prod(shape) * gradient.type.dtype.itemsize
    return tanh_call(gradient, tensor("output", *shape, dtype=dtype, data=bytes(size_bytes)))


OF_TABLE = {
    "behind its end": (using(1, COUNT), "table_index", "is 1, and the program has a table of 1 tensors"),
    "negative": (using(-1, COUNT), "table_index", "is -1"),
    "huge": (using(2**31 - 1, COUNT), "table_index", f"is {2**31 - 1}"),
    "another type": (
        using(0, COUNT, dtype="float16"),
        "data_type",
        "is float16, and tensor 0 of the table is float32[4]",
    ),
    "another shape": (using(0, 2, 2), "shape", "is (2, 2), and tensor 0 of the table is float32[4]"),
    "a view beyond its end": (using(0, 3, view=View(2, (1,))), "view", "ends at element 5"),
}


@pytest.mark.parametrize("name", OF_TABLE)
async def test_a_reference_to_the_table_is_held_against_its_entry(name: str) -> None:
    call, field, told = OF_TABLE[name]
    error = await refusal(using(0, COUNT), call, tensors=TABLE)
    assert isinstance(error, InvalidFieldError)
    assert error.field == f"inputs[grad_output].{field}"
    assert told in str(error)


def normalization(*outputs: str) -> OperatorCall:
    sizes = {"grad_output": (2, 3), "input": (2, 3), "mean": (2, 1), "rstd": (2, 1)}
    given = [tensor(name, *shape, data=bytes(4 * shape[0] * shape[1])) for name, shape in sizes.items()]
    inputs = (*given, tensor("bias", 3))
    return OperatorCall("layer_norm_backward", inputs, {"normalized_shape": (3,)}, outputs=outputs)


async def test_an_output_that_was_not_wanted_is_not_there() -> None:
    row = after(0, 3, output="grad_bias")
    error = await refusal(normalization("grad_input", "grad_weight"), row)
    assert "is 'grad_bias', which is not wanted by step 0; name grad_input or grad_weight, which it makes" in str(error)
    assert (await planned(normalization(), row)).failures == {}


async def test_what_needs_a_step_that_is_not_legal_names_the_first_one() -> None:
    """Through a chain, and beside steps that are legal."""
    chain = [FIRST, UNKNOWN, after(1, COUNT), after(2, COUNT), after(0, COUNT), after(3, COUNT)]
    program = await planned(*chain)
    assert set(program.steps) == {0, 4}
    assert isinstance(program.failures.pop(1), UnknownOperatorError)
    assert set(program.failures) == {2, 3, 5}
    for error in program.failures.values():
        assert isinstance(error, InputFailedError)
        assert error.metadata == {"step": "1"}


async def test_a_wrong_reference_is_told_before_a_failed_one() -> None:
    """What the client can fix at once."""
    both = tanh_call(output_of(0, "grad_output", COUNT), output_of(7, "output", COUNT))
    error = (await planned(UNKNOWN, both)).failures[1]
    assert isinstance(error, InvalidFieldError)
    assert error.field == "inputs[output].output_of.step"


async def test_references_have_no_place_in_a_step_alone() -> None:
    for source in (output_of(0, "grad_output", COUNT), entry(0, "grad_output", COUNT)):
        with pytest.raises(InvalidFieldError, match=r"this is step 0|a table of 0 tensors"):
            Planner(Product.ATLAS_A2, Limits(NO_LIMIT)).read(encode_request(tanh_call(source, OTHER)))


async def test_references_are_held_against_what_is_there_whatever_plan_is_kept() -> None:
    """The plan of a step has nothing of where its inputs come from."""
    programs = planner()
    right, wrong = program_of(FIRST, after(0, COUNT)), program_of(POOLED, after(0, COUNT))
    for _ in range(2):
        program, _ = await programs.read(right, at_once)
        assert program.failures == {}
        program, _ = await programs.read(wrong, at_once)
        assert set(program.failures) == {1}


WRONG_TABLES = {
    "an entry that nobody uses": ([*TABLE, *TABLE], "tensors[1]", "is used by no step; leave it out"),
    "an entry that refers to a step": (
        [TensorView("", TABLE[0].type, OutputOf(0, "grad_input", 16))],
        "tensors[0]",
        "refers to another tensor; have the inputs refer to that one",
    ),
    "an entry that refers to another": (
        [*TABLE, TensorView("", TABLE[0].type, TableEntry(0, 16))],
        "tensors[1]",
        "refers",
    ),
    "a name": ([tensor("grad_output", COUNT, data=DATA)], "tensors[0]", "has the name 'grad_output'"),
    "a view": ([tensor("", COUNT, data=DATA, view=View(0, (1,)))], "tensors[0]", "has a view; give it to the inputs"),
    "no content": ([tensor("", COUNT)], "tensors[0]", "has no content"),
    "too few bytes": ([tensor("", COUNT, data=DATA[1:])], "tensors[0].data", "has 15 bytes, but float32[4] takes 16"),
    "a negative size": ([tensor("", -COUNT, data=DATA)], "tensors[0].shape", "with a negative size"),
    "sizes that overflow": ([tensor("", 2**62, 2**62, data=DATA)], "tensors[0].data", "and the limit is"),
    "shared memory of another size": (
        [TensorView("", TABLE[0].type, SharedRange("/aclgrad-x", 0, 12))],
        "tensors[0].data",
        "has 12 bytes",
    ),
}


@pytest.mark.parametrize("name", WRONG_TABLES)
async def test_a_table_that_is_wrong_refuses_the_program(name: str) -> None:
    tensors, field, told = WRONG_TABLES[name]
    with pytest.raises((InvalidFieldError, LimitExceededError)) as caught:
        await planned(using(0, COUNT), tensors=tensors)
    assert caught.value.field == field
    assert told in str(caught.value)


async def test_a_step_that_cannot_be_read_is_told_before_entries_that_it_may_use() -> None:
    call = replace(using(0, COUNT), attributes={"long": (0,) * (MAX_LIST_LENGTH + 1)})
    with pytest.raises(InvalidFieldError) as caught:
        await planned(call, tensors=TABLE)
    assert caught.value.field == "attributes[long]"


@pytest.mark.parametrize(
    ("returned", "field", "told"),
    [
        ((2, "grad_input"), "returned[1].step", "is 2, and the program has 2 steps"),
        ((-1, "grad_input"), "returned[1].step", "is -1"),
        ((1, "out"), "returned[1].output", "is 'out', and step 1 makes grad_input"),
        ((1, "x" * 9000), "returned[1].output", "and step 1 makes grad_input"),
    ],
)
async def test_what_is_to_be_returned_has_to_be_there(returned: tuple[int, str], field: str, told: str) -> None:
    with pytest.raises(InvalidFieldError) as caught:
        await planned(FIRST, after(0, COUNT), returned=[(0, "grad_input"), returned])
    assert caught.value.field == field
    assert told in str(caught.value)
    assert len(str(caught.value)) < 300


async def test_outputs_of_steps_that_are_not_legal_may_be_asked_for() -> None:
    """The client could not know; the step's status says why nothing comes."""
    program = await planned(UNKNOWN, FIRST, returned=[(0, "anything"), (1, "grad_input")])
    assert set(program.failures) == {0}


async def test_an_entry_that_only_a_step_uses_that_is_not_legal_is_used() -> None:
    program = await planned(call_of("unknown", entry(0, "x", COUNT)), FIRST, tensors=TABLE)
    assert set(program.failures) == {0}
    assert program.first_uses == {0: 0}


SHARED = SharedRange("/aclgrad-x", 0, 16)
OVERLAPS = {
    "an input of another step": (
        [tanh_call(TensorView("grad_output", TABLE[0].type, SHARED), OTHER)],
        [],
        SharedRange("/aclgrad-x", 12, 16),
    ),
    "an entry of the table": (
        [using(0, COUNT)],
        [TensorView("", TABLE[0].type, SHARED)],
        SharedRange("/aclgrad-x", 8, 16),
    ),
    "an output of another step": (
        [OperatorCall("tanh_backward", FIRST.inputs, {}, {"grad_input": SHARED})],
        [],
        SharedRange("/aclgrad-x", 15, 16),
    ),
}


@pytest.mark.parametrize("name", OVERLAPS)
async def test_an_output_shares_no_bytes_with_anything_else_of_the_program(name: str) -> None:
    """A program that is repeated would read what it has written."""
    calls, tensors, range = OVERLAPS[name]
    for memory, is_refused in (
        (range, True),
        (SharedRange(range.name, 16, 16), False),
        (SharedRange("/aclgrad-y", 0, 16), False),
    ):
        writing = OperatorCall("tanh_backward", FIRST.inputs, {}, {"grad_input": memory})
        for order in ([*calls, writing], [writing, *calls]):
            if is_refused:
                with pytest.raises(InvalidFieldError, match="shares bytes of /aclgrad-x with an output of the program"):
                    await planned(*order, tensors=tensors)
            else:
                assert (await planned(*order, tensors=tensors)).failures == {}


async def test_inputs_may_share_bytes() -> None:
    reading = tanh_call(TensorView("grad_output", TABLE[0].type, SHARED), TensorView("output", TABLE[0].type, SHARED))
    assert (await planned(reading, reading)).failures == {}
