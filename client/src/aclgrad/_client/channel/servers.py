"""The servers of one client: one, the workers of its host, or a list; and gRPC's balancing between them."""

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
"""Workers that a client connects to; a host has up to 63."""
_MAX_ID_BYTES: Final = 100
_LAST_PORT: Final = 65535
_OWN_CONNECTIONS: Final = ("grpc.use_local_subchannel_pool", 1)
"""Health checks of channels that share a connection crash the process (grpcio 1.85, SIGSEGV) if one begins a check when
the connection breaks."""
_BALANCING: Final = {"weighted_round_robin": {"blackoutPeriod": "1s", "weightUpdatePeriod": "1s"}}


class Balancing(Enum):
    """The servers among which gRPC chooses on a channel."""

    ONE = "one"
    """A single server, or the front door of a host."""
    LISTED = "listed"
    """Several servers that the user named."""
    WORKERS = "workers"
    """The workers of a host, at the ports from its front door."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The endpoints of a channel.

    `addresses` are the servers that gRPC balances, each a target, if the client knows them. All answer to the
    `grpc.health.v1` name `service`. `proxy` is set if gRPC reaches any of them through one.
    """

    target: str
    options: tuple[ChannelOption, ...] = field(default=(), repr=False)
    """They may hold a password."""
    balancing: Balancing = Balancing.ONE
    service: str = ""
    addresses: tuple[str, ...] = ()
    proxy: Proxy | None = None

    def only(self, addresses: Sequence[str]) -> Self:
        """Returns the endpoints of only these servers."""
        return replace(self, target=target_of(addresses), addresses=tuple(addresses))

    def apart(self) -> Self:
        """Returns the same endpoints with connections of their own."""
        return replace(self, options=tuple(dict.fromkeys((*self.options, _OWN_CONNECTIONS))))

    def has_same_servers(self, other: "Endpoints") -> bool:
        """Whether both have the same servers and options, in any order: name servers change it with every answer."""
        is_same_way = self.service == other.service and self.options == other.options
        return is_same_way and set(self.addresses) == set(other.addresses)


@dataclass(frozen=True, slots=True)
class Servers:
    """The servers of a target. `name` is their name in errors.

    `endpoints` is None if names of a list have to be looked up first, or a function asked. gRPC looks `dns_name` up by
    itself; the client does so only to check servers one by one. `tls_name` is the name in certificates, if not the
    target's. `rules` say which servers are behind a proxy.
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
        """The names that the client looks up."""
        return self.listed if self.dns_name is None else (self.dns_name,)

    def listed_endpoints(self, found: Found) -> Endpoints | None:
        """Returns the endpoints of the resolved servers, or None without any."""
        return _balanced(found, Balancing.LISTED, SERVICE_NAME, self.tls_name) if found.numbers else None

    def workers(self, host: pb.Host) -> tuple[str, ...]:
        """Returns the addresses of the front door's workers, as this client reaches them."""
        told = next((each.worker_ports for each in host.listeners if each.port == self.port), ())
        ports = [port for port in dict.fromkeys(told) if 0 < port <= _LAST_PORT][:_MAX_WORKERS]
        if len(ports) < 2 or not self.host or not 0 < len(host.id.encode()) <= _MAX_ID_BYTES:
            return ()
        return tuple(f"{self.host}:{port}" for port in ports)

    def worker_endpoints(self, found: Found, host_id: str) -> Endpoints:
        """Returns the endpoints of the host's workers. Only they answer to its id, so no token goes astray."""
        return _balanced(found, Balancing.WORKERS, host_id, self.tls_name or (self.host or "").strip("[]"))


def one_by_one(endpoints: Endpoints) -> dict[str, Endpoints]:
    """Returns separate endpoints of each server, by its address."""
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
    """Returns the servers of a target; raises InvalidSettingError if it is invalid.

    With TLS, all servers of a list have one name in certificates. The user's `options` override ours; with a service
    config among them, the client does not balance.
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
        # Only gRPC asks a name server in the target.
        dns_name = None if authority else endpoint
        return Servers(name, endpoints, tls_name=tls_name or host_of(endpoint), dns_name=dns_name, rules=rules)
    # A numeric address has lost its scheme.
    told = name if name.lower().startswith(NUMBERS) else target
    if not is_host_and_port(target):
        return Servers(name, Endpoints(told, named))
    host, _, port = target.rpartition(":")
    endpoints = Endpoints(told, named, proxy=rules.proxy_for(host.strip("[]")))
    # An IPv6 zone has no form in a list.
    return Servers(name, endpoints, (), None if "%" in host else host, int(port), tls_name, rules=rules)


def _balanced(found: Found, balancing: Balancing, service: str, tls_name: str | None) -> Endpoints:
    options = (*_balancing(service), *found.options)
    if tls_name is not None:
        options += ((_TLS_NAME, tls_name), ("grpc.default_authority", tls_name))
    numbers = tuple(dict.fromkeys(chain.from_iterable(found.numbers.values())))
    return Endpoints(target_of(numbers), options, balancing, service, numbers, found.proxy)


def _balancing(health_name: str) -> tuple[ChannelOption, ...]:
    """Returns gRPC's options for balancing by load between the servers that answer to this name.

    Channels do not share connections, so that a new one has no half-open ones.
    """
    config = {"loadBalancingConfig": [_BALANCING], "healthCheckConfig": {"serviceName": health_name}}
    return (SERVICE_CONFIG, json.dumps(config)), _OWN_CONNECTIONS
