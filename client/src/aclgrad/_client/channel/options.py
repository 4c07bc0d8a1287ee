"""Options of a gRPC channel, and checks of a caller's own channel."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import grpc.aio

from aclgrad._client.channel.targets import DEFAULT_TARGET
from aclgrad.errors import InvalidSettingError
from aclgrad.wire.limits import DEFAULT_MESSAGE_BYTES

ChannelOption = tuple[str, int | str]

OWN_CHANNEL: Final = "your channel"
"""The target's name in errors: a channel does not reveal its own."""
OWN_CHANNEL_DEFAULTS: Final[Mapping[str, Any]] = {
    "target": DEFAULT_TARGET,
    "channel_options": [],
    "credentials": None,
}
"""The settings that a caller's channel already has, and their defaults."""


def checked_options(options: Iterable[ChannelOption]) -> list[ChannelOption]:
    """Returns the options as a list; raises InvalidSettingError unless they are pairs that gRPC takes."""
    if isinstance(options, Mapping | str | bytes) or not isinstance(options, Iterable):
        raise _refused_options(f"a {type(options).__name__}")
    return [_checked_option(each) for each in options]


def _checked_option(pair: Any) -> ChannelOption:
    try:
        name, value = pair
    except (TypeError, ValueError):
        raise _refused_options(f"a list with a {type(pair).__name__}") from None
    # gRPC would take a float for a pointer.
    fits = -(2**31) <= value < 2**31 if isinstance(value, int) else isinstance(value, str) and value.isprintable()
    if not (fits and isinstance(name, str) and name.isascii()):
        # Text is not repeated, because a proxy's may hold a password.
        shown = repr(value) if value is None or isinstance(value, int | float) else f"a {type(value).__name__}"
        raise _refused_options(f"a list with ({name!r}, {shown})")
    return name, value


def _refused_options(problem: str) -> InvalidSettingError:
    remedy = 'give pairs of a name and text or a 32-bit integer, for example [("grpc.keepalive_time_ms", 5000)]'
    return InvalidSettingError(f"channel_options is {problem}", field="channel_options", remedy=remedy)


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
        # A vanished peer, behind a NAT or in a dead pod, is noticed within the sum of the two. Idle channels too:
        # otherwise the first call after a pause would meet the dead connection.
        "grpc.keepalive_time_ms": 30_000,
        "grpc.keepalive_timeout_ms": 10_000,
        "grpc.keepalive_permit_without_calls": 1,
        # By default the core stops after two pings without data, although only pings show that an idle peer lives.
        "grpc.http2.max_pings_without_data": 0,
        # Replicas come and go, and the core's default is one look-up in 30 s.
        "grpc.dns_min_time_between_resolutions_ms": 5_000,
        # Between two attempts to connect, every call fails with the first one's error, so the pause is far shorter than
        # a call's wait for a connection. One attempt takes at most 5 s.
        "grpc.initial_reconnect_backoff_ms": 200,
        "grpc.max_reconnect_backoff_ms": 1_000,
        "grpc.min_reconnect_backoff_ms": 5_000,
    }
    options.update(overrides)
    return list(options.items())


def open_channel(
    library: Any,
    target: str,
    credentials: grpc.ChannelCredentials | None,
    options: Sequence[tuple[str, int | str]],
) -> Any:
    """Returns a channel of `grpc` or of `grpc.aio`."""
    if credentials is None:
        return library.insecure_channel(target, options)
    return library.secure_channel(target, credentials, options)


def check_own_channel(channel: Any, kind: type, **settings: Any) -> None:
    """Raises InvalidSettingError if the channel is not of the client's kind, or a setting is the channel's own."""
    if not isinstance(channel, kind):
        name = "grpc.aio.Channel" if issubclass(kind, grpc.aio.Channel) else "grpc.Channel"
        raise InvalidSettingError(f"channel is a {type(channel).__name__}", field="channel", remedy=f"give a {name}")
    for setting, value in settings.items():
        if value != OWN_CHANNEL_DEFAULTS[setting]:
            problem = f"{setting} is given beside a channel, which has its own"
            raise InvalidSettingError(problem, field=setting, remedy="leave it out, and make the channel with it")
