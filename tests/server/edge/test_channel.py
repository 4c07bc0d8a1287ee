"""The options of the gRPC server follow the settings."""

from aclgrad_server.edge.connections import server_options
from aclgrad_server.limits import MAX_CONNECTIONS, MAX_STREAMS, UNREAD_BYTES
from aclgrad_server.settings import Settings


def test_messages_of_both_directions_have_the_limit() -> None:
    options = dict(server_options(Settings(max_message_bytes=12345)))
    assert options["grpc.max_receive_message_length"] == options["grpc.max_send_message_length"] == 12345


def test_a_connection_that_ages_lets_every_call_end() -> None:
    for call_timeout_s in (1.0, 300.0, 86400.0):
        options = dict(server_options(Settings(call_timeout_s=call_timeout_s, max_connection_age_s=0.1)))
        assert options["grpc.max_connection_age_ms"] == 100
        assert call_timeout_s * 1e3 < options["grpc.max_connection_age_grace_ms"] < 2**31


def test_every_option_is_given_once() -> None:
    options = server_options(Settings())
    assert len(dict(options)) == len(options)


def test_what_one_client_may_hold_is_bounded() -> None:
    options = dict(server_options(Settings()))
    assert options["grpc.max_concurrent_streams"] == MAX_STREAMS
    assert options["grpc.max_allowed_incoming_connections"] == MAX_CONNECTIONS
    # The window of a stream grows without this.
    assert (options["grpc.http2.bdp_probe"], options["grpc.http2.lookahead_bytes"]) == (0, UNREAD_BYTES)


def test_core_takes_every_option() -> None:
    """A value that the core cannot hold is an error in the first call, not when the server is made."""
    largest = Settings(max_connection_age_s=86400, call_timeout_s=86400)
    for settings in (Settings(), largest):
        assert all(isinstance(value, int) and -(2**31) <= value < 2**31 for _, value in server_options(settings))
