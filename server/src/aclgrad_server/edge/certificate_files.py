"""Files of a certificate, its key and authorities, read by OpenSSL. Loads no gRPC: a supervisor checks them, too."""

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from cryptography import x509

from aclgrad_server.files import UnusableFileError, read_trusted


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """What the files hold, as gRPC takes it; `client_ca` is None if clients need no certificate."""

    key: bytes
    chain: bytes
    client_ca: bytes | None
    names: tuple[str, ...]
    expires_at: datetime

    @classmethod
    def read(cls, certificate: Path, key: Path, client_ca: Path | None) -> Self:
        """Raises UnusableFileError unless OpenSSL takes them, and clients would now."""
        chain, secret = read_trusted(certificate), read_trusted(key, is_key=True)
        own = _loaded(certificate, key, chain)
        authorities = None if client_ca is None else read_trusted(client_ca)
        if client_ca is not None:
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(client_ca)
            except OSError as error:
                remedy = "give a PEM file with certificates alone"
                raise UnusableFileError(f"{client_ca} has no certificate: {_reason(error)}; {remedy}") from error
        return cls(secret, chain, authorities, _names(own), own.not_valid_after_utc)


def _loaded(certificate: Path, key: Path, chain: bytes) -> x509.Certificate:
    """Returns the server's own certificate; raises UnusableFileError unless OpenSSL takes it with the key, now."""
    try:
        # Without a password, OpenSSL would ask for one.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
        own = x509.load_pem_x509_certificates(chain)[0]
    except (OSError, ValueError) as error:
        remedy = "give PEM files that were made together, the key without a password"
        raise UnusableFileError(f"{certificate} cannot be used with {key}: {_reason(error)}; {remedy}") from error
    if not own.not_valid_before_utc <= (now := datetime.now(UTC)) < own.not_valid_after_utc:
        period = f"is valid from {own.not_valid_before_utc:%Y-%m-%d %H:%M} to {own.not_valid_after_utc:%Y-%m-%d %H:%M}"
        remedy = "give one that clients accept now, or set the clock"
        raise UnusableFileError(f"{certificate} {period} UTC, and it is {now:%Y-%m-%d %H:%M}; {remedy}")
    return own


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return reason.replace("_", " ").lower() if reason else str(error)


def _names(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(str(each.value) for each in names)
