"""TLS: certificates that follow their files; connections and calls go on."""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import grpc

from aclgrad_server.edge.certificate_files import CertificateFiles
from aclgrad_server.files import Reloaded
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
        files = CertificateFiles.read(*self._files)
        self.expires_at = files.expires_at.timestamp()
        until = f"{files.expires_at:%Y-%m-%d %H:%M:%S} UTC"
        log.info("TLS certificate for %s, valid until %s", ", ".join(files.names) or "no name", until)
        return grpc.ssl_server_certificate_configuration([(files.key, files.chain)], files.client_ca)


def open_certificates(settings: Settings) -> Certificates | None:
    """Returns the certificates of these settings, or None without TLS; raises UnusableFileError."""
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    return Certificates(settings.tls_certificate, settings.tls_key, settings.tls_client_ca)
