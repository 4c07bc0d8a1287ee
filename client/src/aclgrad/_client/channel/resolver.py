"""Names of hosts become numbers, which is all that gRPC's lists of addresses take."""

import socket
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import Final

from aclgrad._client.channel.targets import Source, is_host_and_port, targets_of
from aclgrad._client.reports import log

Addresses = Sequence[str] | Source
"""Each `host:port`, or what says them."""
Found = Mapping[str, tuple[str, ...]]
"""For each `host:port` that was found: the same with a number for the host, or several."""
_V6: Final = "["
_UNIX: Final = "unix:"


class SourceError(Exception):
    """A user's function named no server; the text says why."""


def look_up(addresses: Addresses) -> Found:
    """Returns the numbers of those that can be found; tells the log of the others. It may wait for a name server.

    Raises SourceError.
    """
    found: dict[str, tuple[str, ...]] = {}
    for address in dict.fromkeys(_asked(addresses) if callable(addresses) else addresses):
        host, _, port = address.rpartition(":")
        try:
            places = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            log.warning("%s is left out: %s", address, getattr(error, "strerror", None) or error)
            continue
        numbers = (_written(str(place[0]), port) for *_, place in places)
        found[address] = tuple(dict.fromkeys(numbers))
    return found


def _asked(source: Source) -> Sequence[str]:
    """Returns the servers that a user's function names; raises SourceError."""
    try:
        targets = targets_of(source())
    except BaseException as error:  # whatever a function of the user raises, sys.exit included, ends nothing here
        raise SourceError(f"the function that names the servers failed: {type(error).__name__}: {error}") from error
    for each in targets:
        if not is_host_and_port(each):
            log.warning("%s is left out: a function names servers by host:port", each)
    named = [each for each in targets if is_host_and_port(each)]
    if not named:
        raise SourceError("the function that names the servers names none by host:port")
    return named


def numbers_of(addresses: Iterable[str]) -> Found | None:
    """Returns the same without asking anybody, or None if one of them is a name."""
    found: dict[str, tuple[str, ...]] = {}
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            found[address] = (_written(str(ip_address(host.strip("[]"))), port),)
        except ValueError:
            return None
    return found


def target_of(addresses: Iterable[str]) -> str:
    """Returns one target of gRPC for all of these numbers, or paths of unix sockets: its lists hold one family."""
    addresses = list(dict.fromkeys(addresses))
    if addresses[0].startswith(_UNIX):
        return _UNIX + ",".join(each.removeprefix(_UNIX) for each in addresses)
    if not any(each.startswith(_V6) for each in addresses):
        return "ipv4:" + ",".join(addresses)
    return "ipv6:" + ",".join(each if each.startswith(_V6) else _mapped(each) for each in addresses)


def _written(host: str, port: str) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _mapped(address: str) -> str:
    host, _, port = address.rpartition(":")
    return f"[::ffff:{host}]:{port}"
