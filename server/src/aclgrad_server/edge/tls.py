"""TLS: certificates that follow their files, checked before gRPC gets them; connections and calls in flight go on."""

import logging
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import grpc
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from aclgrad_server.files import Reloaded, UnusableFileError, read_trusted
from aclgrad_server.settings import Settings

log = logging.getLogger(__name__)

SESSIONS_S: Final = 60.0
"""How long clients may resume sessions. The certificate of one that does is not looked at, and may have expired."""
_CURVES: Final = (ec.SECP256R1, ec.SECP384R1)
_LEAST_RSA_BITS: Final = 2048


class Certificates:
    """The certificate of the TCP listeners with its key, and the authorities of the clients' certificates, if any."""

    def __init__(
        self, certificate: Path, key: Path, client_ca: Path | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Raises UnusableFileError if they cannot be used."""
        self._clock = clock
        self._files = certificate, key, client_ca
        self.names: tuple[str, ...] = ()
        """For which hosts the certificate in use is."""
        self.expires_at = 0.0
        """Unix time at which it is no longer valid."""
        self.current = Reloaded("TLS certificate", [each for each in self._files if each], self._read)

    def credentials(self) -> grpc.ServerCredentials:
        """Returns what one listener is made with; each handshake takes the certificate of the moment."""
        taken, taken_s = self.current.value, self._clock()

        def fetch() -> Any:
            # A thread of gRPC waits for this at each handshake. None keeps the last one, which costs nothing.
            nonlocal taken, taken_s
            now_s = self._clock()
            if taken is self.current.value and now_s < taken_s + SESSIONS_S:
                return None
            taken, taken_s = self.current.value, now_s
            return taken

        return grpc.dynamic_ssl_server_credentials(taken, fetch, require_client_authentication=bool(self._files[2]))

    def _read(self) -> Any:
        certificate, key, client_ca = self._files
        chain, secret = read_trusted(certificate), read_trusted(key, is_key=True)
        own = _check_pair(certificate, chain, key, secret)
        authorities = None if client_ca is None else read_trusted(client_ca)
        if client_ca is not None and authorities is not None:
            certificates_of(client_ca, authorities)
        self.names, self.expires_at = _names(own), own.not_valid_after_utc.timestamp()
        until = f"{own.not_valid_after_utc:%Y-%m-%d %H:%M:%S} UTC"
        log.info("TLS certificate for %s, valid until %s", ", ".join(self.names) or "no name", until)
        return grpc.ssl_server_certificate_configuration([(secret, chain)], root_certificates=authorities)


def open_certificates(settings: Settings) -> Certificates | None:
    """Returns the certificates of these settings, or None without TLS; raises UnusableFileError."""
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    return Certificates(settings.tls_certificate, settings.tls_key, settings.tls_client_ca)


def certificates_of(path: Path, content: bytes) -> Sequence[x509.Certificate]:
    """Returns the certificates of a PEM file; raises UnusableFileError if it has none or others."""
    try:
        return x509.load_pem_x509_certificates(content)
    except ValueError as error:
        raise UnusableFileError(
            f"{path} has no certificate: {error}; give a PEM file with certificates alone"
        ) from error


def _check_pair(certificate: Path, chain: bytes, key: Path, secret: bytes) -> x509.Certificate:
    """Returns the server's own certificate; raises UnusableFileError unless clients of gRPC take the pair now."""
    own = certificates_of(certificate, chain)[0]
    public = own.public_key()
    try:
        pair = load_pem_private_key(secret, password=None)
    except TypeError as error:
        raise UnusableFileError(
            f"{key} has a password, and nobody is there to give it: write it without one"
        ) from error
    except ValueError as error:
        raise UnusableFileError(f"{key} has no key; give a PEM file with the private key of {certificate}") from error
    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    if pair.public_key().public_bytes(*form) != public.public_bytes(*form):
        raise UnusableFileError(f"{key} is not the key of {certificate}; give the two that were made together")
    is_fit = isinstance(public, rsa.RSAPublicKey) and public.key_size >= _LEAST_RSA_BITS
    if not (is_fit or (isinstance(public, ec.EllipticCurvePublicKey) and isinstance(public.curve, _CURVES))):
        kind = public.curve.name if isinstance(public, ec.EllipticCurvePublicKey) else type(public).__name__
        remedy = f"give RSA of {_LEAST_RSA_BITS} bits, or ECDSA P-256 or P-384"
        raise UnusableFileError(f"{certificate} has a key that clients do not take ({kind}); {remedy}")
    now, remedy = datetime.now(UTC), "give one that clients accept now"
    if now < own.not_valid_before_utc:
        raise UnusableFileError(f"{certificate}: certificate is not yet valid; {remedy}, or set the clock")
    if now >= own.not_valid_after_utc:
        raise UnusableFileError(f"{certificate}: certificate has expired; {remedy}")
    try:
        usages = own.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return own
    if ExtendedKeyUsageOID.SERVER_AUTH not in usages:
        raise UnusableFileError(f"{certificate}: certificate is not for servers; {remedy}")
    return own


def _names(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(str(each.value) for each in names)
