"""Which server a call goes to next, on a clock and a network of the test's own."""

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from aclgrad import errors
from aclgrad._client.channel.pool import IDLE_S, ChannelPool
from aclgrad._client.channel.probes import Answer, Channel, Hear
from aclgrad._client.channel.proxies import ProxyRules
from aclgrad._client.channel.resolver import Addresses, Found, numbers_of
from aclgrad._client.channel.servers import Balancing, Endpoints, servers_of
from aclgrad.v1 import operator_service_pb2 as pb

LATE = errors.DeadlinePassedError("no reply")
DOOR = "127.0.0.1:1000"
WORKERS = ("127.0.0.1:1001", "127.0.0.1:1002", "127.0.0.1:1003")
HOST = pb.Host(id="0f" * 16, listeners=[pb.Listener(port=1000, worker_ports=(1001, 1002, 1003))])


class FakeNetwork:
    """Answers at once, as the test has it; `host` is None while the front door says nothing."""

    def __init__(self) -> None:
        self.now = 0.0
        self.host: pb.Host | None = HOST
        self.answers = dict.fromkeys(WORKERS, Answer.HERE)

    def clock(self) -> float:
        return self.now

    def open_to(self, endpoints: Endpoints) -> Channel:
        return Channel(endpoints, None)

    async def ask(self, front: Channel) -> pb.Host | None:
        return self.host

    async def look_up(self, addresses: Addresses, rules: ProxyRules) -> Found:
        assert not callable(addresses)
        found = numbers_of(addresses, rules)
        assert found is not None
        return found

    async def check(self, servers: Sequence[Endpoints], hear: Hear) -> list[Answer]:
        answers = [self.answers[each.target.removeprefix("ipv4:")] for each in servers]
        for each, answer in zip(servers, answers, strict=True):
            if answer is Answer.HERE:
                hear(each)
        await self.silence()
        return answers

    async def silence(self) -> None:
        """What happens while silent servers are waited for."""

    async def is_connected(self, channel: Channel) -> bool:
        return True

    def close(self, channel: Channel) -> None:
        """Nobody asks whether it is closed."""


@pytest.fixture
def network() -> FakeNetwork:
    return FakeNetwork()


def opened(network: FakeNetwork, target: Any) -> ChannelPool:
    servers = servers_of(target)
    pool = ChannelPool(servers, network.open_to, network.clock)
    assert servers.endpoints is not None
    pool.start(network.open_to(servers.endpoints))
    return pool


async def discover(pool: ChannelPool, network: FakeNetwork) -> None:
    assert pool.begin_discovery()
    await pool.discover(network)


async def on_workers(network: FakeNetwork) -> ChannelPool:
    pool = opened(network, DOOR)
    channel = taken(pool)
    pool.succeeded(channel)
    pool.give_back(channel)
    network.now += 1.0
    await discover(pool, network)
    assert taken(pool).endpoints.addresses == WORKERS
    return pool


def taken(pool: ChannelPool) -> Channel:
    channel = pool.take()
    assert channel is not None
    return channel


def tries(pool: ChannelPool, tried: set[str], times: int) -> list[str]:
    """Returns the servers that a call which moved is sent to."""
    channels = [pool.take(tried) for _ in range(times)]
    return [each.endpoints.addresses[0] for each in channels if each is not None and each.is_retired]


async def test_a_call_that_moves_meets_no_server_twice(network: FakeNetwork) -> None:
    pool = await on_workers(network)
    tried: set[str] = set()
    assert sorted(tries(pool, tried, 4)) == sorted(WORKERS)
    assert tried == set(WORKERS)
    # Another call begins anew.
    assert len(tries(pool, set(), 1)) == 1


async def test_a_call_moves_to_who_has_answered_while_the_silent_are_waited_for(network: FakeNetwork) -> None:
    pool = opened(network, list(WORKERS))
    network.answers |= {WORKERS[0]: Answer.SILENT, WORKERS[2]: Answer.SILENT}
    pool.failed(taken(pool), LATE, moves=True)
    moved: list[str] = []

    async def silence() -> None:
        moved.extend(tries(pool, set(), 1))

    network.silence = silence  # type: ignore[method-assign]
    await discover(pool, network)
    assert moved == [WORKERS[1]]


async def test_who_is_there_goes_before_who_takes_no_connection(network: FakeNetwork) -> None:
    """It may be about to start; a list keeps it. A new check has begun, and nobody has answered yet."""
    pool = opened(network, list(WORKERS))
    network.answers[WORKERS[0]] = Answer.UNREACHABLE
    pool.failed(taken(pool), LATE, moves=True)
    await discover(pool, network)
    for _ in range(10):
        assert tries(pool, set(), 3)[-1] == WORKERS[0]
    network.answers = dict.fromkeys(WORKERS, Answer.SILENT)
    moved: list[str] = []

    async def silence() -> None:
        moved.extend(tries(pool, set(), 3))

    network.silence = silence  # type: ignore[method-assign]
    pool.failed(taken(pool), LATE, moves=True)
    await discover(pool, network)
    assert moved[-1] == WORKERS[0]


async def test_a_call_to_the_only_server_that_is_left_does_not_move(network: FakeNetwork) -> None:
    pool = await on_workers(network)
    network.answers |= {WORKERS[0]: Answer.SILENT, WORKERS[1]: Answer.SILENT}
    pool.failed(taken(pool), LATE, moves=True)
    await discover(pool, network)
    left = taken(pool)
    assert left.endpoints.addresses == (WORKERS[2],)
    assert not pool.has_others(left, None)


async def test_a_call_moves_before_any_check_has_ended(network: FakeNetwork) -> None:
    """The first check takes longer than a short call, if a server says nothing."""
    pool = opened(network, list(WORKERS))
    pool.failed(taken(pool), LATE, moves=True)
    assert sorted(tries(pool, set(), 4)) == sorted(WORKERS)


async def test_workers_that_are_all_silent_stay_known_and_the_front_door_gets_a_new_connection(
    network: FakeNetwork,
) -> None:
    """They may only be slow. The front door, whose worker hangs, is asked no more: it would say nothing either."""
    pool = await on_workers(network)
    network.now += 2 * IDLE_S
    front = taken(pool)
    assert front.endpoints.balancing is Balancing.ONE
    network.answers = dict.fromkeys(WORKERS, Answer.SILENT)
    network.host = None
    assert pool.has_others(front, None)
    pool.failed(front, LATE, moves=True)
    await discover(pool, network)
    assert sorted(tries(pool, set(), 4)) == sorted(WORKERS)
    renewed = taken(pool)
    assert renewed is not front
    assert ("grpc.use_local_subchannel_pool", 1) in renewed.endpoints.options
    # As soon as one of them says who it is, calls leave the front door.
    network.answers[WORKERS[1]] = Answer.HERE
    network.now += 1.0
    await discover(pool, network)
    assert taken(pool).endpoints.addresses == (WORKERS[1],)


async def test_a_front_door_with_workers_out_of_reach_is_tried_by_a_new_connection(
    network: FakeNetwork, caplog: pytest.LogCaptureFixture
) -> None:
    """Behind NAT, the port that all workers share is the only way to them; that is said once."""
    caplog.set_level(logging.INFO, "aclgrad")
    network.answers = dict.fromkeys(WORKERS, Answer.UNREACHABLE)
    pool = opened(network, DOOR)
    front = taken(pool)
    assert not pool.has_others(front, None)
    pool.succeeded(front)
    await discover(pool, network)
    assert taken(pool) is front
    assert pool.has_others(front, None)
    pool.failed(front, LATE, moves=True)
    await discover(pool, network)
    assert taken(pool) is not front
    assert sum("calls stay with" in each for each in caplog.messages) == 1
