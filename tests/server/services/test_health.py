"""Health and reflection: their clients may be anybody, so what they leave open is bounded."""

from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from aclgrad_server.place import Place
from aclgrad_server.server_view import ServerView
from aclgrad_server.services import health
from aclgrad_server.settings import Settings
from tests.server.fakes import wait_until

_STATUS = health_pb2.HealthCheckResponse
ID = "0123456789abcdef"
NAMES = reflection_pb2.ServerReflectionRequest(list_services="")


@pytest.fixture
async def view() -> ServerView:
    return ServerView(Settings(), Place(0, 1, host_id=ID))


@pytest.fixture
async def channel(monkeypatch: pytest.MonkeyPatch, view: ServerView) -> AsyncIterator[grpc.aio.Channel]:
    """Leads to a server that takes two open calls of each."""
    monkeypatch.setattr(health, "MAX_SIDE_CALLS", 2)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((health.Health(view).handler(),))
    health.add_reflection(server, view)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel
    await server.stop(None)


async def test_one_watch_more_ends_the_oldest(channel: grpc.aio.Channel) -> None:
    stub = health_pb2_grpc.HealthStub(channel)
    watches: list[Any] = []
    for _ in range(3):
        watches.append(stub.Watch(health_pb2.HealthCheckRequest()))
        assert (await watches[-1].read()).status == _STATUS.NOT_SERVING
    assert await watches[0].code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "more than 2 calls" in await watches[0].details()
    assert not watches[1].done()
    # Nobody is kept from asking, and who has asked is no longer counted.
    for _ in range(3):
        assert (await stub.Check(health_pb2.HealthCheckRequest(service="liveness"))).status == 1
    assert await watches[1].code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert not watches[2].done()


async def test_one_reflection_more_ends_the_oldest(channel: grpc.aio.Channel) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    streams: list[Any] = []
    for _ in range(3):
        streams.append(stub.ServerReflectionInfo())
        await streams[-1].write(NAMES)
        assert (await streams[-1].read()).list_services_response.service
    assert await streams[0].code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    for each in streams[1:]:
        await each.write(NAMES)
        assert (await each.read()).list_services_response.service


async def test_id_of_the_host_is_a_name_as_the_service_is(channel: grpc.aio.Channel, view: ServerView) -> None:
    stub = health_pb2_grpc.HealthStub(channel)
    watch = stub.Watch(health_pb2.HealthCheckRequest(service=ID))
    for reason in ("starting", None, "draining"):
        view.readiness.change(reason)
        expected = _STATUS.NOT_SERVING if reason else _STATUS.SERVING
        assert (await watch.read()).status == expected
        assert (await stub.Check(health_pb2.HealthCheckRequest(service=ID))).status == expected


@pytest.mark.parametrize("name", ["f" * 16, ID.upper(), ID[:-1]])
async def test_id_of_another_host_is_nobodys(channel: grpc.aio.Channel, view: ServerView, name: str) -> None:
    view.readiness.change(None)
    stub = health_pb2_grpc.HealthStub(channel)
    assert (await stub.Watch(health_pb2.HealthCheckRequest(service=name)).read()).status == _STATUS.SERVICE_UNKNOWN
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.Check(health_pb2.HealthCheckRequest(service=name))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    # Who guesses is not told.
    assert ID not in str(caught.value.details())


async def test_watches_count_while_they_are_open(channel: grpc.aio.Channel, view: ServerView) -> None:
    assert view.readiness.watch_count == 0
    stub = health_pb2_grpc.HealthStub(channel)
    watches = [stub.Watch(health_pb2.HealthCheckRequest(service=name)) for name in (ID, "")]
    for each in watches:
        await each.read()
    assert view.readiness.watch_count == 2
    watches[0].cancel()
    await wait_until(lambda: view.readiness.watch_count == 1)
    watches[1].cancel()
    await wait_until(lambda: view.readiness.watch_count == 0)
