"""TLS: who gets a connection, what is said to the others, and certificates that change while the server runs."""

import ssl
from pathlib import Path

import grpc
import pytest

from tools.authority import Authority
from tools.calling import wait_until
from tools.raw_calls import SMALL, execute
from tools.serving import Server

CALL = SMALL["adaptive_avg_pool2d_backward"]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def served_certificate(server: Server) -> str:
    host, _, port = server.address.rpartition(":")
    return ssl.get_server_certificate((host, int(port)))


def assert_refused(channel: grpc.Channel) -> None:
    with channel, pytest.raises(grpc.RpcError) as caught:
        execute(channel, CALL)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_only_clients_with_a_certificate_of_the_authority_get_in(authority: Authority, tmp_path: Path) -> None:
    """Also after the server's certificate has changed; connections from before go on."""
    (tmp_path / "others").mkdir()
    other = Authority(tmp_path / "others")
    flags = *authority.server_flags(), "--tls-client-ca", authority.ca
    listen = "127.0.0.1:0", f"unix:{tmp_path}/socket"
    with Server(*flags, listen=listen) as server, authority.channel(server.address, authority.pair("client")) as known:
        gradient = execute(known, CALL)
        for channel in (
            authority.channel(server.address),
            authority.channel(server.address, other.pair("client")),
            other.channel(server.address, authority.pair("client")),
            grpc.insecure_channel(server.address),
        ):
            assert_refused(channel)
            assert execute(known, CALL) == gradient
        # A unix socket never leaves the machine.
        with grpc.insecure_channel(server.addresses[1]) as local:
            assert execute(local, CALL) == gradient
        first = served_certificate(server)
        certificate, _ = authority.pair("other")
        Path(certificate).replace(tmp_path / "server.crt")
        wait_until(lambda: "the last one stays" in server.log)
        assert "key values mismatch" in server.log
        assert served_certificate(server) == first
        (tmp_path / "server.key").unlink()
        wait_until(lambda: f"there is no file {tmp_path / 'server.key'}" in server.log)
        assert served_certificate(server) == first
        authority.pair("server")
        wait_until(lambda: served_certificate(server) != first)
        assert_refused(authority.channel(server.address))
        with authority.channel(server.address, authority.pair("newcomer")) as new:
            assert execute(known, CALL) == execute(new, CALL) == gradient
