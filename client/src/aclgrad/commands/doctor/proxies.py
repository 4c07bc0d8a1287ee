"""Which proxy gRPC goes through: it has rules of its own, and takes loopback through a proxy, too.

The rules are those of gRPC's core: https://github.com/grpc/grpc/blob/master/doc/environment_variables.md
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Final
from urllib.parse import unquote, urlsplit

from aclgrad.commands.doctor.findings import fine, noted
from aclgrad.judgement.rows import Finding

_VARIABLES: Final = ("grpc_proxy", "https_proxy", "http_proxy")
_EXCEPTIONS: Final = ("no_grpc_proxy", "no_proxy")
_DEFAULT_PORT: Final = 443


@dataclass(frozen=True, slots=True, repr=False)
class Proxy:
    """A proxy for HTTP, and the variable that names it. `authorization` is secret."""

    variable: str
    host: str
    port: int
    authorization: str | None

    @property
    def name(self) -> str:
        return f"{self.host}:{self.port}"


def proxy_for(host: str, environment: Mapping[str, str]) -> tuple[Proxy | None, Finding]:
    """Returns the proxy that gRPC goes through to the host, and what to say of it."""
    variable = next((each for each in _VARIABLES if each in environment), None)
    if variable is None:
        upper = next((each.upper() for each in _VARIABLES if each.upper() in environment), None)
        ignored = f"; {upper} is ignored, because gRPC reads the name in lower case" if upper else ""
        return None, fine(f"none: gRPC connects directly{ignored}")
    if not environment[variable]:
        return None, fine(f"none: {variable} is empty")
    proxy = _parsed(variable, environment[variable])
    if proxy is None:
        told = f"none: gRPC ignores {variable}, which is not http://HOST:PORT, and connects directly"
        return None, noted(f"{told}; set grpc_proxy if it has to go through a proxy")
    exception = next((each for each in _EXCEPTIONS if each in environment), None)
    if exception is not None and _is_excepted(host, environment[exception]):
        return None, fine(f"none: {exception} names {host}")
    remedy = f"add {host} to no_proxy if there is a direct way"
    if exception == _EXCEPTIONS[0]:
        remedy = f"add {host} to {exception}, which hides no_proxy, if there is a direct way"
    return proxy, noted(f"gRPC goes through {proxy.name} of {variable} to {host}; {remedy}")


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


def _is_excepted(host: str, entries: str) -> bool:
    """Says whether an entry is the host's name, a domain that it is in, or a network that has its number."""
    listed = [each.strip() for each in entries.split(",")]
    return any(_is_in_domain(host, each) or _is_within(host, each) for each in listed)


def _is_in_domain(host: str, name: str) -> bool:
    name = name.lower().removeprefix(".")
    return bool(name) and f".{host.lower()}".endswith(f".{name}")


def _is_within(host: str, network: str) -> bool:
    try:
        return "/" in network and ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False
