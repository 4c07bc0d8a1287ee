"""What every channel to a server is made with."""

from collections.abc import Iterable
from typing import Final, Literal

import grpc

DEFAULT_TARGET: Final = "127.0.0.1:50051"
DEFAULT_TIMEOUT_S: Final = 120.0

Compression = Literal["gzip"] | None
ChannelOption = tuple[str, int | str]

_COMPRESSIONS: Final = {None: grpc.Compression.NoCompression, "gzip": grpc.Compression.Gzip}


def channel_options(max_message_bytes: int, overrides: Iterable[ChannelOption] = ()) -> list[ChannelOption]:
    """Returns the options of a channel for messages of up to `max_message_bytes`; `overrides` go before ours."""
    options: dict[str, int | str] = {
        "grpc.max_send_message_length": max_message_bytes,
        "grpc.max_receive_message_length": max_message_bytes,
        # Only this library knows which failures are safe to retry; the core would retry on its own.
        "grpc.enable_retries": 0,
        # A peer that vanished without a word, behind a NAT or in a dead pod, is noticed within the sum of the two; idle
        # channels are kept alive too, for it is the first call after a pause that would meet the dead connection.
        "grpc.keepalive_time_ms": 30_000,
        "grpc.keepalive_timeout_ms": 10_000,
        "grpc.keepalive_permit_without_calls": 1,
        # By default the core stops pinging after two pings without data, just when nothing else tells of the peer.
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
    """Returns how requests are compressed; raises ValueError for a name that is none."""
    if name not in _COMPRESSIONS:
        raise ValueError(f"compression is {name!r}; give 'gzip' or None")
    return _COMPRESSIONS[name]
