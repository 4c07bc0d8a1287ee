"""The addresses that the server listens on."""

import fcntl
import os
import socket
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import grpc

from aclgrad_server.devices.faults import StartError

_UNIX: Final = "unix:"
_LOCK_SUFFIX: Final = ".lock"
_CONNECT_TIMEOUT_S: Final = 1.0
_REMEDY: Final = "give another --listen"

AnyServer = grpc.Server | grpc.aio.Server


def bind(server: AnyServer, addresses: Sequence[str]) -> tuple[str, ...]:
    """Binds every address and returns them as they are bound, with the port that was chosen in place of port 0.

    A unix socket is locked as long as the server object lives, by a file beside it (`PATH.lock`) that stays.
    Raises StartError for an address that is taken or not of this machine.
    """
    return tuple(_bind(server, address) for address in addresses)


def _bind(server: AnyServer, address: str) -> str:
    if address.startswith(_UNIX):
        _take_socket(server, address)
    try:
        port = server.add_insecure_port(address)
    except RuntimeError as error:
        cause = "the port may be taken, or the address not be of this machine"
        raise StartError(f"cannot listen on {address}: {cause}; {_REMEDY}") from error
    if address.startswith(_UNIX):
        return address
    return f"{address.rpartition(':')[0]}:{port}"


def _take_socket(server: AnyServer, address: str) -> None:
    """Makes sure that nobody else has the socket: grpc would remove the one of a running server and bind in its place.

    A server that has just started does not answer yet, so the lock decides; a program without the lock may answer.
    """
    path = Path(address.removeprefix(_UNIX))
    if not path.parent.is_dir():
        raise StartError(f"cannot listen on {address}: there is no folder {path.parent}; make it")
    lock = path.with_name(path.name + _LOCK_SUFFIX)
    try:
        is_answered = _is_answered(path)
        file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StartError(f"cannot listen on {address}: {error}; {_REMEDY}") from error
    # The kernel gives the lock back when the process ends, however it ends.
    weakref.finalize(server, os.close, file)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        held = f"another process does, or is about to: it holds {lock}"
        raise StartError(f"cannot listen on {address}: {held}; stop it or {_REMEDY}") from error
    except OSError as error:
        raise StartError(f"cannot listen on {address}: {lock}: {error.strerror}; {_REMEDY}") from error
    if is_answered:
        raise StartError(f"cannot listen on {address}: another process does; stop it or {_REMEDY}")


def _is_answered(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_CONNECT_TIMEOUT_S)
        return probe.connect_ex(str(path)) == 0
