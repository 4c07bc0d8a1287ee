"""The address of a server: what a client accepts, checked before gRPC guesses at a mistake."""

import re
from typing import Final, NoReturn

from aclgrad.errors import InvalidSettingError

_ADDRESS: Final = re.compile(r"(?:\[[^\[\]\s]+\]|[^:\[\]/\s]+):(?P<port>[^:\s]+)")
_WITH_PATH: Final = ("unix", "unix-abstract")
_WITH_LIST: Final = ("ipv4", "ipv6")
_WITH_OWN_RULES: Final = ("vsock", "xds", "google-c2p")
_REMEDY: Final = "give host:port, [IPv6 address]:port or unix:/path, for example 127.0.0.1:50051"


def checked_target(target: str) -> str:
    """Returns the target if it names a server; raises InvalidSettingError that says what is wrong.

    Accepts `host:port`, `[IPv6]:port` and gRPC's own schemes, such as `unix:`, `dns:///` and `ipv4:`.
    """
    if not isinstance(target, str):
        _refuse(target, "is no string")
    name, _, rest = target.partition(":")
    scheme = name.lower()
    if scheme in _WITH_OWN_RULES:
        return target
    if scheme in _WITH_PATH:
        if not rest.removeprefix("//"):
            _refuse(target, "names no path")
    elif scheme == "dns" or scheme in _WITH_LIST:
        # An authority may stand between the second slash and the third.
        addresses = re.sub(r"^//[^/]*/", "", rest)
        for address in addresses.split(",") if scheme in _WITH_LIST else [addresses]:
            _check_address(target, address)
    elif rest.startswith("//"):
        _refuse(target, f"begins with {name}://, which gRPC does not have")
    else:
        _check_address(target, target)
    return target


def _check_address(target: str, address: str) -> None:
    parts = _ADDRESS.fullmatch(address)
    if parts is None:
        if address.count(":") > 1 and "[" not in address:
            _refuse(target, "is an IPv6 address without brackets")
        _refuse(target, "names no host" if address.startswith(":") or not address else "names no port")
    port = parts["port"]
    if not (re.fullmatch(r"[0-9]{1,5}", port) and 1 <= int(port) <= 65535):
        _refuse(target, f"has the port {port}, which is no number from 1 to 65535")


def _refuse(target: object, problem: str) -> NoReturn:
    raise InvalidSettingError(f"target is {target!r}: it {problem}", field="target", remedy=_REMEDY)
