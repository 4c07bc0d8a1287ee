"""A client beside servers that hang, stop, move and lie: what holds whatever happens, and in whatever order.

The client is the one of asyncio; both clients have the same pool, retries and meaning of answers. What is expected is
what the modelled world did, never what the pool believes.
"""

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import aclgrad
from aclgrad._client.attempts import retry_budget
from aclgrad._client.channel.pool import ASK_AGAIN_S, IDLE_S, PAUSE_S
from aclgrad.wire.service import SERVICE_NAME

from .modelled_network import FRONT, REPLY_S, ModelledClient, Server, State, Visit, World, virtual_loop

STATES = [State.HUNG, State.HUNG, *State]
NAMED, OF_A_HOST = ("names", "function", "dns"), ("host", "nat")
LIMITS_S = (6.0, 20.0)
SETTLED_S = 75.0
"""Servers that were left out are checked again after a minute at the latest, and have seconds to answer."""
SETTLING_CALLS = 40
"""More often than every two seconds, so that a client does not go back to the front door of a host."""
LEFT_ALONE_S = 4.5
"""A check, which begins as soon as a call has heard nothing, gives the last server three seconds."""
MOST_ATTEMPTS = 3 + 4 + 1
"""Three share the time of a call, four are retries, and one goes from the workers to the front door."""


@dataclass(eq=False)
class Call:
    """A call, and how it ended."""

    begin: float
    limit_s: float | None
    is_after_pause: bool
    end: float | None = None
    error: aclgrad.AclgradError | None = None
    could_succeed: bool = False


class Clients(RuleBasedStateMachine):
    """One client among servers to which anything happens."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.loop = virtual_loop()
        self.failures: list[Any] = []
        self.loop.set_exception_handler(lambda _, context: self.failures.append(context))
        self.world = World(self.loop)
        self.calls: dict[str, Call] = {}
        self.names_since = self.host_since = self.active_at = self.loop.time()
        self.born = self.seen = 0
        self.visits: dict[str, list[Visit]] = {}
        self.repeats: list[float] = []
        """When calls reached a server again."""
        self.under_way: list[tuple[float, int]] = []
        """How many calls there were when each began."""
        self.met: dict[tuple[object, ...], float] = {}
        """When a call first left a place for another."""

    @initialize(
        count=st.integers(2, 4),
        burst=st.sampled_from([6, 100]),
        ending=st.lists(st.sampled_from(STATES), min_size=2, max_size=4),
    )
    def begin(self, count: int, burst: int, ending: list[State]) -> None:
        kind, self.burst, self.ending = self.kind, burst, ending
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(retry_budget, "BURST", burst)
        self.named: list[str] = []
        target: Any = FRONT
        if kind in OF_A_HOST:
            self.world.is_behind_nat = kind == "nat"
            self.start_host(count)
        else:
            self.named = [self.new_server() for _ in range(count)]
            self.name_all()
            names = [f"{name}:1000" for name in self.world.names]
            dns = "dns:///all.example:1000"
            target = {"numbers": self.named, "names": names, "function": lambda: self.named, "dns": dns}[kind]
        for each in self.servers:
            each.known_at = self.loop.time()
        self.client = self.loop.run_until_complete(self.new_client(target))
        if kind in OF_A_HOST:
            # The second call has the host asked for its workers.
            for _ in range(2):
                self.start(None)
                self.run(1.0)
            self.host_since = self.loop.time()

    async def new_client(self, target: Any) -> ModelledClient:
        return ModelledClient(self.world, target, timeout_s=None)

    def new_server(self) -> str:
        self.born += 1
        return self.world.add(f"192.0.2.{1 + self.born}:1000", SERVICE_NAME).address

    def start_host(self, count: int) -> None:
        self.world.host_id = f"{self.born:032x}"
        for _ in range(count):
            self.born += 1
            self.world.add(f"192.0.2.1:{1000 + self.born}", self.world.host_id)
        self.host_since = float("inf")

    def name_all(self) -> None:
        numbers = [each.rpartition(":")[0] for each in self.named]
        if self.kind == "dns":
            self.world.names["all.example"] = numbers
        elif self.kind == "names":
            self.world.names.update({f"{number}.example": [each] for number, each in enumerate(numbers)})
        self.names_since = self.loop.time()

    @property
    def servers(self) -> list[Server]:
        """Those that the client may use now."""
        if self.kind in OF_A_HOST:
            return self.world.workers
        return [self.world.servers[each] for each in self.named]

    def server(self, number: int) -> Server:
        return self.servers[number % len(self.servers)]

    def run(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    def start(self, limit_s: float | None) -> Call:
        now = self.loop.time()
        is_idle = all(each.end for each in self.calls.values())
        call = Call(now, limit_s, is_after_pause=is_idle and now - self.active_at > IDLE_S)
        name = f"call-{self.born}-{len(self.visits)}-{len(self.calls)}-{now}"
        self.calls[name] = call
        self.under_way.append((now, sum(each.end is None for each in self.calls.values())))
        self.active_at = now
        self.loop.create_task(self.make_call(name, call))
        return call

    async def make_call(self, name: str, call: Call) -> None:
        try:
            with aclgrad.request_id(name):
                await self.client.list_operators(timeout_s=call.limit_s)
        except aclgrad.AclgradError as error:
            call.error = error
        self.active_at = call.end = self.loop.time()
        # A look at the host that began on a half-open connection lasts five seconds.
        has_time = self.kind != "nat" or call.limit_s != LIMITS_S[0]
        call.could_succeed = has_time and self.has_budget and self.was_well(call.begin)

    @property
    def has_budget(self) -> bool:
        begin = self.loop.time() - 2 * retry_budget.PERIOD_S
        return sum(each > begin for each in self.repeats) + len(self.calls) < self.burst

    def was_well(self, begin: float) -> bool:
        """Whether a server that is known since then was well since then, and nothing kept calls from it."""
        if self.kind in OF_A_HOST and self.host_since > begin:
            return False
        if not self.world.do_names_answer or self.names_since > begin:
            return False
        everybody = self.world.servers.values()
        known = [each for each in self.servers if each.state is State.WELL and each.known_at <= begin - LEFT_ALONE_S]
        has_another_way = len(known) > 1 or not any(each.half_open for each in everybody)
        if has_another_way and all(
            each.state in (State.WELL, State.DOWN) and each.since <= begin for each in everybody
        ):
            # Whoever is gone is missed at once, and the others are found in time.
            return any(each.state is State.WELL for each in self.servers)
        # If it is the only one left, gRPC has to find out itself that a connection is half open.
        return any(not each.half_open for each in known)

    @rule(limit_s=st.sampled_from([*LIMITS_S, None]), count=st.integers(1, 3))
    def call(self, limit_s: float | None, count: int) -> None:
        for _ in range(count):
            self.start(limit_s)
        self.run(0.001)

    @rule(seconds=st.sampled_from([0.05, 0.5, 1.5, 3.0, 7.0, 20.0]))
    def pass_time(self, seconds: float) -> None:
        self.run(seconds)

    @rule(number=st.integers(0, 3), state=st.sampled_from(STATES))
    def turn(self, number: int, state: State) -> None:
        self.world.turn(self.server(number), state)

    @rule(number=st.integers(0, 3))
    def lose_connections(self, number: int) -> None:
        self.world.lose_connections(self.server(number))

    @precondition(lambda self: self.kind in NAMED)
    @rule(number=st.integers(0, 3))
    def move(self, number: int) -> None:
        """A server gives its place to a new one, at another address."""
        self.world.turn(self.server(number), State.DOWN)
        self.named[number % len(self.named)] = self.new_server()
        self.name_all()

    @precondition(lambda self: self.kind in NAMED)
    @rule()
    def turn_name_servers(self) -> None:
        self.world.do_names_answer = not self.world.do_names_answer
        self.names_since = self.loop.time()
        self.world.change()

    @precondition(lambda self: self.kind in OF_A_HOST)
    @rule(count=st.integers(2, 4), state=st.sampled_from([State.DOWN, State.FOREIGN, State.STRANGER]))
    def restart_host(self, count: int, state: State) -> None:
        """It has new ports, and its old ones may be others' now."""
        for each in self.servers:
            self.world.turn(each, state)
        self.start_host(count)

    @rule()
    def settle(self) -> None:
        """Nothing changes for as long as it takes to find that out, and calls go on."""
        looks, repeats = self.world.look_count, len(self.repeats)
        for _ in range(SETTLING_CALLS):
            self.start(LIMITS_S[0])
            self.run(SETTLED_S / SETTLING_CALLS)
            self.servers_that_say_nothing_are_left_alone()
        well = [each for each in self.servers if each.state is State.WELL]
        # A loss during a look leads to another without a pause.
        most = SETTLED_S / (ASK_AGAIN_S if len(well) == len(self.servers) else PAUSE_S / 2)
        assert self.world.look_count - looks <= 2 + len(self.repeats) - repeats + most
        before = len(self.world.visits)
        calls = [self.start(LIMITS_S[0]) for _ in range(3 * len(self.servers))]
        self.run(LIMITS_S[0] + 1)
        # A look at servers has a channel to each.
        is_busy = self.world.is_looking or not all(each.end for each in self.calls.values())
        assert is_busy or len(self.world.channels) <= 2
        if well and self.has_learnt:
            assert [call.error for call in calls if call.error] == []
            met = {each.server for each in self.world.visits[before:]}
            # Behind NAT it goes where the connection to the shared port leads.
            assert met == set(well) or (self.kind == "nat" and met <= set(self.servers))
            self.host_since = self.loop.time()

    @property
    def has_learnt(self) -> bool:
        """Whether a client that asks when it should has heard of the servers that there are."""
        if self.kind in OF_A_HOST and self.host_since > self.loop.time():
            # Of a host that has said nothing yet, it knows one address: a worker that hangs may be all that it meets.
            return all(each.state is State.WELL for each in self.servers)
        is_asked_again = self.kind != "names" or any(each > self.names_since for each in self.world.lookups)
        return self.world.do_names_answer and is_asked_again

    @invariant()
    def calls_end_in_time_and_succeed_if_they_can(self) -> None:
        for name, call in list(self.calls.items()):
            now = call.end or self.loop.time()
            assert call.limit_s is None or now <= call.begin + call.limit_s + 0.05
            if call.end is not None:
                assert not (call.could_succeed and call.error), (call, self.visits.get(name))
                del self.calls[name]

    @invariant()
    def servers_that_say_nothing_are_left_alone(self) -> None:
        """As soon as one call has left them, if another server answers; and no call is made too often."""
        for visit in self.world.visits[self.seen :]:
            before = self.visits.setdefault(visit.request_id, [])
            before.append(visit)
            assert len(before) <= MOST_ATTEMPTS
            if len(before) > 1:
                self.note_repeat(visit, before[-2])
            met_at = self.met.get(visit.place)
            if visit.state is not State.WELL and not visit.is_by_front:
                assert met_at is None or visit.at <= met_at + LEFT_ALONE_S or not self.was_well(met_at), visit
            self.check_workers_proved_themselves(visit)
        self.seen = len(self.world.visits)

    def note_repeat(self, visit: Visit, before: Visit) -> None:
        # A call that meets a stranger in a worker's place has reached no server of the host yet.
        if self.kind not in OF_A_HOST or before.state is not State.STRANGER:
            self.repeats.append(visit.at)
        if before.state in (State.HUNG, State.STRANGER) and before.since == before.server.since:
            self.met.setdefault(before.place, visit.at)

    def check_workers_proved_themselves(self, visit: Visit) -> None:
        """After a pause no call, and so no token, goes to whoever took a worker's port meanwhile."""
        call = self.calls.get(visit.request_id)
        if self.kind in OF_A_HOST and call is not None and call.is_after_pause and visit.since <= call.begin - IDLE_S:
            assert visit.is_by_front or visit.state is not State.STRANGER

    @invariant()
    def retries_stay_within_their_budget(self) -> None:
        begin = self.loop.time() - retry_budget.PERIOD_S
        # The budget counts calls by whole seconds.
        calls = sum(at > begin - 1 for at, _ in self.under_way)
        count = sum(each > begin for each in self.repeats)
        before = [most for at, most in self.under_way if at <= begin][-1:]
        most = max([*before, *(most for at, most in self.under_way if at > begin)], default=0)
        assert count <= max(self.burst, most) + retry_budget.SHARE * calls + 1

    def teardown(self) -> None:
        """Whatever has happened, all servers are used again once they are well, and nothing outlives the client."""
        try:
            if not self.world.do_names_answer:
                self.turn_name_servers()
            for states in (self.ending, [State.WELL] * len(self.servers)):
                for number, state in enumerate(states):
                    self.world.turn(self.server(number), state)
                self.settle()
            self.loop.run_until_complete(self.client.close())
            self.run(REPLY_S)
            assert not asyncio.all_tasks(self.loop)
            assert not self.world.channels
            assert not self.failures
            assert all(each.end for each in self.calls.values())
        finally:
            self.patch.undo()
            self.loop.run_until_complete(self.end_tasks())
            self.loop.close()

    async def end_tasks(self) -> None:
        """After a failure some are left, and would fail once more when they are forgotten."""
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for each in left:
            each.cancel()
        await asyncio.gather(*left, return_exceptions=True)


@pytest.mark.parametrize("count", [4, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["numbers", *NAMED, *OF_A_HOST])
def test_no_order_of_events_breaks_a_promise(kind: str, count: int) -> None:
    """The short form has the same events at every run."""
    is_short = count < 100
    course = settings(max_examples=count, stateful_step_count=15, derandomize=is_short)
    run_state_machine_as_test(partial(Clients, kind), settings=course)
