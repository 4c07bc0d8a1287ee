"""Clients whose connections to one of several servers are half open: nothing says so, and nothing comes back."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest

import aclgrad
import aclgrad.testing
from tools.chaos.relay import Relay

CALLERS = 8
ROUNDS = 3


@pytest.fixture
def relays() -> Iterator[list[Relay]]:
    """Relays to two servers."""
    with ExitStack() as stack:
        servers = [stack.enter_context(aclgrad.testing.serve()) for _ in range(2)]
        ports = [int(server.target.rpartition(":")[2]) for server in servers]
        yield [stack.enter_context(Relay(port)) for port in ports]


def test_calls_at_once_do_not_stay_with_half_open_connections(relays: list[Relay]) -> None:
    """Their retries go by new connections: the server is well, and a look at it says so."""
    failures: list[aclgrad.AclgradError] = []
    with aclgrad.Client([relay.address for relay in relays], timeout_s=3.0) as client:

        def call() -> None:
            try:
                client.adaptive_avg_pool2d_backward(np.ones((1, 1, 1), np.float32), (1, 2, 2))
            except aclgrad.AclgradError as error:
                failures.append(error)

        for _ in range(2 * CALLERS):
            call()
        for _ in range(ROUNDS):
            relays[0].forget()
            callers = [threading.Thread(target=call) for _ in range(CALLERS)]
            for each in callers:
                each.start()
            for each in callers:
                each.join()
    assert failures == []
