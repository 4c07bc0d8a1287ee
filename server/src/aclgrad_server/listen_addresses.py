"""The addresses that a server listens on: which are open to the network, and how clients are told of them."""

import socket
from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from typing import Final

UNIX: Final = "unix:"
_ANY: Final = ("0.0.0.0", "[::]")


def is_local(address: str) -> bool:
    """Whether only processes of this machine reach a listener: on a unix socket or on loopback."""
    if address.startswith(UNIX):
        return True
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return _is_local_name(host)


def dangers(listen: Sequence[str], has_tls: bool, has_client_ca: bool, has_identities: bool) -> Iterator[str]:
    """Yields what a server that is open to the network should be warned of."""
    if all(map(is_local, listen)):
        return
    if not has_tls and has_identities:
        yield "tokens come over the network without encryption, and others can read them; give --tls-certificate"
    if not (has_client_ca or has_identities):
        yield "everybody who reaches the server may call it; give --identities or --tls-client-ca"


def _is_local_name(host: str) -> bool:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return all(ip_address(str(place[0]).partition("%")[0]).is_loopback for *_, place in found)


def check_exposure(listen: Sequence[str], has_tls: bool, is_insecure: bool) -> None:
    """Raises ValueError if a listener would be open to the network without TLS and nobody has said that it may be."""
    if has_tls or is_insecure:
        return
    exposed = [address for address in listen if not is_local(address)]
    if exposed:
        raise ValueError(
            f"--listen {', '.join(exposed)} would be open to the network without encryption; give --tls-certificate "
            "and --tls-key, or --insecure if only trusted clients reach that network"
        )


def name_of(addresses: Sequence[str]) -> str:
    """Returns what a server calls itself in trailers: its first address, as text that metadata takes.

    A wildcard becomes the machine's name.
    """
    address = addresses[0]
    if not address.startswith(UNIX):
        host, _, port = address.rpartition(":")
        address = f"{socket.gethostname() if host in _ANY else host}:{port}"
    # Paths may hold anything.
    return address.removeprefix(UNIX).encode("unicode_escape").decode()
