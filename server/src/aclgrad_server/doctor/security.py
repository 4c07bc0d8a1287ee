"""The files of TLS and of identities, and how open the listeners are."""

import ssl
import stat
import time
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

from aclgrad.check.rows import Finding, Verdict
from aclgrad_server.access.identities import read_identities
from aclgrad_server.doctor.subject import Found, Subject, bad, fine, noted
from aclgrad_server.edge.tls import open_certificates
from aclgrad_server.exposure import UNIX, dangers
from aclgrad_server.files import UnusableFileError
from aclgrad_server.settings import Settings

_DAY_S: Final = 86400
_SOON_DAYS: Final = 14
_EVERY_ADDRESS: Final = ("0.0.0.0", "::")
_GUESSES: Final = ("", "test", "token", "secret", "password", "changeme", "admin")
"""Tokens of examples, which stay in files by mistake."""


def security(subject: Subject) -> Iterator[Found]:
    """The files, and who reaches the listeners."""
    settings = subject.settings
    try:
        yield from _certificates(settings)
    except UnusableFileError as error:
        clock = "; if it is new, look at this machine's clock" if "not yet valid" in str(error) else ""
        yield "--tls-certificate", Finding(Verdict.FAILED, f"{error}{clock}", {})
    try:
        yield from _identities(settings)
    except UnusableFileError as error:
        yield "--identities", Finding(Verdict.FAILED, str(error), {})
    protection = bool(settings.tls_certificate), bool(settings.tls_client_ca), bool(settings.identities)
    for danger in dangers(settings.listen, *protection):
        yield "--listen", noted(danger)


def _certificates(settings: Settings) -> Iterator[Found]:
    certificates = open_certificates(settings)
    if certificates is None or settings.tls_key is None:
        return
    told = certificates.told
    names = [value for _, value in told.get("subjectAltName", ())]
    yield "--tls-certificate", _lifetime(f"fits its key; for {', '.join(names) or 'no name'}", told)
    mode = settings.tls_key.stat().st_mode
    remedy = f"every user of this machine may read it; chmod o-r {settings.tls_key}"
    yield "--tls-key", noted(remedy) if mode & stat.S_IROTH else fine(f"mode {stat.S_IMODE(mode):o}")
    for address in settings.listen:
        host = address.rpartition(":")[0].strip("[]")
        if (
            not address.startswith(UNIX)
            and host not in _EVERY_ADDRESS
            and not any(_covers(each, host) for each in names)
        ):
            yield (
                f"--listen {address}",
                noted(f"the certificate has no name {host}: clients that use it refuse; add it"),
            )
    if settings.tls_client_ca is not None:
        yield "--tls-client-ca", _authorities(settings.tls_client_ca)


def _lifetime(what: str, told: dict[str, Any]) -> Finding:
    """Judges how long a certificate is still valid."""
    days = (ssl.cert_time_to_seconds(told["notAfter"]) - time.time()) / _DAY_S
    found = f"{what}, until {told['notAfter']}, {days:.0f} days from now"
    if days > _SOON_DAYS:
        return fine(found, days=days)
    verdict = Verdict.FAILED if days < 1 else Verdict.NOTED
    return Finding(verdict, f"{found}; renew it: the server takes a new one without a restart", {"days": days})


def _authorities(path: Path) -> Finding:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_verify_locations(path)
    found: list[dict[str, Any]] = [dict(each) for each in context.get_ca_certs()]
    if not found:
        return bad("has no certificate that may sign others (CA:TRUE)", "give the authority's, not a client's")
    first = min(found, key=lambda each: ssl.cert_time_to_seconds(each["notAfter"]))
    return _lifetime(f"{len(found)} authorities, the first of which is valid", first)


def _covers(name: str, host: str) -> bool:
    """Whether a name of a certificate is that of a host, as clients compare them."""
    try:
        return ip_address(name) == ip_address(host)
    except ValueError:
        # A star stands for one label.
        own = f"*.{host.partition('.')[2]}" if name.startswith("*.") else host
        return name.lower() == own.lower()


def _identities(settings: Settings) -> Iterator[Found]:
    if settings.identities is None:
        return
    identities = read_identities(settings.identities)
    yield "--identities", fine(f"{settings.identities} can be used")
    for guess in _GUESSES:
        if identity := identities.of_token(guess.encode()):
            remedy = "replace it by one of `aclgrad-server token`"
            yield "--identities", bad(f"the token of {identity.name} is {guess!r}, which anybody would try", remedy)
    has_unix = any(address.startswith(UNIX) for address in settings.listen)
    yield from _useless(identities.of_unix_sockets is not None and not has_unix, "unix_socket", "--listen unix:PATH")
    yield from _useless(identities.has_sans and settings.tls_client_ca is None, "sans", "--tls-client-ca")


def _useless(is_useless: bool, what: str, missing: str) -> Iterator[Found]:
    if is_useless:
        yield "--identities", noted(f"{what} of an identity lets nobody in, because {missing} is not given")
