"""The targets of a client: names of one server or of several."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from aclgrad.errors import InvalidSettingError

Named = str | Sequence[str]
"""One server, or several in a list or in a text with commas."""
Source = Callable[[], Named]
"""A function that returns the current servers."""
Target = Named | Source
DEFAULT_TARGET: Final = "127.0.0.1:50051"
UNIX: Final = "unix:"
DNS: Final = "dns:"
NUMBERS: Final = ("ipv4:", "ipv6:")
_ADDRESS: Final = re.compile(r"(?:\[[^\[\]\s]+\]|[^:\[\]/\s]+):(?P<port>[^:\s]+)")
_WITH_PATH: Final = ("unix", "unix-abstract")
_MAX_UNIX_PATH_BYTES: Final = 107
"""Linux's limit of a unix socket's path."""
_WITH_LIST: Final = ("ipv4", "ipv6")
_WITH_OWN_RULES: Final = ("vsock", "xds", "google-c2p")
_TARGET_REMEDY: Final = "give host:port, [IPv6 address]:port or unix:/path, for example 127.0.0.1:50051"


def checked_target(target: str) -> str:
    """Returns the target if it names a server; raises InvalidSettingError otherwise.

    Accepts `host:port`, `[IPv6]:port` and gRPC's own schemes, such as `unix:`, `dns:///` and `ipv4:`.
    """
    if not isinstance(target, str):
        raise refused_target(target, "is no string")
    if not target.isprintable():
        raise refused_target(target, "has characters that no address has")
    name, _, rest = target.partition(":")
    scheme = name.lower()
    if scheme in _WITH_OWN_RULES:
        return target
    if scheme in _WITH_PATH:
        path = rest.removeprefix("//")
        if not path:
            raise refused_target(target, "names no path")
        if len(path.encode()) > _MAX_UNIX_PATH_BYTES:
            raise refused_target(target, f"names a path of more than {_MAX_UNIX_PATH_BYTES} bytes")
    elif scheme == "dns" or scheme in _WITH_LIST:
        # An authority may stand between the second slash and the third.
        addresses = re.sub(r"^//[^/]*/", "", rest)
        for address in addresses.split(",") if scheme in _WITH_LIST else [addresses]:
            _check_address(target, address)
    elif rest.startswith("//"):
        raise refused_target(target, f"begins with {name}://, which gRPC does not have")
    else:
        _check_address(target, target)
    return target


def _check_address(target: str, address: str) -> None:
    parts = _ADDRESS.fullmatch(address)
    if " " in address:
        raise refused_target(target, "has a space")
    if parts is None:
        if address.count(":") > 1 and "[" not in address:
            is_number = re.fullmatch(r"[0-9A-Fa-f:.]+", address)
            raise refused_target(target, "is an IPv6 address without brackets" if is_number else "is no host and port")
        raise refused_target(target, "names no host" if address.startswith(":") or not address else "names no port")
    port = parts["port"]
    if not (re.fullmatch(r"[0-9]{1,5}", port) and 1 <= int(port) <= 65535):
        raise refused_target(target, f"has the port {port}, which is no number from 1 to 65535")


def targets_of(target: Named) -> list[str]:
    """Returns each server of a target, to be used one by one; raises InvalidSettingError."""
    return named_targets(target)[1]


def named_targets(target: Named) -> tuple[str, list[str]]:
    """Returns the common name of all, and each one once, checked."""
    if isinstance(target, str):
        scheme = target.partition(":")[0].lower() + ":"
        if scheme in NUMBERS:
            listed = checked_target(target).partition(":")[2].rpartition("/")[2].split(",")
            return target, list(dict.fromkeys(listed))
        if "," not in target or scheme == DNS or ("://" in target and scheme != UNIX):
            return target, [checked_target(target)]
        texts = [each.strip() for each in target.split(",")]
        if not all(texts):
            raise refused_target(target, "has an empty entry", "leave out the comma that is too many")
        if scheme == UNIX:
            # In gRPC's form, the scheme stands once.
            texts = [UNIX + each if each.startswith("/") else each for each in texts]
        return target, list(dict.fromkeys(map(checked_target, texts)))
    given: list[Any] = list(target) if _is_list(target) else [target]
    if not given:
        raise refused_target(given, "names no server", "give host:port, several of them in a list, or unix:/path")
    checked = list(dict.fromkeys(map(checked_target, given)))
    return ",".join(checked), checked


def _is_list(target: Any) -> bool:
    return isinstance(target, Iterable) and not isinstance(target, bytes | bytearray | memoryview | Mapping)


def is_socket(target: str) -> bool:
    """Whether a target names a unix socket, or begins with one."""
    return target.partition(":")[0].lower() in _WITH_PATH


def is_host_and_port(target: str) -> bool:
    host, _, port = target.rpartition(":")
    return not is_socket(target) and port.isdigit() and bool(host) and (":" not in host or host.startswith("["))


def dns_parts(target: str) -> tuple[str, str]:
    """Returns the name server of a `dns:` target, if any, and the host and port to ask for."""
    rest = target[len(DNS) :]
    authority, _, endpoint = rest.removeprefix("//").partition("/") if rest.startswith("//") else ("", "", rest)
    return authority, endpoint


def refused_target(target: object, problem: str, remedy: str = _TARGET_REMEDY) -> InvalidSettingError:
    """Returns the error of a target."""
    return InvalidSettingError(f"target is {target!r}: it {problem}", field="target", remedy=remedy)
