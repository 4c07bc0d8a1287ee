"""TLS between this client and a server: who issued the certificate, for whom and until when, and who else is asked."""

import os
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import grpc

from aclgrad._client.settings.credentials import Credentials, checked_files
from aclgrad._client.settings.environment import named_by_variable
from aclgrad._client.settings.tls_files import path_of
from aclgrad.commands.doctor.findings import STEP_S, Found, Step, bad, fine, noted
from aclgrad.commands.doctor.greetings import Spoken, bad_protocol, greet
from aclgrad.commands.doctor.network import Route
from aclgrad.errors import InvalidSettingError
from aclgrad.judgement.rows import Finding
from aclgrad.units import span

_ROOTS: Final = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"
_SOON_S: Final = 7 * 86_400
_ALPN: Final = "h2"
_EXPIRED, _NOT_YET, _OTHER_HOST = 10, 9, (62, 64)
"""Codes of OpenSSL's verification; the last two are a name and a number."""
_FILES: Final = ("ACLGRAD_CA", "ACLGRAD_CERTIFICATE", "ACLGRAD_KEY")
_TURN_ON: Final = ("ACLGRAD_TLS", "ACLGRAD_CA", "ACLGRAD_CERTIFICATE", "ACLGRAD_KEY", "ACLGRAD_SERVER_NAME")
_OF_CERTIFICATE: Final = ("certificate", "unknown ca", "access denied")
"""Alerts about what a client shows: https://www.rfc-editor.org/rfc/rfc8446#section-6.2."""
_TOO_OLD: Final = "gRPC takes TLS 1.2 and 1.3: have the server speak one of them"
_REMEDIES: Final = {
    "version": _TOO_OLD,
    "unsupported protocol": _TOO_OLD,
    "handshake failure": "the server may require a client certificate, ACLGRAD_CERTIFICATE and ACLGRAD_KEY, or take no "
    "cipher of this client; its log says which",
    "unrecognized name": "set ACLGRAD_SERVER_NAME to a name that the server has",
    "alert": "the server ended it, and its log may say why",
}
"""Parts of OpenSSL's reasons, of which the first that occurs counts."""


def of_tls(route: Route, credentials: Credentials) -> Found:
    """Yields what a handshake with these credentials says of the server, and what the server says of the client."""
    # As gRPC does: names of certificates have no dot at their end.
    name = (credentials.server_name or route.host.strip("[]")).removesuffix(".")
    try:
        context = _context(credentials)
    except InvalidSettingError as error:
        yield "tls", "files", bad("the files of TLS cannot be used", named_by_variable(error, ()).message)
        return
    except (OSError, ValueError) as error:
        given = ", ".join(each for each in _FILES if os.environ.get(each)) or _ROOTS
        remedy = f"give PEM files, and a key that fits and has no password, in {given}"
        yield "tls", "files", bad(f"the files of TLS cannot be used: {error}", remedy)
        return
    has_own = credentials.certificate is not None
    try:
        with route.dial() as connection, context.wrap_socket(connection, server_hostname=name) as secure:
            yield "tls", "certificate", _of_certificate(secure.getpeercert() or {})
            if secure.selected_alpn_protocol() != _ALPN:
                yield "tls", "protocol", _no_alpn("the server does not choose it")
                return
            spoken, version = greet(secure), secure.version()
    except ssl.SSLCertVerificationError as error:
        yield "tls", "certificate", _refused(error, route, name)
    except ssl.SSLError as error:
        yield _of_failure(error, has_own=has_own)
    except TimeoutError:
        problem = f"the port takes connections and does not answer a handshake within {STEP_S:g} s"
        yield "tls", "handshake", bad(problem, "the server hangs or is stopped, or the target is another service")
    except OSError as error:
        remedy = "the port may speak plaintext (ACLGRAD_TLS=false), or be no server of aclgrad"
        yield "tls", "handshake", bad(f"the handshake fails: {error}", remedy)
    else:
        if spoken is Spoken.CLOSED:
            ended = "it ends the connection after the handshake"
            yield _of_refusal(ended, has_own=True) if has_own else ("tls", "client certificate", _hung_up())
            return
        if spoken is not Spoken.HTTP2:
            yield "tls", "protocol", bad_protocol(spoken)
            return
        told = "that of this client is accepted, or not asked for" if has_own else "the server requires none"
        yield "tls", "client certificate", fine(told)
        yield "tls", "protocol", fine(f"HTTP/2 over {version}")


def _context(credentials: Credentials) -> ssl.SSLContext:
    """Returns what gRPC would check by; raises OSError or ValueError for files that cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols([_ALPN])
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    ca, key, certificate = checked_files(credentials)
    if ca is None:
        brought = Path(grpc.__file__).parent / "_cython/_credentials/roots.pem"
        context.load_verify_locations(os.environ.get(_ROOTS) or brought)
    else:
        with path_of(ca) as authorities:
            context.load_verify_locations(authorities)
    if certificate is not None and key is not None:
        with path_of(certificate) as own, path_of(key) as secret:
            # Without a password, OpenSSL would ask for one.
            context.load_cert_chain(own, secret, password="")
    return context


def _of_certificate(certificate: Mapping[str, Any]) -> Finding:
    left_s = ssl.cert_time_to_seconds(certificate["notAfter"]) - time.time()
    told = f"it is for {_names(certificate)}, by {_issuer(certificate)}, and ends in {span(left_s)}"
    return noted(f"{told}: renew it") if left_s < _SOON_S else fine(told)


def _refused(error: ssl.SSLCertVerificationError, route: Route, name: str) -> Finding:
    """Returns the finding about a certificate that gRPC would refuse."""
    clock = f"the clock of this machine says {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC"
    seen = _presented(route)
    if error.verify_code == _EXPIRED:
        return bad(f"the server's certificate has expired; {clock}", "renew it")
    if error.verify_code == _NOT_YET:
        return bad(f"the server's certificate is not valid yet; {clock}", "set the clocks of both machines")
    if error.verify_code in _OTHER_HOST:
        remedy = "give the target one of its names, or set ACLGRAD_SERVER_NAME to one"
        return bad(f"the server's certificate is for {_names(seen)}, not for {name}", remedy)
    remedy = "set ACLGRAD_CA to the file of the authority that issued it"
    return bad(f"the server's certificate, by {_issuer(seen)}, is not trusted: {error.verify_message}", remedy)


def _presented(route: Route) -> Mapping[str, Any]:
    """Returns what the server's certificate says, trusting it for that; empty if it is not valid now."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with route.dial() as connection, context.wrap_socket(connection) as secure:
            presented = secure.getpeercert(binary_form=True) or b""
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(cadata=presented)
        with route.dial() as connection, context.wrap_socket(connection) as secure:
            return secure.getpeercert() or {}
    except (OSError, ValueError):
        return {}


def _of_failure(error: ssl.SSLError, *, has_own: bool) -> Step:
    """Returns the finding about a handshake that either side ended."""
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if "wrong version" in reason or "http request" in reason:
        remedy = f"{_how_to_go_without()}, or put TLS on the server"
        return "tls", "handshake", bad("the port does not speak TLS, and this client would", remedy)
    if "application protocol" in reason:
        return "tls", "protocol", _no_alpn(reason)
    if any(each in reason for each in _OF_CERTIFICATE):
        return _of_refusal(reason, has_own=has_own)
    remedy = next(
        (told for part, told in _REMEDIES.items() if part in reason), "look at what is between the two machines"
    )
    return "tls", "handshake", bad(f"the handshake fails: {reason}", remedy)


def _how_to_go_without() -> str:
    """Returns how this client would speak plaintext; a token needs ACLGRAD_TLS to say so."""
    has_token = bool(os.environ.get("ACLGRAD_TOKEN"))
    given = [each for each in _TURN_ON if os.environ.get(each) and not (has_token and each == "ACLGRAD_TLS")]
    unset = [f"unset {', '.join(given)}"] if given else []
    return " and ".join([*unset, *(["set ACLGRAD_TLS=false"] if has_token else [])])


def _no_alpn(why: str) -> Finding:
    """Returns the finding about a server without HTTP/2 in its handshake, which gRPC does not speak to."""
    remedy = "have what ends TLS there, such as a load balancer, offer h2"
    return bad(f"gRPC needs the protocol h2 from the handshake (ALPN): {why}", remedy)


def _of_refusal(reason: str, *, has_own: bool) -> Step:
    """Returns the finding about a server that does not take this client."""
    remedy = "see --tls-client-ca of the server for who issues them"
    if has_own:
        return "tls", "client certificate", bad(f"the server refuses the certificate of this client: {reason}", remedy)
    remedy = f"set ACLGRAD_CERTIFICATE and ACLGRAD_KEY; {remedy}"
    return "tls", "client certificate", bad(f"the server refuses a client without a certificate: {reason}", remedy)


def _hung_up() -> Finding:
    """Returns the finding about a server that says nothing to a client without a certificate."""
    remedy = "it may take no client without a certificate of its own (ACLGRAD_CERTIFICATE and ACLGRAD_KEY; see "
    remedy += "--tls-client-ca of the server), or be a load balancer without a server behind it"
    return bad("the server ends the connection after the handshake", remedy)


def _names(certificate: Mapping[str, Any]) -> str:
    if names := ", ".join(value for _, value in certificate.get("subjectAltName", ())):
        return names
    common = _parts(certificate, "subject").get("commonName")
    return f"no name but the CN {common}, which does not count" if common else "no name that can be read"


def _issuer(certificate: Mapping[str, Any]) -> str:
    parts = _parts(certificate, "issuer")
    return parts.get("commonName") or parts.get("organizationName") or "an unknown authority"


def _parts(certificate: Mapping[str, Any], name: str) -> dict[str, str]:
    return dict(part for parts in certificate.get(name, ()) for part in parts)
