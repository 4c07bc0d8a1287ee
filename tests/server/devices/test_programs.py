"""Programs are planned once and found again, never for others, and what is wrong as a whole is refused as a whole."""

import pytest

from aclgrad.errors import InvalidFieldError, LimitExceededError, MalformedRequestError, OtherProductError
from aclgrad.products import Product
from aclgrad.tensors import TensorView
from aclgrad.wire.chunks import encode_header
from aclgrad.wire.limits import MAX_PROGRAM_REST_BYTES, MAX_STEPS, MAX_TABLE_TENSORS
from aclgrad.wire.messages import OperatorCall
from aclgrad_server.devices import programs as module
from aclgrad_server.devices.plan import ENDLESS, Limits
from aclgrad_server.devices.planning import Planner
from aclgrad_server.devices.programs import ProgramPlanner
from aclgrad_server.devices.steps import PlannedProgram
from aclgrad_server.limits import KEPT_PROGRAMS_BYTES, PROGRAM_S, STEP_OBJECTS_BYTES
from tests.server.fakes import at_once
from tests.server.sent import NO_LIMIT, entry, output_of, pooling_call, program_of, tanh_call, tensor

MIB = 2**20
UNKNOWN = OperatorCall("unknown", (), {})


def chain(count: int = 4, content: bytes = b"abcd") -> list[OperatorCall]:
    """Returns two steps, of which the second uses the first."""
    data = (content * count)[: 4 * count]
    output = tensor("output", count, data=data)
    return [
        tanh_call(tensor("grad_output", count, data=data), output),
        tanh_call(output_of(0, "grad_output", count, output="grad_input"), output),
    ]


class Planning:
    """A planner of programs that counts what it plans."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.pauses = 0
        self.programs = ProgramPlanner(Planner(Product.ATLAS_A2, limits or Limits(NO_LIMIT)))

    async def pause(self) -> None:
        self.pauses += 1

    async def read(self, request: bytes) -> PlannedProgram:
        program, self.payloads = await self.programs.read(request, self.pause)
        return program


async def test_a_program_is_planned_once_and_the_bytes_are_those_of_each_message() -> None:
    planning = Planning()
    first = await planning.read(program_of(*chain()))
    again = await planning.read(program_of(*chain(content=b"efgh")))
    assert first is again
    assert [bytes(each) for each in planning.payloads] == [b"efgh" * 4] * 3
    assert planning.pauses == 2, "once for each step, and not for a program that is known"


OTHERS = {
    "sizes": lambda: program_of(*chain(count=5)),
    "lengths": lambda: program_of(*chain(), pooling_call(1, 2, 2)),
    "a reference": lambda: program_of(chain()[0], chain()[0], chain()[1]),
    "outputs": lambda: program_of(*chain(), returned=[(1, "grad_input")]),
    "a product": lambda: program_of(*chain(), product="910B"),
    "a table": lambda: program_of(
        *chain(), tanh_call(entry(0, "grad_output", 1), entry(0, "output", 1)), tensors=[tensor("", 1, data=bytes(4))]
    ),
}


@pytest.mark.parametrize("name", OTHERS)
async def test_a_program_that_differs_in_anything_is_another(name: str) -> None:
    planning = Planning()
    first = await planning.read(program_of(*chain()))
    other = await planning.read(OTHERS[name]())
    assert other is not first
    assert await planning.read(program_of(*chain())) is first
    assert await planning.read(OTHERS[name]()) is other


async def test_a_payload_of_another_length_is_refused_though_the_rest_is_known() -> None:
    """Its length stands beside its bytes, and is a part of what has to be the same."""
    planning = Planning()
    await planning.read(program_of(*chain()))
    short = [OperatorCall(each.operator, each.inputs, {}) for each in chain()]
    wrong = tensor("output", 4, data=bytes(12))
    short[0] = tanh_call(short[0].inputs[0], wrong)
    for _ in range(2):
        program = await planning.read(program_of(*short))
        assert set(program.failures) == {0, 1}


async def test_a_header_of_the_same_bytes_is_another_program() -> None:
    planning = Planning()
    whole = await planning.read(program_of(*chain()))
    header = encode_header(program_of(*chain()), 1000)
    chunked, _ = await planning.programs.read_header(header, at_once)
    assert chunked is not whole
    assert (whole.chunk_bytes, chunked.chunk_bytes) == (0, 1000)
    again, _ = await planning.programs.read_header(header, at_once)
    assert again is chunked


async def test_programs_with_steps_that_are_not_legal_are_not_kept() -> None:
    """What makes them so may change, and their errors are large."""
    planning = Planning()
    for _ in range(2):
        program = await planning.read(program_of(*chain(), UNKNOWN))
        assert set(program.failures) == {2}
        assert planning.programs.kept_bytes == 0
    assert planning.pauses == 6


async def test_those_that_were_not_used_for_longest_are_forgotten() -> None:
    """A program of 4,096 steps counts more than 16 MiB."""
    planning = Planning()

    def numbered(number: int) -> bytes:
        return program_of(*[pooling_call(1, 2, number + 1)] * (MAX_STEPS // 2))

    size_bytes = STEP_OBJECTS_BYTES * MAX_STEPS // 2
    count = KEPT_PROGRAMS_BYTES // size_bytes - 1
    found = [await planning.read(numbered(number)) for number in range(count)]
    assert count * size_bytes < planning.programs.kept_bytes <= KEPT_PROGRAMS_BYTES
    assert await planning.read(numbered(0)) is found[0]
    await planning.read(numbered(count))
    assert planning.programs.kept_bytes <= KEPT_PROGRAMS_BYTES
    assert await planning.read(numbered(0)) is found[0], "it was used"
    assert await planning.read(numbered(1)) is not found[1]


async def test_what_is_kept_is_counted_to_the_last_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_PROGRAMS_BYTES", 4 * STEP_OBJECTS_BYTES + 1000)
    planning = Planning()
    one, two = program_of(pooling_call(1, 2, 2)), program_of(*chain())
    await planning.read(one)
    of_one = planning.programs.kept_bytes
    await planning.read(two)
    of_both = planning.programs.kept_bytes
    assert STEP_OBJECTS_BYTES < of_one <= STEP_OBJECTS_BYTES + len(one)
    assert 2 * STEP_OBJECTS_BYTES < of_both - of_one <= 2 * STEP_OBJECTS_BYTES + len(two)
    for number in range(20):
        await planning.read(program_of(pooling_call(1, 2, number + 3)))
        assert planning.programs.kept_bytes <= 4 * STEP_OBJECTS_BYTES + 1000
    monkeypatch.setattr(module, "KEPT_PROGRAMS_BYTES", 0)
    await planning.read(one)
    assert planning.programs.kept_bytes == 0


@pytest.mark.parametrize("product", ["910A", "310P", "910C", "x" * 5000, "910b"])
async def test_a_program_for_another_product_is_refused_before_its_steps_are_planned(product: str) -> None:
    planning = Planning()
    with pytest.raises(OtherProductError) as caught:
        await planning.read(program_of(*chain(), product=product))
    assert caught.value.metadata == {"product": "910B", "made_for": product[:64]}
    assert planning.pauses == 0
    assert (await planning.read(program_of(*chain(), product="910B"))).failures == {}


async def test_more_parts_than_a_program_may_have_are_refused_before_they_are_looked_at() -> None:
    planning = Planning()
    one = tensor("", 0, data=b"")
    parts = {
        "steps": ([b""] * (MAX_STEPS + 1), [], []),
        "tensors": ([], [one] * (MAX_TABLE_TENSORS + 1), []),
        "returned": (chain(), [], [(0, "grad_input")] * (MAX_STEPS + 1)),
    }
    for field, (steps, tensors, returned) in parts.items():
        with pytest.raises(LimitExceededError) as caught:
            await planning.read(program_of(*steps, tensors=tensors, returned=returned))
        assert caught.value.field == field
        assert f"are {MAX_STEPS + 1} and the limit is {MAX_STEPS}" in str(caught.value)
    assert planning.pauses == 0


async def test_a_program_of_as_many_steps_as_there_may_be_is_planned() -> None:
    program = await Planning().read(program_of(*[pooling_call(1, 1, 1)] * MAX_STEPS))
    assert (len(program.steps), program.failures) == (MAX_STEPS, {})


async def test_a_rest_beyond_its_limit_is_refused_and_payloads_do_not_count() -> None:
    large = [tensor(name, MIB // 4, data=bytes(MIB)) for name in ("grad_output", "output")]
    assert (await Planning().read(program_of(OperatorCall("tanh_backward", tuple(large), {})))).failures == {}
    named = OperatorCall("x" * MAX_PROGRAM_REST_BYTES, (), {})
    with pytest.raises(LimitExceededError, match=f"more than {MAX_PROGRAM_REST_BYTES} bytes besides the data"):
        await Planning().read(program_of(named))


@pytest.mark.parametrize("request_bytes", [b"\xff", b"\x0a\x05", b"\x0a\x01\xff"])
async def test_bytes_that_are_no_program_are_malformed(request_bytes: bytes) -> None:
    with pytest.raises(MalformedRequestError):
        await Planning().read(request_bytes)


async def test_the_work_of_a_program_has_a_bound() -> None:
    """Each of its steps has one of its own; in proportion to its tensors, work is never too much."""
    limits = Limits(NO_LIMIT, pace=ENDLESS)
    one = (await Planning(limits).read(program_of(wide_pooling()))).steps[0].plan
    assert one.work.operations > one.least_allowed, "the windows overlap"
    pace = type(ENDLESS)(2.5 * one.work.operations / PROGRAM_S, 1e300, 1e300, 0.0)
    bounded = Limits(NO_LIMIT, pace=pace, seconds=PROGRAM_S / 2)
    assert (await Planning(bounded).read(program_of(*[wide_pooling()] * 2))).failures == {}
    with pytest.raises(LimitExceededError, match="programs have 3600 s"):
        await Planning(bounded).read(program_of(*[wide_pooling()] * 3))


def wide_pooling() -> OperatorCall:
    """Returns a call of few elements whose windows are large."""
    inputs = tensor("grad_output", 1, 9, 9, data=bytes(324)), tensor("self", 1, 40, 40, data=bytes(6400))
    attributes = {"kernel_size": (32, 32), "stride": (1, 1), "padding": (0, 0), "ceil_mode": False}
    return OperatorCall("avg_pool2d_backward", inputs, {**attributes, "count_include_pad": True})


async def test_tensors_in_chunks_come_in_the_order_of_their_first_use() -> None:
    """Otherwise a step would wait for tensors that only later ones need."""

    def header(*uses: int) -> bytes:
        table: list[TensorView] = [tensor("", 4)] * (max(uses) + 1)
        calls = [tanh_call(entry(each, "grad_output", 4), entry(each, "output", 4)) for each in uses]
        return encode_header(program_of(*calls, tensors=table), 1000)

    planning = Planning()
    for uses in ((0, 1, 2), (0, 1, 0, 2), (0, 0, 1)):
        program, _ = await planning.programs.read_header(header(*uses), at_once)
        assert program.failures == {}
    for uses in ((1, 0), (0, 2, 1)):
        with pytest.raises(InvalidFieldError, match="in the order in which the steps first use them"):
            await planning.programs.read_header(header(*uses), at_once)


async def test_a_pause_that_ends_the_call_ends_its_planning() -> None:
    async def late() -> None:
        raise TimeoutError

    planning = Planning()
    planning.pause = late
    with pytest.raises(TimeoutError):
        await planning.read(program_of(*chain()))
    assert planning.programs.kept_bytes == 0
