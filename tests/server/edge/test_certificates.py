"""Certificates that the server takes or refuses, and for how long a client may resume its session."""

import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from aclgrad_server.edge.connections import bind
from aclgrad_server.edge.tls import SESSIONS_S, Certificates
from aclgrad_server.files import UnusableFileError
from tools.authority import Authority

Key = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey


def self_signed(folder: Path, key: Key) -> tuple[Path, Path]:
    name, now = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "server")]), datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(hours=1), now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256())
    )
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / "crt").write_bytes(certificate.public_bytes(pem))
    (folder / "key").write_bytes(key.private_bytes(pem, form, serialization.NoEncryption()))
    (folder / "key").chmod(0o600)
    return folder / "crt", folder / "key"


def test_keys_that_clients_of_grpc_do_not_take_are_refused(tmp_path: Path) -> None:
    """What they take was tried with grpcio: a server with one of the others starts, and nobody gets a connection."""
    for key in (
        rsa.generate_private_key(65537, 2048),
        ec.generate_private_key(ec.SECP256R1()),
        ec.generate_private_key(ec.SECP384R1()),
    ):
        Certificates(*self_signed(tmp_path, key), None)
    for key, told in (
        (ec.generate_private_key(ec.SECP521R1()), r"that clients do not take \(secp521r1\); give RSA"),
        (ed25519.Ed25519PrivateKey.generate(), r"that clients do not take \(Ed25519PublicKey\); give RSA"),
        (rsa.generate_private_key(65537, 1024), r"that clients do not take \(RSAPublicKey\); give RSA of 2048 bits"),
        (ec.generate_private_key(ec.SECP256K1()), r"that clients do not take \(secp256k1\)"),
    ):
        with pytest.raises(UnusableFileError, match=told):
            Certificates(*self_signed(tmp_path, key), None)


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
