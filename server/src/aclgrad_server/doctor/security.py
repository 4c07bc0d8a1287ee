"""The files of TLS and of identities, and how open the listeners are."""

import time
from collections.abc import Iterator
from typing import Final

from cryptography import x509

from aclgrad.check.rows import Finding, Verdict
from aclgrad_server.access.identities import read_identities
from aclgrad_server.doctor.subject import Found, Subject, bad, fine, noted
from aclgrad_server.edge.tls import certificates_of, open_certificates
from aclgrad_server.exposure import UNIX, dangers
from aclgrad_server.files import UnusableFileError, read_trusted
from aclgrad_server.settings import Settings

_DAY_S: Final = 86400
_SOON_DAYS: Final = 14


def security(subject: Subject) -> Iterator[Found]:
    """The files, and who reaches the listeners."""
    settings = subject.settings
    try:
        yield from _certificates(settings)
    except UnusableFileError as error:
        yield "--tls-certificate", Finding(Verdict.FAILED, str(error), {})
    try:
        yield from _identities(settings)
    except UnusableFileError as error:
        yield "--identities", Finding(Verdict.FAILED, str(error), {})
    protection = bool(settings.tls_certificate), bool(settings.tls_client_ca), bool(settings.identities)
    for danger in dangers(settings.listen, *protection):
        yield "--listen", noted(danger)


def _certificates(settings: Settings) -> Iterator[Found]:
    certificates = open_certificates(settings)
    if certificates is None:
        return
    what = f"fits its key; for {', '.join(certificates.names) or 'no name'}"
    yield "--tls-certificate", _lifetime(what, certificates.expires_at)
    if settings.tls_client_ca is not None:
        found = certificates_of(settings.tls_client_ca, read_trusted(settings.tls_client_ca))
        if not any(map(_may_sign, found)):
            problem = "has no certificate that may sign others (CA:TRUE)"
            yield "--tls-client-ca", bad(problem, "give the authority's, not a client's")
            return
        first = min(each.not_valid_after_utc.timestamp() for each in found)
        yield "--tls-client-ca", _lifetime(f"{len(found)} authorities, the first of which is valid", first)


def _may_sign(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return True  # of version 1


def _lifetime(what: str, expires_at: float) -> Finding:
    """Judges how long a certificate is still valid."""
    days = (expires_at - time.time()) / _DAY_S
    until = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(expires_at))
    found = f"{what}, until {until}, {days:.0f} days from now"
    if days > _SOON_DAYS:
        return fine(found, days=days)
    verdict = Verdict.FAILED if days < 1 else Verdict.NOTED
    return Finding(verdict, f"{found}; renew it: the server takes a new one without a restart", {"days": days})


def _identities(settings: Settings) -> Iterator[Found]:
    if settings.identities is None:
        return
    identities = read_identities(settings.identities)
    yield "--identities", fine(f"{settings.identities} can be used")
    has_unix = any(address.startswith(UNIX) for address in settings.listen)
    yield from _useless(identities.of_unix_sockets is not None and not has_unix, "unix_socket", "--listen unix:PATH")
    yield from _useless(identities.has_sans and settings.tls_client_ca is None, "sans", "--tls-client-ca")


def _useless(is_useless: bool, what: str, missing: str) -> Iterator[Found]:
    if is_useless:
        yield "--identities", noted(f"{what} of an identity lets nobody in, because {missing} is not given")
