"""The addresses that the server listens on."""

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import grpc

from aclgrad_server.faults import StartError

_UNIX: Final = "unix:"
_CONNECT_TIMEOUT_S: Final = 1.0


def bind(server: grpc.Server, addresses: Sequence[str]) -> tuple[str, ...]:
    """Binds every address and returns them as they are bound, with the port that was chosen in place of port 0.

    Raises StartError for an address that is taken or not of this machine.
    """
    return tuple(_bind(server, address) for address in addresses)


def _bind(server: grpc.Server, address: str) -> str:
    path = Path(address.removeprefix(_UNIX))
    if address.startswith(_UNIX) and not path.parent.is_dir():
        raise StartError(f"cannot listen on {address}: there is no folder {path.parent}; make it")
    if address.startswith(_UNIX) and _is_answered(str(path)):
        # grpc would remove the socket of a running server and bind in its place.
        raise StartError(f"cannot listen on {address}: another process does; stop it or give another --listen")
    try:
        port = server.add_insecure_port(address)
    except RuntimeError as error:
        remedy = "the port may be taken, or the address not be of this machine; give another --listen"
        raise StartError(f"cannot listen on {address}: {remedy}") from error
    if address.startswith(_UNIX):
        return address
    return f"{address.rpartition(':')[0]}:{port}"


def _is_answered(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_CONNECT_TIMEOUT_S)
        try:
            return probe.connect_ex(path) == 0
        except OSError as error:
            raise StartError(f"cannot listen on {_UNIX}{path}: {error}; give another --listen") from error
