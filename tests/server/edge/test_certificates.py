"""Certificates that the server refuses, and for how long a client may resume its session."""

import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from aclgrad_server.edge.connections import bind
from aclgrad_server.edge.tls import SESSIONS_S, Certificates
from aclgrad_server.files import UnusableFileError
from tools.authority import Authority


def test_files_that_openssl_does_not_take_are_named_with_the_remedy(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = map(Path, authority.pair("server"))
    _, other = map(Path, authority.pair("other"))
    secret = load_pem_private_key(key.read_bytes(), None)
    (locked := tmp_path / "locked").write_bytes(
        secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"password"))
    )
    locked.chmod(0o600)
    together = "; give PEM files that were made together, the key without a password"
    for files, told in (
        ((certificate, other), f"{certificate} cannot be used with {other}: key values mismatch{together}"),
        ((certificate, locked), f"{certificate} cannot be used with {locked}: "),
        ((key, key), f"{key} cannot be used with {key}: "),
        ((certificate, key, key), f"{key} has no certificate: no certificate or crl found; give a PEM file with"),
    ):
        with pytest.raises(UnusableFileError) as caught:
            Certificates(*files, *(None,) * (3 - len(files)))
        assert str(caught.value).startswith(told)
        assert len(files) == 3 or str(caught.value).endswith(together)


@pytest.mark.parametrize("days", [(-9, -1), (1, 9)], ids=["expired", "early"])
def test_a_certificate_that_is_not_valid_now(tmp_path: Path, days: tuple[int, int]) -> None:
    begin, end = (datetime.now(UTC) + timedelta(each) for each in days)
    certificate, key = map(Path, Authority(tmp_path).pair("server", not_before=begin, not_after=end))
    told = f"{certificate} is valid from {begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC, and it is "
    with pytest.raises(UnusableFileError, match=f"^{told}.*; give one that clients accept now, or set the clock$"):
        Certificates(certificate, key, None)


def test_sessions_are_soon_over(server: grpc.Server, tmp_path: Path) -> None:
    """Of a client that resumes one, the certificate is not looked at again: it may have expired."""
    authority, now_s = Authority(tmp_path), 0.0
    certificate, key = map(Path, authority.pair("server"))
    certificates = Certificates(certificate, key, Path(authority.ca), lambda: now_s)
    (address,) = bind(server, ["localhost:0"], certificates)
    server.start()
    context = ssl.create_default_context(cafile=authority.ca)
    context.load_cert_chain(*authority.pair("client"))
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # its sessions are there after the handshake

    def connect(session: ssl.SSLSession | None) -> tuple[ssl.SSLSession | None, bool | None]:
        with (
            socket.create_connection(("localhost", int(address.rpartition(":")[2])), 60) as plain,
            context.wrap_socket(plain, server_hostname="localhost", session=session) as connection,
        ):
            return connection.session, connection.session_reused

    session, _ = connect(None)
    assert connect(session)[1]
    now_s = SESSIONS_S - 1
    assert connect(session)[1]
    now_s = SESSIONS_S
    assert not connect(session)[1]
