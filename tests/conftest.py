"""One server for the whole run, and every client test on both clients."""

import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, TypeVar

import pytest

import aclgrad
from tests.serving import Server

Result = TypeVar("Result")
AnyClient = aclgrad.Client | aclgrad.AsyncClient


async def maybe_await(value: Awaitable[Result] | Result) -> Result:
    """Returns the result of a call of either client."""
    return await value if inspect.isawaitable(value) else value


def wait_until(condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
    """Returns as soon as the condition holds."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "the condition did not come true"
        time.sleep(0.001)


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
