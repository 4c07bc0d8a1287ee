"""Small calls have room of their own: whatever large ones hold, also those of the same caller."""

import pytest

from aclgrad.errors import ServerBusyError
from aclgrad_server.calls.admission import Admission, Occupancy
from aclgrad_server.calls.gate import Bounds
from aclgrad_server.devices.planning import is_small
from aclgrad_server.limits import MAX_WAITING_SMALL_CALLS, SMALL_BYTES, SMALL_S, WORK_PER_S
from tests.server.calls.test_admission import A, B
from tests.server.fakes import Clock, begun, settle

pytestmark = pytest.mark.claims


def admission_of(places: int = 2, waiting: int = 4, clock: Clock | None = None) -> Admission:
    return Admission(places, waiting, 1000, clock or Clock(), reply_limit=1000)


async def test_large_calls_that_hold_and_wait_for_everything_delay_no_small_call() -> None:
    admission = admission_of()
    await admission.memory(A, 1000)
    for _ in range(2):
        await admission.slot(A)
    waiting = [await begun(admission.memory(A, 1000)) for _ in range(4)]
    with pytest.raises(ServerBusyError):
        await admission.memory(A, 1)
    for caller in (A, B):
        memory = await admission.memory(caller, SMALL_BYTES, is_small=True)
        place = await admission.slot(caller, is_small=True)
        admission.small.ran(place)
        memory.give_back()
    for task in waiting:
        task.cancel()


async def test_small_calls_take_nothing_of_large_ones() -> None:
    admission = admission_of()
    small = [await admission.memory(A, SMALL_BYTES, is_small=True) for _ in range(40)]
    places = [await admission.slot(A, is_small=True) for _ in range(2)]
    memory = await admission.memory(B, 1000)
    assert await admission.slot(B)
    assert admission.occupancy() == Occupancy(3, 0, 40 * SMALL_BYTES + memory.units)
    for claim in (*small, *places, memory):
        claim.give_back()


async def run_small(admission: Admission, clock: Clock, count: int, seconds: float) -> None:
    for _ in range(count):
        place = await admission.slot(A, is_small=True)
        clock.now_s += seconds
        admission.small.ran(place)


async def test_so_many_small_calls_wait_as_are_answered_within_a_second() -> None:
    clock = Clock()
    admission = admission_of(places=2, clock=clock)
    assert admission.small.waiting_limit == MAX_WAITING_SMALL_CALLS, "before anything is known of their pace"
    await run_small(admission, clock, 100, 0.1)
    assert admission.small.waiting_limit == pytest.approx(20, abs=1)
    await run_small(admission, clock, 100, 0.0001)
    assert admission.small.waiting_limit == MAX_WAITING_SMALL_CALLS
    assert admission.large.waiting_limit == 4
    fresh = admission_of(places=4, clock=clock)
    await run_small(fresh, clock, 1, 120)
    assert fresh.small.waiting_limit > 50, "one long call hardly changes it"


async def test_a_small_call_beyond_those_is_refused_with_a_delay() -> None:
    clock = Clock()
    admission = admission_of(places=1, clock=clock)
    await run_small(admission, clock, 200, 0.5)
    place = await admission.slot(A, is_small=True)
    waiting = [await begun(admission.slot(A, is_small=True)) for _ in range(2)]
    with pytest.raises(ServerBusyError) as caught:
        await admission.slot(A, is_small=True)
    assert caught.value.retry_after_s
    assert admission.refusals["queue"] == 1
    place.give_back()
    await settle()
    for task in waiting:
        (await task).give_back()


async def test_places_that_nobody_waits_for_widen_a_claim() -> None:
    admission = Admission(4, 8, 100)
    first = await admission.slot(A, most=3)
    second = await admission.slot(B, most=3)
    assert (first.units, second.units, admission.large.slots.used) == (3, 1, 4)
    waiting = await begun(admission.slot(A))
    first.give_back()
    await settle()
    third = await admission.slot(B, most=8)
    assert (waiting.result().units, third.units) == (1, 2)


async def test_a_claim_is_not_widened_while_others_wait() -> None:
    admission = Admission(4, 8)
    held = [await admission.slot(A) for _ in range(4)]
    waiting = [await begun(admission.slot(caller, most=4)) for caller in (A, B)]
    for claim in held[:2]:
        claim.give_back()
    await settle()
    assert [task.result().units for task in waiting] == [1, 1]


@pytest.mark.parametrize(
    ("size_bytes", "work", "expected"),
    [
        (SMALL_BYTES, WORK_PER_S * SMALL_S, True),
        (SMALL_BYTES + 1, 0.0, False),
        (1, WORK_PER_S * SMALL_S + 1, False),
        (1, float("inf"), False),
    ],
)
def test_small_is_what_takes_little_memory_and_little_time(size_bytes: int, work: float, expected: bool) -> None:
    assert is_small(size_bytes, work) is expected


async def test_small_replies_that_nobody_fetches_leave_room_for_other_callers() -> None:
    admission = admission_of()
    limit = admission.small.memory.limit
    for _ in range(limit // SMALL_BYTES // 2):
        await admission.memory(A, SMALL_BYTES, is_small=True)
    waiting = await begun(admission.memory(A, SMALL_BYTES, is_small=True))
    assert not waiting.done(), "nobody else asks, and half of the memory is for those who will"
    assert (await admission.memory(B, SMALL_BYTES, is_small=True)).is_granted
    waiting.cancel()


async def test_what_bounds_an_identity_counts_in_all_rooms() -> None:
    bounds = Bounds(size_bytes=1000, waiting=2)
    admission = Admission(1, 8, 1000, Clock(), bounds=lambda caller: bounds)
    held = await admission.memory(A, 600)
    waiting = [await begun(admission.memory(A, 600, is_small=True)), await begun(admission.memory(A, 600))]
    assert not any(task.done() for task in waiting)
    with pytest.raises(ServerBusyError):
        await admission.memory(A, 600, is_small=True)
    held.give_back()
    admission.sweep()
    await settle()
    assert sum(task.done() for task in waiting) == 1
    for task in waiting:
        task.cancel()
