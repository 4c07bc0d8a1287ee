"""Addresses: what is bound, and what is said where that cannot be."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from aclgrad_server.faults import StartError
from aclgrad_server.listeners import bind


@pytest.fixture
def server() -> Iterator[grpc.Server]:
    with ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool, options=[("grpc.so_reuseport", 0)])
        yield server
        server.stop(None).wait()


def assert_answers(address: str) -> None:
    with grpc.insecure_channel(address) as channel:
        grpc.channel_ready_future(channel).result(60)


def test_port_zero_is_answered_with_the_port_that_was_chosen(server: grpc.Server) -> None:
    first, second = bind(server, ["127.0.0.1:0", "localhost:0"])
    host, _, port = first.rpartition(":")
    assert host == "127.0.0.1"
    assert second.startswith("localhost:")
    assert int(port) > 0
    server.start()
    assert_answers(first)
    assert_answers(second)


def test_unix_socket(server: grpc.Server, tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/socket"
    assert bind(server, [address]) == (address,)
    server.start()
    assert_answers(address)


def test_port_that_is_taken_is_named(server: grpc.Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(StartError, match=f"cannot listen on {address}: .*--listen"):
            bind(server, [address])


def test_address_of_another_machine_is_named(server: grpc.Server) -> None:
    with pytest.raises(StartError, match=r"cannot listen on 192\.0\.2\.1:0"):
        bind(server, ["192.0.2.1:0"])


def test_socket_of_a_live_process_is_left_to_it(server: grpc.Server, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as live:
        live.bind(str(path))
        live.listen()
        with pytest.raises(StartError, match=f"cannot listen on unix:{path}: another process does"):
            bind(server, [f"unix:{path}"])
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(path))


def test_socket_file_that_nobody_answers_is_replaced(server: grpc.Server, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    assert path.is_socket()
    bind(server, [f"unix:{path}"])
    server.start()
    assert_answers(f"unix:{path}")


def test_socket_in_a_folder_that_is_not_there_is_named(server: grpc.Server, tmp_path: Path) -> None:
    with pytest.raises(StartError, match="nowhere/socket"):
        bind(server, [f"unix:{tmp_path}/nowhere/socket"])
