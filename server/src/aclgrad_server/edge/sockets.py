"""Ending connections, for which gRPC has no call of its own."""

import asyncio
import logging
import os
import socket
from collections.abc import Set
from pathlib import Path
from typing import Final
from urllib.parse import unquote

log = logging.getLogger(__name__)

_DESCRIPTORS: Final = Path("/proc/self/fd")


def close_connections(peers: Set[str]) -> None:
    """Shuts the connections of these peers down, in a thread: looking through thousands of files takes its time."""
    asyncio.get_running_loop().run_in_executor(None, shut_down_connections, peers)


def shut_down_connections(peers: Set[str]) -> int:
    """Shuts down the TCP connections from these peers and returns how many it found.

    A peer is named as gRPC names it: `ipv4:HOST:PORT` or `ipv6:[HOST]:PORT`. Both sides then find the connection
    closed, and gRPC frees what it holds for it. Clients of a unix socket have no address to be told apart by.
    """
    wanted = {address for address in map(_address_of, peers) if address is not None}
    count = 0
    try:
        entries = os.listdir(_DESCRIPTORS) if wanted else []
    except OSError as error:
        log.warning("connections of slow clients stay open: %s: %s", _DESCRIPTORS, error.strerror)
        return 0
    for entry in entries:
        try:
            if os.readlink(_DESCRIPTORS / entry).startswith("socket:"):
                count += _shut_down(int(entry), wanted)
        except OSError:
            continue  # closed meanwhile, or not connected
    log.info("closed %d connections that did not fetch their replies: %s", count, ", ".join(sorted(peers)))
    return count


def _shut_down(file: int, wanted: Set[tuple[str, int]]) -> bool:
    with socket.socket(fileno=os.dup(file)) as duplicate:
        if duplicate.family not in (socket.AF_INET, socket.AF_INET6):
            return False
        host, port = duplicate.getpeername()[:2]
        if (host.removeprefix("::ffff:"), port) not in wanted:
            return False
        duplicate.shutdown(socket.SHUT_RDWR)
        return True


def _address_of(peer: str) -> tuple[str, int] | None:
    kind, _, address = unquote(peer).partition(":")
    host, _, port = address.rpartition(":")
    if kind not in ("ipv4", "ipv6") or not port.isdigit():
        return None
    return host.strip("[]").removeprefix("::ffff:"), int(port)
