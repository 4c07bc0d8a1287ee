"""Values with a rule that an earlier step makes: only where that one guarantees what this one needs.

The device would read outside of its tensors otherwise, and the host does not see the values.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from aclgrad.errors import InvalidFieldError
from aclgrad.operators import validation
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import InputSpec, OperatorSpec, OutputSpec, same_on
from aclgrad.operators.values import BoolRule, IndexRule, ValueRule, VarianceRule
from aclgrad.products import Product
from aclgrad.sources import in_message
from aclgrad.tensors import DTYPES, TensorType, TensorView, View
from aclgrad.wire.messages import OperatorCall
from aclgrad_server.calls.schedule import Schedule
from aclgrad_server.calls.scheduling import make_schedule
from aclgrad_server.devices import planning
from aclgrad_server.devices.plan import Limits
from aclgrad_server.devices.planning import Planner
from aclgrad_server.devices.programs import ProgramPlanner
from aclgrad_server.devices.steps import PlannedProgram
from tests import made_up_value
from tests.server.fakes import at_once
from tests.server.sent import NO_LIMIT, entry, output_of, program_of, tensor

COUNT = 3
Register = Callable[[OperatorSpec], None]
_FLOATS = same_on((Product.ATLAS_A2,), ("float32",))


def making(dtype: str, is_guaranteed: bool = True) -> OperatorSpec:
    """Returns an operator that makes positions in a plane, its input."""
    indices = TensorType(DTYPES[dtype], (COUNT,))
    plane = InputSpec("plane", "Made up.", _FLOATS, (2,))
    output = OutputSpec("indices", "Made up.", lambda _: indices)
    if is_guaranteed:
        output = replace(output, guarantees=lambda arguments, _: IndexRule(arguments.inputs["plane"].element_count))
    return replace(
        made_up_value.SPEC,
        name="made_up_positions",
        symbol="aclnnMadeUp",
        leading="plane",
        inputs=(plane,),
        outputs=(output,),
    )


def make(height: int, width: int) -> OperatorCall:
    return OperatorCall("made_up_positions", (tensor("plane", height, width, data=bytes(4 * height * width)),), {})


def look_up(rows: int, indices: TensorView | None = None) -> OperatorCall:
    """Returns a step that reads rows of a table, by default by the indices that the first step makes."""
    indices = indices or output_of(0, "indices", COUNT, output="indices", dtype="int64")
    return OperatorCall(made_up_value.NAME, (indices, tensor("table", rows, 2, data=bytes(8 * rows))), {})


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Register:
    def add(making: OperatorSpec) -> None:
        for module in (validation, planning):
            added = {each.name: each for each in (making, made_up_value.SPEC)}
            monkeypatch.setattr(module, "OPERATORS", {**OPERATORS, **added})

    add(making("int64"))
    return add


async def planned(*calls: OperatorCall, tensors: tuple[TensorView, ...] = ()) -> PlannedProgram:
    planner = ProgramPlanner(Planner(Product.ATLAS_A2, Limits(NO_LIMIT)))
    program, _ = await planner.read(program_of(*calls, tensors=tensors), at_once)
    return program


async def refusal(*calls: OperatorCall) -> str:
    program = await planned(*calls)
    assert set(program.failures) == {len(calls) - 1}
    (error,) = program.failures.values()
    assert isinstance(error, InvalidFieldError)
    assert error.field is not None
    assert error.field.startswith("inputs[indices]")
    return str(error)


@pytest.mark.usefixtures("register")
@pytest.mark.parametrize(
    ("height", "width", "rows", "fits"),
    [(4, 4, 16, True), (4, 4, 17, True), (10, 10, 100, True), (10, 10, 16, False), (4, 4, 15, False), (1, 1, 1, True)],
)
async def test_values_are_trusted_up_to_what_their_step_guarantees(
    height: int, width: int, rows: int, fits: bool
) -> None:
    calls = make(height, width), look_up(rows)
    if fits:
        program = await planned(*calls)
        assert program.failures == {}
        assert program.steps[1].unseen == [0]
        return
    told = await refusal(*calls)
    assert f"names step 0, which guarantees values below {height * width}" in told
    assert f"this input needs values below {rows}; send the values themselves" in told


async def test_a_step_that_guarantees_nothing_is_not_trusted(register: Register) -> None:
    register(making("int64", is_guaranteed=False))
    assert "names step 0, which guarantees no values" in await refusal(make(2, 2), look_up(100))


async def test_values_of_another_type_are_not_read(register: Register) -> None:
    register(making("int32"))
    assert "is int64, and output 'indices' of step 0 is int32" in await refusal(make(2, 2), look_up(100))


@pytest.mark.usefixtures("register")
@pytest.mark.parametrize("view", [View(0, (1,)), View(0, (0,)), View(2, (0,))])
async def test_a_view_of_values_is_not_trusted(view: View) -> None:
    indices = output_of(0, "indices", COUNT, output="indices", dtype="int64", view=view)
    assert "has a view, and its values have a rule" in await refusal(make(2, 2), look_up(100, indices))


@pytest.mark.usefixtures("register")
async def test_values_of_the_table_are_checked_by_the_host() -> None:
    """Whatever anybody guarantees."""
    data = in_message(memoryview(bytes(8 * COUNT)))
    values = TensorView("", TensorType(DTYPES["int64"], (COUNT,)), data)
    program = await planned(look_up(1, entry(0, "indices", COUNT, dtype="int64")), tensors=(values,))
    assert program.failures == {}
    assert program.steps[0].unseen == []


async def schedule_of(program: PlannedProgram, waits_for_values: bool) -> Schedule:
    return await make_schedule(program, at_once, 4, waits_for_values)


@pytest.mark.usefixtures("register")
async def test_where_a_device_goes_on_behind_a_fault_trusted_values_begin_a_group() -> None:
    """They may not be what their step would have made."""
    program = await planned(make(2, 2), make(2, 2), look_up(4), look_up(5))
    for waits, expected in ((False, [[0, 1, 2, 3]]), (True, [[0, 1], [2, 3]])):
        schedule = await schedule_of(program, waits)
        assert [[each.number for each in group.steps] for group in schedule.groups] == expected


@pytest.mark.parametrize(
    ("rule", "type", "told"),
    [
        (BoolRule(), TensorType(DTYPES["bool"], (2,)), None),
        (VarianceRule(1e-5, False, 0.1), TensorType(DTYPES["float32"], (2,)), None),
        (VarianceRule(1e-5, True, 0.1), TensorType(DTYPES["float32"], (2,)), "of which the device reads another form"),
    ],
)
async def test_other_rules_are_guaranteed_by_their_equals_and_read_as_they_are(
    monkeypatch: pytest.MonkeyPatch, rule: ValueRule, type: TensorType, told: str | None
) -> None:
    dtypes = same_on((Product.ATLAS_A2,), (type.dtype.name,))
    base = made_up_value.SPEC
    plane = InputSpec("plane", "Made up.", _FLOATS, (2,))
    out = OutputSpec("indices", "Made up.", lambda _: type, guarantees=lambda *_: rule)
    producer = replace(base, name="made_up_positions", symbol="a", leading="plane", inputs=(plane,), outputs=(out,))
    taken = InputSpec("indices", "Made up.", dtypes, (1,), values=lambda *_: rule)
    consumer = replace(
        base,
        name="made_up_taker",
        symbol="b",
        inputs=(taken,),
        outputs=(replace(out, guarantees=None),),
        leading="indices",
    )
    for module in (validation, planning):
        added = {each.name: each for each in (producer, consumer)}
        monkeypatch.setattr(module, "OPERATORS", {**OPERATORS, **added})
    taking = OperatorCall("made_up_taker", (output_of(0, "indices", 2, output="indices", dtype=type.dtype.name),), {})
    if told is None:
        assert (await planned(make(2, 2), taking)).failures == {}
    else:
        assert told in await refusal(make(2, 2), taking)
