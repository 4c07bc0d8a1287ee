"""Limits are exact, memory and slots are shared fairly, and nothing is lost when calls are cancelled.

Small calls have room of their own, whatever large ones hold, also those of the same caller.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from aclgrad.errors import DeviceLostError, ServerBusyError
from aclgrad_server.bounds import Bounds
from aclgrad_server.calls.admission import Admission, Occupancy
from aclgrad_server.calls.gate import Claim
from aclgrad_server.limits import (
    ASKING_S,
    LONGEST_PAUSE_S,
    MAX_WAITING_SMALL_CALLS,
    RECEIVE_BYTES_PER_S,
    SMALL_BYTES,
)
from tests.server.fakes import Clock, begun, claim_memory, settle

pytestmark = pytest.mark.claims

A, B, C = "ipv4:192.0.2.1", "ipv4:192.0.2.2", "unix"
CALLERS = {"A": A, "B": B, "C": C}


class Play:
    """Does what the steps of a scenario say, and compares what is in use with the claims that were granted."""

    def __init__(self, slots: int, waiting: int, memory: int, **more: Any) -> None:
        self.clock = Clock()
        self.admission = Admission(slots, waiting, memory, self.clock, **more)
        self.tasks: dict[str, asyncio.Task[Claim]] = {}
        self.kinds: dict[str, str] = {}

    def ask(self, caller: str, kind: str, *rest: str) -> Awaitable[Claim]:
        small, slow = "small" in rest, "slow" in rest
        if kind == "runs":
            return self.admission.room(small).slot(CALLERS[caller])
        if kind == "replies":
            return self.admission.replies.take(CALLERS[caller], int(rest[0]), may_last=True)
        return claim_memory(self.admission, CALLERS[caller], int(rest[0]), slow, small)

    def do(self, action: str) -> None:
        name, _, what = action.partition(" ")
        words = what.split()
        if name == "after":
            self.clock.now_s += float(words[0])
            self.admission.sweep()
        elif words[0] == "is":
            self.tasks[name].cancel()
        elif words[0] == "returns":
            self.tasks[name].result().give_back(*map(int, words[1:]))
        else:
            self.kinds[name] = words[1]
            self.tasks[name] = asyncio.ensure_future(self.ask(*words))

    async def step(self, action: str, waiting: str) -> None:
        for each in action.split(", "):
            self.do(each)
        await settle()
        assert {name for name, task in self.tasks.items() if not task.done()} == set(waiting.split()), action
        granted = {name: task.result() for name, task in self.tasks.items() if task.done() and not task.cancelled()}
        assert all(claim.units >= 0 for claim in granted.values()), action
        used = {kind: sum(granted[name].units for name in granted if self.kinds[name] == kind) for kind in KINDS}
        now = self.admission.occupancy()
        assert now == Occupancy(used["runs"], len(waiting.split()), used["takes"]), action
        assert self.admission.replies.used == used["replies"], action


KINDS = ("takes", "runs", "replies")
A_MOMENT_LATER, MUCH_LATER = "after 0", f"after {ASKING_S + 1}"
SIZES = {"slots": 8, "waiting": 8, "memory": 100}
SMALL = f"takes {SMALL_BYTES} small"
SCENARIOS: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "those that wait longest come first": (
        {**SIZES, "slots": 2},
        [
            ("a A runs, b A runs, c A runs, d A runs, e A runs", "c d e"),
            ("a returns, b returns", "e"),
            ("c returns, d returns", ""),
            ("e returns", ""),
        ],
    ),
    "bytes come back in parts and never twice": (
        SIZES,
        [
            ("a A takes 70, b A takes 30, c A takes 31", "c"),
            ("b returns, b returns, a returns -5", "c"),
            ("a returns 40", ""),
            ("a returns 1000", ""),
            ("c returns", ""),
        ],
    ),
    "nothing overtakes a claim that waits for room": (
        SIZES,
        [("a A takes 50, b B takes 60, c A takes 10, d C takes 10", "b c d"), ("a returns", "")],
    ),
    "a large claim that is cancelled holds nobody up": (
        SIZES,
        [("a A takes 50, b B takes 60, c C takes 10", "b c"), ("b is cancelled", "")],
    ),
    "a slot that comes free before its claim is cancelled goes to the next": (
        {**SIZES, "slots": 1},
        [("a A runs, b A runs, c B runs", "b c"), ("a returns, b is cancelled", ""), ("c returns", "")],
    ),
    "a slot that comes free after its claim was cancelled goes to the next": (
        {**SIZES, "slots": 1},
        [("a A runs, b A runs, c B runs", "b c"), ("b is cancelled, a returns", ""), ("c returns", "")],
    ),
    "one address takes everything while nobody else asks": (
        {"slots": 2, "waiting": 2, "memory": 100},
        [("a A runs, b A runs, c A takes 50, d A takes 50", ""), ("e A runs, f A runs", "e f")],
    ),
    "the last slot is kept for others while they ask": (
        {**SIZES, "slots": 3},
        [
            ("o B runs", ""),
            ("o returns, a A runs, b A runs, c A runs", "c"),
            ("n B runs", "c"),
            ("a returns", ""),
        ],
    ),
    "half of the memory is kept for others while they ask": (
        SIZES,
        [
            ("o B takes 1", ""),
            ("o returns, a A takes 30, b A takes 30", "b"),
            ("n B takes 50", "b"),  # it overtakes what waits for its share alone
            ("a returns", ""),
        ],
    ),
    "the first call of an address may take more than half": (SIZES, [("a B takes 1, b A takes 90", "")]),
    "a share is lifted when the others have stopped asking": (
        {**SIZES, "slots": 2},
        [
            ("o B runs", ""),
            ("o returns, a A runs, b A runs", "b"),
            (A_MOMENT_LATER, "b"),
            (MUCH_LATER, ""),
        ],
    ),
    "an address that waits counts as one that asks": (
        {**SIZES, "slots": 3},
        [("a C takes 100, b B takes 10", "b"), (MUCH_LATER, "b"), ("c A runs, d A runs, e A runs", "b e")],
    ),
    "replies share a limit of their own": (
        {**SIZES, "reply_limit": 100},
        [("a A replies 70, b B replies 40", "b"), ("a returns", ""), ("b returns", "")],
    ),
    "what waits for a client leaves half though nobody else asks": (
        {**SIZES, "reply_limit": 100},
        [
            ("a A takes 50 slow, b A replies 40, c A takes 1 slow, d A replies 11", "c d"),
            ("e B takes 50, f B replies 60", "c d"),
            ("a returns, b returns, e returns, f returns", ""),
        ],
    ),
    "large calls that hold and wait for everything delay no small call": (
        {**SIZES, "slots": 2},
        [
            ("a A takes 100, b A runs, c A runs, d A takes 100, e A runs", "d e"),
            (f"f A {SMALL}, g A runs small, h B {SMALL}, i B runs small", "d e"),
        ],
    ),
    "small calls take nothing of large ones": (
        {**SIZES, "slots": 2},
        [(f"a A {SMALL}, b A {SMALL}, c A runs small, d A runs small", ""), ("e B takes 100, f B runs", "")],
    ),
    "the bytes of an identity are bounded also while nobody else asks": (
        {**SIZES, "bounds": lambda caller: Bounds(size_bytes=60 if caller == A else 1000)},
        [("a A takes 40, b A takes 30", "b"), ("c B takes 50", "b"), ("a returns", ""), ("b returns, c returns", "")],
    ),
    "what bounds an identity counts in all rooms": (
        {**SIZES, "memory": 1000, "bounds": lambda caller: Bounds(size_bytes=1000)},
        [
            ("a A takes 600, b A takes 600 small, c A takes 600", "b c"),
            ("a returns, b is cancelled", ""),
            ("d A takes 600 small", "d"),
            ("c returns, after 0", ""),
        ],
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
async def test_who_waits(name: str) -> None:
    sizes, steps = SCENARIOS[name]
    play = Play(**sizes)
    for action, waiting in steps:
        await play.step(action, waiting)
    for task in play.tasks.values():
        task.cancel()


async def test_a_full_queue_refuses_and_so_does_a_share_of_it() -> None:
    play = Play(1, 4, 100, bounds=lambda caller: Bounds(waiting=1 if caller == C else 100))
    await play.step("a B runs, b A runs, c A runs, d C runs", "b c d")
    for caller, told, limit in ((A, "this client has .* 3; try again", "3"), (C, "this client has .* 2;", "2")):
        with pytest.raises(ServerBusyError, match=told) as caught:
            await play.admission.large.slot(caller)
        assert caught.value.retry_after_s
        assert caught.value.metadata == {"limit": limit}
    await play.step("e B runs", "b c d e")
    with pytest.raises(ServerBusyError, match=r"the server has .* as it may have, 5; try again"):
        await play.admission.large.slot(B)
    assert play.admission.refusals == {"queue": 1, "share": 2, "workspace": 0}
    for task in play.tasks.values():
        task.add_done_callback(lambda task: task.result().give_back())
    play.tasks["a"].result().give_back()
    await settle()
    assert play.admission.occupancy() == Occupancy(0, 0)


@pytest.mark.parametrize(
    ("per_round", "asked", "order"), [(1, "AAAABBC", "ABCABAA"), (2, "BBBBAAAAAA", "BAABAABAAB")], ids=["equal", "two"]
)
async def test_those_that_wait_come_in_rounds_by_their_shares(per_round: int, asked: str, order: str) -> None:
    admission = Admission(1, 100, bounds=lambda caller: Bounds(per_round=per_round if caller == A else 1))
    held, found = await admission.large.slot("another"), []

    async def call(caller: str) -> None:
        claim = await admission.large.slot(CALLERS[caller])
        found.append(caller)
        await asyncio.sleep(0)
        claim.give_back()

    tasks = [await begun(call(caller)) for caller in asked]
    held.give_back()
    await asyncio.gather(*tasks)
    assert "".join(found) == order


async def test_nothing_is_kept_of_addresses_that_asked_long_ago() -> None:
    clock = Clock()
    admission = Admission(4, 8, clock=clock)
    for number in range(100):
        (await admission.large.slot(f"ipv4:198.51.100.{number}")).give_back()
        clock.now_s += 1
        admission.sweep()
    assert admission.callers.asking_count <= ASKING_S + 1


async def test_messages_of_an_address_are_paced_while_others_ask() -> None:
    clock = Clock()
    admission = Admission(1, 8, clock=clock)
    for _ in range(2):
        admission.received(A, int(RECEIVE_BYTES_PER_S * LONGEST_PAUSE_S / 4))
    assert admission.receive_delay_s(A) == 0
    (await admission.large.slot(B)).give_back()
    assert admission.receive_delay_s(A) == pytest.approx(LONGEST_PAUSE_S / 2)
    assert admission.receive_delay_s(B) == 0
    clock.now_s += LONGEST_PAUSE_S
    assert admission.receive_delay_s(A) <= 0


async def test_loss_of_a_device_ends_every_wait_now_and_later() -> None:
    play = Play(1, 8, 100)
    await play.step("a A takes 100, b A runs, c B takes 1, d B runs", "c d")
    play.admission.lose(lambda: DeviceLostError("lost"))
    for work in (play.tasks["c"], play.tasks["d"], claim_memory(play.admission, A, 1), play.admission.large.slot(A)):
        with pytest.raises(DeviceLostError):
            await work
    for name in "ab":
        play.tasks[name].result().give_back()
    assert play.admission.occupancy() == Occupancy(0, 0)


async def run_small(admission: Admission, clock: Clock, count: int, seconds: float) -> None:
    for _ in range(count):
        slot = await admission.small.slot(A)
        clock.now_s += seconds
        admission.small.ran(slot)


async def test_so_many_small_calls_wait_as_are_answered_within_a_second_and_more_are_refused() -> None:
    clock = Clock()
    admission = Admission(2, 4, 1000, clock)
    assert admission.small.waiting_limit == MAX_WAITING_SMALL_CALLS, "before anything is known of their pace"
    await run_small(admission, clock, 100, 0.1)
    assert admission.small.waiting_limit == pytest.approx(20, abs=1)
    await run_small(admission, clock, 200, 1)
    held = [await admission.small.slot(A) for _ in range(2)]
    waiting = [await begun(admission.small.slot(A)) for _ in range(2)]
    with pytest.raises(ServerBusyError) as caught:
        await admission.small.slot(A)
    assert caught.value.retry_after_s
    assert admission.refusals["queue"] == 1
    for claim in held:
        claim.give_back()
    for task in waiting:
        (await task).give_back()
    await run_small(admission, clock, 200, 0.0001)
    assert (admission.small.waiting_limit, admission.large.waiting_limit) == (MAX_WAITING_SMALL_CALLS, 4)
    fresh = Admission(4, 4, 1000, clock)
    await run_small(fresh, clock, 1, 120)
    assert fresh.small.waiting_limit > 50, "one long call hardly changes it"


async def test_slots_that_nobody_waits_for_widen_a_claim() -> None:
    admission = Admission(4, 8, 100)
    slot = admission.large.slot
    first, second = await slot(A, most=3), await slot(B, most=3)
    assert (first.units, second.units, admission.large.slots.used) == (3, 1, 4)
    waiting = [await begun(slot(A)), await begun(slot(B, most=4))]
    first.give_back()
    await settle()
    assert [task.result().units for task in waiting] == [1, 2], "not while others wait"


async def test_small_replies_that_nobody_fetches_leave_room_for_other_callers() -> None:
    admission = Admission(2, 4, 1000)
    for _ in range(admission.small.memory.limit // SMALL_BYTES // 2):
        await claim_memory(admission, A, SMALL_BYTES, is_small=True)
    waiting = await begun(claim_memory(admission, A, SMALL_BYTES, is_small=True))
    assert not waiting.done(), "nobody else asks, and half of the memory is for those who will"
    assert (await claim_memory(admission, B, SMALL_BYTES, is_small=True)).is_granted
    waiting.cancel()
