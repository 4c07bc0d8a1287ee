"""Names of hosts become numbers, which is all that gRPC's lists of addresses take."""

import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from aclgrad._client.channel.options import ChannelOption
from aclgrad._client.channel.proxies import Proxy, ProxyRules, list_options
from aclgrad._client.channel.targets import Source, is_host_and_port, targets_of
from aclgrad._client.reports import log

Addresses = Sequence[str] | Source
"""Each `host:port`, or what says them."""
_V6: Final = "["
_UNIX: Final = "unix:"
_NOWHERE: Final = "0.0.0.0:0"
"""In place of a proxy whose name is unknown: nobody listens there."""


class SourceError(Exception):
    """A user's function named no server; the text says why."""


@dataclass(frozen=True, slots=True)
class Found:
    """What names stand for: for each `host:port` the same with a number for the host, or several.

    A channel to all of them needs `options`; some of them are behind `proxy`, if it is not None.
    """

    numbers: Mapping[str, tuple[str, ...]]
    options: tuple[ChannelOption, ...] = ()
    proxy: Proxy | None = None


def look_up(addresses: Addresses, rules: ProxyRules) -> Found:
    """Returns the numbers of those that can be found; logs the others. It may wait for a name server.

    Raises SourceError.
    """
    numbers: dict[str, tuple[str, ...]] = {}
    for address in dict.fromkeys(_asked(addresses) if callable(addresses) else addresses):
        if told := _looked_up(address):
            numbers[address] = told
    proxied, proxy = _behind_proxy(numbers, rules)
    if proxy is None:
        return Found(numbers, list_options((), None, ""))
    # Without its proxy a channel would go directly: it has to fail, and to say which proxy is meant.
    place = next(iter(_looked_up(proxy.name)), _NOWHERE)
    return Found(numbers, list_options(proxied, proxy, place), proxy)


def _looked_up(address: str) -> tuple[str, ...]:
    host, _, port = address.rpartition(":")
    try:
        places = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        log.warning("%s is left out: %s", address, getattr(error, "strerror", None) or error)
        return ()
    return tuple(dict.fromkeys(_written(str(place[0]), port) for *_, place in places))


def _behind_proxy(numbers: Mapping[str, tuple[str, ...]], rules: ProxyRules) -> tuple[list[str], Proxy | None]:
    """Returns the numbers of the hosts that gRPC reaches through the proxy, and the proxy if there are any."""
    names = [each for each in numbers if rules.proxy_for(host_of(each)) is not None]
    return [number for each in names for number in numbers[each]], rules.proxy if names else None


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


def numbers_of(addresses: Iterable[str], rules: ProxyRules) -> Found | None:
    """Returns the same without asking anybody, or None if one of them, or the proxy to one of them, is a name."""
    numbers: dict[str, tuple[str, ...]] = {}
    for address in addresses:
        if (number := _number_of(address)) is None:
            return None
        numbers[address] = (number,)
    proxied, proxy = _behind_proxy(numbers, rules)
    place = "" if proxy is None else _number_of(proxy.name)
    return None if place is None else Found(numbers, list_options(proxied, proxy, place), proxy)


def _number_of(address: str) -> str | None:
    host, _, port = address.rpartition(":")
    try:
        return _written(str(ip_address(host.strip("[]"))), port)
    except ValueError:
        return None


def host_of(address: str) -> str:
    """Returns the host of `host:port`, without the brackets of a number."""
    return address.rpartition(":")[0].strip("[]")


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
