"""The addresses of a host: those shared by its workers and each worker's own, reserved while it runs."""

import errno
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

from aclgrad_server.exits import StartError
from aclgrad_server.listen_addresses import UNIX

_MAX_PORT: Final = 65535
_TRIES: Final = 10


class Addresses:
    """The shared addresses of a host's workers, and each worker's own, reserved until `close`.

    Worker i has the shared port + 1 + i, or a port chosen by the kernel if the shared one is. Of unix sockets, worker 0
    has PATH and worker i has PATH.i.
    """

    def __init__(self, listen: Sequence[str], worker_count: int) -> None:
        """Takes the setting `listen`; raises StartError if an address is taken."""
        self.holders: list[socket.socket] = []
        """Bound sockets that never listen: no other process gets the ports, not even between two workers."""
        own: list[list[str]] = [[] for _ in range(worker_count)]
        try:
            self.shared = tuple(self._take(address, own) for address in listen)
        except BaseException:
            self.close()
            raise
        self.own = tuple(map(tuple, own))

    def of(self, worker: int) -> tuple[str, ...]:
        """Returns a worker's addresses, shared ones first."""
        tcp = tuple(address for address in self.shared if not address.startswith(UNIX))
        return tcp + self.own[worker]

    @property
    def has_unix(self) -> bool:
        """Whether worker 0 alone answers at one of the shared addresses: nobody can share a unix socket."""
        return any(address.startswith(UNIX) for address in self.shared)

    def close(self) -> None:
        for each in self.holders:
            each.close()

    def _take(self, address: str, own: Sequence[list[str]]) -> str:
        """Returns a bound shared address, and adds each worker's own."""
        if address.startswith(UNIX):
            for number, addresses in enumerate(own):
                path = address if number == 0 else f"{address}.{number}"
                if any(path in others for others in own):
                    raise StartError(f"cannot listen on {path} twice, for two workers; give another --listen")
                addresses.append(path)
            return address
        host, _, text = address.rpartition(":")
        asked = int(text)
        if asked + len(own) > _MAX_PORT:
            raise StartError(
                f"cannot listen on {address}: its workers would have the {len(own)} ports after it, and "
                f"{_MAX_PORT} is the last; give another --listen"
            )
        shared = f"{host}:{self._hold(host, asked)}"
        for number, addresses in enumerate(own):
            port = self._hold(host, asked and asked + 1 + number, f", worker {number}'s own address")
            addresses.append(f"{host}:{port}")
        return shared

    def _hold(self, host: str, port: int, whose: str = "") -> int:
        """Returns the port reserved on every address of the host; raises StartError if one is taken."""
        ips = _ips_of(host)
        # A port chosen by the kernel for one family may be taken in the other.
        for _ in range(1 if port else _TRIES):
            held, failures = _bind(ips, port)
            is_taken = any(error.errno == errno.EADDRINUSE for error in failures)
            if held and not is_taken:
                self.holders += held
                return int(held[0].getsockname()[1])
            for each in held:
                each.close()
        why = "the port is taken" if is_taken else failures[0].strerror
        raise StartError(f"cannot listen on {host}:{port}{whose}: {why}; give another --listen")


def _bind(ips: Sequence[tuple[socket.AddressFamily, str]], port: int) -> tuple[list[socket.socket], list[OSError]]:
    """Returns a bound socket for each address where the port is free, and the errors of the others."""
    held: list[socket.socket] = []
    failures: list[OSError] = []
    for family, ip in ips:
        try:
            with ExitStack() as unbound:
                # Names have IPv6 addresses even if the kernel has no IPv6.
                holder = unbound.enter_context(socket.socket(family, socket.SOCK_STREAM))
                if family == socket.AF_INET6:
                    # [::] also accepts IPv4, as it does for gRPC.
                    holder.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, ip != "::")
                # For the bind alone, despite connections of an ended server.
                holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                holder.bind((ip, port))
                holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
                # Not before the bind: a second server would share the port. From here on, our workers share it.
                holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                unbound.pop_all()
        except OSError as error:
            failures.append(error)
        else:
            held.append(holder)
            port = holder.getsockname()[1]
    return held, failures


def _ips_of(host: str) -> list[tuple[socket.AddressFamily, str]]:
    """Returns the numeric addresses on which gRPC would listen for this host."""
    if host in ("0.0.0.0", "[::]"):
        return [(socket.AF_INET6, "::")] if socket.has_dualstack_ipv6() else [(socket.AF_INET, "0.0.0.0")]
    if host == "localhost":
        # Whatever /etc/hosts says.
        return [(socket.AF_INET6, "::1"), (socket.AF_INET, "127.0.0.1")]
    try:
        found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise StartError(f"cannot listen on {host}: {error.strerror or error}; give another --listen") from error
    return list(dict.fromkeys((family, str(address[0])) for family, *_, address in found))
