"""Credentials of both clients: TLS, a certificate, a token, and what is said if they do not fit the server."""

import pickle
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aclgrad
from aclgrad import Credentials
from tools.authority import Authority, write_identities
from tools.calling import AnyClient, maybe_await
from tools.serving import Server

TOKEN = "token-of-the-test"
GRAD = np.ones((1, 1, 1), np.float32)
Connect = Callable[..., AnyClient]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secured(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """TLS, and three ways in: a token, a certificate, and a unix socket."""
    folder = tmp_path_factory.mktemp("secured")
    identities = {"token": {"token": TOKEN}, "certificate": {"sans": ["dns:trainer.example"]}}
    file = write_identities(folder / "identities.toml", identities)
    flags = *authority.server_flags(), "--tls-client-ca", authority.ca, "--identities", file
    with Server(*flags, listen=("127.0.0.1:0", f"unix:{folder}/socket")) as server:
        yield server


async def gradient(client: AnyClient) -> Any:
    return await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, (1, 1, 2), timeout_s=60))


async def test_certificate_and_token_let_in(connect: Connect, secured: Server, authority: Authority) -> None:
    certificate, key = authority.pair("trainer", "trainer.example")
    other, other_key = authority.pair("other", "other.example")
    by_content = Credentials(authority.ca_pem, Path(certificate).read_bytes(), Path(key).read_bytes())
    for target, credentials in (
        (secured.address, Credentials(ca=authority.ca, certificate=certificate, key=key)),
        (secured.address, by_content),
        (secured.address, Credentials(ca=Path(authority.ca), certificate=other, key=other_key, token=TOKEN)),
        (secured.addresses[1], Credentials(token=TOKEN)),
        (secured.addresses[1], Credentials(token=TOKEN, tls=False)),
    ):
        client = connect(target, credentials=credentials)
        assert (await gradient(client)).tolist() == [[[0.5, 0.5]]]
        large = await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, (1, 3000, 2000)))
        assert large.sum() == pytest.approx(1, rel=1e-3)
    for credentials in (Credentials(ca=authority.ca, certificate=other, key=other_key), None):
        target = secured.address if credentials else secured.addresses[1]
        with pytest.raises(aclgrad.NotAuthenticatedError, match="authorization: Bearer TOKEN"):
            await gradient(connect(target, credentials=credentials))


async def test_error_of_a_connection_that_fails_names_tls(
    connect: Connect, server: Server, secured: Server, authority: Authority, tmp_path: Path
) -> None:
    strangers = Authority(tmp_path)
    pair = authority.pair("late", not_after=datetime.now(UTC) - timedelta(hours=1))
    plain = aclgrad.ServerUnreachableError, "if it has TLS, give credentials=aclgrad.Credentials"
    for target, credentials, (kind, told) in (
        (server.address, Credentials(), (aclgrad.TlsError, "the server does not speak TLS; give no credentials")),
        (secured.address, Credentials(), (aclgrad.TlsError, "certificate is not trusted; give ca=")),
        (secured.address, Credentials(ca=strangers.ca), (aclgrad.TlsError, "certificate is not trusted; give ca=")),
        (secured.address, None, plain),
        (secured.address, Credentials(ca=authority.ca), plain),
        (secured.address, Credentials(authority.ca, *strangers.pair("client")), plain),
        (secured.address, Credentials(authority.ca, *pair), plain),
    ):
        with pytest.raises(kind) as caught:
            await gradient(connect(target, credentials=credentials, connect_timeout_s=0))
        assert told in str(caught.value), (credentials, str(caught.value))
    with Server(*authority.server_flags("elsewhere", "elsewhere.example")) as elsewhere:
        client = connect(elsewhere.address, credentials=Credentials(ca=authority.ca))
        with pytest.raises(aclgrad.TlsError, match="certificate is for another host; give the target a name"):
            await gradient(client)


def test_credentials_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.touch()
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
        (empty, "ca is no PEM"),
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
    connect: Connect, secured: Server, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = authority.pair("trainer", "trainer.example")
    kind = type(connect("127.0.0.1:1"))
    for variables in (
        {"TARGET": secured.address, "CA": authority.ca, "CERTIFICATE": certificate, "KEY": key},
        {"TARGET": secured.addresses[1], "TOKEN": TOKEN, "TLS": "false"},
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
