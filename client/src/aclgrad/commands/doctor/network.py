"""The way to a server, below gRPC: names, connections, and a proxy between."""

import errno
import re
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from aclgrad._client.channel.proxies import Proxy
from aclgrad.commands.doctor.findings import STEP_S, bad, begin, fine, noted
from aclgrad.judgement.rows import Finding
from aclgrad.units import span

_TCP: Final = re.compile(r"(?i:dns:(?://[^/]*/)?|ipv[46]:)?(?P<host>\[[^\[\]]+\]|[^:/,\[\]]+):(?P<port>[0-9]+)")
_UNIX: Final = re.compile(r"(?i:unix):(?://)?(?P<path>.+)")
_MAX_REPLY_BYTES: Final = 8192
_UNAUTHORIZED: Final = " 407"
"""In the first line of the answer of a proxy that wants another password, or one at all."""
Address = tuple[socket.AddressFamily, Any]
"""What a socket is made with, and what it is connected to: a pair or more, whose first part is the number."""


@dataclass(frozen=True, slots=True)
class Route:
    """How a socket is connected to a server: by its host and port or its path, and the addresses that were found."""

    host: str = ""
    port: int = 0
    path: str = ""
    proxy: Proxy | None = None
    addresses: tuple[Address, ...] = ()

    @property
    def entry(self) -> tuple[str, int]:
        """The host and port that connections are made to."""
        return (self.host, self.port) if self.proxy is None else (self.proxy.host, int(self.proxy.port))

    def dial(self) -> socket.socket:
        """Returns a connection to the server, through the proxy if there is one; raises OSError."""
        if self.path:
            return _opened(socket.AF_UNIX, self.path)
        connection = _opened(*self.addresses[0])
        if self.proxy is not None:
            try:
                _pass(connection, self.proxy, f"{self.host}:{self.port}")
            except BaseException:
                connection.close()
                raise
        return connection


def route_of(target: str) -> Route | None:
    """Returns the way to a checked target, without its addresses; None for a target that only gRPC can reach."""
    if found := _UNIX.fullmatch(target):
        return Route(path=found["path"])
    if found := _TCP.fullmatch(target):
        return Route(found["host"], int(found["port"]))
    return None


def look_up(route: Route) -> tuple[Route, Finding]:
    """Returns the route with the addresses behind the name that connections are made to: none if it has none."""
    host, port = route.entry
    start = time.monotonic()
    looked_up = begin(lambda: socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM))
    try:
        found = looked_up.result(STEP_S)
    except TimeoutError:
        problem = f"no name server answers for {host} within {STEP_S:g} s"
        return route, bad(problem, "check /etc/resolv.conf and the network, or give a number in place of the name")
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        remedy = "check its spelling, /etc/hosts and the search domains, or give a number"
        return route, bad(f"{host} cannot be resolved: {why}", remedy)
    addresses = tuple(dict.fromkeys((each[0], each[4]) for each in found))
    numbers = ", ".join(str(address[0]) for _, address in addresses)
    is_number = numbers == host.strip("[]")
    told = f"{host} is a number" if is_number else f"{host} is {numbers} ({span(time.monotonic() - start)})"
    return replace(route, addresses=addresses), fine(told)


def connect(route: Route) -> tuple[Route, Finding]:
    """Returns the route with the addresses that take connections, all of which are tried at once."""
    start = time.monotonic()
    if route.path:
        try:
            _try(socket.AF_UNIX, route.path)
        except OSError as error:
            return route, bad(f"{route.path} {_reason(error)}", _UNIX_REMEDY if _is_gone(error) else _remedy(error))
        return route, fine(f"{route.path} takes connections")
    attempts = [(each, begin(partial(_try, *each))) for each in route.addresses]
    failures = {address: each.exception() for address, each in attempts}
    host, port = route.entry
    usable = tuple(address for address, failure in failures.items() if failure is None)
    failed = {address[1][0]: failure for address, failure in failures.items() if isinstance(failure, OSError)}
    told = "; ".join(f"{_bracketed(number)}:{port} {_reason(failure)}" for number, failure in failed.items())
    if not usable and route.proxy:
        problem = f"the proxy of {route.proxy.variable} cannot be used: {told}"
        return replace(route, addresses=()), bad(
            problem, f"correct the variable, or {route.proxy.way_around(route.host)}"
        )
    if not usable:
        return replace(route, addresses=()), bad(told, _remedy(*failed.values()))
    took = f"{host}:{port} takes connections ({span(time.monotonic() - start)})"
    return replace(route, addresses=usable), noted(f"{took}, but {told}") if told else fine(took)


def ask_proxy(route: Route) -> Finding:
    """Says whether the proxy connects to the server."""
    assert route.proxy is not None
    try:
        route.dial().close()
    except OSError as error:
        problem = f"the proxy {route.proxy.name} of {route.proxy.variable} does not lead to {route.host}: {error}"
        remedy = "check the user and the password" if _UNAUTHORIZED in str(error) else "have the proxy allow it"
        return bad(problem, f"{remedy}, or {route.proxy.way_around(route.host)}")
    return fine(f"the proxy {route.proxy.name} connects to {route.host}:{route.port}")


def _bracketed(number: str) -> str:
    return f"[{number}]" if ":" in number else number


def _is_gone(error: OSError) -> bool:
    return error.errno in (errno.ENOENT, errno.ECONNREFUSED)


def _try(family: socket.AddressFamily, address: Any) -> None:
    _opened(family, address).close()


def _opened(family: socket.AddressFamily, address: Any) -> socket.socket:
    connection = socket.socket(family)
    try:
        connection.settimeout(STEP_S)
        connection.connect(address)
    except BaseException:
        connection.close()
        raise
    return connection


def _pass(connection: socket.socket, proxy: Proxy, server: str) -> None:
    """Has the proxy connect to the server; raises OSError with its answer if it does not."""
    lines = [f"CONNECT {server} HTTP/1.1", f"Host: {server}"]
    if proxy.authorization is not None:
        lines.append(f"Proxy-Authorization: Basic {proxy.authorization}")
    connection.sendall("\r\n".join([*lines, "", ""]).encode())
    reply, end = b"", time.monotonic() + STEP_S
    # Byte by byte: what comes after the head is the server's.
    while not reply.endswith(b"\r\n\r\n") and len(reply) < _MAX_REPLY_BYTES and time.monotonic() < end:
        if not (byte := connection.recv(1)):
            break
        reply += byte
    first = reply.partition(b"\r\n")[0].decode("ascii", "replace")
    if not re.match(r"HTTP/1\.[01] 2\d\d\b", first):
        raise OSError(f"it answers {first!r}" if first else "it ends the connection")


_UNIX_REMEDY: Final = (
    "start the server with --listen unix:PATH; in a container the folder has to be the same on both sides"
)
_REASONS: Final = {
    errno.ECONNREFUSED: (
        "refuses connections: nobody listens there",
        "start the server, or give it --listen with an address that this machine reaches: by default it listens on "
        "127.0.0.1 of its own machine or container",
    ),
    errno.ENOENT: ("does not exist", _UNIX_REMEDY),
    errno.EACCES: ("is not accessible to this user", "see --unix-socket-mode and --unix-socket-group of the server"),
}
_SILENT: Final = (
    f"does not answer within {STEP_S:g} s",
    "the machine is down, or a firewall drops the packets: open the port",
)


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return _SILENT[0]
    return _REASONS[error.errno][0] if error.errno in _REASONS else f"cannot be reached: {error.strerror or error}"


def _remedy(*errors: OSError) -> str:
    known: Sequence[str] = [_REASONS[each.errno][1] for each in errors if each.errno in _REASONS]
    silent = [_SILENT[1] for each in errors if isinstance(each, TimeoutError)]
    return next(iter([*known, *silent]), "check the network between the two machines")
