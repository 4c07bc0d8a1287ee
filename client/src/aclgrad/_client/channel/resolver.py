"""Resolves host names to addresses, because gRPC's lists take only these."""

import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from itertools import chain
from typing import Final

from aclgrad._client.channel.options import ChannelOption
from aclgrad._client.channel.proxies import Proxy, ProxyRules, Seen, list_options
from aclgrad._client.channel.targets import Source, is_host_and_port, targets_of
from aclgrad._client.reports import log

Addresses = Sequence[str] | Source
"""The servers, each `host:port`, or a function that returns them."""
_V6: Final = "["
_UNIX: Final = "unix:"
_NOWHERE: Final = "0.0.0.0:0"
"""Stands for a proxy of unknown address: nobody listens there."""
_TRY_S: Final = 1.0
"""Time limit for connections to all addresses of a proxy."""


class SourceError(Exception):
    """A user's function returned no server; the text says why."""


@dataclass(frozen=True, slots=True)
class Found:
    """Resolved names: for each `host:port` one or several numeric addresses with the port.

    A channel to all of them needs `options`; some are behind `proxy`, if it is not None.
    """

    numbers: Mapping[str, tuple[str, ...]]
    options: tuple[ChannelOption, ...] = field(default=(), repr=False)
    """They may hold a password."""
    proxy: Proxy | None = None


def look_up(addresses: Addresses, rules: ProxyRules) -> Found:
    """Returns the addresses of all names that can be found; logs the others. May wait for a name server.

    Raises SourceError.
    """
    named = list(dict.fromkeys(_asked(addresses, rules.seen) if callable(addresses) else addresses))
    told = {host: _looked_up(host) for host in dict.fromkeys(map(host_of, named))}
    numbers = {each: _with_port(found, each) for each in named if not isinstance(found := told[host_of(each)], str)}
    unfound = {host: why for host, why in told.items() if isinstance(why, str)}
    for host in unfound.keys() - rules.seen.unfound:
        missing = [each for each in named if host_of(each) == host]
        log.warning("%s %s left out: %s", ", ".join(missing), "is" if len(missing) == 1 else "are", unfound[host])
    behind = [each for each in numbers if rules.proxy_for(host_of(each)) is not None]
    number, proxy = _entry(rules.proxy, rules.seen, unfound) if behind and rules.proxy else ("", None)
    rules.seen.unfound = frozenset(unfound)
    proxied = chain.from_iterable(numbers[each] for each in behind)
    return Found(numbers, list_options(proxied, proxy, number), proxy)


def _entry(proxy: Proxy, seen: Seen, unfound: dict[str, str]) -> tuple[str, Proxy]:
    """Returns the address of a proxy, with its port; the last one if its name cannot be looked up now.

    If no address is known, the channel has to fail and say why; without a proxy it would connect directly.
    """
    if proxy.problem:
        return _NOWHERE, proxy
    found = _looked_up(proxy.host)
    if not isinstance(found, str):
        seen.proxy = _accepting(_with_port(found, proxy.name))
        return seen.proxy, proxy
    problem = f"cannot be looked up: {found}"
    if proxy.name not in seen.unfound:
        log.warning("the proxy %s of %s %s", proxy.name, proxy.variable, problem)
    unfound[proxy.name] = found
    return (seen.proxy, proxy) if seen.proxy else (_NOWHERE, replace(proxy, problem=problem))


def _accepting(numbers: Sequence[str]) -> str:
    """Returns the first address that takes connections, else the first of all: in a list, gRPC takes only one.

    Each process tries them in an order of its own and so stays with one.
    """
    numbers = sorted(numbers, key=hash)
    for number in numbers if len(numbers) > 1 else ():
        with suppress(OSError):
            socket.create_connection((host_of(number), int(number.rpartition(":")[2])), _TRY_S / len(numbers)).close()
            return number
    return numbers[0]


def _looked_up(host: str) -> tuple[str, ...] | str:
    """Returns the addresses of a host, or why there are none."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return str(getattr(error, "strerror", None) or error)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


def _with_port(numbers: Iterable[str], address: str) -> tuple[str, ...]:
    """Returns the addresses with this one's port."""
    port = address.rpartition(":")[2]
    return tuple(f"[{each}]:{port}" if ":" in each else f"{each}:{port}" for each in numbers)


def _asked(source: Source, seen: Seen) -> Sequence[str]:
    """Returns the servers from a user's function; raises SourceError."""
    try:
        targets = targets_of(source())
    except BaseException as error:  # any error of the user's function, sys.exit included
        raise SourceError(f"the function that names the servers failed: {type(error).__name__}: {error}") from error
    refused = frozenset(each for each in targets if not is_host_and_port(each))
    for each in refused - seen.refused:
        log.warning("%s is left out: a function names servers by host:port", each)
    seen.refused = refused
    named = [each for each in targets if is_host_and_port(each)]
    if not named:
        raise SourceError("the function that names the servers names none by host:port")
    return named


def numbers_of(addresses: Sequence[str], rules: ProxyRules) -> Found | None:
    """Returns the addresses without a look-up, or None if a server or its proxy is a name."""
    hosts = [host_of(each) for each in addresses]
    proxy = next(filter(None, map(rules.proxy_for, hosts)), None)
    if proxy is not None:
        hosts.append("" if proxy.problem else proxy.host)
    return look_up(addresses, rules) if all(map(_is_number, hosts)) else None


def _is_number(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    # Only the system knows whether a zone names an interface.
    return "%" not in host


def host_of(address: str) -> str:
    """Returns the host of `host:port`, without the brackets of an IPv6 address."""
    return address.rpartition(":")[0].strip("[]")


def target_of(addresses: Iterable[str]) -> str:
    """Returns one gRPC target for all these addresses, or paths of unix sockets; a list has one family."""
    addresses = list(dict.fromkeys(addresses))
    if addresses[0].startswith(_UNIX):
        return _UNIX + ",".join(each.removeprefix(_UNIX) for each in addresses)
    if not any(each.startswith(_V6) for each in addresses):
        return "ipv4:" + ",".join(addresses)
    return "ipv6:" + ",".join(each if each.startswith(_V6) else _mapped(each) for each in addresses)


def _mapped(address: str) -> str:
    host, _, port = address.rpartition(":")
    return f"[::ffff:{host}]:{port}"
