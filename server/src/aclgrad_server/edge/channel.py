"""What every connection to the server is made with: limits of messages, signs of life, and an age."""

from typing import Final

import grpc

from aclgrad_server.limits import (
    HANDSHAKE_TIMEOUT_S,
    MAX_CONNECTIONS,
    MAX_IDLE_S,
    MAX_PENDING_CALLS,
    MAX_STREAMS,
    UNREAD_BYTES,
)
from aclgrad_server.settings import Settings

COMPRESSIONS: Final = {"none": grpc.Compression.NoCompression, "gzip": grpc.Compression.Gzip}


def connection_grace_s(settings: Settings) -> float:
    """Returns how long the calls of a connection that has reached its age may go on: no call is cut off by it."""
    # Its message may still have to arrive, and its reply to leave.
    return settings.call_timeout_s + 2 * settings.client_timeout_s


def server_options(settings: Settings, connection_limit: int = MAX_CONNECTIONS) -> list[tuple[str, int]]:
    """Returns the options of the gRPC server, which lets in so many connections."""
    return [
        # For what is sent and for what is received, of a compressed message before it is compressed.
        ("grpc.max_receive_message_length", settings.max_message_bytes),
        ("grpc.max_send_message_length", settings.max_message_bytes),
        # A client can neither hold many calls open on one connection nor begin and reset them without end.
        ("grpc.max_concurrent_streams", MAX_STREAMS),
        ("grpc.server.max_pending_requests", MAX_PENDING_CALLS),
        ("grpc.server.max_pending_requests_hard_limit", 2 * MAX_PENDING_CALLS),
        ("grpc.max_allowed_incoming_connections", connection_limit),
        ("grpc.server_handshake_timeout_ms", HANDSHAKE_TIMEOUT_S * 1000),
        ("grpc.max_connection_idle_ms", MAX_IDLE_S * 1000),
        # By default the core widens the window of every call as far as the connection is fast, and holds all that comes
        # into it, read or not.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", UNREAD_BYTES),
        # A client stays with the address that it has found; only a new connection looks for replicas that were added.
        # Without the grace, an open watch on health would hold the old connection for ever.
        ("grpc.max_connection_age_ms", round(settings.max_connection_age_s * 1e3)),
        ("grpc.max_connection_age_grace_ms", round(connection_grace_s(settings) * 1e3)),
        # A client that vanished without a word is noticed, and what it left in flight is cancelled.
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.http2.max_pings_without_data", 0),
        # Clients and proxies ping at intervals of their own, on idle connections too, and by default the core answers
        # pings closer than 5 minutes by cutting the connection (too_many_pings). A ping costs less than any call.
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_ping_strikes", 0),
        # Two servers on one port would share its connections in silence.
        ("grpc.so_reuseport", 0),
    ]
