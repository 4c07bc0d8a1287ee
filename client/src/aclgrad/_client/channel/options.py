"""What a client is given, checked before gRPC makes something of it, and what every channel is made with."""

import math
import operator
import re
from collections.abc import Iterable
from typing import Any, Final, Literal, NoReturn, SupportsFloat, TypeVar

import grpc

from aclgrad.errors import InvalidSettingError
from aclgrad.wire.limits import DEFAULT_MESSAGE_BYTES

DEFAULT_TARGET: Final = "127.0.0.1:50051"
DEFAULT_TIMEOUT_S: Final = 120.0

Compression = Literal["gzip"] | None
ChannelOption = tuple[str, int | str]
_Hook = TypeVar("_Hook")

_COMPRESSIONS: Final = {None: grpc.Compression.NoCompression, "gzip": grpc.Compression.Gzip}
_ADDRESS: Final = re.compile(r"(?:\[[^\[\]\s]+\]|[^:\[\]/\s]+):(?P<port>[^:\s]+)")
_WITH_PATH: Final = ("unix", "unix-abstract")
_MAX_UNIX_PATH_BYTES: Final = 107
"""What the system takes as the address of a unix socket, on Linux."""
_WITH_LIST: Final = ("ipv4", "ipv6")
_WITH_OWN_RULES: Final = ("vsock", "xds", "google-c2p")
_TARGET_REMEDY: Final = "give host:port, [IPv6 address]:port or unix:/path, for example 127.0.0.1:50051"


def checked_integer(name: str, value: int, minimum: int, maximum: int | None = None) -> int:
    """Returns the value as an int; raises InvalidSettingError unless it is an integer within the bounds."""
    bounds = f"of {minimum} or more" if maximum is None else f"from {minimum} to {maximum}"
    try:
        if isinstance(value, bool):
            raise TypeError("a bool counts nothing")
        number = operator.index(value)
    except TypeError:
        raise _refused(name, value, f"give an integer {bounds}") from None
    if number < minimum or (maximum is not None and number > maximum):
        raise _refused(name, value, f"give an integer {bounds}")
    return number


def checked_seconds(name: str, value: SupportsFloat, minimum_s: float = -math.inf) -> float:
    """Returns the value as a float, which may be infinite; raises InvalidSettingError unless it is a time."""
    if type(value) is float and value >= minimum_s:
        return value
    at_least = "" if minimum_s == -math.inf else f", {minimum_s:g} or more"
    try:
        if isinstance(value, bool | str | bytes):
            raise TypeError("text is no number")
        seconds = float(value)
    except (TypeError, ValueError):
        raise _refused(name, value, f"give a number of seconds{at_least}") from None
    except OverflowError:
        return math.inf
    if not seconds >= minimum_s:
        raise _refused(name, value, f"give a number of seconds{at_least}")
    return seconds


def checked_hook(name: str, value: _Hook) -> _Hook:
    """Returns the value; raises InvalidSettingError unless it can be called or is None."""
    if value is not None and not callable(value):
        raise _refused(name, value, "give a function")
    return value


def checked_options(options: Iterable[ChannelOption]) -> list[ChannelOption]:
    """Returns the options as a list; raises InvalidSettingError unless they are pairs of a name and what gRPC takes."""
    try:
        pairs = [(name, value) for name, value in options]
        if all(isinstance(name, str) and name.isascii() and _is_option(value) for name, value in pairs):
            return pairs
    except (TypeError, ValueError):
        pass
    remedy = 'give pairs of a name and text or a 32-bit integer, for example [("grpc.keepalive_time_ms", 5000)]'
    raise _refused("channel_options", options, remedy)


def _is_option(value: object) -> bool:
    # gRPC takes a float for an address in memory.
    return -(2**31) <= value < 2**31 if isinstance(value, int) else isinstance(value, str) and value.isprintable()


def _refused(name: str, value: Any, remedy: str) -> InvalidSettingError:
    return InvalidSettingError(f"{name} is {value!r}", field=name, remedy=remedy)


def checked_target(target: str) -> str:
    """Returns the target if it names a server; raises InvalidSettingError that says what is wrong.

    Accepts `host:port`, `[IPv6]:port` and gRPC's own schemes, such as `unix:`, `dns:///` and `ipv4:`.
    """
    if not isinstance(target, str):
        _refuse_target(target, "is no string")
    if not target.isprintable():
        _refuse_target(target, "has characters that no address has")
    name, _, rest = target.partition(":")
    scheme = name.lower()
    if scheme in _WITH_OWN_RULES:
        return target
    if scheme in _WITH_PATH:
        path = rest.removeprefix("//")
        if not path:
            _refuse_target(target, "names no path")
        if len(path.encode()) > _MAX_UNIX_PATH_BYTES:
            _refuse_target(target, f"names a path of more than {_MAX_UNIX_PATH_BYTES} bytes")
    elif scheme == "dns" or scheme in _WITH_LIST:
        # An authority may stand between the second slash and the third.
        addresses = re.sub(r"^//[^/]*/", "", rest)
        for address in addresses.split(",") if scheme in _WITH_LIST else [addresses]:
            _check_address(target, address)
    elif rest.startswith("//"):
        _refuse_target(target, f"begins with {name}://, which gRPC does not have")
    else:
        _check_address(target, target)
    return target


def _check_address(target: str, address: str) -> None:
    parts = _ADDRESS.fullmatch(address)
    if parts is None:
        if address.count(":") > 1 and "[" not in address:
            is_number = re.fullmatch(r"[0-9A-Fa-f:.]+", address)
            _refuse_target(target, "is an IPv6 address without brackets" if is_number else "is no host and port")
        _refuse_target(target, "names no host" if address.startswith(":") or not address else "names no port")
    port = parts["port"]
    if not (re.fullmatch(r"[0-9]{1,5}", port) and 1 <= int(port) <= 65535):
        _refuse_target(target, f"has the port {port}, which is no number from 1 to 65535")


def _refuse_target(target: object, problem: str) -> NoReturn:
    raise InvalidSettingError(f"target is {target!r}: it {problem}", field="target", remedy=_TARGET_REMEDY)


def channel_options(max_message_bytes: int = DEFAULT_MESSAGE_BYTES) -> list[ChannelOption]:
    """Returns the options that a client gives its channel, for a channel of your own.

    grpc.insecure_channel("127.0.0.1:50051", aclgrad.channel_options())
    """
    return all_channel_options(max_message_bytes)


def all_channel_options(max_message_bytes: int, overrides: Iterable[ChannelOption] = ()) -> list[ChannelOption]:
    """Returns the options of a channel for messages of up to `max_message_bytes`; `overrides` go before ours."""
    options: dict[str, int | str] = {
        "grpc.max_send_message_length": max_message_bytes,
        "grpc.max_receive_message_length": max_message_bytes,
        # Only this library knows which failures are safe to retry; the core would retry on its own.
        "grpc.enable_retries": 0,
        # A peer that vanished without a word, behind a NAT or in a dead pod, is noticed within the sum of the two; idle
        # channels are kept alive too: otherwise the first call after a pause would meet the dead connection.
        "grpc.keepalive_time_ms": 30_000,
        "grpc.keepalive_timeout_ms": 10_000,
        "grpc.keepalive_permit_without_calls": 1,
        # By default the core stops pinging after two pings without data: when nothing else shows that the peer lives.
        "grpc.http2.max_pings_without_data": 0,
        # Replicas come and go: the core would look for them every 30 s at most.
        "grpc.dns_min_time_between_resolutions_ms": 5_000,
        # Between two attempts to connect every call fails with the error of the first: the pause is far shorter than
        # the time for which a call waits for a connection. One attempt takes 5 s at most.
        "grpc.initial_reconnect_backoff_ms": 200,
        "grpc.max_reconnect_backoff_ms": 1_000,
        "grpc.min_reconnect_backoff_ms": 5_000,
    }
    options.update(overrides)
    return list(options.items())


def grpc_compression(name: Compression) -> grpc.Compression:
    """Returns how requests are compressed; raises InvalidSettingError for an unknown name."""
    if not isinstance(name, str | None) or name not in _COMPRESSIONS:
        raise _refused("compression", name, "give 'gzip' or None")
    return _COMPRESSIONS[name]
