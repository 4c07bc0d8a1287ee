"""TLS: who gets a connection, what is said to the others, and certificates that change while the server runs."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest

from tools.authority import Authority
from tools.calling import wait_until
from tools.raw_calls import SMALL, execute
from tools.serving import Server, run_to_end

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


def test_new_certificate_reaches_new_connections_and_old_ones_go_on(authority: Authority, tmp_path: Path) -> None:
    with Server(*authority.server_flags()) as server, authority.channel(server.address) as old:
        gradient = execute(old, CALL)
        first = served_certificate(server)
        other, _ = authority.pair("other")
        Path(other).replace(tmp_path / "server.crt")
        wait_until(lambda: "the last one stays" in server.log)
        assert "is not the key of" in server.log
        assert served_certificate(server) == first
        (tmp_path / "server.key").unlink()
        wait_until(lambda: "server.key cannot be read" in server.log)
        assert served_certificate(server) == first
        authority.pair("server")
        wait_until(lambda: served_certificate(server) != first)
        with authority.channel(server.address) as new:
            assert execute(old, CALL) == execute(new, CALL) == gradient


def test_only_clients_with_a_certificate_of_the_authority_get_in(authority: Authority, tmp_path: Path) -> None:
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


def test_certificate_for_another_host_is_refused_by_the_client(authority: Authority) -> None:
    with Server(*authority.server_flags("server", "elsewhere.example")) as server:
        assert_refused(authority.channel(server.address))
        options = [("grpc.ssl_target_name_override", "elsewhere.example")]
        credentials = grpc.ssl_channel_credentials(authority.ca_pem)
        with grpc.secure_channel(server.address, credentials, options) as channel:
            execute(channel, CALL)


def test_server_says_why_it_does_not_start(authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.pair("server")
    _, other_key = authority.pair("other")
    expired, expired_key = authority.pair("expired", not_after=datetime.now(UTC) - timedelta(hours=1))
    early, early_key = authority.pair("early", not_before=datetime.now(UTC) + timedelta(hours=1))
    nothing = tmp_path / "nothing.pem"
    nothing.touch()
    pair = "--tls-certificate", certificate, "--tls-key", key
    for code, flags, told in (
        (1, ("--tls-certificate", certificate, "--tls-key", other_key), f"{other_key} is not the key of {certificate}"),
        (1, ("--tls-certificate", expired, "--tls-key", expired_key), f"{expired}: certificate has expired"),
        (1, ("--tls-certificate", early, "--tls-key", early_key), f"{early}: certificate is not yet valid"),
        (1, ("--tls-certificate", str(nothing), "--tls-key", key), f"{nothing} has no certificate"),
        (1, ("--tls-certificate", certificate, "--tls-key", certificate), f"{certificate} has no key"),
        (1, ("--tls-certificate", certificate, "--tls-key", f"{tmp_path}/missing"), "missing cannot be read"),
        (1, (*pair, "--tls-client-ca", str(nothing)), f"{nothing} has no certificate of an authority"),
        (2, ("--tls-certificate", certificate), "belong together"),
        (2, ("--tls-client-ca", certificate), "--tls-client-ca needs TLS"),
        (2, ("--listen", "0.0.0.0:0"), "--listen 0.0.0.0:0 would be open to the network without encryption"),
    ):
        finished = run_to_end("--backend", "host", "--listen", "127.0.0.1:0", *flags)
        assert (finished.returncode, finished.stdout) == (code, ""), finished
        assert told in finished.stderr
        assert "Traceback" not in finished.stderr


def test_listener_off_loopback_with_tls_or_on_purpose(authority: Authority) -> None:
    with Server("--insecure", *authority.server_flags(), listen=("0.0.0.0:0",)) as server:
        port = server.address.rpartition(":")[2]
        with authority.channel(f"localhost:{port}") as channel:
            execute(channel, CALL)
    with Server("--insecure", listen=("0.0.0.0:0",)) as server, grpc.insecure_channel(server.address) as channel:
        execute(channel, CALL)
