"""What bounds one caller at all times, its pace, and how many turns it has among those that wait."""

import asyncio

import pytest

from aclgrad.errors import LimitExceededError, ServerBusyError
from aclgrad_server.calls.admission import Admission
from aclgrad_server.calls.gate import Bounds, Pace
from tests.server.fakes import Clock, begun, settle

A, B = "identity:a", "identity:b"

pytestmark = pytest.mark.claims


def admission_for(bounds: dict[str, Bounds], *arguments: object) -> Admission:
    return Admission(*arguments, bounds=lambda caller: bounds.get(caller, Bounds()))  # type: ignore[arg-type]


async def test_turns_of_those_that_wait_follow_their_shares() -> None:
    admission = admission_for({A: Bounds(turns=2)}, 1, 100)
    order: list[str] = []

    async def run(caller: str) -> None:
        place = await admission.slot(caller)
        order.append(caller)
        await asyncio.sleep(0)
        place.give_back()

    held = await admission.slot("identity:c")
    tasks = [asyncio.ensure_future(run(caller)) for caller in [B] * 4 + [A] * 6]
    await settle()
    held.give_back()
    await asyncio.gather(*tasks)
    assert order == [B, A, A, B, A, A, B, A, A, B]


async def test_bytes_are_bounded_also_while_nobody_else_asks() -> None:
    admission = admission_for({A: Bounds(size_bytes=60)}, 8, 8, 100)
    with pytest.raises(LimitExceededError, match="takes 61 bytes and this identity may have 60 at most") as caught:
        await admission.memory(A, 61)
    assert caught.value.metadata == {"size_bytes": "61", "limit": "60"}
    first = await admission.memory(A, 40)
    second = await begun(admission.memory(A, 30))
    assert not second.done()
    # It holds nobody up.
    other = await admission.memory(B, 50)
    first.give_back()
    claim = await second
    for each in (other, claim):
        each.give_back()
    assert admission.occupancy().running_bytes == 0


async def test_what_waits_for_a_client_leaves_half_though_nobody_else_asks() -> None:
    """One that drips its tensors, or fetches no reply, holds nobody up who comes later."""
    admission = Admission(8, 8, 100, reply_limit=100)
    held = [await admission.memory(A, 50, waits_for_client=True), await admission.reply(A, 40)]
    later = [await begun(admission.memory(A, 1, waits_for_client=True)), await begun(admission.reply(A, 11))]
    assert not any(task.done() for task in later)
    others = [await admission.memory(B, 50), await admission.reply(B, 60)]
    for each in (*held, *others):
        each.give_back()
    await asyncio.gather(*later)


async def test_queue_of_one_caller_is_bounded() -> None:
    admission = admission_for({A: Bounds(waiting=2)}, 1, 8)
    held = await admission.slot(A)
    waiting = [await begun(admission.slot(A)) for _ in range(2)]
    with pytest.raises(ServerBusyError, match=r"this client has as many calls .* 3;"):
        await admission.slot(A)
    other = await begun(admission.slot(B))
    held.give_back()
    for each in (waiting[0], other, waiting[1]):
        (await each).give_back()


def test_only_who_spends_faster_than_the_rate_waits_and_never_longer_than_the_longest_pause() -> None:
    clock = Clock()
    pace = Pace(10, 3, clock)
    pace.spend(A, 5)
    assert pace.delay_s(A) == pytest.approx(0.5)
    assert pace.delay_s(B) <= 0
    clock.now_s += 0.5
    assert pace.delay_s(A) <= 0
    pace.spend(A, 1e6)
    assert pace.delay_s(A) == pytest.approx(3)


def test_the_time_that_units_took_counts() -> None:
    """What is received at the rate itself never waits."""
    clock = Clock()
    clock.now_s = 100
    pace = Pace(10, 3, clock)
    pace.spend(A, 5, seconds=0.2)
    assert pace.delay_s(A) == pytest.approx(0.3)
    clock.now_s += 5
    pace.spend(A, 5, seconds=5)
    assert pace.delay_s(A) <= 0
    assert not pace._free_at  # noqa: SLF001 - what it keeps is the point
    pace.spend(A, 40, seconds=600)
    assert pace.delay_s(A) == pytest.approx(1), "no more than the longest pause counts"


def test_callers_that_need_not_wait_are_forgotten() -> None:
    clock = Clock()
    pace = Pace(10, 3, clock)
    for number in range(100):
        pace.spend(str(number), 1)
        clock.now_s += 1
    assert len(pace._free_at) == 1  # noqa: SLF001 - what it keeps is the point
