"""A client names what is wrong with its TLS files when it is made, before it connects to anything."""

import subprocess
import sys
from base64 import b64decode, encodebytes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

import aclgrad
from aclgrad import Credentials
from tools.authority import Authority

from .scripted_service import end

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def signed(key: CertificateIssuerPrivateKeyTypes, begin: datetime, end: datetime) -> bytes:
    """Returns a certificate that its own key signed."""
    name = x509.Name([])
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, begin, end)
    hash = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return made.sign(key, hash).public_bytes(Encoding.PEM)


def pem(
    key: CertificateIssuerPrivateKeyTypes, password: bytes = b"", form: PrivateFormat = PrivateFormat.PKCS8
) -> bytes:
    hidden = BestAvailableEncryption(password) if password else NoEncryption()
    return key.private_bytes(Encoding.PEM, form, hidden)


def refusal(**given: str | bytes | Path) -> str:
    """Returns what a client with these credentials says at once, also of a server that nobody has started."""
    with pytest.raises(aclgrad.TlsError) as caught:
        aclgrad.Client("127.0.0.1:1", credentials=Credentials(**given))
    assert isinstance(caught.value, aclgrad.InvalidSettingError)
    assert caught.value.field in given
    assert "127.0.0.1" not in str(caught.value)
    return str(caught.value)


def test_a_file_of_another_kind_is_named_with_what_it_holds(authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.pair("trainer")
    (tmp_path / "empty").touch()
    (tmp_path / "request").write_text("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n")
    (tmp_path / "binary").write_bytes(x509.load_pem_x509_certificate(authority.ca_pem).public_bytes(Encoding.DER))
    for given, told in (
        ({"ca": key}, f"credentials: ca '{key}' holds a private key and no certificate; give the PEM file of the"),
        ({"ca": b""}, "credentials: ca holds no certificate; give the PEM file"),
        ({"ca": Path(key).read_bytes()}, "credentials: ca holds a private key and no certificate; give the PEM"),
        ({"certificate": key, "key": certificate}, f"certificate '{key}' holds a private key and no certificate"),
        ({"certificate": certificate, "key": certificate}, f"key '{certificate}' holds a certificate and no private"),
        *(({"ca": tmp_path / name}, f"/{name}' holds no certificate; ") for name in ("empty", "request", "binary")),
    ):
        assert told in refusal(**given)


def test_a_key_of_another_certificate_is_refused(
    authority: Authority, rsa_key: rsa.RSAPrivateKey, tmp_path: Path
) -> None:
    certificate, _ = authority.pair("trainer")
    _, other = authority.pair("server")
    keys = {"rsa": rsa_key, "ed25519": ed25519.Ed25519PrivateKey.generate()}
    for name, key in keys.items():
        (tmp_path / name).write_bytes(pem(key))
    for key in (other, *(str(tmp_path / name) for name in keys)):
        told = f"credentials: key '{key}' is not the key of certificate '{certificate}'; give the two that were made"
        assert told in refusal(certificate=certificate, key=key)
    by_content = refusal(certificate=Path(certificate).read_bytes(), key=Path(other).read_bytes())
    assert by_content.startswith("credentials: key is not the key of certificate; ")


def test_a_key_that_gRPC_could_not_read_is_refused(authority: Authority, tmp_path: Path) -> None:  # noqa: N802
    certificate, path = authority.pair("trainer")
    content = Path(path).read_bytes()
    key = load_pem_private_key(content, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    lines = content.splitlines(keepends=True)
    for name, content, told in (
        ("encrypted", pem(key, b"secret"), "holds a private key with a password, which gRPC cannot ask for"),
        ("older", pem(key, b"secret", PrivateFormat.TraditionalOpenSSL), "holds a private key with a password"),
        ("cut", b"".join(lines[:1] + lines[2:]), "cannot be read, or certificate"),
        ("ssh", pem(key, form=PrivateFormat.OpenSSH), "cannot be read, or certificate"),
    ):
        (tmp_path / name).write_bytes(content)
        assert told in refusal(certificate=certificate, key=str(tmp_path / name)), name


def test_a_certificate_outside_of_its_time_is_refused(authority: Authority, tmp_path: Path) -> None:
    day, hour = timedelta(1), timedelta(hours=1)
    expired = authority.pair("expired", not_before=NOW - 9 * day, not_after=NOW - hour)
    early = authority.pair("early", not_before=NOW + hour, not_after=NOW + 9 * day)
    told = refusal(certificate=expired[0], key=expired[1])
    assert f"'{expired[0]}' holds a certificate that expired on {NOW - hour:%Y-%m-%d %H:%M} UTC; give one that" in told
    told = refusal(certificate=early[0], key=early[1])
    assert f"holds a certificate that is not valid before {NOW + hour:%Y-%m-%d %H:%M} UTC; " in told
    key = ec.generate_private_key(ec.SECP256R1())
    past = signed(key, NOW - 9 * day, NOW - day)
    assert "ca holds a certificate that expired on " in refusal(ca=past)
    # Years from 2050 on are written in another way.
    far = datetime(2061, 2, 3, 4, 5, tzinfo=UTC)
    assert "holds a certificate that is not valid before 2061-02-03 04:05 UTC" in refusal(
        ca=signed(key, far, far + day)
    )


def test_a_certificate_that_is_cut_is_refused(authority: Authority) -> None:
    lines = authority.ca_pem.splitlines(keepends=True)
    cut = b"".join(lines[:3] + lines[-1:])
    assert "ca holds a certificate that cannot be read, at line 1: it is cut or damaged; " in refusal(ca=cut)
    line = len(lines) + 1
    told = f"ca holds a certificate that cannot be read, at line {line}: it is cut or damaged; "
    assert told in refusal(ca=authority.ca_pem + cut)


def with_der(content: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """Returns a PEM block with other bytes within."""
    begin, *body, end = content.splitlines(keepends=True)
    return begin + encodebytes(change(b64decode(b"".join(body)))) + end


def with_line(content: bytes, line: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join([*lines[:2], line, *lines[2:]])


def damaged(der: bytes) -> bytes:
    """Returns a certificate whose times can be read, and whose signature is no bit string."""
    at = len(der) - len(x509.load_der_x509_certificate(der).signature) - len(b"\x03\x48\x00")
    return der[:at] + b"\x04" + der[at + 1 :]


REFUSED: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "quoted": (lambda text: b"".join(b"> " + line for line in text.splitlines(keepends=True)), "is not base64"),
    "junk": (lambda text: with_line(text, b"# !\n"), "is not base64"),
    "longer": (lambda text: with_der(text, lambda der: der + b"\0\0\0"), "bytes follow it within its block"),
    "damaged": (lambda text: with_der(text, damaged), "is cut or damaged"),
    "endless": (lambda text: text[: text.index(b"-----END")], "without its BEGIN or END line"),
    "dashes": (lambda text: text[1:], "without its BEGIN or END line"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_gRPC_would_not_read_is_refused(authority: Authority, tmp_path: Path, name: str) -> None:  # noqa: N802
    """A bundle does not lose an authority either, nor a chain a link."""
    write, told = REFUSED[name]
    certificate, key = authority.pair("trainer")
    bad = tmp_path / "bad.pem"
    for first in (b"", authority.ca_pem):
        bad.write_bytes(first + write(authority.ca_pem))
        assert f"ca '{bad}' holds a certificate" in (message := refusal(ca=bad))
        assert told in message
    bad.write_bytes(Path(certificate).read_bytes() + write(authority.ca_pem))
    assert f"certificate '{bad}' holds a certificate" in (message := refusal(certificate=bad, key=key))
    assert told in message
    if name not in ("longer", "damaged"):
        bad.write_bytes(write(Path(key).read_bytes()))
        assert f"key '{bad}' holds a private key" in (message := refusal(certificate=certificate, key=bad))
        assert told in message


REPAIRED: dict[str, Callable[[bytes], bytes]] = {
    "byte order mark": lambda text: b"\xef\xbb\xbf" + text,
    "indented": lambda text: b"ca: |\n" + b"".join(b"  " + line for line in text.splitlines(keepends=True)),
    "blank line": lambda text: with_line(text, b"\n"),
    "carriage returns": lambda text: text.replace(b"\n", b"\r"),
}


def test_text_that_does_no_harm_is_left_out() -> None:
    """A chain of two and a bundle of two, as gRPC needs both."""
    root, other = trustme.CA(), trustme.CA()
    child = root.create_child_ca()
    made, with_rsa = child.issue_cert("trainer"), child.issue_cert("trainer", key_type=trustme.KeyType.RSA)
    key = load_pem_private_key(made.private_key_pem.bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert b"BEGIN RSA PRIVATE KEY" in with_rsa.private_key_pem.bytes()
    parameters = b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
    older = pem(key, form=PrivateFormat.TraditionalOpenSSL)
    accepted = []
    for write in REPAIRED.values():
        bundle = write(other.cert_pem.bytes()) + write(root.cert_pem.bytes())
        chain, rsa_chain = (b"".join(write(each.bytes()) for each in own.cert_chain_pems) for own in (made, with_rsa))
        accepted += [Credentials(bundle, chain, write(each)) for each in (pem(key), older, parameters + older)]
        accepted.append(Credentials(bundle, rsa_chain, write(with_rsa.private_key_pem.bytes())))
    own = root.issue_cert("127.0.0.1")
    pair = (own.private_key_pem.bytes(), own.cert_chain_pems[0].bytes())
    connect_with(accepted, grpc.ssl_server_credentials([pair], root.cert_pem.bytes(), require_client_auth=True))


def connect_with(accepted: list[Credentials], secured: grpc.ServerCredentials) -> None:
    with ThreadPoolExecutor(2) as threads:
        server = grpc.server(threads)
        port = server.add_secure_port("127.0.0.1:0", secured)
        server.start()
        for each in accepted:
            with grpc.secure_channel(f"127.0.0.1:{port}", each.channel_credentials()) as channel:
                grpc.channel_ready_future(channel).result(20)
        end(server)


def test_what_gRPC_connects_with_is_not_refused(  # noqa: N802
    authority: Authority, rsa_key: rsa.RSAPrivateKey, tmp_path: Path
) -> None:
    """Bundles with certificates that have expired, comments, other blocks, other keys, and one file for both."""
    certificate, key = (Path(file).read_bytes() for file in authority.pair("trainer"))
    past = signed(ec.generate_private_key(ec.SECP256R1()), NOW - timedelta(9), NOW - timedelta(1))
    bundle = b"# comments, \xc3\xa4\r\n" + past + authority.ca_pem.replace(b"\n", b"\r\n") + past
    together, ca = str(tmp_path / "together.pem"), authority.ca
    Path(together).write_bytes(key + b"Bag Attributes\n" + certificate + past + authority.ca_pem)
    label = b"CERTIFICATE", b"TRUSTED CERTIFICATE"
    trusted = with_der(authority.ca_pem, lambda der: der + b"0\0").replace(*label)
    accepted = [Credentials(bundle), Credentials(trusted), Credentials(together), Credentials(ca, together, together)]
    for own in (rsa_key, ed25519.Ed25519PrivateKey.generate()):
        accepted.append(Credentials(ca, signed(own, NOW - timedelta(1), NOW + timedelta(1)), pem(own)))
    pair = tuple(Path(file).read_bytes() for file in reversed(authority.pair("server")))
    connect_with(accepted, grpc.ssl_server_credentials([pair]))


def test_gRPC_prints_nothing_of_its_own(authority: Authority) -> None:  # noqa: N802
    certificate, _ = authority.pair("trainer")
    _, other = authority.pair("server")
    program = f"""
import aclgrad
try:
    aclgrad.Client("127.0.0.1:1", credentials=aclgrad.Credentials(certificate={certificate!r}, key={other!r}))
except aclgrad.TlsError as error:
    print(type(error).__name__)
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert (finished.stdout, finished.stderr) == ("TlsFileError\n", "")
