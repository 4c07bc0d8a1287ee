"""Which servers gRPC reaches through a proxy, and the same for each server of a channel to several.

gRPC applies its rules to a channel's whole target, and takes a list of addresses for one host. So a channel to a list
turns these rules off and names the addresses behind the proxy.

The rules: https://github.com/grpc/grpc/blob/master/doc/environment_variables.md, and `http_proxy_mapper.cc`.
"""

import base64
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Final
from urllib.parse import unquote, unquote_to_bytes

from aclgrad._client.channel.options import ChannelOption

VARIABLES: Final = ("grpc_proxy", "https_proxy", "http_proxy")
EXCEPTIONS: Final = ("no_grpc_proxy", "no_proxy")
ENABLE_PROXY: Final = "grpc.enable_http_proxy"
_PROXY_OPTION: Final = "grpc.http_proxy"
_SPACES: Final = " \t\n\v\f\r"
_URL: Final = re.compile(
    r"(?i:http)://(?:(?P<user>[^/?#]*)@)?(?P<authority>[^/?#@]+)(?:/[^?#]*)?"
    r"(?:\?[A-Za-z0-9._~!$&'()*+,;=:@/?%-]+)?(?:#[A-Za-z0-9._~!$&'()*+,;=:@/?%-]*)?"
)
"""Texts that gRPC takes for a proxy; it ignores all others and connects directly."""
_AUTHORITY: Final = re.compile(r"(?:\[(?P<number>[^\[\]]*:[^\[\]]*)\]|(?P<name>[^:]*(?=:[^:]*$)))(?::(?P<port>[^:]*))?")
"""More than one colon without brackets is an IPv6 address without a port."""
_DEFAULT_PORT: Final = "443"
_PORTS: Final = {None: _DEFAULT_PORT, "": _DEFAULT_PORT, "https": "443", "http": "80"}
_NUMBER: Final = re.compile(r"\+?([0-9]{1,20})")
_MAX_MASK: Final = 2**32 - 1


@dataclass(frozen=True, slots=True, repr=False)
class Proxy:
    """An HTTP proxy, and the variable or option that names it. `authorization` is secret.

    `exception` is the variable that lists hosts without proxy. `problem` says why it cannot be used, if known.
    """

    variable: str
    host: str
    port: str
    authorization: str | None
    exception: str
    problem: str = ""

    @property
    def name(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def way_around(self, host: str) -> str:
        """Returns the advice for reaching a host without the proxy."""
        hides = f", which hides {EXCEPTIONS[1]}," if self.exception == EXCEPTIONS[0] else ""
        return f"add {host} to {self.exception}{hides} if there is a direct way"


@dataclass(slots=True)
class Seen:
    """The results of a client's last look-up of names. Excluded names are logged once, until they are found again."""

    proxy: str = ""
    """The address of the proxy, with its port."""
    unfound: frozenset[str] = frozenset()
    """Names that could not be looked up."""
    refused: frozenset[str] = frozenset()
    """Results of the user's function that are not a host and port."""


@dataclass(frozen=True, slots=True, repr=False)
class ProxyRules:
    """The proxy of one client, and the hosts that gRPC reaches directly.

    `variable` names the proxy, or is None; `proxy` is None if gRPC ignores its value.
    """

    variable: str | None = None
    proxy: Proxy | None = None
    exceptions: str = ""
    seen: Seen = field(default_factory=Seen, compare=False)

    def proxy_for(self, host: str) -> Proxy | None:
        """Returns the proxy to a host, which is a name or an address without brackets."""
        listed = [each.strip(_SPACES) for each in self.exceptions.split(",")]
        is_excepted = any(_is_in_domain(host, each) or _is_within(host, each) for each in listed)
        return None if is_excepted else self.proxy


def proxy_rules(environment: Mapping[str, str], options: Mapping[str, int | str] | None = None) -> ProxyRules:
    """Returns the rules of an environment; the channel's options override them."""
    options = options or {}
    if not options.get(ENABLE_PROXY, True):
        return ProxyRules()
    option = options.get(_PROXY_OPTION)
    named = {_PROXY_OPTION: option} if isinstance(option, str) else environment
    variable = next((each for each in (_PROXY_OPTION, *VARIABLES) if each in named), None)
    if variable is None:
        return ProxyRules()
    exception = next((each for each in EXCEPTIONS if each in environment), EXCEPTIONS[1])
    proxy = _parsed(named[variable], variable, exception)
    return ProxyRules(variable, proxy, environment.get(exception, ""))


def list_options(proxied: Iterable[str], proxy: Proxy | None, number: str) -> tuple[ChannelOption, ...]:
    """Returns the options of a channel to several servers: the addresses `proxied` go through the proxy.

    gRPC takes the proxy's numeric address with its port, `number`, and no name.
    """
    networks = [network for each in proxied for network in _networks(each)]
    options: tuple[ChannelOption, ...] = ((ENABLE_PROXY, 0),)
    if proxy is None or not networks:
        return options
    options += (
        ("grpc.address_http_proxy", number),
        # Sorted, because name servers change the order with every answer.
        ("grpc.address_http_proxy_enabled_addresses", ",".join(sorted(set(networks)))),
    )
    if proxy.authorization is not None:
        options += (("grpc.http_connect_headers", f"Proxy-Authorization:Basic {proxy.authorization}"),)
    return options


def _networks(number: str) -> tuple[str, ...]:
    """Returns the networks with only this host; a plain address would match the end of others, too."""
    host = number.rpartition(":")[0].strip("[]")
    if ":" in host:
        return (f"{host}/128",)
    # In a list with both families, it is an IPv4-mapped address.
    return f"{host}/32", f"::ffff:{host}/128"


def _parsed(url: str, variable: str, exception: str) -> Proxy | None:
    """Returns the proxy in the text, with a problem if gRPC cannot use it; None if gRPC finds none."""
    if (parts := _URL.fullmatch(url)) is None:
        return None
    authority = unquote(parts["authority"]).rstrip(_SPACES)
    found = _AUTHORITY.fullmatch(authority)
    host = authority if found is None else found["number"] or found["name"]
    port = _PORTS.get(found["port"], found["port"]) if found else _DEFAULT_PORT
    number = _number(port)
    is_usable = number is not None and 0 < number < 2**16
    problem = "" if is_usable else "has a port that is no number from 1 to 65535"
    if is_usable:
        port = str(number)
    elif "@" in url[parts.end("authority") :]:
        # Probably the beginning of a password with a slash.
        port = "?"
    user = parts["user"]
    # A variable may hold any bytes, and a password any percent-encoded bytes.
    authorization = base64.b64encode(unquote_to_bytes(os.fsencode(user))).decode() if user else None
    return Proxy(variable, host, port, authorization, exception, problem)


def _number(text: str) -> int | None:
    """Returns the non-negative integer that gRPC reads from the text."""
    found = _NUMBER.fullmatch(text.strip(_SPACES))
    return int(found[1]) if found else None


def _is_in_domain(host: str, name: str) -> bool:
    name = name.lower().removeprefix(".")
    return bool(name) and f".{host.lower()}".endswith(f".{name}")


def _is_within(host: str, network: str) -> bool:
    start, _, mask = network.partition("/")
    bits = _number(mask)
    if bits is None or bits > _MAX_MASK:
        return False
    try:
        first, number = ip_address(start.strip("[]")), ip_address(host)
    except ValueError:
        return False
    # A mask that is too long means this address alone.
    return number in ip_network(f"{first}/{min(bits, first.max_prefixlen)}", strict=False)
