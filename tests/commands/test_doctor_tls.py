"""The doctor says what is wrong with TLS, and what to set."""

import re
import socket
import ssl
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

import aclgrad
from aclgrad.testing import TestServer
from tests.commands import peers
from tests.commands.test_doctor import Rows, diagnosed, failure
from tools.authority import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


Pair = tuple[str, str]


@contextmanager
def serving(pair: Pair, client_ca: str | None = None) -> Iterator[str]:
    """Yields the address of a gRPC server without methods; with an authority, it asks for certificates of clients."""
    certificate, key = (Path(file).read_bytes() for file in pair)
    ca = None if client_ca is None else Path(client_ca).read_bytes()
    with ThreadPoolExecutor(2) as threads:
        server = grpc.server(threads)
        credentials = grpc.ssl_server_credentials([(key, certificate)], ca, require_client_auth=ca is not None)
        port = server.add_secure_port("127.0.0.1:0", credentials)
        server.start()
        yield f"127.0.0.1:{port}"
        server.stop(0).wait()


def seen(pair: Pair, client_ca: str | None = None, **variables: str) -> Rows:
    with serving(pair, client_ca) as address:
        return diagnosed(address, **variables)[0]


def refusal(pair: Pair, client_ca: str | None = None, **variables: str) -> tuple[str, str]:
    """Returns the case that failed, and its message."""
    with serving(pair, client_ca) as address:
        (check, case), message = failure(address, **variables)
    assert check == "tls"
    return case, message


def test_a_certificate_that_is_right(authority: Authority) -> None:
    ends = datetime.now(UTC) + timedelta(days=60, hours=1)
    pair = authority.pair("server", "127.0.0.1", "a.example", not_after=ends)
    rows = seen(pair, ACLGRAD_CA=authority.ca)
    told = rows["tls", "certificate"]
    assert told["verdict"] == "passed"
    assert "a.example" in told["message"]
    assert "127.0.0.1" in told["message"]
    assert told["message"].endswith("ends in 60 d 0 h")
    assert rows["tls", "client certificate"]["message"] == "the server requires none"
    assert rows["tls", "protocol"]["message"] == "HTTP/2 over TLSv1.3"


def test_a_certificate_that_ends_soon(authority: Authority) -> None:
    pair = authority.pair("server", not_after=datetime.now(UTC) + timedelta(days=2))
    told = seen(pair, ACLGRAD_CA=authority.ca)["tls", "certificate"]
    assert told["verdict"] == "noted"
    assert told["message"].endswith("ends in 1 d 23 h: renew it")


def test_a_certificate_that_gRPC_would_refuse(authority: Authority, tmp_path: Path) -> None:  # noqa: N802
    now = datetime.now(UTC)
    expired = authority.pair("expired", not_before=now - timedelta(9), not_after=now - timedelta(1))
    case, message = refusal(expired, ACLGRAD_CA=authority.ca)
    assert case == "certificate"
    assert message.startswith(f"the server's certificate has expired; the clock of this machine says {now:%Y-%m-%d}")
    early = authority.pair("early", not_before=now + timedelta(1), not_after=now + timedelta(9))
    assert refusal(early, ACLGRAD_CA=authority.ca)[1].startswith("the server's certificate is not valid yet")
    other = authority.pair("other", "gradients.example")
    message = refusal(other, ACLGRAD_CA=authority.ca)[1]
    assert message.startswith("the server's certificate is for gradients.example, not for 127.0.0.1; ")
    assert message.endswith("set ACLGRAD_SERVER_NAME to one")
    for name in ("gradients.example", "gradients.example."):
        named = seen(other, ACLGRAD_CA=authority.ca, ACLGRAD_SERVER_NAME=name)
        assert named["tls", "certificate"]["verdict"] == "passed"
    (tmp_path / "others").mkdir()
    for variables in ({"ACLGRAD_CA": Authority(tmp_path / "others").ca}, {"ACLGRAD_TLS": "true"}):
        message = refusal(authority.pair("server"), **variables)[1]
        assert message.startswith("the server's certificate, by trustme ")
        assert message.endswith("; set ACLGRAD_CA to the file of the authority that issued it")


def test_a_server_that_asks_for_a_certificate(authority: Authority, tmp_path: Path) -> None:
    pair, ca = authority.pair("server"), authority.ca
    case, message = refusal(pair, ca, ACLGRAD_CA=ca)
    assert case == "client certificate"
    assert message.startswith("the server ends the connection after the handshake; it may take no client without a")
    assert "ACLGRAD_CERTIFICATE and ACLGRAD_KEY; see --tls-client-ca" in message
    (tmp_path / "others").mkdir()
    for maker, is_right in ((authority, True), (Authority(tmp_path / "others"), False)):
        certificate, key = maker.pair("client")
        variables = {"ACLGRAD_CA": ca, "ACLGRAD_CERTIFICATE": certificate, "ACLGRAD_KEY": key}
        told = seen(pair, ca, **variables)["tls", "client certificate"]
        assert (told["verdict"] == "passed") is is_right
        assert ("refuses the certificate of this client: " in told["message"]) is not is_right


def test_tls_on_one_side_alone(authority: Authority, testing: TestServer) -> None:
    with peers.listening(peers.speak_http1) as address:
        assert failure(address, ACLGRAD_TLS="true")[0] == ("tls", "handshake")
    (check, case), message = failure(testing.target, ACLGRAD_CA=authority.ca)
    assert (check, case) == ("tls", "handshake")
    assert message == "the port does not speak TLS, and this client would; unset ACLGRAD_CA, or put TLS on the server"
    token = {"ACLGRAD_SERVER_NAME": "a", "ACLGRAD_TOKEN": "b", "ACLGRAD_TLS": "true"}
    assert "; unset ACLGRAD_SERVER_NAME and set ACLGRAD_TLS=false, or put" in failure(testing.target, **token)[1]
    for client_ca in (None, authority.ca):
        with serving(authority.pair("server"), client_ca) as address:
            (check, case), message = failure(address)
        assert (check, case) == ("network", "protocol")
        assert message.startswith("the port has TLS, and this client would speak plaintext; set ACLGRAD_CA")


def test_files_that_cannot_be_used(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    certificate, _ = authority.pair("one")
    _, key = authority.pair("two")
    now = datetime.now(UTC)
    expired = authority.pair("expired", not_before=now - timedelta(9), not_after=now - timedelta(1))
    for files, told in (
        (
            (str(tmp_path / "missing"),),
            "CA: credentials: ca is .*/missing', which cannot be read: No such file",
        ),
        ((str(tmp_path / "empty"),), "CA: credentials: ca '.*/empty' holds no certificate; give the PEM file"),
        ((authority.ca, certificate, key), "KEY: credentials: key '.*/two.key' is not the key of certificate"),
        (
            (authority.ca, *expired),
            "CERTIFICATE: credentials: certificate '.*' holds a certificate that expired",
        ),
    ):
        names = ("ACLGRAD_CA", "ACLGRAD_CERTIFICATE", "ACLGRAD_KEY")
        case, message = refusal(authority.pair("server"), **dict(zip(names, files, strict=False)))
        assert case == "files"
        assert re.match(f"the files of TLS cannot be used; ACLGRAD_{told}", message), message


def test_files_are_read_as_clients_read_them(authority: Authority, tmp_path: Path) -> None:
    pair, client = authority.pair("server"), authority.pair("client")
    variables = {"ACLGRAD_CA": authority.ca, "ACLGRAD_CERTIFICATE": client[0], "ACLGRAD_KEY": client[1]}
    original = {name: Path(file).read_bytes().splitlines(keepends=True) for name, file in variables.items()}
    for name, lines in original.items():
        changed = tmp_path / f"changed-{name}"
        given = {**variables, name: str(changed)}
        changed.write_bytes(b"\xef\xbb\xbf" + b"".join(b"  " + line for line in lines))
        assert seen(pair, authority.ca, **given)["tls", "client certificate"]["verdict"] == "passed"
        changed.write_bytes(b"".join(b"> " + line for line in lines))
        case, message = refusal(pair, authority.ca, **given)
        assert case == "files"
        assert f"'{changed}' holds a " in message
        assert "at line 1: its text is not base64" in message


def speaking(context: ssl.SSLContext) -> peers.Behaviour:
    """Returns the behaviour of a server that shakes hands like this, and then speaks HTTP/2."""

    def behave(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secure:
            secure.sendall(b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
            peers.keep_silent(secure)

    return behave


def context_of(pair: Pair, protocols: Sequence[str] = ()) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair)
    if protocols:
        context.set_alpn_protocols(protocols)
    return context


@pytest.mark.parametrize("protocols", [(), ("http/1.1",)], ids=["none", "another"])
def test_a_server_that_does_not_offer_http2(authority: Authority, protocols: Sequence[str]) -> None:
    with peers.listening(speaking(context_of(authority.pair("server"), protocols))) as address:
        (check, case), message = failure(address, ACLGRAD_CA=authority.ca)
        own = aclgrad.Credentials(ca=authority.ca)
        with (
            aclgrad.Client(address, retries=0, connect_timeout_s=1, credentials=own) as client,
            pytest.raises(aclgrad.AclgradError),
        ):
            client.server_status()
    assert (check, case) == ("tls", "protocol")
    assert message.startswith("gRPC needs the protocol h2 from the handshake (ALPN): ")


def test_a_server_of_old_versions_alone(authority: Authority) -> None:
    context = context_of(authority.pair("server"), ["h2"])
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with peers.listening(speaking(context)) as address:
        (check, case), message = failure(address, ACLGRAD_CA=authority.ca)
    assert (check, case) == ("tls", "handshake")
    assert message.endswith("; gRPC takes TLS 1.2 and 1.3: have the server speak one of them")


def test_no_common_cipher_is_no_missing_certificate(authority: Authority) -> None:
    context = context_of(authority.pair("server"), ["h2"])
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("AES128-SHA:@SECLEVEL=0")
    with peers.listening(speaking(context)) as address:
        (check, case), message = failure(address, ACLGRAD_CA=authority.ca)
    assert (check, case) == ("tls", "handshake")
    assert "the server may require a client certificate, ACLGRAD_CERTIFICATE and ACLGRAD_KEY, or take no" in message


def test_a_server_that_ends_what_was_agreed_on(authority: Authority) -> None:
    """A balancer without a server behind it does so; it asks for no certificate."""
    context = context_of(authority.pair("server"), ["h2"])

    def hang_up(connection: socket.socket) -> None:
        context.wrap_socket(connection, server_side=True).close()

    with peers.listening(hang_up) as address:
        message = failure(address, ACLGRAD_CA=authority.ca)[1]
    assert message.startswith("the server ends the connection after the handshake; it may take no client without")
    assert message.endswith("or be a load balancer without a server behind it")


def test_a_server_that_hangs_in_the_handshake(authority: Authority) -> None:
    with peers.listening(peers.keep_silent) as address:
        (check, case), message = failure(address, ACLGRAD_CA=authority.ca)
    assert (check, case) == ("tls", "handshake")
    assert message.startswith("the port takes connections and does not answer a handshake within 2 s; the server hangs")


def test_a_certificate_with_nothing_but_a_common_name(authority: Authority, tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gradients.example")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(1), now + timedelta(1))
    pair = (str(tmp_path / "own.pem"), str(tmp_path / "own.key"))
    own = builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    Path(pair[0]).write_bytes(own)
    Path(pair[1]).write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    case, message = refusal(pair, ACLGRAD_CA=pair[0])
    assert case == "certificate"
    assert "is for no name but the CN gradients.example, which does not count, not for 127.0.0.1" in message
