"""The servers that one client uses: one, the workers of its host, or a list; and by what gRPC chooses between them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain
from typing import Any, Final, Self

from aclgrad._client.channel.options import ChannelOption, checked_target
from aclgrad._client.channel.resolver import Found, numbers_of, target_of
from aclgrad.errors import InvalidSettingError
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.service import SERVICE_NAME

Target = str | Sequence[str]
"""One server, or several: in a list, or in a text with commas."""
SERVICE_CONFIG: Final = "grpc.service_config"
_TLS_NAME: Final = "grpc.ssl_target_name_override"
_UNIX: Final = "unix:"
_DNS: Final = "dns:"
_NUMBERS: Final = ("ipv4:", "ipv6:")
_MAX_WORKERS: Final = 64
"""Of a host, which has up to 63: a client opens a connection to each."""
_MAX_ID_BYTES: Final = 100
_LAST_PORT: Final = 65535
_OWN_CONNECTIONS: Final = ("grpc.use_local_subchannel_pool", 1)
"""Health checks of channels that share a connection end the process (grpcio 1.85, SIGSEGV): one of them begins to check
it at the moment in which it breaks."""
_BALANCING: Final = {"weighted_round_robin": {"blackoutPeriod": "1s", "weightUpdatePeriod": "1s"}}


class Choice(Enum):
    """What gRPC chooses from on a channel."""

    ONE = "one"
    """A single server, or the front door of a host."""
    LISTED = "listed"
    """Several servers that the user named."""
    WORKERS = "workers"
    """The workers of a host, by ports that its front door told."""


@dataclass(frozen=True, slots=True)
class Route:
    """What a channel is made with, beside the options that all channels of a client have.

    `addresses` are the servers that gRPC balances, each a target of its own, if the client knows them. All answer to
    `service` as a name of `grpc.health.v1`.
    """

    target: str
    options: tuple[ChannelOption, ...] = ()
    choice: Choice = Choice.ONE
    service: str = ""
    addresses: tuple[str, ...] = ()

    def of(self, addresses: Sequence[str]) -> Self:
        """Returns the way to these of the servers."""
        return replace(self, target=target_of(addresses), addresses=tuple(addresses))

    def leads_to_the_same(self, other: "Route") -> bool:
        """Whether it leads to the same servers, in any order: name servers change it with every answer."""
        return self.service == other.service and set(self.addresses) == set(other.addresses)


@dataclass(frozen=True, slots=True)
class Servers:
    """What a client was told to use. `name` is what errors call it.

    `route` is None if the names in a list have to be looked up first. `tls_name` is what certificates have to be for,
    if not for the target.
    """

    name: str
    route: Route | None
    listed: tuple[str, ...] = ()
    host: str | None = None
    port: int | None = None
    tls_name: str | None = None

    @property
    def are_several(self) -> bool:
        return self.route is None or self.route.choice is not Choice.ONE

    def listed_route(self, found: Found, without: frozenset[str] = frozenset()) -> Route | None:
        """Returns the way to the servers of a list that were found, but for some numbers; None if none is left."""
        numbers = [each for each in chain.from_iterable(found.values()) if each not in without]
        return _balanced(numbers, Choice.LISTED, SERVICE_NAME, self.tls_name) if numbers else None

    def workers(self, host: pb.Host) -> tuple[str, ...]:
        """Returns the addresses of the workers that the front door told, as this client reaches them."""
        told = next((each.worker_ports for each in host.listeners if each.port == self.port), ())
        ports = [port for port in dict.fromkeys(told) if 0 < port <= _LAST_PORT][:_MAX_WORKERS]
        if len(ports) < 2 or not self.host or not 0 < len(host.id.encode()) <= _MAX_ID_BYTES:
            return ()
        return tuple(f"{self.host}:{port}" for port in ports)

    def worker_route(self, numbers: Sequence[str], host_id: str) -> Route:
        """Returns the way to workers of the host. Nobody else answers to its id: no call, and no token, goes astray."""
        return _balanced(numbers, Choice.WORKERS, host_id, self.tls_name or (self.host or "").strip("[]"))


def alone(route: Route) -> list[Route]:
    """Returns the ways to each server of a route alone."""
    options = tuple(each for each in route.options if each[0] != SERVICE_CONFIG)
    return [Route(target_of([each]), options, service=route.service) for each in route.addresses]


def servers_of(
    target: Target,
    tls_name: str | None = None,
    *,
    has_tls: bool = False,
    options: Mapping[str, int | str] | None = None,
) -> Servers:
    """Returns the servers of a target; raises InvalidSettingError for one that makes no sense.

    With TLS, all servers of a list answer to one name. The user's own `options` go before ours, and with a service
    config among them nothing is ours to balance.
    """
    own_name = (options or {}).get(_TLS_NAME)
    tls_name = str(own_name) if own_name is not None else tls_name
    name, targets = _targets_of(target)
    if len(targets) == 1:
        servers = _one(name, targets[0], tls_name)
    elif all(each.startswith(_UNIX) for each in targets):
        paths = [_UNIX + each.removeprefix(_UNIX).removeprefix("//") for each in targets]
        servers = Servers(name, _balanced(paths, Choice.LISTED, SERVICE_NAME, None))
    elif any(not _is_host_and_port(each) for each in targets):
        raise _refused(target, "mixes addresses of several kinds", "give host:port for each, or unix:/path for each")
    elif has_tls and tls_name is None:
        problem = "names several servers, and with TLS all of them have to answer to one name"
        raise _refused(target, problem, "give Credentials(server_name=...)")
    else:
        servers = _several(name, tuple(targets), tls_name)
    if options and SERVICE_CONFIG in options and not servers.listed:
        return Servers(name, servers.route)
    return servers


def targets_of(target: Target) -> list[str]:
    """Returns each server of a target, for what is done with one after the other; raises InvalidSettingError."""
    return _targets_of(target)[1]


def _targets_of(target: Target) -> tuple[str, list[str]]:
    """Returns the name of all together, and each once, checked."""
    if isinstance(target, str):
        scheme = target.partition(":")[0].lower() + ":"
        if scheme in _NUMBERS:
            listed = checked_target(target).partition(":")[2].rpartition("/")[2].split(",")
            return target, list(dict.fromkeys(listed))
        if "," not in target or scheme == _DNS or ("://" in target and scheme != _UNIX):
            return target, [checked_target(target)]
        texts = [each.strip() for each in target.split(",")]
        if not all(texts):
            raise _refused(target, "has an empty entry", "leave out the comma that is too many")
        if scheme == _UNIX:
            # gRPC's own form names the scheme once.
            texts = [_UNIX + each if each.startswith("/") else each for each in texts]
        return target, list(dict.fromkeys(map(checked_target, texts)))
    given: list[Any] = list(target) if _is_list(target) else [target]
    if not given:
        raise _refused(given, "names no server", "give host:port, several of them in a list, or unix:/path")
    checked = list(dict.fromkeys(map(checked_target, given)))
    return ",".join(checked), checked


def _one(name: str, target: str, tls_name: str | None) -> Servers:
    named: tuple[ChannelOption, ...] = () if tls_name is None else ((_TLS_NAME, tls_name),)
    if target.lower().startswith(_DNS):
        return Servers(name, Route(target, (*_balancing(SERVICE_NAME), *named), Choice.LISTED, SERVICE_NAME))
    # A number lost its scheme.
    told = name if name.lower().startswith(_NUMBERS) else target
    if not _is_host_and_port(target):
        return Servers(name, Route(told, named))
    host, _, port = target.rpartition(":")
    # A zone of IPv6 has no form in a list.
    return Servers(name, Route(told, named), (), None if "%" in host else host, int(port), tls_name)


def _several(name: str, targets: tuple[str, ...], tls_name: str | None) -> Servers:
    servers = Servers(name, None, targets, tls_name=tls_name)
    numbers = numbers_of(targets)
    return servers if numbers is None else Servers(name, servers.listed_route(numbers), targets, tls_name=tls_name)


def _balanced(numbers: Sequence[str], choice: Choice, service: str, tls_name: str | None) -> Route:
    options = _balancing(service)
    if tls_name is not None:
        options = (*options, (_TLS_NAME, tls_name), ("grpc.default_authority", tls_name))
    numbers = tuple(dict.fromkeys(numbers))
    return Route(target_of(numbers), options, choice, service, numbers)


def _balancing(health_name: str) -> tuple[ChannelOption, ...]:
    """Returns the options by which gRPC sends calls to the servers that answer to this name, by their load.

    A channel has connections of its own, so that a new one leaves behind those that are half open.
    """
    config = {"loadBalancingConfig": [_BALANCING], "healthCheckConfig": {"serviceName": health_name}}
    return (SERVICE_CONFIG, json.dumps(config)), _OWN_CONNECTIONS


def _is_list(target: Any) -> bool:
    return isinstance(target, Iterable) and not isinstance(target, bytes | bytearray | memoryview | Mapping)


def _is_host_and_port(target: str) -> bool:
    host, _, port = target.rpartition(":")
    return not target.startswith("unix") and port.isdigit() and bool(host) and (":" not in host or host.startswith("["))


def _refused(target: object, problem: str, remedy: str) -> InvalidSettingError:
    return InvalidSettingError(f"target is {target!r}: it {problem}", field="target", remedy=remedy)
