"""TLS: certificates are reread when their files change, and checked by OpenSSL before gRPC gets them."""

import logging
import ssl
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import grpc
from cryptography import x509

from aclgrad_server.files import Reloaded, UnusableFileError, read_trusted
from aclgrad_server.settings import Settings

log = logging.getLogger(__name__)

SESSIONS_S: Final = 60.0
"""How long clients may resume sessions. A resumed session does not check the client's certificate again."""


class Certificates:
    """The certificate of the TCP listeners with its key, and the authorities of the clients' certificates, if any."""

    def __init__(
        self, certificate: Path, key: Path, client_ca: Path | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Raises UnusableFileError if they cannot be used."""
        self._clock = clock
        self._files = certificate, key, client_ca
        self.expires_at = 0.0
        """Unix time at which it is no longer valid."""
        self.current = Reloaded("TLS certificate", [each for each in self._files if each], self._read)

    def credentials(self) -> grpc.ServerCredentials:
        """Returns one listener's credentials; each handshake uses the current certificate."""
        taken, taken_s = self.current.value, self._clock()

        def fetch() -> Any:
            # A gRPC thread waits for this at each handshake. None keeps the last one at no cost.
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
        own = _loaded(certificate, key, chain)
        authorities = None if client_ca is None else read_trusted(client_ca)
        if client_ca is not None:
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(client_ca)
            except OSError as error:
                remedy = "give a PEM file with certificates alone"
                raise UnusableFileError(f"{client_ca} has no certificate: {_reason(error)}; {remedy}") from error
        self.expires_at = own.not_valid_after_utc.timestamp()
        until = f"{own.not_valid_after_utc:%Y-%m-%d %H:%M:%S} UTC"
        log.info("TLS certificate for %s, valid until %s", ", ".join(_names(own)) or "no name", until)
        return grpc.ssl_server_certificate_configuration([(secret, chain)], root_certificates=authorities)


def open_certificates(settings: Settings) -> Certificates | None:
    """Returns the certificates of these settings, or None without TLS; raises UnusableFileError."""
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    return Certificates(settings.tls_certificate, settings.tls_key, settings.tls_client_ca)


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
