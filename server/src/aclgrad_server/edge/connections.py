"""Connections of clients: listening addresses, gRPC's options, and closing."""

import asyncio
import errno
import fcntl
import grp
import logging
import os
import socket
import stat
import weakref
from collections.abc import Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import grpc

from aclgrad_server import limits
from aclgrad_server.exits import StartError
from aclgrad_server.listen_addresses import UNIX
from aclgrad_server.settings import Settings

if TYPE_CHECKING:
    from aclgrad_server.edge.tls import Certificates

log = logging.getLogger(__name__)

_CONNECT_TIMEOUT_S: Final = 1.0
_REMEDY: Final = "give another --listen"
_DESCRIPTORS: Final = "/proc/self/fd"


def server_options(
    settings: Settings, connection_limit: int = limits.MAX_CONNECTIONS, shares_ports: bool = False
) -> list[tuple[str, int]]:
    """Returns gRPC's options for a server that takes this many connections and may share ports with others."""
    # The age of a connection ends no call, whose message or reply may still be under way.
    grace_s = settings.call_timeout_s + 2 * settings.client_timeout_s
    return [
        ("grpc.max_receive_message_length", settings.max_message_bytes),
        ("grpc.max_send_message_length", settings.max_message_bytes),
        # A compressed message could grow a thousandfold, so the core ends its call unread.
        ("grpc.compression_enabled_algorithms_bitset", 1 << grpc.Compression.NoCompression),
        # Bounds the open calls, and the reset ones, of one connection.
        ("grpc.max_concurrent_streams", limits.MAX_STREAMS),
        # By default the core also counts ended streams that it has not freed yet, and refuses honest ones.
        ("grpc.http2.max_deallocating_streams", limits.MAX_ENDED_STREAMS),
        ("grpc.server.max_pending_requests", limits.MAX_PENDING_CALLS),
        ("grpc.server.max_pending_requests_hard_limit", 2 * limits.MAX_PENDING_CALLS),
        ("grpc.max_allowed_incoming_connections", connection_limit),
        ("grpc.server_handshake_timeout_ms", limits.HANDSHAKE_TIMEOUT_S * 1000),
        ("grpc.max_connection_idle_ms", limits.MAX_IDLE_S * 1000),
        # By default the core widens each call's window on a fast connection, and buffers all that arrives, read or not.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", limits.UNREAD_BYTES),
        # A client keeps its address; only a new connection finds added replicas. Without the grace, an open watch on
        # health would hold the old connection for ever.
        ("grpc.max_connection_age_ms", round(settings.max_connection_age_s * 1e3)),
        ("grpc.max_connection_age_grace_ms", round(grace_s * 1e3)),
        # Detects vanished clients, and cancels their calls.
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.http2.max_pings_without_data", 0),
        # Clients and proxies ping idle connections too, at their own intervals. By default the core cuts connections
        # with pings closer than 5 minutes (too_many_pings), but a ping costs less than any call.
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_ping_strikes", 0),
        # Two servers on one port would silently share its connections. Workers may, because their supervisor holds the
        # port.
        ("grpc.so_reuseport", int(shares_ports)),
    ]


AnyServer = grpc.Server | grpc.aio.Server


def bind(
    server: AnyServer,
    addresses: Sequence[str],
    certificates: "Certificates | None" = None,
    socket_mode: int | None = None,
    socket_group: str | None = None,
) -> tuple[str, ...]:
    """Returns the bound addresses, with chosen ports; raises StartError if one is refused.

    With certificates, TCP addresses have TLS. A lock file beside a unix socket (`PATH.lock`, never removed) is locked
    as long as the server object lives; umask and process give the socket its default mode and group.
    """
    bound = []
    for address in addresses:
        is_unix = address.startswith(UNIX)
        try:
            if is_unix:
                _take_socket(server, address)
                port = _bind_socket(server, address, socket_mode, socket_group)
            elif certificates is None:
                port = server.add_insecure_port(address)
            else:
                port = server.add_secure_port(address, certificates.credentials())
        except RuntimeError as error:
            cause = "the port may be taken, or the address not be of this machine"
            raise _refused(address, f"{cause}; {_REMEDY}") from error
        bound.append(address if is_unix else f"{address.rpartition(':')[0]}:{port}")
    return tuple(bound)


def _take_socket(server: AnyServer, address: str) -> None:
    """Raises StartError if another server has the socket's lock or answers there: grpc would replace the socket."""
    path = Path(address.removeprefix(UNIX))
    if not path.parent.is_dir():
        raise _refused(address, f"there is no folder {path.parent}; make it")
    lock = path.with_name(f"{path.name}.lock")
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(_CONNECT_TIMEOUT_S)
            is_answered = probe.connect_ex(str(path)) == 0
        file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        # The kernel releases the lock whenever the process ends.
        weakref.finalize(server, os.close, file)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        held = f"another process does, or is about to: it holds {lock}"
        raise _refused(address, f"{held}; stop it or {_REMEDY}") from error
    except OSError as error:
        raise _refused(address, f"{lock}: {error.strerror or error}; {_REMEDY}") from error
    if is_answered:
        raise _refused(address, f"another process does; stop it or {_REMEDY}")


def _bind_socket(server: AnyServer, address: str, mode: int | None, group: str | None) -> int:
    if mode is None and group is None:
        return server.add_insecure_port(address)
    path = address.removeprefix(UNIX)
    try:
        group_id = -1 if group is None else grp.getgrnam(group).gr_gid
        # Nobody may connect before the socket has its group and mode.
        mask = os.umask(0o177)
        try:
            port = server.add_insecure_port(address)
        finally:
            os.umask(mask)
        # Not a link that somebody has put there instead.
        file = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.chown(f"{_DESCRIPTORS}/{file}", -1, group_id)
            os.chmod(f"{_DESCRIPTORS}/{file}", 0o660 if mode is None else mode)
        finally:
            os.close(file)
    except KeyError as error:
        raise _refused(address, f"there is no group {group}; give another --unix-socket-group") from error
    except OSError as error:
        problem = f"its group and mode cannot be set: {error.strerror or error}"
        raise _refused(address, f"{problem}; give a group that the server's user is in") from error
    return port


def _refused(address: str, why: str) -> StartError:
    return StartError(f"cannot listen on {address}: {why}")


def close_connections(peers: Set[str]) -> None:
    """Shuts the connections of these peers down, in a thread: it looks through thousands of files."""
    asyncio.get_running_loop().run_in_executor(None, shut_down_connections, peers)


def shut_down_connections(peers: Set[str]) -> int:
    """Shuts down the TCP connections of these peers, which gRPC cannot, and returns their number.

    gRPC then frees their memory. Clients of a unix socket have no address to tell them apart.
    """
    wanted = {unquote(peer) for peer in peers if peer.startswith(("ipv4:", "ipv6:"))}
    count = 0
    try:
        files = [int(entry) for entry in os.listdir(_DESCRIPTORS)] if wanted else []
    except OSError as error:
        log.warning("connections of slow clients stay open: %s: %s", _DESCRIPTORS, error.strerror)
        return 0
    for file in files:
        # Most files are not connections, and some are closed meanwhile.
        with suppress(OSError), _duplicate(file) as duplicate:
            if duplicate.family in (socket.AF_INET, socket.AF_INET6):
                host, port = duplicate.getpeername()[:2]
                # gRPC's name of the peer, also of an IPv4 client of a dual-stack listener.
                host = host.removeprefix("::ffff:")
                if (f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}") in wanted:
                    duplicate.shutdown(socket.SHUT_RDWR)
                    count += 1
    log.info("closed %d connections that did not fetch their replies: %s", count, ", ".join(sorted(peers)))
    return count


def _duplicate(file: int) -> socket.socket:
    """Returns a duplicate of a socket; raises OSError for any other file.

    Other files are not duplicated: closing a duplicate would release a library's fcntl locks on the file.
    """
    if not stat.S_ISSOCK(os.fstat(file).st_mode):
        raise OSError(errno.ENOTSOCK, os.strerror(errno.ENOTSOCK))
    number = os.dup(file)
    try:
        return socket.socket(fileno=number)
    except BaseException:
        # The descriptor may be another file by now. The constructor closes nothing.
        os.close(number)
        raise
