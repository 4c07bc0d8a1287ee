"""The addresses that a server listens on: their form, their exposure, and the name that clients see."""

import socket
from collections.abc import Iterator, Sequence
from ipaddress import IPv6Address, ip_address
from typing import Final

UNIX: Final = "unix:"


def host_and_port(address: str, other: str) -> str:
    """Returns HOST:PORT, or raises ValueError for an address that is not; `other` may be given instead."""
    host, _, port = address.rpartition(":")
    # Sockets of gRPC's that have no permissions.
    if host in ("unix-abstract", "vsock") or not (host and port.isascii() and port.isdecimal() and int(port) < 65536):
        raise ValueError(f"{address!r} is not an address; give host:port (port 0 to 65535), [IPv6]:port or {other}")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        right = f"[{host}]:{port}"
        try:
            IPv6Address(host)
        except ValueError:
            right = f"[{address}]:50051"
        raise ValueError(f"{address!r} is an IPv6 address without brackets; give {right}")
    return address


def checked(addresses: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the addresses; raises ValueError if one cannot be listened on."""
    for address in addresses:
        if not (address.startswith(UNIX) and address != UNIX):
            host_and_port(address, "unix:path")
        elif "%" in address:
            # gRPC would decode it, so that the socket would be elsewhere than its lock.
            raise ValueError(f"{address!r} has a percent sign; give a path without")
    return addresses


def is_local(address: str) -> bool:
    """Whether only processes of this machine reach a listener: on a unix socket or on loopback."""
    if address.startswith(UNIX):
        return True
    try:
        found = socket.getaddrinfo(address.rpartition(":")[0].strip("[]"), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return all(ip_address(str(number).partition("%")[0]).is_loopback for *_, (number, *_) in found)


def dangers(listen: Sequence[str], has_tls: bool, has_client_ca: bool, has_identities: bool) -> Iterator[str]:
    """Yields warnings for a server that is open to the network."""
    if all(map(is_local, listen)):
        return
    if not has_tls and has_identities:
        yield "tokens come over the network without encryption, and others can read them; give --tls-certificate"
    if not (has_client_ca or has_identities):
        yield "everybody who reaches the server may call it; give --identities or --tls-client-ca"


def check_exposure(listen: Sequence[str], has_tls: bool, is_insecure: bool) -> None:
    """Raises ValueError if a listener would be open to the network without TLS or --insecure."""
    if not (has_tls or is_insecure) and (exposed := [address for address in listen if not is_local(address)]):
        raise ValueError(
            f"--listen {', '.join(exposed)} would be open to the network without encryption; give --tls-certificate "
            "and --tls-key, or --insecure if only trusted clients reach that network"
        )


def name_of(addresses: Sequence[str]) -> str:
    """Returns the server's name in trailers: its first address, as text that metadata takes.

    A wildcard becomes the machine's name.
    """
    address = addresses[0]
    if not address.startswith(UNIX):
        host, _, port = address.rpartition(":")
        address = f"{socket.gethostname() if host in ('0.0.0.0', '[::]') else host}:{port}"
    # Paths may hold anything.
    return address.removeprefix(UNIX).encode("unicode_escape").decode()
