"""TLS: certificates that follow their files, checked before gRPC gets them; connections and calls in flight go on."""

import logging
import os
import ssl
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import grpc

from aclgrad_server.files import Reloaded, UnusableFileError, read_trusted
from aclgrad_server.settings import Settings

log = logging.getLogger(__name__)

_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
_KEY: Final = b"PRIVATE KEY-----"


class Certificates:
    """The certificate of the TCP listeners with its key, and the authorities of the clients' certificates, if any."""

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None) -> None:
        """Raises UnusableFileError if they cannot be used."""
        self._files = certificate, key, client_ca
        self.told: dict[str, Any] = {}
        """What clients learn of the certificate, as `ssl.SSLSocket.getpeercert` has it."""
        self.expires_at = 0.0
        """Unix time at which the certificate in use is no longer valid."""
        self.current = Reloaded("TLS certificate", [each for each in self._files if each], self._read)

    def credentials(self) -> grpc.ServerCredentials:
        """Returns what one listener is made with; each handshake takes the certificate of the moment."""
        taken = self.current.value

        def fetch() -> Any:
            # A thread of gRPC waits for this at each handshake. None keeps the last one, which costs nothing.
            nonlocal taken
            if taken is self.current.value:
                return None
            taken = self.current.value
            return taken

        return grpc.dynamic_ssl_server_credentials(taken, fetch, require_client_authentication=bool(self._files[2]))

    def _read(self) -> Any:
        certificate, key, client_ca = self._files
        chain, secret = read_trusted(certificate), read_trusted(key)
        authorities = None if client_ca is None else read_trusted(client_ca)
        if key.stat().st_mode & stat.S_IROTH:
            log.warning("every user of this machine may read %s; chmod o-r it", key)
        told = _check_pair(certificate, chain, key, secret)
        if client_ca is not None and authorities is not None:
            _check_authorities(client_ca, authorities)
        self.told, self.expires_at = told, ssl.cert_time_to_seconds(told["notAfter"])
        return grpc.ssl_server_certificate_configuration([(secret, chain)], root_certificates=authorities)


def open_certificates(settings: Settings) -> Certificates | None:
    """Returns the certificates of these settings, or None without TLS; raises UnusableFileError."""
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    return Certificates(settings.tls_certificate, settings.tls_key, settings.tls_client_ca)


def _check_pair(certificate: Path, chain: bytes, key: Path, secret: bytes) -> dict[str, Any]:
    """Returns what a client learns of the pair; raises UnusableFileError unless a handshake with it succeeds now."""
    if _CERTIFICATE not in chain:
        raise UnusableFileError(f"{certificate} has no certificate; give a PEM file with the chain, the server's first")
    if _KEY not in secret:
        raise UnusableFileError(f"{key} has no key; give a PEM file with the private key of {certificate}")
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    # The certificate vouches for itself: whether its authority is known is up to the clients.
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        with _in_memory(chain + b"\n" + secret) as file:
            server.load_cert_chain(file, password=_no_password)
        client.load_verify_locations(cadata=chain.decode("ascii"))
        told = _handshake(server, client)
    except ssl.SSLCertVerificationError as error:
        raise UnusableFileError(f"{certificate}: {error.verify_message}; give one that clients accept now") from error
    except (ssl.SSLError, ValueError) as error:
        if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
            raise UnusableFileError(
                f"{key} is not the key of {certificate}; give the two that were made together"
            ) from error
        raise UnusableFileError(f"{certificate} and {key} make no TLS connection: {error}; give PEM files") from error
    names = ", ".join(name for _, name in told.get("subjectAltName", ()))
    log.info("TLS certificate for %s, valid until %s", names or "no name", told["notAfter"])
    return told


def _check_authorities(path: Path, authorities: bytes) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=authorities.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        problem = f"{path} has no certificate of an authority: {error}"
        raise UnusableFileError(f"{problem}; give a PEM file with those that sign the clients' certificates") from error


def _handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> dict[str, Any]:
    """Returns what the client learns of the server's certificate."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while ends:
        for end in tuple(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            ends.remove(end)
            if not end.server_side:
                told: Any = end.getpeercert()
    return dict(told)


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """Yields the path of a file with this content: the module ssl reads a key from a file alone."""
    file = os.memfd_create("tls")
    try:
        os.write(file, content)
        yield f"/proc/self/fd/{file}"
    finally:
        os.close(file)


def _no_password() -> str:
    raise ValueError("the key has a password, and nobody is there to give it: write it without one")
