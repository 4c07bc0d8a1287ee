"""Addresses: what is bound, and what is said where that cannot be; and the options of what listens there."""

import os
import socket
import subprocess
import tempfile
from pathlib import Path

import grpc
import pytest

from aclgrad_server.edge.connections import bind, server_options
from aclgrad_server.exits import StartError
from aclgrad_server.limits import MAX_CONNECTIONS, MAX_STREAMS, UNREAD_BYTES
from aclgrad_server.settings import Settings


def assert_answers(address: str) -> None:
    with grpc.insecure_channel(address) as channel:
        grpc.channel_ready_future(channel).result(60)


def test_port_zero_and_unix_sockets(server: grpc.Server, tmp_path: Path) -> None:
    first, second, third = bind(server, ["127.0.0.1:0", "localhost:0", f"unix:{tmp_path}/socket"])
    host, _, port = first.rpartition(":")
    assert host == "127.0.0.1"
    assert second.startswith("localhost:")
    assert int(port) > 0
    assert third == f"unix:{tmp_path}/socket"
    server.start()
    for address in (first, second, third):
        assert_answers(address)


def test_address_that_cannot_be_used_is_named(server: grpc.Server, tmp_path: Path) -> None:
    """One that is taken, one of another machine, and a socket in a folder that is not there."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for address in (f"127.0.0.1:{taken.getsockname()[1]}", "192.0.2.1:0", f"unix:{tmp_path}/nowhere/socket"):
            with pytest.raises(StartError, match=f"cannot listen on {address}: .*(--listen|make it)"):
                bind(server, [address])


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
            bind(server, [f"unix:{path}"], socket_mode=mode)
            tried = subprocess.run(["/usr/bin/env", "python3", "-c", connect, path], user=65534, capture_output=True)
            assert (tried.returncode == 0) is may_connect, tried
            assert may_connect or b"PermissionError" in tried.stderr


@pytest.mark.parametrize("is_started", [False, True], ids=["binds", "answers"])
async def test_socket_that_another_server_has_taken_is_left_to_it_until_it_is_gone(
    server: grpc.Server, tmp_path: Path, is_started: bool
) -> None:
    address = f"unix:{tmp_path}/socket"
    other = grpc.aio.server()
    bind(other, [address])
    if is_started:
        await other.start()
    else:
        (tmp_path / "socket").unlink(missing_ok=True)
    with pytest.raises(StartError, match=f"cannot listen on {address}: another process does.*; .*--listen"):
        bind(server, [address])
    await other.stop(None)
    del other
    bind(server, [address])


def test_lock_of_a_server_that_was_killed_is_no_obstacle_but_one_that_cannot_be_made_is(
    server: grpc.Server, tmp_path: Path
) -> None:
    """A link is no way to another file: in a folder that others may write to, they could have put it there."""
    lock = tmp_path / "socket.lock"
    lock.touch()
    bind(server, [f"unix:{tmp_path}/socket"])
    for name, make in (("folder", Path.mkdir), ("link", lambda path: path.symlink_to(tmp_path / "elsewhere"))):
        make(tmp_path / f"{name}.lock")
        with pytest.raises(StartError, match=rf"cannot listen on unix:.*{name}\.lock.*--listen"):
            bind(server, [f"unix:{tmp_path}/{name}"])
    assert not (tmp_path / "elsewhere").exists()


def test_options_follow_the_settings_and_fit_the_core() -> None:
    """A value that the core cannot hold is an error in the first call, not when the server is made."""
    largest = Settings(max_connection_age_s=86400, call_timeout_s=86400)
    for settings in (Settings(), largest, Settings(max_message_bytes=12345, max_connection_age_s=0.1)):
        given = server_options(settings)
        assert all(isinstance(value, int) and -(2**31) <= value < 2**31 for _, value in given)
        options = dict(given)
        assert len(options) == len(given)
        assert options["grpc.max_receive_message_length"] == settings.max_message_bytes
        assert options["grpc.max_send_message_length"] == settings.max_message_bytes
        # A connection that ages lets every call end.
        if settings.max_connection_age_s:
            assert options["grpc.max_connection_age_ms"] == settings.max_connection_age_s * 1e3
            assert options["grpc.max_connection_age_grace_ms"] > settings.call_timeout_s * 1e3
        assert options["grpc.max_concurrent_streams"] == MAX_STREAMS
        assert options["grpc.max_allowed_incoming_connections"] == MAX_CONNECTIONS
        # The window of a stream grows without this.
        assert (options["grpc.http2.bdp_probe"], options["grpc.http2.lookahead_bytes"]) == (0, UNREAD_BYTES)
