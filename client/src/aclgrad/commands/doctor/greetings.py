"""What speaks on a port: HTTP/2, as gRPC needs it, or something else."""

import socket
import ssl
import time
from contextlib import suppress
from enum import Enum
from typing import Final

from aclgrad.commands.doctor.findings import STEP_S, bad, fine
from aclgrad.commands.doctor.network import Route
from aclgrad.judgement.rows import Finding

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""How a client of HTTP/2 begins: a fixed text, and a frame of settings without any."""
_HEAD_BYTES: Final = 9
_SETTINGS: Final = 4
_TLS_ALERT: Final = b"\x15\x03"


class Spoken(Enum):
    """What the other end answers to the beginning of HTTP/2."""

    HTTP2 = "HTTP/2"
    HTTP1 = "HTTP/1"
    TLS = "TLS"
    CLOSED = "nothing: it ends the connection"
    SILENT = f"nothing within {STEP_S:g} s"
    OTHER = "another protocol"


def greet(connection: socket.socket) -> Spoken:
    """Begins HTTP/2 on a connection; raises ssl.SSLError for an alert of TLS."""
    head, end = b"", time.monotonic() + STEP_S
    try:
        connection.settimeout(STEP_S)
        # Who has ended the connection may have said why.
        with suppress(OSError):
            connection.sendall(_PREFACE)
        while len(head) < _HEAD_BYTES and time.monotonic() < end:
            if not (part := connection.recv(_HEAD_BYTES - len(head))):
                break
            head += part
    except TimeoutError:
        return Spoken.SILENT
    except OSError as error:
        if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):
            raise
        return Spoken.CLOSED
    if len(head) == _HEAD_BYTES and head[3] == _SETTINGS:
        return Spoken.HTTP2
    if head.startswith(b"HTTP/1"):
        return Spoken.HTTP1
    if head.startswith(_TLS_ALERT):
        return Spoken.TLS
    return Spoken.OTHER if head else Spoken.CLOSED


def has_tls(route: Route) -> bool:
    """Says whether a handshake of TLS succeeds, whoever has the certificate, or gets as far as an alert."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        with route.dial() as connection, context.wrap_socket(connection):
            return True
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")
    except OSError:
        return False


def of_plaintext(route: Route) -> Finding:
    """Says whether the port speaks HTTP/2 without TLS, and if not, what to do."""
    try:
        with route.dial() as connection:
            spoken = greet(connection)
    except OSError as error:
        return bad(f"the connection fails: {error}", "try again; if it recurs, look at what is between")
    if spoken is Spoken.HTTP2:
        return fine("HTTP/2 without TLS")
    if spoken is not Spoken.HTTP1 and (spoken is Spoken.TLS or has_tls(route)):
        remedy = "set ACLGRAD_CA to the authority of its certificate, or ACLGRAD_TLS=true (credentials= in Python)"
        return bad("the port has TLS, and this client would speak plaintext", remedy)
    return bad_protocol(spoken)


def bad_protocol(spoken: Spoken) -> Finding:
    """Returns the finding about a port that does not speak HTTP/2."""
    remedy = "the target is another service: give the server's address of --listen"
    if spoken is Spoken.HTTP1:
        remedy += "; its admin listener (9464) and other web servers speak HTTP/1"
    elif spoken in (Spoken.CLOSED, Spoken.SILENT):
        remedy = f"the server hangs or ends, or {remedy}"
    return bad(f"the port does not speak HTTP/2; it answers {spoken.value}", remedy)
