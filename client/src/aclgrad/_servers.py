"""The servers that one client uses: lists of targets, the workers of a host, and what gRPC balances them by."""

import json
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from aclgrad._reports import log
from aclgrad._settings import ChannelOption, checked_target
from aclgrad.errors import InvalidSettingError
from aclgrad.v1 import operator_service_pb2 as pb

SERVICE_NAME: Final = pb.DESCRIPTOR.services_by_name["OperatorService"].full_name
_UNIX: Final = "unix:"
_DNS: Final = "dns:"
_BALANCING: Final = {"weighted_round_robin": {"blackoutPeriod": "1s", "weightUpdatePeriod": "1s"}}


@dataclass(frozen=True, slots=True)
class Servers:
    """What a channel to one or several servers is made with; `host` is what the user called a single one."""

    target: str
    options: tuple[ChannelOption, ...] = ()
    host: str | None = None
    port: int | None = None

    @property
    def are_several(self) -> bool:
        """Whether gRPC may choose between servers."""
        return bool(self.options)


def balanced_by(health_name: str, authority: str | None = None) -> tuple[ChannelOption, ...]:
    """Returns the options by which gRPC sends calls to the servers that answer to this name, by their load.

    `authority` is the name of all servers in TLS, if the addresses of the channel are numbers.
    """
    config = {"loadBalancingConfig": [_BALANCING], "healthCheckConfig": {"serviceName": health_name}}
    balancing: tuple[ChannelOption, ...] = (("grpc.service_config", json.dumps(config)),)
    if authority is None:
        return balancing
    return (*balancing, ("grpc.ssl_target_name_override", authority), ("grpc.default_authority", authority))


def servers_of(target: str | Sequence[str], server_name: str | None = None, has_tls: bool = False) -> Servers:
    """Returns the servers of a target, or of several in a list or a text with commas; raises InvalidSettingError.

    Names in a list are looked up now, and those that cannot be found are left out. With TLS all servers of a list answer
    to `server_name`.
    """
    if isinstance(target, str) and ("," not in target or target.partition(":")[0] in ("ipv4", "ipv6")):
        return _servers_of_one(checked_target(target))
    targets = [each.strip() for each in (target.split(",") if isinstance(target, str) else target)]
    if not targets:
        raise _refused(target, "names no server")
    targets = list(dict.fromkeys(map(checked_target, targets)))
    if len(targets) == 1:
        return _servers_of_one(targets[0])
    are_unix = [each.startswith(_UNIX) for each in targets]
    if all(are_unix):
        paths = ",".join(each.removeprefix(_UNIX).removeprefix("//") for each in targets)
        return Servers(f"{_UNIX}{paths}", balanced_by(SERVICE_NAME))
    if any(are_unix) or any(not _is_host_and_port(each) for each in targets):
        raise _refused(target, "mixes addresses of several kinds")
    if has_tls and server_name is None:
        problem = "names several servers, and with TLS all have to answer to one name"
        raise InvalidSettingError(
            f"target is {target!r}: it {problem}", field="target", remedy="give Credentials(server_name=...)"
        )
    return Servers(_list_of(targets, target), balanced_by(SERVICE_NAME, server_name))


def workers_of(servers: Servers, host: pb.Host) -> Servers | None:
    """Returns the workers of the host that a single server has told, as this client reaches them; None if not several.

    Nobody but them answers to the id of the host, so that a call, with its token, goes to nobody else.
    """
    ports = next((each.worker_ports for each in host.listeners if each.port == servers.port), ())
    if len(ports) < 2 or servers.host is None or not host.id:
        return None
    addresses = [f"{servers.host}:{port}" for port in ports]
    return Servers(_list_of(addresses, servers.target), balanced_by(host.id, servers.host.strip("[]")))


def _servers_of_one(target: str) -> Servers:
    if target.startswith(_DNS):
        return Servers(target, balanced_by(SERVICE_NAME))
    if not _is_host_and_port(target):
        return Servers(target)
    host, _, port = target.rpartition(":")
    return Servers(target, (), host, int(port))


def _is_host_and_port(target: str) -> bool:
    host, _, port = target.rpartition(":")
    return port.isdigit() and bool(host) and (":" not in host or host.startswith("["))


def _list_of(addresses: Iterable[str], told: object) -> str:
    """Returns the addresses as one target of gRPC, whose lists hold numbers of one family."""
    found: list[tuple[bool, str, str]] = []
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            places = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
        except OSError as error:
            log.warning("%s is left out: %s", address, error.strerror or error)
            continue
        found += dict.fromkeys((family == socket.AF_INET6, str(place[0]), port) for family, *_, place in places)
    if not found:
        raise _refused(told, "names no host that can be found")
    if not any(is_v6 for is_v6, _, _ in found):
        return "ipv4:" + ",".join(dict.fromkeys(f"{host}:{port}" for _, host, port in found))
    mapped = (host if is_v6 else f"::ffff:{ip_address(host)}" for is_v6, host, _ in found)
    return "ipv6:" + ",".join(dict.fromkeys(f"[{host}]:{port}" for host, (_, _, port) in zip(mapped, found, strict=True)))


def _refused(target: object, problem: str) -> InvalidSettingError:
    remedy = "give host:port, several of them in a list, or unix:/path"
    return InvalidSettingError(f"target is {target!r}: it {problem}", field="target", remedy=remedy)
