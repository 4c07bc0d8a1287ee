"""The options of a channel."""

from aclgrad._settings import all_channel_options


def test_options_of_the_user_go_before_ours() -> None:
    options = all_channel_options(1000, [("grpc.keepalive_time_ms", 5), ("grpc.lb_policy_name", "round_robin")])
    assert len(dict(options)) == len(options)
    assert dict(options)["grpc.keepalive_time_ms"] == 5
    assert dict(options)["grpc.lb_policy_name"] == "round_robin"
    assert dict(options)["grpc.max_send_message_length"] == dict(options)["grpc.max_receive_message_length"] == 1000


def test_idle_channels_are_kept_alive() -> None:
    """All three, or the core's own rules leave an idle connection without pings."""
    options = dict(all_channel_options(1000))
    assert options["grpc.keepalive_time_ms"] > 0
    assert options["grpc.keepalive_permit_without_calls"] == 1
    assert options["grpc.http2.max_pings_without_data"] == 0
