"""Connections are found by the peer that gRPC names, and only they are shut down."""

import asyncio
import os
import resource
import socket
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

import grpc
import pytest

from aclgrad_server.edge.connections import close_connections, shut_down_connections
from tests.server.fakes import wait_until

METHOD = "/test.Service/Peer"
HOSTS = ["127.0.0.1", "[::1]"]


@asynccontextmanager
async def serving(address: str) -> AsyncIterator[str]:
    """Yields the address of a gRPC server that answers each call with its peer."""

    async def peer(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        return context.peer().encode()

    server = grpc.aio.server()
    handlers = {"Peer": grpc.unary_unary_rpc_method_handler(peer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Service", handlers),))
    port = server.add_insecure_port(address)
    await server.start()
    yield address if address.startswith("unix:") else f"{address.rpartition(':')[0]}:{port}"
    await server.stop(None)


def connect(address: str) -> grpc.aio.Channel:
    """Returns a channel with a connection of its own."""
    return grpc.aio.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])


async def is_broken(channel: grpc.aio.Channel) -> Callable[[], bool]:
    """Returns whether the connection, which is ready now, has been lost since."""
    assert channel.get_state() is grpc.ChannelConnectivity.READY
    changed = asyncio.ensure_future(channel.wait_for_state_change(grpc.ChannelConnectivity.READY))
    return changed.done


@pytest.mark.parametrize("host", HOSTS)
async def test_connection_of_a_peer_is_closed_and_no_other(host: str) -> None:
    async with serving(f"{host}:0") as address, connect(address) as slow, connect(address) as other:
        peer = (await slow.unary_unary(METHOD)(b"")).decode()
        await other.unary_unary(METHOD)(b"")
        slow_broken, other_broken = await is_broken(slow), await is_broken(other)
        close_connections({peer})
        await wait_until(slow_broken)
        assert not other_broken()
        assert await other.unary_unary(METHOD)(b"")


async def test_what_peers_are_called_and_whose_connections_are_left_alone(tmp_path: Path) -> None:
    """A dual-stack listener names IPv4 clients by IPv4; a client of a Unix socket has no address."""
    async with serving("[::]:0") as address, connect(f"127.0.0.1:{address.rpartition(':')[2]}") as channel:
        peer = (await channel.unary_unary(METHOD)(b"")).decode()
        assert peer.startswith("ipv4:127.0.0.1:")
        assert shut_down_connections({peer}) == 1
    async with serving(f"unix:{tmp_path}/socket") as address, connect(address) as channel:
        peer = (await channel.unary_unary(METHOD)(b"")).decode()
        broken = await is_broken(channel)
        assert shut_down_connections({peer, "ipv4:192.0.2.1:1", "ipv4:127.0.0.1:x", "ipv6:", "unix:", ""}) == 0
        assert await channel.unary_unary(METHOD)(b"")
        assert not broken()


@pytest.mark.parametrize("is_replaced", [False, True], ids=["other_files", "files_that_replace_sockets"])
def test_looking_leaves_no_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_replaced: bool) -> None:
    """Another thread may close a socket and open a file under its number, after the look and before the duplicate."""
    if is_replaced:
        monkeypatch.setattr(stat, "S_ISSOCK", lambda mode: True)
    with ExitStack() as stack:
        for file in (*os.pipe(), os.eventfd(0), os.open(tmp_path, os.O_RDONLY)):
            stack.callback(os.close, file)
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        client = stack.enter_context(socket.create_connection(listener.getsockname()))
        stack.enter_context(listener.accept()[0])
        host, port = client.getsockname()
        before = os.listdir("/proc/self/fd")
        for _ in range(5):
            assert shut_down_connections({f"ipv4:{host}:{port}"}) == 1
        assert os.listdir("/proc/self/fd") == before


def test_process_without_a_free_file_goes_on() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(map(int, os.listdir("/proc/self/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used, hard))
    files = []
    try:
        with suppress(OSError):
            while True:
                files.append(os.dup(0))
        assert shut_down_connections({"ipv4:192.0.2.1:1"}) == 0
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
