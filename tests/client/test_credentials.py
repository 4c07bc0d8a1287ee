"""Credentials of both clients: TLS, a certificate, a token, and what is said if they do not fit the server."""

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad import Credentials
from aclgrad.errors import to_status
from aclgrad.products import Product
from aclgrad.testing import TestServer
from tools import authority as authorities
from tools.calling import AnyClient, maybe_await

from .conftest import Connect
from .scripted_service import abort_with, end

TOKEN = "token-of-the-test"
GRAD = np.ones((1, 1, 1), np.float32)
REFUSED = aclgrad.NotAuthenticatedError("show who you are")


class Authority(authorities.Authority):
    def key_pair(self, name: str, *sans: str) -> tuple[bytes, bytes]:
        """Returns a key and its certificate, as gRPC takes them."""
        certificate, key = self.pair(name, *sans)
        return Path(key).read_bytes(), Path(certificate).read_bytes()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@dataclass
class Secured:
    """Where servers listen that take nobody else."""

    certificate: str
    token: str
    socket: str


class TokenGate(grpc.ServerInterceptor):
    """Refuses calls without the token."""

    def intercept_service(self, continuation: Any, details: grpc.HandlerCallDetails) -> Any:
        if ("authorization", f"Bearer {TOKEN}") in details.invocation_metadata:
            return continuation(details)
        status = to_status(REFUSED, "5f0c").SerializeToString()
        return grpc.unary_unary_rpc_method_handler(lambda _, context: abort_with(REFUSED.code, "", status)(context))


@pytest.fixture(scope="module")
def secured(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Three ways in: a certificate, a token with TLS, and a token on a unix socket."""
    socket = f"unix:{tmp_path_factory.mktemp('secured')}/socket"
    pair = authority.key_pair("server")
    both_sides = grpc.ssl_server_credentials([pair], authority.ca_pem, require_client_auth=True)
    with running(both_sides) as certificate, running(grpc.ssl_server_credentials([pair]), socket, TokenGate()) as token:
        yield Secured(certificate, token, socket)


@contextmanager
def running(credentials: grpc.ServerCredentials, socket: str = "", *gates: grpc.ServerInterceptor) -> Iterator[str]:
    """Runs a server with TLS on loopback, and on the socket without."""
    handlers = [TestServer(Product.ATLAS_A2, shape_only=True, max_message_bytes=2**24).handler()]
    with ThreadPoolExecutor(4) as threads:
        server = grpc.server(threads, handlers, gates)
        address = f"127.0.0.1:{server.add_secure_port('127.0.0.1:0', credentials)}"
        if socket:
            server.add_insecure_port(socket)
        server.start()
        yield address
        end(server)


async def gradient(client: AnyClient) -> Any:
    return await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, (1, 1, 2), timeout_s=60))


async def test_certificate_and_token_let_in(connect: Connect, secured: Secured, authority: Authority) -> None:
    certificate, key = authority.pair("trainer", "trainer.example")
    by_content = Credentials(authority.ca_pem, Path(certificate).read_bytes(), Path(key).read_bytes())
    for target, credentials in (
        (secured.certificate, Credentials(ca=authority.ca, certificate=certificate, key=key)),
        (secured.certificate, by_content),
        (secured.token, Credentials(ca=Path(authority.ca), token=TOKEN)),
        (secured.socket, Credentials(token=TOKEN)),
        (secured.socket, Credentials(token=TOKEN, tls=False)),
    ):
        client = connect(target, credentials=credentials)
        assert (await gradient(client)).tolist() == [[[0.5, 0.5]]]
        in_chunks = await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, (1, 3000, 2000)))
        assert in_chunks.sum() == pytest.approx(1, rel=1e-3)
    for target, credentials in ((secured.token, Credentials(ca=authority.ca)), (secured.socket, None)):
        with pytest.raises(aclgrad.NotAuthenticatedError, match="show who you are"):
            await gradient(connect(target, credentials=credentials))


async def test_error_of_a_connection_that_fails_names_tls(
    connect: Connect, server: TestServer, secured: Secured, authority: Authority, tmp_path: Path
) -> None:
    strangers = Authority(tmp_path)
    plain = aclgrad.ServerUnreachableError, "if it has TLS, give aclgrad.Credentials(ca=...) or ACLGRAD_CA"
    untrusted = aclgrad.TlsError, "certificate is not trusted; give aclgrad.Credentials(ca=...) or ACLGRAD_CA"
    for target, credentials, (kind, told) in (
        (server.target, Credentials(), (aclgrad.TlsError, "the server does not speak TLS; give no credentials")),
        (secured.certificate, Credentials(), untrusted),
        (secured.certificate, Credentials(ca=strangers.ca), untrusted),
        (secured.certificate, None, plain),
        (secured.certificate, Credentials(ca=authority.ca), plain),
        (secured.certificate, Credentials(authority.ca, *strangers.pair("client")), plain),
    ):
        with pytest.raises(kind) as caught:
            await gradient(connect(target, credentials=credentials, connect_timeout_s=0))
        assert told in str(caught.value), (credentials, str(caught.value))
    elsewhere = authority.key_pair("elsewhere", "elsewhere.example")
    with running(grpc.ssl_server_credentials([elsewhere])) as target:
        client = connect(target, credentials=Credentials(ca=authority.ca))
        with pytest.raises(aclgrad.TlsError, match="certificate is for another host; give the target a name"):
            await gradient(client)


def test_credentials_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    for given, told in (
        ({"certificate": b"x"}, "give both or neither"),
        ({"token": " "}, "token is empty"),
        ({"token": "a\nb"}, "characters that metadata cannot have"),
        ({"token": b"t"}, "token is a bytes; give text"),
        ({"tls": "false"}, "tls is a str; give True or False"),
        ({"tls": False}, "give a token, or no credentials"),
        ({"tls": False, "token": "t", "ca": b"x"}, "leave tls=False out"),
    ):
        with pytest.raises(aclgrad.InvalidSettingError, match=told):
            Credentials(**given)  # type: ignore[arg-type]
    for ca, told in (
        (tmp_path / "missing", "cannot be read: No such file"),
        ("a\0b", "cannot be read: embedded null byte"),
        (7, "ca is a int that is no path; give the path of a PEM file"),
        (f"-----BEGIN PRIVATE KEY-----\n{TOKEN}", "ca is a str that is no path; give the path of a PEM file, or its"),
    ):
        with pytest.raises(aclgrad.InvalidSettingError, match=told) as caught:
            aclgrad.Client("127.0.0.1:1", credentials=Credentials(ca=ca))  # type: ignore[arg-type]
        assert TOKEN not in str(caught.value), "a key that is given as text is not repeated"
    with pytest.raises(aclgrad.InvalidSettingError, match=r"^credentials is a str; give an aclgrad.Credentials$"):
        aclgrad.Client("127.0.0.1:1", credentials=TOKEN)  # type: ignore[arg-type]
    secret = Credentials(token=TOKEN)
    assert TOKEN not in repr(secret)
    assert TOKEN not in str(secret)
    with pytest.raises(TypeError, match="secrets"):
        pickle.dumps(secret)


async def test_credentials_of_the_environment(
    connect: Connect, secured: Secured, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = authority.pair("trainer", "trainer.example")
    kind = type(connect("127.0.0.1:1"))
    for variables in (
        {"TARGET": secured.certificate, "CA": authority.ca, "CERTIFICATE": certificate, "KEY": key},
        {"TARGET": secured.socket, "TOKEN": TOKEN, "TLS": "false"},
    ):
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(f"ACLGRAD_{name}", value)
            client = kind.from_env()
            assert (await gradient(client)).tolist() == [[[0.5, 0.5]]]
            await maybe_await(client.close())
    for name, value, told in (
        ("TLS", "yes", "^ACLGRAD_TLS is 'yes'; give true or false"),
        ("TOKEN", TOKEN, "set ACLGRAD_TLS to true"),
        ("CA", "/nowhere.pem", "^ACLGRAD_CA: .* cannot be read"),
        ("KEY", "/nowhere.pem", "^ACLGRAD_CERTIFICATE: .* give both or neither"),
    ):
        with monkeypatch.context() as patch:
            patch.setenv(f"ACLGRAD_{name}", value)
            with pytest.raises(aclgrad.InvalidSettingError, match=told) as caught:
                kind.from_env()
            assert TOKEN not in str(caught.value)


@pytest.mark.parametrize("target", ["unixbox.invalid:1", ["unixbox.invalid:1", "b.invalid:2"], "Unix-host.invalid:1"])
def test_a_host_whose_name_begins_like_a_socket_has_tls(connect: Callable[..., Any], target: Any) -> None:
    """In plaintext it would be shown the token."""
    client = connect(target, credentials=aclgrad.Credentials(token="secret", server_name="unixbox.invalid"))
    assert client._channel_credentials is not None  # noqa: SLF001


@pytest.mark.parametrize("target", ["unix:/a", "unix:/a,/b", ["unix:/a", "unix:/b"], "unix-abstract:a"])
def test_a_socket_has_no_tls(connect: Callable[..., Any], target: Any) -> None:
    assert connect(target, credentials=aclgrad.Credentials(token="secret"))._channel_credentials is None  # noqa: SLF001
