"""Which servers gRPC reaches through a proxy, and how a channel to several servers does the same for each of them.

gRPC applies its rules to the target of a channel as a whole, and takes a list of addresses for one host. So a channel
to a list turns these rules off and names the addresses that go through the proxy.

The rules: https://github.com/grpc/grpc/blob/master/doc/environment_variables.md, and `http_proxy_mapper.cc`.
"""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Final
from urllib.parse import unquote, urlsplit

from aclgrad._client.channel.options import ChannelOption

VARIABLES: Final = ("grpc_proxy", "https_proxy", "http_proxy")
EXCEPTIONS: Final = ("no_grpc_proxy", "no_proxy")
ENABLE_PROXY: Final = "grpc.enable_http_proxy"
_PROXY_OPTION: Final = "grpc.http_proxy"
_DEFAULT_PORT: Final = 443


@dataclass(frozen=True, slots=True, repr=False)
class Proxy:
    """A proxy for HTTP, and what names it: a variable or an option. `authorization` is secret."""

    variable: str
    host: str
    port: int
    authorization: str | None

    @property
    def name(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, repr=False)
class ProxyRules:
    """What gRPC is to go through, and which hosts it reaches directly.

    `variable` names the proxy; it is None if nothing does, and `proxy` is None if gRPC cannot use what it names.
    `exception` is the variable that lists the hosts.
    """

    variable: str | None = None
    proxy: Proxy | None = None
    exception: str | None = None
    exceptions: str = ""

    def proxy_for(self, host: str) -> Proxy | None:
        """Returns the proxy to a host, which is a name or a number without brackets."""
        listed = [each.strip() for each in self.exceptions.split(",")]
        is_excepted = any(_is_in_domain(host, each) or _is_within(host, each) for each in listed)
        return None if is_excepted else self.proxy


NO_PROXY: Final = ProxyRules()


def proxy_rules(environment: Mapping[str, str], options: Mapping[str, int | str] | None = None) -> ProxyRules:
    """Returns the rules of an environment; options of the channel go first."""
    options = options or {}
    if not options.get(ENABLE_PROXY, True):
        return NO_PROXY
    named = {_PROXY_OPTION: str(options[_PROXY_OPTION])} if _PROXY_OPTION in options else environment
    variable = next((each for each in (_PROXY_OPTION, *VARIABLES) if each in named), None)
    if variable is None:
        return NO_PROXY
    exception = next((each for each in EXCEPTIONS if each in environment), None)
    exceptions = "" if exception is None else environment[exception]
    return ProxyRules(variable, _parsed(variable, named[variable]), exception, exceptions)


def list_options(proxied: Iterable[str], proxy: Proxy | None, number: str) -> tuple[ChannelOption, ...]:
    """Returns the options of a channel to several servers: those at the numbers `proxied` go through the proxy.

    gRPC takes the proxy's address as a number with its port, `number`, and no name.
    """
    networks = [network for each in proxied for network in _networks(each)]
    options: tuple[ChannelOption, ...] = ((ENABLE_PROXY, 0),)
    if proxy is None or not networks:
        return options
    options += (
        ("grpc.address_http_proxy", number),
        # In an order of their own, because that of name servers changes with every answer.
        ("grpc.address_http_proxy_enabled_addresses", ",".join(sorted(set(networks)))),
    )
    if proxy.authorization is not None:
        options += (("grpc.http_connect_headers", f"Proxy-Authorization:Basic {proxy.authorization}"),)
    return options


def _networks(number: str) -> tuple[str, ...]:
    """Returns the networks that hold this host alone; an entry that is a number would match the end of others, too."""
    host = number.rpartition(":")[0].strip("[]")
    if ":" in host:
        return (f"{host}/128",)
    # In a list with both families it is mapped.
    return f"{host}/32", f"::ffff:{host}/128"


def _parsed(variable: str, url: str) -> Proxy | None:
    """Returns None where gRPC finds no proxy in the text."""
    try:
        parts = urlsplit(url.rstrip())
        host, port = parts.hostname, parts.port or _DEFAULT_PORT
    except ValueError:
        return None
    if parts.scheme != "http" or not host or url != url.lstrip():
        return None
    user = parts.netloc.rpartition("@")[0]
    authorization = base64.b64encode(unquote(user).encode()).decode() if user else None
    return Proxy(variable, host, port, authorization)


def _is_in_domain(host: str, name: str) -> bool:
    name = name.lower().removeprefix(".")
    return bool(name) and f".{host.lower()}".endswith(f".{name}")


def _is_within(host: str, network: str) -> bool:
    try:
        return "/" in network and ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False
