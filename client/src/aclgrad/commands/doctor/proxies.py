"""What the doctor says of the proxy that gRPC goes through: gRPC takes loopback through a proxy, too."""

from collections.abc import Mapping

from aclgrad._client.channel.proxies import VARIABLES, Proxy, proxy_rules
from aclgrad.commands.doctor.findings import bad, fine, noted
from aclgrad.judgement.rows import Finding


def proxy_for(host: str, environment: Mapping[str, str]) -> tuple[Proxy | None, Finding]:
    """Returns the proxy that gRPC goes through to the host, and what to say of it."""
    rules = proxy_rules(environment)
    if rules.variable is None:
        upper = next((each.upper() for each in VARIABLES if each.upper() in environment), None)
        ignored = f"; {upper} is ignored, because gRPC reads the name in lower case" if upper else ""
        return None, fine(f"none: gRPC connects directly{ignored}")
    if not environment[rules.variable]:
        return None, fine(f"none: {rules.variable} is empty")
    if rules.proxy is None:
        told = f"none: gRPC ignores {rules.variable}, which is not http://HOST:PORT, and connects directly"
        return None, noted(f"{told}; set grpc_proxy if it has to go through a proxy")
    proxy = rules.proxy_for(host)
    if proxy is None:
        return None, fine(f"none: {rules.exception} names {host}")
    way_around = proxy.way_around(host)
    if proxy.problem:
        problem = f"the proxy {proxy.name} of {rules.variable} {proxy.problem}"
        return proxy, bad(problem, f"correct the variable, or {way_around}")
    return proxy, noted(f"gRPC goes through {proxy.name} of {rules.variable} to {host}; {way_around}")
