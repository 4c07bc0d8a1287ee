"""The options of the gRPC server follow the settings."""

from aclgrad_server.channel import server_options
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
