"""Addresses: what is bound, and what is said where that cannot be."""

import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from aclgrad_server.devices.faults import StartError
from aclgrad_server.edge.connections import SocketPermissions, bind


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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_mode_of_a_socket_decides_who_connects(server: grpc.Server) -> None:
    connect = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        for mode, may_connect in ((0o600, False), (0o666, True)):
            path = f"{folder}/{mode}"
            bind(server, [f"unix:{path}"], permissions=SocketPermissions(mode))
            tried = subprocess.run(["/usr/bin/env", "python3", "-c", connect, path], user=65534, capture_output=True)
            assert (tried.returncode == 0) is may_connect, tried
            assert may_connect or b"PermissionError" in tried.stderr


def test_folder_where_others_may_replace_a_socket_is_warned_of(
    server: grpc.Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for mode, is_warned in ((0o755, False), (0o1777, False), (0o777, True)):
        caplog.clear()
        (folder := tmp_path / f"{mode:o}").mkdir()
        folder.chmod(mode)
        bind(server, [f"unix:{folder}/socket"])
        assert ("others may put a socket of theirs in the place of unix:" in caplog.text) is is_warned


def test_socket_in_a_folder_that_is_not_there_is_named(server: grpc.Server, tmp_path: Path) -> None:
    with pytest.raises(StartError, match="nowhere/socket"):
        bind(server, [f"unix:{tmp_path}/nowhere/socket"])


def other_server() -> grpc.Server:
    return grpc.server(ThreadPoolExecutor(1))


def test_socket_that_another_server_has_taken_is_left_to_it(server: grpc.Server, tmp_path: Path) -> None:
    """Whether it answers yet or not, and until it is gone."""
    address = f"unix:{tmp_path}/socket"
    other = other_server()
    bind(other, [address])
    (tmp_path / "socket").unlink(missing_ok=True)
    refused = f"cannot listen on {address}: another process does.* it holds {address[5:]}.lock; .*--listen"
    with pytest.raises(StartError, match=refused):
        bind(server, [address])
    other.stop(None).wait()
    del other
    bind(server, [address])


async def test_server_of_asyncio_takes_the_socket_too(server: grpc.Server, tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/socket"
    other = grpc.aio.server()
    bind(other, [address])
    await other.start()
    with pytest.raises(StartError, match="another process does"):
        bind(server, [address])
    await other.stop(None)
    del other
    bind(server, [address])


def test_lock_of_a_server_that_was_killed_is_no_obstacle(server: grpc.Server, tmp_path: Path) -> None:
    (tmp_path / "socket.lock").touch()
    bind(server, [f"unix:{tmp_path}/socket"])


def test_lock_that_cannot_be_made_is_named(server: grpc.Server, tmp_path: Path) -> None:
    (tmp_path / "socket.lock").mkdir()
    with pytest.raises(StartError, match=r"cannot listen on unix:.*socket\.lock.*--listen"):
        bind(server, [f"unix:{tmp_path}/socket"])


def test_lock_is_no_way_to_another_file(server: grpc.Server, tmp_path: Path) -> None:
    """In a folder that others may write to, they could have put a link there."""
    (tmp_path / "socket.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StartError, match=r"socket\.lock"):
        bind(server, [f"unix:{tmp_path}/socket"])
    assert not (tmp_path / "elsewhere").exists()
