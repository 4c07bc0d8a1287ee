"""Courses of events in the modelled world of test_channel_pool_model.py, and what the client has to do in each."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from aclgrad._client.channel import pool

from .modelled_network import REPLY_S, Server, State, Visit
from .test_channel_pool_model import LIMITS_S, Clients

WELL, HUNG, DOWN, STRANGER = State.WELL, State.HUNG, State.DOWN, State.STRANGER
SHORT_S, LONG_S = LIMITS_S
HASTY_S = 2.0
"""Half of what is left after the first attempt is less than a check lasts."""


@pytest.fixture(autouse=True)
def first_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool.random, "choice", lambda choices: choices[0])


@contextmanager
def playing(kind: str, count: int = 3) -> Iterator[Clients]:
    """A client of servers of a kind; the promises of the model are kept all the way, and in the end."""
    clients = Clients(kind)
    clients.begin(count=count, burst=100, ending=[WELL, WELL])
    try:
        yield clients
        clients.calls_end_in_time_and_succeed_if_they_can()
        clients.servers_that_say_nothing_are_left_alone()
    finally:
        clients.teardown()


def turn(clients: Clients, *states: State) -> None:
    for number, state in enumerate(states):
        clients.turn(number, state)


def visits(clients: Clients, seconds: float, *, times: int = 1, limit_s: float | None = SHORT_S) -> list[Visit]:
    """Makes calls one after the other, each with so many seconds, and returns where their attempts went."""
    before = len(clients.world.visits)
    for _ in range(times):
        clients.start(limit_s)
        clients.run(seconds)
    return clients.world.visits[before:]


def met(found: list[Visit]) -> set[Server]:
    return {each.server for each in found}


def test_a_server_that_was_well_for_long_is_soon_used_again() -> None:
    """However long it was missing before."""
    with playing("numbers") as clients:
        turn(clients, HUNG)
        clients.settle()
        turn(clients, WELL)
        clients.settle()
        turn(clients, HUNG)
        visits(clients, 1.0, times=9)
        turn(clients, WELL)
        assert clients.server(0) in met(visits(clients, 0.5, times=60))


def test_a_stranger_at_the_port_of_a_worker_gets_one_call() -> None:
    """Though the servers were checked just before, so that the next check has to wait."""
    with playing("host", 4) as clients:
        clients.start(SHORT_S)
        clients.run(0.001)
        turn(clients, DOWN, DOWN, DOWN, DOWN)
        turn(clients, WELL, WELL, WELL, WELL)
        clients.run(0.3)
        turn(clients, STRANGER)
        assert sum(each.state is STRANGER for each in visits(clients, 0.05, times=12)) == 1


def test_a_host_that_could_not_say_who_its_workers_are_is_asked_again() -> None:
    """No call fails meanwhile: those without a time limit are answered late."""
    with playing("host") as clients:
        clients.restart_host(3, DOWN)
        turn(clients, HUNG, HUNG, HUNG)
        visits(clients, 2.0, times=4, limit_s=None)
        turn(clients, WELL, WELL, WELL)
        clients.run(1.0)
        assert met(visits(clients, 0.5, times=30)[-15:]) == set(clients.servers)


def test_a_name_is_left_to_grpc_again_when_all_its_servers_answer() -> None:
    with playing("dns") as clients:
        turn(clients, HUNG)
        clients.settle()
        turn(clients, WELL)
        clients.settle()
        clients.run(10.0)
        clients.move(0)
        assert met(visits(clients, 0.5, times=20)) == set(clients.servers)


def test_a_call_that_moves_meets_no_server_twice() -> None:
    """Not even before any check has ended. Which server was the first, gRPC does not say."""
    with playing("numbers", 4) as clients:
        turn(clients, HUNG, HUNG, HUNG, HUNG)
        moved = [visits(clients, LONG_S + 1.0, limit_s=LONG_S)[1:] for _ in range(8)]
        assert [len(met(each)) for each in moved] == [len(each) for each in moved]
        assert max(map(len, moved)) == 2


def test_a_call_moves_to_who_has_answered_while_the_silent_are_waited_for() -> None:
    with playing("numbers") as clients:
        turn(clients, HUNG, HUNG)
        found = visits(clients, HASTY_S, times=3, limit_s=HASTY_S)
        assert [each.state for each in found] == [HUNG, WELL, WELL, WELL]


def test_who_was_there_goes_before_who_takes_no_connection() -> None:
    """A list keeps a server that may be about to start. The next check has begun, and nobody has answered yet."""
    with playing("numbers", 4) as clients:
        turn(clients, DOWN, WELL, WELL, HUNG)
        visits(clients, HASTY_S, times=3, limit_s=HASTY_S)
        turn(clients, DOWN, HUNG, HUNG)
        first, second = visits(clients, HASTY_S, limit_s=HASTY_S)
        assert second.at - first.at == pytest.approx(2 / 3 * HASTY_S, abs=0.001)


def test_a_call_to_the_only_server_that_is_left_does_not_move() -> None:
    with playing("numbers") as clients:
        turn(clients, HUNG, HUNG)
        clients.settle()
        turn(clients, HUNG, HUNG, HUNG)
        assert len(visits(clients, LONG_S - 1.0, limit_s=LONG_S)) == 1


def test_workers_that_are_all_silent_are_asked_on_and_the_front_door_gets_a_new_connection() -> None:
    """They may only be slow."""
    with playing("host") as clients:
        clients.settle()
        clients.run(5.0)
        turn(clients, HUNG, HUNG, HUNG)
        first, *moved = visits(clients, LONG_S + 1.0, limit_s=LONG_S)
        assert first.is_by_front
        assert met(moved) <= set(clients.servers)
        turn(clients, HUNG, WELL)
        assert met(visits(clients, 2.0, times=4)[-2:]) == {clients.server(1)}


def test_a_stranger_gets_no_call_while_all_workers_are_silent() -> None:
    with playing("host") as clients:
        clients.settle()
        turn(clients, STRANGER, HUNG, HUNG)
        # The first call may meet it, and has all of them checked.
        found = visits(clients, LONG_S + 1.0, times=3, limit_s=LONG_S)
        assert STRANGER not in {each.state for each in found[2:]}


def test_a_front_door_with_workers_out_of_reach_is_tried_by_a_new_connection(caplog: pytest.LogCaptureFixture) -> None:
    """Behind NAT, the port that all workers share is the only way to them; that is said once."""
    caplog.set_level(logging.INFO, "aclgrad")
    with playing("nat") as clients:
        clients.run(10.0)
        (pinned,) = met(visits(clients, 1.0))
        clients.world.turn(pinned, HUNG)
        found = visits(clients, SHORT_S, limit_s=SHORT_S)
        assert [each.state for each in found] == [HUNG, WELL]
        assert found[1].at - found[0].at < SHORT_S / 2 + REPLY_S
        clients.world.turn(pinned, WELL)
        clients.world.is_behind_nat = False
        assert met(visits(clients, 1.0, times=75)) == set(clients.servers)
    assert sum("calls stay with" in each for each in caplog.messages) == 1


def test_a_connection_that_is_half_open_is_left_though_its_server_answers() -> None:
    with playing("numbers") as clients:
        visits(clients, 0.5, times=3)
        clients.lose_connections(0)
        visits(clients, 0.5, times=9)
        assert {each.state for each in visits(clients, 0.5, times=9)} == {WELL}


def test_a_function_is_asked_again_though_no_call_fails() -> None:
    with playing("function") as clients:
        visits(clients, 1.0)
        clients.named.append(clients.new_server())
        assert met(visits(clients, 0.5, times=20)) == set(clients.servers)


@pytest.mark.parametrize("kind", ["names", "function"])
def test_servers_that_moved_are_found_though_every_call_meets_a_stranger(kind: str) -> None:
    """Each call that moves has the servers checked at once, without names."""
    with playing(kind, 2) as clients:
        visits(clients, 1.0, times=4)
        turn(clients, STRANGER)
        clients.move(1)
        assert met(visits(clients, 1.9, times=10)[-2:]) == {clients.server(1)}
