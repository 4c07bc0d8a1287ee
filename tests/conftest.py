"""One server for the whole run, and every client test on both clients."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import aclgrad
from tests.calling import AnyClient, maybe_await
from tests.serving import Server

# What takes long on a busy machine is no defect.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


@pytest.fixture(params=[aclgrad.Client, aclgrad.AsyncClient], ids=["sync", "async"])
async def connect(request: pytest.FixtureRequest) -> AsyncIterator[Callable[..., Any]]:
    """Makes clients, all of one kind, and closes them."""
    clients: list[AnyClient] = []

    def connect(target: str, **options: Any) -> AnyClient:
        clients.append(request.param(target, **options))
        return clients[-1]

    yield connect
    for client in clients:
        await maybe_await(client.close())


@pytest.fixture
def client(connect: Callable[..., AnyClient], server: Server) -> AnyClient:
    """A client of the server, of either kind: `await maybe_await(client.method(...))` calls both."""
    return connect(server.address)
