"""Limits are exact, memory and places are shared fairly, and nothing is lost when calls are cancelled."""

import asyncio

import pytest

from aclgrad.errors import DeviceLostError, LimitExceededError, ServerBusyError
from aclgrad_server.calls.admission import Admission, Occupancy
from aclgrad_server.calls.gate import Bounds, Claim
from aclgrad_server.limits import ASKING_S, LONGEST_PAUSE_S, RECEIVE_BYTES_PER_S
from tests.server.fakes import Clock, begun, settle

pytestmark = pytest.mark.claims

A, B, C = "ipv4:192.0.2.1", "ipv4:192.0.2.2", "unix"


async def places(admission: Admission, address: str, count: int) -> list[Claim]:
    return [await admission.slot(address) for _ in range(count)]


async def test_places_are_filled_before_calls_wait_before_they_are_refused() -> None:
    admission = Admission(2, 3)
    held = await places(admission, A, 2)
    waiting = [await begun(admission.slot(A)) for _ in range(3)]
    assert admission.occupancy() == Occupancy(running=2, waiting=3)
    with pytest.raises(ServerBusyError, match=r"the server has .* as it may have, 5; try again") as caught:
        await admission.slot(A)
    assert caught.value.retry_after_s
    assert caught.value.metadata == {"limit": "5"}
    assert admission.refusals["queue"] == 1
    for each in held:
        each.give_back()
    await settle()
    assert [task.done() for task in waiting] == [True, True, False], "those that wait longest come first"
    for task in waiting:
        (await task).give_back()
    assert admission.occupancy() == Occupancy(0, 0)


async def test_calls_wait_for_the_bytes_of_others_which_come_back_in_parts_and_never_twice() -> None:
    admission = Admission(8, 8, 100)
    large = await admission.memory(A, 70)
    small = await admission.memory(A, 30)
    waiting = await begun(admission.memory(A, 31))
    assert admission.occupancy() == Occupancy(0, 1, 100)
    small.give_back()
    small.give_back()
    large.give_back(-5)
    await settle()
    assert not waiting.done()
    large.give_back(40)
    last = await waiting
    assert admission.occupancy() == Occupancy(0, 0, 61)
    large.give_back(1000)
    assert admission.occupancy() == Occupancy(0, 0, 31)
    last.give_back()
    assert admission.occupancy() == Occupancy(0, 0, 0)


async def test_nothing_overtakes_a_claim_that_waits_for_room() -> None:
    admission = Admission(8, 8, 100)
    running = await admission.memory(A, 50)
    large = await begun(admission.memory(B, 60))
    small = [await begun(admission.memory(address, 10)) for address in (A, C)]
    assert admission.occupancy() == Occupancy(0, 3, 50)
    running.give_back()
    await settle()
    assert large.done()
    assert all(task.done() for task in small)


async def test_large_claim_that_is_cancelled_holds_nobody_up() -> None:
    admission = Admission(8, 8, 100)
    await admission.memory(A, 50)
    large = await begun(admission.memory(A, 60))
    small = await begun(admission.memory(B, 10))
    large.cancel()
    await settle()
    assert small.done()
    assert admission.occupancy() == Occupancy(0, 0, 60)


@pytest.mark.parametrize("is_granted", [True, False], ids=["granted", "waiting"])
async def test_what_a_cancelled_call_would_have_had_goes_to_the_next(is_granted: bool) -> None:
    """The place comes free just before the cancellation or after it: the cancelled task has not run in between."""
    admission = Admission(1, 8)
    (held,) = await places(admission, A, 1)
    first, second = await begun(admission.slot(A)), await begun(admission.slot(B))
    steps = [held.give_back, first.cancel]
    for step in steps if is_granted else reversed(steps):
        step()
    with pytest.raises(asyncio.CancelledError):
        await first
    (await second).give_back()
    assert admission.occupancy() == Occupancy(0, 0)


async def test_call_of_more_bytes_than_the_device_has_never_waits() -> None:
    admission = Admission(1, 1, 150)
    with pytest.raises(LimitExceededError, match=r"takes 151 bytes .* holds 150 at most; .*--pool-bytes") as caught:
        await admission.memory(A, 151)
    assert caught.value.metadata == {"size_bytes": "151", "limit": "150"}
    assert admission.occupancy() == Occupancy(0, 0)


async def test_inputs_to_check_are_bounded_by_memory_of_the_process() -> None:
    """Who waits for it keeps nobody else from the device, and is told at once if it never gets it."""
    admission = Admission(8, 8, 100, checked_limit=50)
    _, checked = await admission.tensors(A, 60, 30, waits_for_client=True)
    assert admission.occupancy() == Occupancy(0, 0, 60)
    second = await begun(admission.tensors(B, 10, 30, waits_for_client=True))
    (await admission.memory(C, 40)).give_back()
    assert admission.occupancy() == Occupancy(0, 1, 60)
    assert checked is not None
    checked.give_back()
    await settle()
    assert second.done()
    assert admission.occupancy() == Occupancy(0, 0, 70)
    told = r"has inputs of 51 bytes to check and the process may keep 50 at most; .*--memory-limit-bytes"
    with pytest.raises(LimitExceededError, match=told) as caught:
        await admission.tensors(A, 1, 51, waits_for_client=True)
    assert caught.value.metadata == {"size_bytes": "51", "limit": "50"}


@pytest.mark.parametrize("is_cancelled", [True, False], ids=["cancelled", "refused"])
async def test_inputs_to_check_that_get_no_device_memory_leave_nothing(is_cancelled: bool) -> None:
    admission = Admission(8, 8, 100, checked_limit=50)
    await admission.memory(A, 60)
    waiting = await begun(admission.tensors(B, 60 if is_cancelled else 101, 50, waits_for_client=True))
    if is_cancelled:
        waiting.cancel()
    with pytest.raises(asyncio.CancelledError if is_cancelled else LimitExceededError):
        await waiting
    await admission.tensors(B, 10, 50, waits_for_client=True)


async def test_inputs_to_check_are_no_more_than_their_identity_may_have() -> None:
    """A device may need less memory for them than the process."""
    admission = Admission(8, 8, 100, checked_limit=50, bounds=lambda caller: Bounds(size_bytes=20))
    with pytest.raises(LimitExceededError, match="takes 21 bytes and this identity may have 20 at most"):
        await admission.tensors(A, 10, 21, waits_for_client=True)
    await admission.tensors(A, 10, 20, waits_for_client=True)
    assert admission.occupancy() == Occupancy(0, 0, 10)


async def test_inputs_to_check_count_as_tensors_where_the_device_is_the_process() -> None:
    admission = Admission(8, 8, 100)
    assert admission.split(60, 30) == (90, 0)
    assert (await admission.tensors(A, 60, 30, waits_for_client=True))[1] is None
    assert admission.occupancy() == Occupancy(0, 0, 90)
    with pytest.raises(LimitExceededError):
        await admission.tensors(A, 60, 41, waits_for_client=True)


async def test_addresses_take_turns() -> None:
    admission = Admission(1, 100)
    (held,) = await places(admission, A, 1)
    order: list[str] = []

    async def call(address: str) -> None:
        claim = await admission.slot(address)
        order.append(address)
        await asyncio.sleep(0)
        claim.give_back()

    tasks = [await begun(call(address)) for address in (A, A, A, A, B, B, C)]
    held.give_back()
    await asyncio.gather(*tasks)
    assert order == [A, B, C, A, B, A, A]


async def test_one_address_takes_everything_while_nobody_else_asks() -> None:
    admission = Admission(4, 4, 100)
    assert len(await places(admission, A, 4)) == 4
    for _ in range(2):
        await admission.memory(A, 50)
    waiting = [await begun(admission.slot(A)) for _ in range(4)]
    assert admission.occupancy() == Occupancy(4, 4, 100)
    for task in waiting:
        task.cancel()


async def test_last_place_is_kept_for_others_while_they_ask() -> None:
    admission = Admission(3, 8)
    (other,) = await places(admission, B, 1)
    other.give_back()
    held = await places(admission, A, 2)
    third = await begun(admission.slot(A))
    assert not third.done()
    newcomer = await begun(admission.slot(B))
    assert newcomer.done()
    held[0].give_back()
    assert (await third).is_granted


async def test_half_of_the_memory_is_kept_for_others_while_they_ask() -> None:
    admission = Admission(8, 8, 100)
    other = await admission.memory(B, 1)
    other.give_back()
    first = await admission.memory(A, 30)
    second = await begun(admission.memory(A, 30))
    assert not second.done()
    # The newcomer overtakes what waits for its share alone.
    assert (await begun(admission.memory(B, 50))).done()
    first.give_back()
    await settle()
    assert second.done()
    # The first call of an address may take more.
    empty = Admission(8, 8, 100)
    await empty.memory(B, 1)
    assert (await begun(empty.memory(A, 90))).done()


async def test_half_of_the_queue_is_kept_for_others_while_they_ask() -> None:
    admission = Admission(1, 4)
    (held,) = await places(admission, B, 1)
    waiting = [await begun(admission.slot(A)) for _ in range(2)]
    with pytest.raises(ServerBusyError, match=r"this client has .* as it may have, 3; try again") as caught:
        await admission.slot(A)
    assert caught.value.metadata == {"limit": "3"}
    # The queue is not full.
    assert admission.refusals == {"queue": 0, "share": 1, "workspace": 0}
    waiting += [await begun(admission.slot(B)) for _ in range(2)]
    assert admission.occupancy() == Occupancy(1, 4)
    with pytest.raises(ServerBusyError, match=r"the server has .* 5;"):
        await admission.slot(C)
    for task in waiting:
        task.add_done_callback(lambda task: task.result().give_back())
    held.give_back()
    await asyncio.wait(waiting)
    await settle()
    assert admission.occupancy() == Occupancy(0, 0)


async def test_share_is_lifted_when_the_others_have_stopped_asking() -> None:
    clock = Clock()
    admission = Admission(2, 8, clock=clock)
    (other,) = await places(admission, B, 1)
    other.give_back()
    await places(admission, A, 1)
    second = await begun(admission.slot(A))
    admission.sweep()
    await settle()
    assert not second.done()
    clock.now_s += ASKING_S + 1
    admission.sweep()
    await settle()
    assert second.done()


async def test_address_that_waits_counts_as_one_that_asks() -> None:
    clock = Clock()
    admission = Admission(3, 8, 100, clock=clock)
    await admission.memory(C, 100)
    waiting = await begun(admission.memory(B, 10))
    clock.now_s += ASKING_S + 1
    await places(admission, A, 2)
    assert not (await begun(admission.slot(A))).done()
    waiting.cancel()


async def test_nothing_is_kept_of_addresses_that_asked_long_ago() -> None:
    clock = Clock()
    admission = Admission(4, 8, clock=clock)
    for number in range(1000):
        (await admission.slot(f"ipv4:198.51.100.{number}")).give_back()
        clock.now_s += 1
        admission.sweep()
    assert admission.callers.asking_count <= ASKING_S + 1


async def test_replies_share_a_limit_of_their_own() -> None:
    admission = Admission(1, 8, reply_limit=100)
    first = await admission.reply(A, 70)
    waiting = await begun(admission.reply(B, 40))
    assert admission.occupancy().waiting == 1
    first.give_back()
    (await waiting).give_back()
    assert admission.occupancy() == Occupancy(0, 0)


async def test_messages_of_an_address_are_paced_while_others_ask() -> None:
    clock = Clock()
    admission = Admission(1, 8, clock=clock)
    for _ in range(2):
        admission.received(A, int(RECEIVE_BYTES_PER_S * LONGEST_PAUSE_S / 4))
    assert admission.receive_delay_s(A) == 0
    (await admission.slot(B)).give_back()
    assert admission.receive_delay_s(A) == pytest.approx(LONGEST_PAUSE_S / 2)
    assert admission.receive_delay_s(B) == 0
    clock.now_s += LONGEST_PAUSE_S
    assert admission.receive_delay_s(A) <= 0


async def test_loss_of_a_device_ends_every_wait_now_and_later() -> None:
    admission = Admission(1, 8, 100)
    memory = await admission.memory(A, 100)
    (place,) = await places(admission, A, 1)
    waiting = [await begun(admission.memory(B, 1)), await begun(admission.slot(B))]
    admission.lose(lambda: DeviceLostError("lost"))
    for work in (*waiting, admission.memory(A, 1), admission.slot(A)):
        with pytest.raises(DeviceLostError):
            await work
    memory.give_back()
    place.give_back()
    assert admission.occupancy() == Occupancy(0, 0)
