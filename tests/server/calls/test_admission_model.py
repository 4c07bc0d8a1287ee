"""Admission beside a model that knows only the rules that every order of events has to keep."""

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aclgrad.errors import ServerBusyError
from aclgrad_server.calls.admission import Admission, Occupancy
from aclgrad_server.calls.gate import Claim
from tests.server.fakes import claim_memory, settle

SLOTS, WAITING, MEMORY = 3, 6, 20
ADDRESSES = ("ipv4:192.0.2.1", "ipv4:192.0.2.2", "unix")


@dataclass(eq=False)
class ModelCall:
    """One call: it takes memory, then a slot, as every call does, and notes what it holds."""

    address: str
    size_bytes: int
    claims: list[Claim] = field(default_factory=list)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    has_run = False
    was_refused = False
    task: "asyncio.Task[None] | None" = None

    async def run(self, admission: Admission) -> None:
        try:
            self.claims.append(await claim_memory(admission, self.address, self.size_bytes))
            self.claims.append(await admission.large.slot(self.address))
            self.has_run = True
            await self.may_end.wait()
        except ServerBusyError:
            self.was_refused = True
        finally:
            while self.claims:
                self.claims.pop().give_back()


EVENTS = st.one_of(
    st.tuples(st.just("begin"), st.sampled_from(ADDRESSES), st.integers(0, MEMORY)),
    st.tuples(st.sampled_from(["cancel", "end"]), st.integers(0, 30)),
    st.tuples(st.just("run"), st.integers(1, 4)),
)


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_limits_hold_nothing_is_lost_and_everybody_is_served(count: int) -> None:
    @settings(max_examples=count, deadline=None)
    @given(st.lists(EVENTS, max_size=60))
    def play_all(events: list[tuple[str, int, int]]) -> None:
        asyncio.run(play(events))

    play_all()


async def play(events: list[tuple[str, int, int]]) -> None:
    admission = Admission(SLOTS, WAITING, MEMORY)
    calls: list[ModelCall] = []
    cancelled: set[ModelCall] = set()
    for kind, *arguments in events:
        if kind == "begin":
            call = ModelCall(*arguments)
            call.task = asyncio.ensure_future(call.run(admission))
            calls.append(call)
        elif kind == "run":
            for _ in range(arguments[0]):
                await asyncio.sleep(0)
        elif calls:
            call = calls[arguments[0] % len(calls)]
            if kind == "end":
                call.may_end.set()
            elif not call.task.done():
                call.task.cancel()
                cancelled.add(call)
        check_limits(admission)
    await settle()
    check_held(admission, calls)
    for call in calls:
        call.may_end.set()
    await settle()
    assert all(call.task.done() for call in calls)
    assert all(call.has_run or call.was_refused or call in cancelled for call in calls)
    assert not any(call.task.exception() for call in calls if not call.task.cancelled())
    assert admission.occupancy() == Occupancy(0, 0, 0)


def check_limits(admission: Admission) -> None:
    now = admission.occupancy()
    assert 0 <= now.running <= SLOTS
    assert 0 <= now.running_bytes <= MEMORY
    assert 0 <= now.waiting <= WAITING


def check_held(admission: Admission, calls: list[ModelCall]) -> None:
    """What is held is what the calls have, and nobody waits for a slot that all might have."""
    now = admission.occupancy()
    assert now.running == sum(len(call.claims) == 2 for call in calls)
    assert now.running_bytes == sum(call.claims[0].units for call in calls if call.claims)
    waiting = [call for call in calls if not call.task.done() and len(call.claims) < 2]
    assert now.waiting == len(waiting)
    if not now.running:
        assert not [call for call in waiting if call.claims]
