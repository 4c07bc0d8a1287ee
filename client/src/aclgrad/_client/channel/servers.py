"""The servers that one client uses: one, the workers of its host, or a list; and by what gRPC chooses between them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from inspect import iscoroutinefunction
from itertools import chain
from typing import Final, Self

from aclgrad._client.channel.options import ChannelOption
from aclgrad._client.channel.proxies import Proxy, ProxyRules
from aclgrad._client.channel.resolver import Addresses, Found, host_of, numbers_of, target_of
from aclgrad._client.channel.targets import (
    DNS,
    NUMBERS,
    UNIX,
    Target,
    dns_parts,
    is_host_and_port,
    named_targets,
    refused_target,
)
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.service import SERVICE_NAME

SERVICE_CONFIG: Final = "grpc.service_config"
_TLS_NAME: Final = "grpc.ssl_target_name_override"
_MAX_WORKERS: Final = 64
"""Of a host, which has up to 63: a client opens a connection to each."""
_MAX_ID_BYTES: Final = 100
_LAST_PORT: Final = 65535
_OWN_CONNECTIONS: Final = ("grpc.use_local_subchannel_pool", 1)
"""Health checks of channels that share a connection end the process (grpcio 1.85, SIGSEGV): one of them begins to check
it at the moment in which it breaks."""
_BALANCING: Final = {"weighted_round_robin": {"blackoutPeriod": "1s", "weightUpdatePeriod": "1s"}}


class Balancing(Enum):
    """What gRPC chooses from on a channel."""

    ONE = "one"
    """A single server, or the front door of a host."""
    LISTED = "listed"
    """Several servers that the user named."""
    WORKERS = "workers"
    """The workers of a host, by ports that its front door told."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """What a channel is made with, beside the options that all channels of a client have.

    `addresses` are the servers that gRPC balances, each a target of its own, if the client knows them. All answer to
    `service` as a name of `grpc.health.v1`. `proxy` is between, if gRPC goes through one to any of them.
    """

    target: str
    options: tuple[ChannelOption, ...] = field(default=(), repr=False)
    """They may hold a password."""
    balancing: Balancing = Balancing.ONE
    service: str = ""
    addresses: tuple[str, ...] = ()
    proxy: Proxy | None = None

    def only(self, addresses: Sequence[str]) -> Self:
        """Returns the way to these of the servers."""
        return replace(self, target=target_of(addresses), addresses=tuple(addresses))

    def apart(self) -> Self:
        """Returns the same way by connections that no other channel has."""
        return replace(self, options=tuple(dict.fromkeys((*self.options, _OWN_CONNECTIONS))))

    def has_same_servers(self, other: "Endpoints") -> bool:
        """Whether it leads to the same servers the same way, in any order: name servers change it with every answer."""
        is_same_way = self.service == other.service and self.options == other.options
        return is_same_way and set(self.addresses) == set(other.addresses)


@dataclass(frozen=True, slots=True)
class Servers:
    """What a client was told to use. `name` is what errors call it.

    `endpoints` is None if the names in a list have to be looked up first, or a function asked. `dns_name` is what gRPC
    itself looks up again and again; the client does so only to check servers one by one. `tls_name` is what
    certificates have to be for, if not for the target. `rules` say which servers are behind a proxy.
    """

    name: str
    endpoints: Endpoints | None
    listed: Addresses = ()
    host: str | None = None
    port: int | None = None
    tls_name: str | None = None
    dns_name: str | None = None
    rules: ProxyRules = field(default_factory=ProxyRules)

    @property
    def are_several(self) -> bool:
        return self.endpoints is None or self.endpoints.balancing is not Balancing.ONE

    @property
    def names(self) -> Addresses:
        """What the client looks up."""
        return self.listed if self.dns_name is None else (self.dns_name,)

    def listed_endpoints(self, found: Found) -> Endpoints | None:
        """Returns the way to the servers that were found by their names; None if there is none."""
        return _balanced(found, Balancing.LISTED, SERVICE_NAME, self.tls_name) if found.numbers else None

    def workers(self, host: pb.Host) -> tuple[str, ...]:
        """Returns the addresses of the workers that the front door told, as this client reaches them."""
        told = next((each.worker_ports for each in host.listeners if each.port == self.port), ())
        ports = [port for port in dict.fromkeys(told) if 0 < port <= _LAST_PORT][:_MAX_WORKERS]
        if len(ports) < 2 or not self.host or not 0 < len(host.id.encode()) <= _MAX_ID_BYTES:
            return ()
        return tuple(f"{self.host}:{port}" for port in ports)

    def worker_endpoints(self, found: Found, host_id: str) -> Endpoints:
        """Returns the way to workers of the host. Nobody else answers to its id: no call, and no token, goes astray."""
        return _balanced(found, Balancing.WORKERS, host_id, self.tls_name or (self.host or "").strip("[]"))


def one_by_one(endpoints: Endpoints) -> dict[str, Endpoints]:
    """Returns each of the servers as endpoints of its own, by its address."""
    options = tuple(each for each in endpoints.options if each[0] != SERVICE_CONFIG)
    one = replace(endpoints, options=options, balancing=Balancing.ONE)
    return {each: one.only([each]) for each in endpoints.addresses}


def servers_of(
    target: Target,
    tls_name: str | None = None,
    *,
    has_tls: bool = False,
    options: Mapping[str, int | str] | None = None,
    rules: ProxyRules | None = None,
) -> Servers:
    """Returns the servers of a target; raises InvalidSettingError for one that makes no sense.

    With TLS, all servers of a list answer to one name. The user's own `options` go before ours, and with a service
    config among them nothing is ours to balance.
    """
    rules = rules or ProxyRules()
    own_name = (options or {}).get(_TLS_NAME)
    tls_name = str(own_name) if own_name is not None else tls_name
    targets: list[str] = []
    if iscoroutinefunction(target):
        raise refused_target(target, "is a coroutine function", "give a function that is asked on a thread")
    if callable(target):
        name = f"{getattr(target, '__qualname__', repr(target))}()"
    else:
        name, targets = named_targets(target)
    if len(targets) == 1:
        servers = _one(name, targets[0], tls_name, rules)
    elif targets and all(each.startswith(UNIX) for each in targets):
        paths = tuple(UNIX + each.removeprefix(UNIX).removeprefix("//") for each in targets)
        servers = Servers(name, _balanced(Found({name: paths}), Balancing.LISTED, SERVICE_NAME, None))
    elif any(not is_host_and_port(each) for each in targets):
        raise refused_target(
            target, "mixes addresses of several kinds", "give host:port for each, or unix:/path for each"
        )
    elif has_tls and tls_name is None:
        problem = "names several servers, and with TLS all of them have to answer to one name"
        raise refused_target(target, problem, "give Credentials(server_name=...)")
    elif callable(target):
        servers = Servers(name, None, target, tls_name=tls_name, rules=rules)
    else:
        servers = Servers(name, None, tuple(targets), tls_name=tls_name, rules=rules)
        if (found := numbers_of(targets, rules)) is not None:
            servers = replace(servers, endpoints=servers.listed_endpoints(found))
    if options and SERVICE_CONFIG in options and not servers.listed:
        return Servers(name, servers.endpoints)
    return servers


def _one(name: str, target: str, tls_name: str | None, rules: ProxyRules) -> Servers:
    named: tuple[ChannelOption, ...] = () if tls_name is None else ((_TLS_NAME, tls_name),)
    if target.lower().startswith(DNS):
        authority, endpoint = dns_parts(target)
        proxy = rules.proxy_for(host_of(endpoint))
        options = (*_balancing(SERVICE_NAME), *named)
        endpoints = Endpoints(target, options, Balancing.LISTED, SERVICE_NAME, proxy=proxy)
        # A name server of the target's own is one that only gRPC asks.
        dns_name = None if authority else endpoint
        return Servers(name, endpoints, tls_name=tls_name or host_of(endpoint), dns_name=dns_name, rules=rules)
    # A number lost its scheme.
    told = name if name.lower().startswith(NUMBERS) else target
    if not is_host_and_port(target):
        return Servers(name, Endpoints(told, named))
    host, _, port = target.rpartition(":")
    endpoints = Endpoints(told, named, proxy=rules.proxy_for(host.strip("[]")))
    # A zone of IPv6 has no form in a list.
    return Servers(name, endpoints, (), None if "%" in host else host, int(port), tls_name, rules=rules)


def _balanced(found: Found, balancing: Balancing, service: str, tls_name: str | None) -> Endpoints:
    options = (*_balancing(service), *found.options)
    if tls_name is not None:
        options += ((_TLS_NAME, tls_name), ("grpc.default_authority", tls_name))
    numbers = tuple(dict.fromkeys(chain.from_iterable(found.numbers.values())))
    return Endpoints(target_of(numbers), options, balancing, service, numbers, found.proxy)


def _balancing(health_name: str) -> tuple[ChannelOption, ...]:
    """Returns the options by which gRPC sends calls to the servers that answer to this name, by their load.

    A channel has connections of its own, so that a new one leaves behind those that are half open.
    """
    config = {"loadBalancingConfig": [_BALANCING], "healthCheckConfig": {"serviceName": health_name}}
    return (SERVICE_CONFIG, json.dumps(config)), _OWN_CONNECTIONS
